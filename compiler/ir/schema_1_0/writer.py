"""Writes 1.0 files."""

from typing import Any

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.elements import encode
from tosaic.compiler.ir.file_builder import FileBuilder
from tosaic.compiler.ir.file_parts import MAIN, WRITE
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import OPERATORS, Attribute, OpView
from tosaic.compiler.ir.operators.spec import REQUIRED
from tosaic.compiler.ir.schema_1_0 import tables
from tosaic.compiler.ir.schema_1_0.variables import variables_of
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import ModelError

_DTYPE_NUMBERS = {dtype: number for number, dtype in tables.DTYPES.items()}
_DTYPE_NUMBERS |= {DType.UINT8: _DTYPE_NUMBERS[DType.INT8], DType.UINT16: _DTYPE_NUMBERS[DType.INT16]}


def write(graph: Graph, version: tuple[int, ...]) -> bytes:
    """The bytes of a `.tosa` file of version 1.x; the main graph's region is called "main"."""
    builder = FileBuilder(graph)
    regions = [_write_region(builder, graph, MAIN)]
    regions += [_write_region(builder, subgraph, name) for name, subgraph in graph.subgraphs.items()]
    region_list = builder.offsets(regions)
    return builder.finish([builder.version(version), region_list])


def _write_region(builder: FileBuilder, graph: Graph, name: str) -> int:
    variables = variables_of(graph)
    tensors = [t for t in graph.tensors.values() if t.dtype is not DType.SHAPE]
    shapes = [t for t in graph.tensors.values() if t.dtype is DType.SHAPE]
    operators = [
        Operator("CONST_SHAPE" if t.dtype is DType.SHAPE else "CONST", [], [t.name], {}, t.name)
        for t in graph.tensors.values()
        if t.data is not None
    ] + [*variables.reads, *graph.operators, *variables.writes]
    operator_list = builder.offsets([_write_operator(builder, graph, op) for op in operators])
    tensor_list = builder.offsets(
        [_write_tensor(builder, tensor) for tensor in tensors]
        + [_write_tensor(builder, tensor, name) for name, tensor in variables.tensors.items()]
    )
    shape_list = builder.offsets([_write_shape(builder, tensor) for tensor in shapes])
    inputs, outputs = builder.strings(graph.run_inputs), builder.strings(graph.run_outputs)
    block = builder.table([builder.string(name), operator_list, tensor_list, inputs, outputs, shape_list])
    blocks = builder.offsets([block])
    return builder.table([builder.string(name), blocks])


def _write_tensor(builder: FileBuilder, tensor: Tensor, variable: str | None = None) -> int:
    """A tensor, or what a file has of the variable of that name."""
    data = None if tensor.data is None else builder.data(encode(tensor.dtype, tensor.data))
    name, shape = builder.string(tensor.name), builder.ints(tensor.shape)
    fields: list[Any] = [name, shape, ("uint32", _DTYPE_NUMBERS[tensor.dtype]), data]
    if variable is not None:
        fields += [("bool", True), None, builder.string(variable)]
    return builder.table(fields)


def _write_shape(builder: FileBuilder, tensor: Tensor) -> int:
    data = None if tensor.data is None else builder.data(encode(tensor.dtype, tensor.data))
    return builder.table([builder.string(tensor.name), ("uint32", tensor.shape[0]), data])


def _write_operator(builder: FileBuilder, graph: Graph, op: Operator) -> int:
    if op.op not in tables.OPERATORS:
        raise ModelError(f"{op}: operator {op.op} does not exist in TOSA 1.0 and cannot be written")
    number = tables.OPERATORS.index(op.op)
    by_name = {attribute.name: attribute for attribute in OPERATORS[op.op].attributes}
    fields = [
        _attribute_field(builder, graph, op, by_name[name]) for name in tables.ATTRIBUTE_FIELDS.get(op.op, ())
    ]
    attributes = builder.table(fields)
    inputs, outputs = builder.strings(op.inputs), builder.strings(op.outputs)
    kind = tables.OPERATORS.index("IDENTITY") if number in tables.VARIABLE_ATTRIBUTES else number
    fields = [("uint32", kind), ("uint8", number), attributes, inputs, outputs]
    if op.source:
        fields.append(builder.table([builder.string(op.source)]))
    return builder.table(fields)


def _attribute_field(builder: FileBuilder, graph: Graph, op: Operator, attribute: Attribute) -> Any:
    value = op.attributes.get(attribute.name, attribute.default)
    if value is REQUIRED:
        raise ModelError(f"{op}: attribute {attribute.name} is missing")
    match attribute.kind:
        case "dtype":
            return ("uint32", _DTYPE_NUMBERS[value or _accumulator(graph, op)])
        case "enum":
            return ("uint32", tables.ENUMERATIONS[attribute.name].index(value))
        case "number":
            dtype = graph.tensor(op.inputs[0]).dtype
            return builder.data(encode(dtype, np.asarray(value, dtype.numpy)))
    return WRITE[attribute.kind](builder, value)


def _accumulator(graph: Graph, op: Operator) -> DType:
    """The `acc_type` of an operator that does not state one: that of the first mode its types fit."""
    node = OpView(graph, op, OPERATORS[op.op])
    for mode in node.spec.modes:
        operands = (*node.spec.operands, *node.spec.results)
        if all(node.dtype(o.name) is mode.types[o.type] for o in operands if isinstance(o.type, str)):
            return mode.types["acc_t"]
    raise ModelError(f"{op}: attribute acc_type is missing")
