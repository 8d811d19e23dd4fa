"""Data layout and scatter/gather operators (2.10, 2.11)."""

import math

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators.common import (
    AXIS,
    DATA_MODES,
    FLOAT_MODES,
    FP8_MODES,
    OUTPUT,
    axis_in_range,
    shape_of,
)
from tosaic.compiler.ir.operators.spec import MAX_RANK, Attribute, Operand, OperatorSpec, OpView, Shape, modes
from tosaic.compiler.ir.operators.traits import Trait

_ANY_AXIS = (1, MAX_RANK)


def _shape_operand(name: str, length: str, *, per_axis: bool = False) -> Operand:
    return Operand(name, DType.SHAPE, (1, 1), length, constant=True, per_axis=per_axis)


def concat_has_input(node: OpView) -> str | None:
    """CONCAT must have at least one input."""
    return None if node.op.inputs else "an empty list"


def _concat_shape(node: OpView) -> list[Shape]:
    axis = node.attribute("axis")
    shapes = [tensor.shape for tensor in node.tensors("input1")]
    first = shapes[0]
    for shape in shapes[1:]:
        if len(shape) != len(first):
            node.fail("all inputs must have the same rank", f"{list(first)} and {list(shape)}")
        if any(a != b for i, (a, b) in enumerate(zip(first, shape, strict=True)) if i != axis):
            node.fail(f"all inputs must agree on every axis but {axis}", f"{list(first)} and {list(shape)}")
    return [(*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])]


def pad_not_negative(node: OpView) -> str | None:
    """padding must have two elements, both at least 0, for each axis of the input."""
    padding, rank = node.ints("padding"), len(node.shape("input1"))
    return None if len(padding) == 2 * rank and min(padding) >= 0 else f"padding {padding} for rank {rank}"


def _pad_shape(node: OpView) -> list[Shape]:
    padding = node.ints("padding")
    return [tuple(s + padding[2 * i] + padding[2 * i + 1] for i, s in enumerate(node.shape("input1")))]


def reshape_keeps_size(node: OpView) -> str | None:
    """The new shape must have as many elements as the input."""
    shape, new_shape = node.shape("input1"), node.ints("shape")
    return None if math.prod(shape) == math.prod(new_shape) else f"{list(shape)} to {new_shape}"


def slice_in_range(node: OpView) -> str | None:
    """start and size must have one element per axis, start >= 0, size >= 1, start + size <= the axis."""
    shape, start, size = node.shape("input1"), node.ints("start"), node.ints("size")
    if len(start) == len(size) == len(shape) and all(
        begin >= 0 and count >= 1 and begin + count <= extent
        for begin, count, extent in zip(start, size, shape, strict=True)
    ):
        return None
    return f"start {start} and size {size} in {list(shape)}"


def tile_multiples(node: OpView) -> str | None:
    """multiples must have one element, at least 1, per axis of the input."""
    multiples, rank = node.ints("multiples"), len(node.shape("input1"))
    return (
        None if len(multiples) == rank and min(multiples) >= 1 else f"multiples {multiples} for rank {rank}"
    )


def _tile_shape(node: OpView) -> list[Shape]:
    multiples = node.ints("multiples")
    return [tuple(size * count for size, count in zip(node.shape("input1"), multiples, strict=True))]


def transpose_is_permutation(node: OpView) -> str | None:
    """perms must name every axis of the input once."""
    perms, rank = node.attribute("perms"), len(node.shape("input1"))
    return None if sorted(perms) == list(range(rank)) else f"perms {list(perms)} for rank {rank}"


def _transpose_shape(node: OpView) -> list[Shape]:
    shape = node.shape("input1")
    return [tuple(shape[axis] for axis in node.attribute("perms"))]


def _gather_shape(node: OpView) -> list[Shape]:
    (batch, _, channels), (index_batch, count) = node.shape("values"), node.shape("indices")
    if batch != index_batch:
        node.fail("values and indices must have the same batch size N", f"{batch} and {index_batch}")
    return [(batch, count, channels)]


def _scatter_shape(node: OpView) -> list[Shape]:
    batch, _, channels = node.shape("values_in")
    indices, source = node.shape("indices"), node.shape("input")
    if indices[0] != batch or source != (batch, indices[1], channels):
        node.fail(
            "indices must be [N,W] and input [N,W,C] for values_in [N,K,C]",
            f"indices {list(indices)}, input {list(source)}, values_in {list(node.shape('values_in'))}",
        )
    return [node.shape("values_in")]


