"""Rewrites the operators that 1.1 adds with those of 1.0.

Shapes are static here, so shape arithmetic (EXT-SHAPE) is folded into constants. MATMUL_T, ROW_GATHER and the
adaptive pools become MATMUL, GATHER and the pools. RESHAPE_BLOCK_SCALED and ROW_GATHER_BLOCK_SCALED without scales, by
blocks of one element, are RESHAPE and ROW_GATHER.
"""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir.building import FoldingBuilder, GraphBuilder, LateConstant
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.tensors import Operator
from tosaic.compiler.ir.validate import unsupported_int64
from tosaic.errors import ModelError, UnsupportedError

_MAX_EXPONENT = 62
_BLOCK_SIZES = (1, 32)


def to_ir(graph: Graph) -> None:
    """Rewrites the graph in place; its operators must be in topological order."""
    if not any(op.op in OPERATORS for op in graph.operators):
        return
    rewritten: list[Operator] = []
    for op in graph.operators:
        if op.op not in OPERATORS:
            rewritten.append(op)
            continue
        _check_counts(op)
        rewritten += OPERATORS[op.op](graph, op)
    graph.operators = rewritten


def _check_counts(op: Operator) -> None:
    # With scales they have another number of operands.
    if op.attributes.get("block_size", 1) != 1:
        if op.attributes["block_size"] not in _BLOCK_SIZES:
            raise _fail(op, f"block_size must be one of {_BLOCK_SIZES}", str(op.attributes["block_size"]))
        raise UnsupportedError(f"{op}: {op.op} with scales (EXT-MXFP, EXT-MXINT) is not supported")
    inputs, outputs = _COUNTS[op.op]
    if (inputs is not None and len(op.inputs) != inputs) or len(op.outputs) != outputs:
        raise ModelError(
            f"{op}: it must have {inputs if inputs is not None else 'any number of'} inputs and {outputs} outputs; "
            f"found {len(op.inputs)} and {len(op.outputs)} [{op.op}, TOSA 1.1]"
        )


def _fail(op: Operator, rule: str, found: str) -> ModelError:
    return ModelError(f"{op}: {rule}; found {found} [{op.op}, TOSA 1.1]")


def _value(graph: Graph, op: Operator, name: str, dtype: DType = DType.SHAPE) -> list[int]:
    """A constant operand as ints; shape arithmetic before `op` is folded already."""
    tensor = graph.tensor(name)
    if tensor.dtype is not dtype or tensor.data is None:
        raise _fail(op, f"its operand must be a constant {dtype.spelling}", str(tensor))
    return [int(value) for value in tensor.data.reshape(-1)]


def _define(graph: Graph, op: Operator, values: list[int]) -> list[Operator]:
    """Makes the result of a shape operator a constant."""
    tensor = graph.tensor(op.outputs[0])
    if tensor.dtype is not DType.SHAPE or tensor.shape != (len(values),):
        raise _fail(op, f"output {tensor.name!r} must be a shape_t of {len(values)} elements", str(tensor))
    if any(not 0 <= value <= DType.SHAPE.max for value in values):
        raise _fail(op, "the elements of a shape must not be negative or exceed 63 bits", str(values))
    tensor.data = np.array(values, np.int64)
    return []


def _dim(graph: Graph, op: Operator) -> list[Operator]:
    shape, axis = graph.tensor(op.inputs[0]).shape, op.attributes["axis"]
    if not 0 <= axis < len(shape):
        raise _fail(
            op, "axis must be in the range 0 to rank - 1 of the input", f"axis {axis} for {list(shape)}"
        )
    return _define(graph, op, [shape[axis]])


def _concat_shape(graph: Graph, op: Operator) -> list[Operator]:
    parts = [_value(graph, op, name) for name in op.inputs]
    if not parts or not all(parts):
        raise _fail(op, "it must have inputs, each with at least one element", str(parts))
    return _define(graph, op, [size for part in parts for size in part])


