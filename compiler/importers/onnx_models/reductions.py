"""Reductions, softmax, normalizations, ArgMax and cumulative sums."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, statistics
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import HANDLERS, Handler, handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.compiler.ir import DType

Reduction = Callable[[Lowering, str, Sequence[int]], str]


def _sum(low: Lowering, x: str, axes: Sequence[int]) -> str:
    return low.reduce("SUM", x, axes)


def _mean(low: Lowering, x: str, axes: Sequence[int]) -> str:
    if low.dtype(x).is_float:
        return low.mean(x, axes)
    count = int(np.prod([low.shape(x)[axis] for axis in axes]))
    return low.div(low.reduce("SUM", x, axes), low.scalar(count, x))


def _extreme(name: str) -> Reduction:
    def reduce(low: Lowering, x: str, axes: Sequence[int]) -> str:
        if low.dtype(x) is DType.BOOL:
            return low.reduce("ANY" if name == "MAX" else "ALL", x, axes)
        return low.reduce(name, x, axes)

    return reduce


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": _extreme("MAX"),
    "ReduceMin": _extreme("MIN"),
    "ReduceProd": lambda low, x, axes: low.reduce("PRODUCT", x, axes),
    "ReduceL1": lambda low, x, axes: low.reduce("SUM", low.op("ABS", x), axes),
    "ReduceL2": lambda low, x, axes: low.sqrt(low.reduce("SUM", low.mul(x, x), axes)),
    "ReduceSumSquare": lambda low, x, axes: low.reduce("SUM", low.mul(x, x), axes),
    "ReduceLogSum": lambda low, x, axes: low.op("LOG", low.reduce("SUM", x, axes)),
    "ReduceLogSumExp": statistics.log_sum_exp,
}


def _reduction(reduce: Reduction) -> Handler:
    def handler(node: OnnxNode) -> OnnxValue:
        axes = node.ints(1, "axes", [])
        low, x = node.low, node.wide()
        if not axes:
            if node.attr("noop_with_empty_axes", 0):
                axes = []
            else:
                axes = list(range(low.rank(x)))
        axes = [axis % low.rank(x) for axis in axes or []]
        y = reduce(low, x, axes)
        if not node.attr("keepdims", 1):
            y = low.reshape(y, [n for axis, n in enumerate(low.shape(y)) if axis not in axes])
        return node.out(y)

    return handler


for _name, _reduce in _REDUCTIONS.items():
    HANDLERS[_name] = _reduction(_reduce)


@handles("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: OnnxNode) -> OnnxValue:
    """Lowers softmax over one axis; before opset 13 over all axes from `axis` on."""
    low, x = node.low, node.wide()
    rank = low.rank(x)
    axis = node.axis(-1 if node.opset >= 13 else 1)
    axes = [axis] if node.opset >= 13 else list(range(axis, rank))
    if node.op == "Softmax":
        return node.out(statistics.softmax(low, x, axes))
    if node.op == "LogSoftmax":
        return node.out(statistics.log_softmax(low, x, axes))
    shape = low.shape(x)
    inner = int(np.prod([shape[a] for a in axes]))
    flat = low.reshape(x, (*shape[: axes[0]], inner, *shape[axes[-1] + 1 :]))
    return node.out(low.reshape(_one_hot_of_largest(low, flat, axes[0]), shape))


def _one_hot_of_largest(low: Lowering, x: str, axis: int) -> str:
    shape = low.shape(x)
    where = low.op("ARGMAX", x, axis=axis)
    where = low.reshape(where, (*shape[:axis], 1, *shape[axis + 1 :]))
    line = [1] * len(shape)
    line[axis] = shape[axis]
    low.make_room((shape[axis],), np.int64)
    positions = low.constant(np.arange(shape[axis]).reshape(line), DType.INT32)
    return low.cast(low.equal(low.broadcast_to(where, shape), positions), low.dtype(x))


@handles("ArgMax", "ArgMin")
def arg_extreme(node: OnnxNode) -> OnnxValue:
    """The first, or with select_last_index the last, position of the extreme."""
    low, x = node.low, node.raw()
    axis = node.axis(0)
    if low.dtype(x) is DType.INT32:
        node.unsupported("int32 elements", "TOSA's ARGMAX takes floats, int8 and int16: cast first")
    if node.op == "ArgMin":
        x = low.negate(x) if low.dtype(x).is_float else low.op("BITWISE_NOT", x)
    last = node.attr("select_last_index", 0)
    shape = low.shape(x)
    where = low.op("ARGMAX", low.reverse(x, axis) if last else x, axis=axis)
    if last:
        where = low.sub(low.scalar(shape[axis] - 1, where), where)
    if node.attr("keepdims", 1):
        where = low.reshape(where, (*shape[:axis], 1, *shape[axis + 1 :]))
    return node.out(where, "int64")


@handles("CumSum")
def cum_sum(node: OnnxNode) -> OnnxValue:
    """Floats: a product with a triangle of ones. Integers: shifted sums, doubling the distance."""
    low, x = node.low, node.wide()
    axis = int(node.const(1).reshape(-1)[0]) % low.rank(x)
    size = low.shape(x)[axis]
    reverse = bool(node.attr("reverse", 0))
    if low.dtype(x).is_float:
        low.make_room((2 * size, size), np.float64)
        triangle = np.triu(np.ones((size, size)), 1 if node.attr("exclusive", 0) else 0)
        order = [a for a in range(low.rank(x)) if a != axis] + [axis]
        rows = low.transpose(x, order)
        sums = matmul(low, rows, low.constant(triangle.T if reverse else triangle, low.dtype(x)))
        return node.out(low.transpose(sums, [int(a) for a in np.argsort(order)]))
    if node.attr("exclusive", 0):
        x = _shifted(low, x, axis, 1, reverse)
    distance = 1
    while distance < size:
        x = low.add(x, _shifted(low, x, axis, distance, reverse))
        distance *= 2
    return node.out(x)


@handles("CumProd")
def cum_prod(node: OnnxNode) -> OnnxValue:
    """Shifted products, doubling the distance."""
    low, x = node.low, node.wide()
    axis = int(node.const(1).reshape(-1)[0])
    if not -low.rank(x) <= axis < low.rank(x):
        raise ValueError(f"axis {axis} of rank {low.rank(x)}")
    axis, reverse = axis % low.rank(x), bool(node.attr("reverse", 0))
    if node.attr("exclusive", 0):
        x = _shifted(low, x, axis, 1, reverse, 1)
    distance = 1
    while distance < low.shape(x)[axis]:
        x = low.mul(x, _shifted(low, x, axis, distance, reverse, 1))
        distance *= 2
    return node.out(x)


def _shifted(low: Lowering, x: str, axis: int, distance: int, reverse: bool, fill: int = 0) -> str:
    pads = [(0, 0)] * low.rank(x)
    pads[axis] = (-distance, distance) if reverse else (distance, -distance)
    if distance >= low.shape(x)[axis]:
        low.make_room(low.shape(x), np.int64)
        return low.constant(np.full(low.shape(x), fill), low.dtype(x))
    return low.pad(x, pads, fill)


# --- normalizations -------------------------------------------------------------------------------------------


@handles("LayerNormalization")
def layer_normalization(node: OnnxNode) -> list[OnnxValue]:
    """Normalizes over all axes from `axis` on."""
    low, x = node.low, node.wide()
    kind = node.kind()
    axis = node.axis(-1)
    wide = low.cast(x, DType.FP32)
    y, mean, inverse = statistics.standardize(low, wide, range(axis, low.rank(x)), node.attr("epsilon", 1e-5))
    y = low.mul(low.cast(y, low.dtype(x)), node.wide(1))
    if node.has(2):
        y = low.add(y, node.wide(2))
    return [node.out(y, kind), node.out(mean, "float32"), node.out(inverse, "float32")]


@handles("InstanceNormalization")
def instance_normalization(node: OnnxNode) -> OnnxValue:
    """Normalizes over the spatial axes, with scale and bias per channel."""
    low, x = node.low, node.wide()
    rank = low.rank(x)
    y, _, _ = statistics.standardize(low, x, range(2, rank), node.attr("epsilon", 1e-5))
    scale, bias = (low.reshape(node.wide(i), (node.shape(i)[0], *(1,) * (rank - 2))) for i in (1, 2))
    return node.out(low.add(low.mul(y, scale), bias))


@handles("GroupNormalization")
def group_normalization(node: OnnxNode) -> OnnxValue:
    """Normalizes over groups of channels and the spatial axes; scale and bias are per channel (per group
    before opset 21).
    """
    low, x = node.low, node.wide()
    batch, channels, *spatial = low.shape(x)
    groups = int(node.attr("num_groups"))
    flat = low.reshape(x, (batch, groups, channels // groups * int(np.prod(spatial))))
    y, _, _ = statistics.standardize(low, flat, [2], node.attr("epsilon", 1e-5))

    def per_channel(index: int) -> str:
        value = node.wide(index)
        if node.shape(index)[0] == groups != channels:
            value = low.reshape(value, (groups, 1))
            value = low.reshape(low.tile(value, (1, channels // groups)), (channels,))
        return low.reshape(value, (channels, *(1,) * len(spatial)))

    return node.out(low.add(low.mul(low.reshape(y, low.shape(x)), per_channel(1)), per_channel(2)))


@handles("RMSNormalization")
def rms_normalization(node: OnnxNode) -> OnnxValue:
    """Returns x / sqrt(mean of squares + epsilon) * scale."""
    low, x = node.low, node.wide()
    wide = low.cast(x, DType.FP32)
    squares = low.mean(low.mul(wide, wide), range(node.axis(-1), low.rank(x)))
    y = low.mul(wide, low.op("RSQRT", low.plus(squares, node.attr("epsilon", 1e-5))))
    return node.out(low.mul(low.cast(y, low.dtype(x)), node.wide(1)), node.kind(1))


@handles("MeanVarianceNormalization")
def mean_variance_normalization(node: OnnxNode) -> OnnxValue:
    """Returns (x - mean) / (deviation + 1e-9)."""
    low, x = node.low, node.wide()
    axes = [axis % low.rank(x) for axis in node.attr("axes", [0, 2, 3])]
    centred = low.sub(x, low.mean(x, axes))
    deviation = low.sqrt(low.mean(low.mul(centred, centred), axes))
    return node.out(low.div(centred, low.plus(deviation, 1e-9)))


@handles("LpNormalization")
def lp_normalization(node: OnnxNode) -> OnnxValue:
    """x / its norm along an axis."""
    low, x = node.low, node.wide()
    axis, zero = node.axis(-1), None
    if int(node.attr("p", 2)) == 1:
        norm = low.reduce("SUM", low.op("ABS", x), [axis])
    else:
        norm = low.sqrt(low.reduce("SUM", low.mul(x, x), [axis]))
    zero = low.scalar(0, norm)
    # ONNX gives 0 where the norm is 0.
    safe = low.select(low.equal(norm, zero), low.scalar(1, norm), norm)
    return node.out(low.div(x, safe))
