"""Reads 0.30 files: first into operators with 0.30's attributes, then lowers those to the 1.0 meaning."""

from typing import Any

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.file_parts import READ, Stored, declare, define_constant, nest
from tosaic.compiler.ir.flatbuffer import FlatTable
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.schema_0_30 import tables
from tosaic.compiler.ir.schema_0_30.rules import check
from tosaic.compiler.ir.schema_0_30.to_ir import to_ir
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.compiler.ir.topology import sort_operators
from tosaic.errors import ModelError

VERSION = (0, 30, 0)

# Field numbers of the schema's tables.
_GRAPH_BLOCKS = 1
_BLOCK_NAME, _BLOCK_OPERATORS, _BLOCK_TENSORS, _BLOCK_INPUTS, _BLOCK_OUTPUTS = 0, 1, 2, 3, 4
_OP_OP, _OP_ATTRIBUTE_TYPE, _OP_ATTRIBUTE, _OP_INPUTS, _OP_OUTPUTS = 0, 1, 2, 3, 4
_TENSOR_NAME, _TENSOR_SHAPE, _TENSOR_TYPE, _TENSOR_DATA = 0, 1, 2, 3
_GRAPH_FIELDS, _BLOCK_FIELDS, _OP_FIELDS, _TENSOR_FIELDS = 2, 5, 5, 4

_SIGNED = {DType.UINT8: DType.INT8, DType.UINT16: DType.INT16}


def read(root: FlatTable) -> Graph:
    """The graph of block "main" (or the first block), with every other block in `subgraphs`."""
    blocks = root.only(_GRAPH_FIELDS).tables(_GRAPH_BLOCKS, "block")
    if not blocks:
        raise ModelError("malformed .tosa file: it has no block, so no graph")
    graphs: dict[str, Graph] = {}
    for block in blocks:
        graph = _read_block(block.only(_BLOCK_FIELDS))
        if graph.name in graphs:
            raise ModelError(f"malformed .tosa file: two blocks are called {graph.name!r}")
        graphs[graph.name] = graph
    for graph in graphs.values():
        check(graph)
    for graph in graphs.values():
        to_ir(graph)
        _drop_unsigned(graph)
    return nest(graphs)


def _read_block(block: FlatTable) -> Graph:
    inputs, outputs = block.strings(_BLOCK_INPUTS), block.strings(_BLOCK_OUTPUTS)
    graph = Graph(block.string(_BLOCK_NAME), inputs, outputs, version=VERSION)
    data: Stored = {}
    for table in block.tables(_BLOCK_TENSORS, "tensor"):
        declare(graph, _read_tensor(table), data, table.bytes(_TENSOR_DATA))
    for index, table in enumerate(block.tables(_BLOCK_OPERATORS, "operator")):
        op = _read_operator(table, index)
        if op.op == "CONST":
            define_constant(graph, op, data)
        else:
            graph.operators.append(op)
    sort_operators(graph)
    return graph


def _read_tensor(table: FlatTable) -> Tensor:
    table.only(_TENSOR_FIELDS)
    name, number = table.string(_TENSOR_NAME), table.uint32(_TENSOR_TYPE)
    if number not in tables.DTYPES:
        raise ModelError(f"malformed .tosa file: tensor {name!r} has type number {number}, which 0.30 lacks")
    shape = tuple(table.ints(_TENSOR_SHAPE))
    if any(size < 0 for size in shape):
        raise ModelError(f"tensor {name!r} has a negative size: {list(shape)}")
    return Tensor(name, shape, tables.DTYPES[number])


def _read_operator(table: FlatTable, index: int) -> Operator:
    number = table.only(_OP_FIELDS).uint32(_OP_OP)
    if not 0 < number < len(tables.OPERATORS) or tables.OPERATORS[number] == "RESERVED":
        raise ModelError(f"malformed .tosa file: operator {index} has number {number}, which 0.30 lacks")
    op = tables.OPERATORS[number]
    operator = Operator(op, table.strings(_OP_INPUTS), table.strings(_OP_OUTPUTS), {}, f"{op}_{index}")
    kind = tables.ATTRIBUTE_TABLE_OF.get(op)
    attributes = table.table(_OP_ATTRIBUTE, f"the attributes of {operator}")
    if kind is None:
        if attributes is not None:
            attributes.only(0)
        return operator
    expected = list(tables.ATTRIBUTE_TABLES).index(kind) + 1
    if attributes is None or table.byte(_OP_ATTRIBUTE_TYPE) != expected:
        raise ModelError(f"{operator}: its attributes must be a {kind}Attribute table")
    attributes.only(len(tables.ATTRIBUTE_TABLES[kind]))
    for field, (name, value_kind) in enumerate(tables.ATTRIBUTE_TABLES[kind].items()):
        operator.attributes[name] = _read_attribute(operator, attributes, field, value_kind)
    return operator


def _read_attribute(op: Operator, table: FlatTable, field: int, kind: str) -> Any:
    if kind != "resize_mode":
        return READ[kind](table, field)
    number = table.uint32(field)
    if number >= len(tables.RESIZE_MODES):
        raise ModelError(f"{op}: attribute mode has number {number}, which does not exist")
    return tables.RESIZE_MODES[number]


def _drop_unsigned(graph: Graph) -> None:
    """1.0 holds unsigned values as bit patterns of the signed type."""
    for tensor in graph.tensors.values():
        if tensor.dtype in _SIGNED:
            tensor.dtype = _SIGNED[tensor.dtype]
            if tensor.data is not None:
                tensor.data = np.ascontiguousarray(tensor.data).view(tensor.dtype.numpy)