def _slice_shape(graph: Graph, op: Operator) -> list[Operator]:
    shape = _value(graph, op, op.inputs[0])
    start, size = (_value(graph, op, name, DType.INT32) for name in op.inputs[1:])
    if len(start) != 1 or len(size) != 1 or start[0] < 0 or size[0] < 1 or start[0] + size[0] > len(shape):
        raise _fail(
            op,
            "start and size must lie in the shape: start >= 0, size >= 1, start + size <= its length",
            f"start {start} and size {size} in {shape}",
        )
    return _define(graph, op, shape[start[0] : start[0] + size[0]])


def _binary(function: Callable[[int, int], int], needs_divisor: bool = False):  # noqa: ANN202
    def rule(graph: Graph, op: Operator) -> list[Operator]:
        first, second = (_value(graph, op, name) for name in op.inputs)
        if len(first) != len(second):
            raise _fail(op, "both shapes must have the same length", f"{first} and {second}")
        if needs_divisor and not all(second):
            raise _fail(op, "every divisor must be at least 1", str(second))
        return _define(graph, op, [function(a, b) for a, b in zip(first, second, strict=True)])

    return rule


def _exp2_shape(graph: Graph, op: Operator) -> list[Operator]:
    exponents = _value(graph, op, op.inputs[0])
    if any(exponent > _MAX_EXPONENT for exponent in exponents):
        raise _fail(op, f"exponents must be at most {_MAX_EXPONENT}", str(exponents))
    return _define(graph, op, [1 << exponent for exponent in exponents])


def _log2_shape(function: Callable[[int], int]):  # noqa: ANN202
    def rule(graph: Graph, op: Operator) -> list[Operator]:
        values = _value(graph, op, op.inputs[0])
        if not all(values):
            raise _fail(op, "every element must be at least 1", str(values))
        return _define(graph, op, [function(value) for value in values])

    return rule


def _assert_equal_shape(graph: Graph, op: Operator) -> list[Operator]:
    first, second = (_value(graph, op, name) for name in op.inputs)
    broadcast = op.attributes["allow_broadcast"]
    equal = len(first) == len(second) and all(
        a == b or (broadcast and 1 in (a, b)) for a, b in zip(first, second, strict=True)
    )
    if not equal:
        raise _fail(op, "the shapes must be equal", f"{first} and {second}")
    return []


def _matmul_t(graph: Graph, op: Operator) -> list[Operator]:
    """B is [N,W,C], or [1,W,C] for every N: transposed, repeated where needed, then MATMUL."""
    a, b = graph.tensor(op.inputs[0]), graph.tensor(op.inputs[1])
    if len(a.shape) != 3 or len(b.shape) != 3:
        raise _fail(op, "A and B must have rank 3", f"{a} and {b}")
    new = FoldingBuilder(GraphBuilder.replacing(graph, op))
    transposed = new.transpose(b.name, [0, 2, 1])
    source = transposed if b.shape[0] != 1 else new.tile(transposed, (a.shape[0], 1, 1))
    return [
        *new.build.operators,
        Operator("MATMUL", [a.name, source, *op.inputs[2:]], op.outputs, {}, op.name),
    ]


def _row_gather(graph: Graph, op: Operator) -> list[Operator]:
    """Each index stands for `row_count` consecutive rows: GATHER with the indices spelled out."""
    values, indices = graph.tensor(op.inputs[0]), graph.tensor(op.inputs[1])
    count = _value(graph, op, op.inputs[2], DType.INT32)
    if len(values.shape) != 3 or len(indices.shape) != 2 or len(count) != 1 or count[0] < 1:
        raise _fail(
            op,
            "values must be [N,K,C], indices [N,W] and row_count one positive element",
            f"{values}, {indices}, {count}",
        )
    if indices.dtype is DType.INT64:
        raise unsupported_int64(op, f"indices {indices}")
    if indices.dtype is not DType.INT32:
        raise _fail(op, "indices must be int32_t", str(indices))
    (batch, width), (rows,) = indices.shape, count
    new = FoldingBuilder(GraphBuilder.replacing(graph, op))
    steps = LateConstant(np.arange(rows).reshape(1, 1, rows), DType.INT32)
    every = new.op("ADD", new.reshape(indices.name, (batch, width, 1)), steps)
    flat = new.reshape(every, (batch, width * rows))
    if values.dtype is not DType.BOOL:
        return [*new.build.operators, Operator("GATHER", [values.name, flat], op.outputs, {}, op.name)]
    # GATHER has no bool_t.
    gathered = new.op("GATHER", new.op("CAST", values.name, dtype=DType.INT8), flat)
    return [*new.build.operators, Operator("CAST", [gathered], op.outputs, {}, op.name)]


