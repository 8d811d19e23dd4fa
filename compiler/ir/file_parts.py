"""What the readers and writers of both file formats share: declarations, constants, branches, plain attributes."""

import math
from collections.abc import Callable
from typing import Any

from tosaic.compiler.ir.elements import decode, stored_bytes
from tosaic.compiler.ir.file_builder import Field, FileBuilder
from tosaic.compiler.ir.flatbuffer import FlatTable
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.tensors import SOURCE_END, Operator, Tensor
from tosaic.errors import ModelError

MAIN = "main"
"""Name of the part of a file that is the network; the others are branches."""

Stored = dict[str, memoryview | None]
"""The data that a file holds for each tensor; it counts for those that a constant operator defines."""


def declare(graph: Graph, tensor: Tensor, data: Stored, stored: memoryview | None) -> None:
    """Adds a tensor of the file; ModelError for a name that is there."""
    if tensor.name in graph.tensors:
        raise ModelError(f"tensor {tensor.name!r} is declared twice in graph {graph.name!r}")
    graph.tensors[tensor.name] = tensor
    data[tensor.name] = stored


def define_constant(graph: Graph, op: Operator, data: Stored) -> None:
    """Gives the result of CONST or CONST_SHAPE its value."""
    if op.inputs or len(op.outputs) != 1:
        raise ModelError(f"{op}: a constant has no inputs and one output; found {op.inputs} and {op.outputs}")
    tensor = graph.tensor(op.outputs[0])
    if tensor.data is not None:
        raise ModelError(f"tensor {tensor.name!r} is defined twice, the second time by {op}")
    stored = data[tensor.name]
    if stored is None and stored_bytes(tensor.dtype, math.prod(tensor.shape)):
        raise ModelError(f"{op}: constant {tensor} has no data in the file")
    tensor.data = decode(tensor.dtype, tensor.shape, stored or memoryview(b""), f"constant {tensor.name!r}")


def nest(graphs: dict[str, Graph]) -> Graph:
    """The main graph (or the first), with the others as its branches; their operators' labels begin with their name."""
    main = graphs[MAIN] if MAIN in graphs else next(iter(graphs.values()))
    subgraphs = {name: graph for name, graph in graphs.items() if graph is not main}
    for graph in graphs.values():
        graph.subgraphs = subgraphs
        for op in graph.operators if graph is not main else ():
            inner = f"{graph.name}/{op.name.removeprefix(f'{op.source}{SOURCE_END}')}"
            op.name = f"{op.source}{SOURCE_END}{inner}" if op.source else inner
    return main


READ: dict[str, Callable[[FlatTable, int], Any]] = {
    "int": FlatTable.int32,
    "ints": FlatTable.ints,
    "shorts": lambda table, field: table.ints(field, "<i2"),
    "floats": lambda table, field: table.ints(field, "<f4"),
    "float": FlatTable.float32,
    "bool": FlatTable.bool,
    "string": FlatTable.string,
    "graph": FlatTable.string,
    "bytes": lambda table, field: bytes(table.bytes(field) or b""),
}
"""How an attribute of each plain kind is read; enumerations, types and numbers are the schema's own."""

WRITE: dict[str, Callable[[FileBuilder, Any], Field]] = {
    "int": lambda _builder, value: ("int32", value),
    "ints": FileBuilder.ints,
    "shorts": lambda builder, value: builder.ints(value, "<i2"),
    "floats": lambda builder, value: builder.ints(value, "<f4"),
    "float": lambda _builder, value: ("float32", value),
    "bool": lambda _builder, value: ("bool", value),
    "string": FileBuilder.string,
    "graph": FileBuilder.string,
    "bytes": FileBuilder.data,
}
"""How an attribute of each plain kind is written."""
