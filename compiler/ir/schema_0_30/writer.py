"""Writes 0.30 files, for graphs that 0.30 can express."""

from typing import Any

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.elements import encode
from tosaic.compiler.ir.file_builder import Field, FileBuilder
from tosaic.compiler.ir.file_parts import MAIN, WRITE
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.schema_0_30 import tables
from tosaic.compiler.ir.schema_0_30.attributes import file_operator
from tosaic.compiler.ir.schema_0_30.reader import VERSION
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import UnsupportedError

_DTYPE_NUMBERS = {dtype: number for number, dtype in tables.DTYPES.items()}
_UNSIGNED = {DType.INT8: DType.UINT8, DType.INT16: DType.UINT16}


def write(graph: Graph) -> bytes:
    """The bytes of a 0.30.0 file; UnsupportedError names the operator that 0.30 cannot express."""
    if graph.states:
        raise UnsupportedError(
            f"TOSA 0.30 has no variables, and the graph remembers {next(iter(graph.states))!r}; write TOSA 1.0"
        )
    builder = FileBuilder(graph)
    blocks = [_write_block(builder, graph, MAIN)]
    blocks += [_write_block(builder, subgraph, name) for name, subgraph in graph.subgraphs.items()]
    return builder.finish([builder.version(VERSION), builder.offsets(blocks)])


def _write_block(builder: FileBuilder, graph: Graph, name: str) -> int:
    unsigned = _unsigned_tensors(graph)
    constants: dict[str, Tensor] = {}
    operators = [file_operator(graph, op, constants) for op in graph.operators]
    used = {*graph.inputs, *graph.outputs, *(n for op in operators for n in (*op.inputs, *op.outputs))}
    tensors = [t for t in (*graph.tensors.values(), *constants.values()) if t.name in used]
    data_nodes = [Operator("CONST", [], [t.name], {}, t.name) for t in tensors if t.data is not None]
    operator_list = builder.offsets([_write_operator(builder, op) for op in data_nodes + operators])
    tensor_list = builder.offsets([_write_tensor(builder, t, t.name in unsigned) for t in tensors])
    inputs, outputs = builder.strings(graph.inputs), builder.strings(graph.outputs)
    return builder.table([builder.string(name), operator_list, tensor_list, inputs, outputs])


def _unsigned_tensors(graph: Graph) -> set[str]:
    """Tensors that 0.30 types as unsigned: those that RESCALE reads or writes as unsigned."""
    unsigned: set[str] = set()
    for op in graph.operators:
        if op.op == "RESCALE":
            if op.attributes.get("input_unsigned"):
                unsigned.add(op.inputs[0])
            if op.attributes.get("output_unsigned"):
                unsigned.add(op.outputs[0])
    for op in graph.operators:
        for name in unsigned.intersection((*op.inputs, *op.outputs)):
            side = "input_unsigned" if name in op.inputs else "output_unsigned"
            if op.op != "RESCALE" or not op.attributes.get(side):
                raise UnsupportedError(
                    f"{op}: tensor {name!r} is used signed and unsigned; 0.30 gives it one type"
                )
    return unsigned


def _write_tensor(builder: FileBuilder, tensor: Tensor, unsigned: bool) -> int:
    dtype = _UNSIGNED[tensor.dtype] if unsigned else tensor.dtype
    if dtype not in _DTYPE_NUMBERS:
        raise UnsupportedError(f"tensor {tensor}: TOSA 0.30 files have no type {dtype.spelling}")
    data = None if tensor.data is None else builder.data(encode(tensor.dtype, tensor.data))
    name, shape = builder.string(tensor.name), builder.ints(tensor.shape)
    return builder.table([name, shape, ("uint32", _DTYPE_NUMBERS[dtype]), data])


def _write_operator(builder: FileBuilder, op: Operator) -> int:
    kind = tables.ATTRIBUTE_TABLE_OF.get(op.op)
    union, attributes = ("uint8", 0), None
    if kind is not None:
        layout = tables.ATTRIBUTE_TABLES[kind]
        attributes = builder.table(
            [_field(builder, value, op.attributes.get(n)) for n, value in layout.items()]
        )
        union = ("uint8", list(tables.ATTRIBUTE_TABLES).index(kind) + 1)
    inputs, outputs = builder.strings(op.inputs), builder.strings(op.outputs)
    return builder.table([("uint32", tables.OPERATORS.index(op.op)), union, attributes, inputs, outputs])


def _field(builder: FileBuilder, kind: str, value: Any) -> Field:
    if value is None:
        return None
    return (
        ("uint32", tables.RESIZE_MODES.index(value)) if kind == "resize_mode" else WRITE[kind](builder, value)
    )