def _reshape_block_scaled(graph: Graph, op: Operator) -> list[Operator]:
    """A RESHAPE_BLOCK_SCALED without scales is a RESHAPE."""
    return [Operator("RESHAPE", op.inputs, op.outputs, {}, op.name)]


def _adaptive_pool(graph: Graph, op: Operator) -> list[Operator]:
    """Kernel, stride and pad are the last three inputs."""
    names = ("kernel", "stride", "pad")
    parameters = {name: _value(graph, op, source) for name, source in zip(names, op.inputs[-3:], strict=True)}
    plain = op.op.removesuffix("_ADAPTIVE")
    return [Operator(plain, op.inputs[:-3], op.outputs, parameters | op.attributes, op.name)]


OPERATORS: dict[str, Callable[[Graph, Operator], list[Operator]]] = {
    "DIM": _dim,
    "CONCAT_SHAPE": _concat_shape,
    "SLICE_SHAPE": _slice_shape,
    "ADD_SHAPE": _binary(lambda a, b: a + b),
    "SUB_SHAPE": _binary(lambda a, b: a - b),
    "MUL_SHAPE": _binary(lambda a, b: a * b),
    "MAX_SHAPE": _binary(max),
    "MIN_SHAPE": _binary(min),
    "MOD_SHAPE": _binary(lambda a, b: a % b, needs_divisor=True),
    "DIV_CEIL_SHAPE": _binary(lambda a, b: -(-a // b), needs_divisor=True),
    "DIV_FLOOR_SHAPE": _binary(lambda a, b: a // b, needs_divisor=True),
    "EXP2_SHAPE": _exp2_shape,
    "LOG2_CEIL_SHAPE": _log2_shape(lambda value: (value - 1).bit_length()),
    "LOG2_FLOOR_SHAPE": _log2_shape(lambda value: value.bit_length() - 1),
    "ASSERT_EQUAL_SHAPE": _assert_equal_shape,
    "MATMUL_T": _matmul_t,
    "ROW_GATHER": _row_gather,
    "ROW_GATHER_BLOCK_SCALED": _row_gather,
    "RESHAPE_BLOCK_SCALED": _reshape_block_scaled,
    "AVG_POOL2D_ADAPTIVE": _adaptive_pool,
    "MAX_POOL2D_ADAPTIVE": _adaptive_pool,
}
"""How each operator of 1.1 is rewritten: the operators that take its place."""

# Inputs (None: any number) and outputs.
_COUNTS: dict[str, tuple[int | None, int]] = {
    name: (2, 1) if name.endswith("_SHAPE") else (4, 1) for name in OPERATORS
} | {
    "DIM": (1, 1),
    "CONCAT_SHAPE": (None, 1),
    "SLICE_SHAPE": (3, 1),
    "EXP2_SHAPE": (1, 1),
    "LOG2_CEIL_SHAPE": (1, 1),
    "LOG2_FLOOR_SHAPE": (1, 1),
    "ASSERT_EQUAL_SHAPE": (2, 0),
    "ROW_GATHER": (3, 1),
    "ROW_GATHER_BLOCK_SCALED": (3, 1),
    "RESHAPE_BLOCK_SCALED": (2, 1),
    "AVG_POOL2D_ADAPTIVE": (6, 1),
}