_GATHER_MODES = modes(
    "value_t",
    "int8",
    "int16",
    "int32",
    "fp16: PRO-FP",
    "bf16: EXT-BF16",
    "fp32: PRO-FP",
    "fp8e4m3: EXT-FP8E4M3",
    "fp8e5m2: EXT-FP8E5M2",
)
_CONCAT_MODES = modes("in_out_t", "bool", "int8", "int16: EXT-INT16", "int32") + FLOAT_MODES + FP8_MODES
# int48_t is not in the specification's table: 0.30's FULLY_CONNECTED of int16_t lowers to it.
_RESHAPE_MODES = DATA_MODES + modes("in_out_t", "int48: FULLY_CONNECTED of 0.30")
_LAYOUT = "data layout"

SPECS = (
    OperatorSpec(
        "CONCAT",
        "2.10.1",
        _LAYOUT,
        (Operand("input1", "in_out_t", _ANY_AXIS, "shapes1[]", variadic=True),),
        OUTPUT,
        _CONCAT_MODES,
        _concat_shape,
        (AXIS,),
        (concat_has_input, axis_in_range("input1")),
        traits=Trait.MOVES | Trait.CHANNEL_BY_CHANNEL,
        degree=1,
    ),
    OperatorSpec(
        "PAD",
        "2.10.2",
        _LAYOUT,
        (
            Operand("input1", "in_out_t", _ANY_AXIS, "shape1"),
            _shape_operand("padding", "[2*rank(shape1)]", per_axis=True),
            Operand("pad_const", "in_out_t", (1, 1), "[1]", constant=True),
        ),
        OUTPUT,
        DATA_MODES,
        _pad_shape,
        (),
        (pad_not_negative,),
    ),
    OperatorSpec(
        "RESHAPE",
        "2.10.3",
        _LAYOUT,
        (Operand("input1", "in_out_t", shape="shape1"), _shape_operand("shape", "[rank(shape)]")),
        OUTPUT,
        _RESHAPE_MODES,
        lambda node: [tuple(node.ints("shape"))],
        (),
        (reshape_keeps_size,),
        traits=Trait.MOVES | Trait.REORDERS | Trait.RENAMES | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "REVERSE",
        "2.10.4",
        _LAYOUT,
        (Operand("input1", "in_out_t", _ANY_AXIS),),
        OUTPUT,
        DATA_MODES,
        shape_of("input1"),
        (AXIS,),
        (axis_in_range("input1"),),
        traits=Trait.MOVES | Trait.REORDERS | Trait.PICKS | Trait.CHANNEL_BY_CHANNEL,
        degree=1,
    ),
    OperatorSpec(
        "SLICE",
        "2.10.5",
        _LAYOUT,
        (
            Operand("input1", "in_out_t", _ANY_AXIS, "shape1"),
            _shape_operand("start", "[rank(shape1)]", per_axis=True),
            _shape_operand("size", "[rank(shape1)]", per_axis=True),
        ),
        OUTPUT,
        DATA_MODES,
        lambda node: [tuple(node.ints("size"))],
        (),
        (slice_in_range,),
        traits=Trait.MOVES | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "TILE",
        "2.10.6",
        _LAYOUT,
        (
            Operand("input1", "in_out_t", _ANY_AXIS, "shape1"),
            _shape_operand("multiples", "[rank(shape1)]", per_axis=True),
        ),
        OUTPUT,
        DATA_MODES,
        _tile_shape,
        (),
        (tile_multiples,),
        traits=Trait.MOVES | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "TRANSPOSE",
        "2.10.7",
        _LAYOUT,
        (Operand("input1", "in_out_t", _ANY_AXIS, "shape1"),),
        OUTPUT,
        DATA_MODES,
        _transpose_shape,
        (Attribute("perms", "ints"),),
        (transpose_is_permutation,),
        traits=Trait.MOVES | Trait.REORDERS | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "GATHER",
        "2.11.1",
        "scatter/gather",
        (Operand("values", "value_t", (3, 3), "[N,K,C]"), Operand("indices", DType.INT32, (2, 2), "[N,W]")),
        (Operand("output", "value_t", (3, 3), "[N,W,C]"),),
        _GATHER_MODES,
        _gather_shape,
        traits=Trait.INDEXED | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "SCATTER",
        "2.11.2",
        "scatter/gather",
        (
            Operand("values_in", "value_t", (3, 3), "[N,K,C]"),
            Operand("indices", DType.INT32, (2, 2), "[N,W]"),
            Operand("input", "value_t", (3, 3), "[N,W,C]"),
        ),
        (Operand("values_out", "value_t", (3, 3), "[N,K,C]"),),
        _GATHER_MODES,
        _scatter_shape,
        traits=Trait.INDEXED,
        degree=1,
    ),
)
