"""Float networks of a few operators each, at the limits of what the quantizer decides between."""

import math
from collections.abc import Callable

import numpy as np
from float_networks import Floats

from tosaic.compiler.importers.lowering import activations, convolution, pooling
from tosaic.compiler.importers.lowering.grids import linear_grid
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType

POINT = [AxisWindow(1)] * 2
ROWS, SMALL = (2, 3, 4), (1, 2, 2, 4)
NETWORKS: dict[str, Callable] = {}


def network(function: Callable) -> Callable:
    """Registers a network: a function from Floats to outputs."""
    NETWORKS[function.__name__] = function
    return function


def _line(low: Floats, *values: float) -> str:
    return low.constant(np.array(values).reshape(1, 1, 1, -1), DType.FP32)


def _point(low: Floats, x: str, channels: int, bias: bool = True) -> str:
    weight = low.normal(channels, 1, 1, low.shape(x)[-1], scale=0.5)
    return convolution.convolve(low, x, weight, low.normal(channels) if bias else None, POINT)


# --- sums, extremes and bounds


@network
def sum_with_a_constant(low):
    return low.add(low.input("x", ROWS), low.normal(2, 3, 4))


@network
def sum_with_a_huge_constant(low):
    """One that is rounded coarsely at the scale of the other operand."""
    x = low.input("x", SMALL)
    wide = _point(low, x, 4)
    return low.add(low.add(wide, _point(low, x, 4)), low.constant(np.full(SMALL, 2.0**-20), DType.FP32))


@network
def difference_of_sums(low):
    x, y = low.input("x", ROWS), low.input("y", ROWS)
    total = low.add(x, y)
    return low.sub(low.add(total, x), low.sub(total, y))


@network
def bounds_from_either_side(low):
    x = low.input("x", ROWS)
    above = low.maximum(low.scalar(-0.75, x), low.times(x, 2.0))
    return low.minimum(above, low.scalar(1.25, x)), low.minimum(low.scalar(0.5, x), x)


@network
def bounds_that_cross(low):
    x = low.input("x", ROWS)
    return low.clamp(low.clamp(x, -1.0, -0.5), 0.25, 1.0)


@network
def bounds_of_a_type(low):
    return low.clamp(low.times(low.input("x", ROWS), 3.0), -3.4e38, 3.4e38)


@network
def a_bound_that_is_broadcast(low):
    return low.maximum(low.input("x", (1, 3, 1)), low.constant([[[0.5, -0.5]]], DType.FP32))


@network
def a_bound_then_a_factor(low):
    x = _point(low, low.input("x", SMALL), 4)
    bounded = low.clamp(x, 0.0, 1.0)
    return low.mul(bounded, _line(low, 1.0, 2.0, 0.5, 0.25)), low.mul(
        low.clamp(x, -1.0, 1.0), _line(low, 1, 2, 3, 4)
    )


@network
def a_bound_then_one_factor(low):
    return low.times(low.clamp(low.input("x", ROWS), -0.5, 1.0), 0.75)


@network
def negated_bounds(low):
    x = low.clamp(low.input("x", ROWS), -0.5, 1.0)
    return low.times(x, -2.0), low.negate(x), low.op("ABS", x)


# --- products


@network
def products_with_zeros(low):
    x = _point(low, low.input("x", SMALL), 4)
    return low.mul(x, _line(low, 1.0, 0.0, -2.0, 4.0)), low.mul(low.input("y", SMALL), _line(low, 0, 0, 0, 0))


@network
def product_with_what_is_no_line(low):
    return low.mul(low.input("x", ROWS), low.normal(2, 3, 4))


@network
def product_with_headroom(low):
    """Sums whose bound is far above what was seen."""
    x = _point(low, low.input("x", (1, 2, 2, 32)), 4)
    y = _point(low, low.input("y", (1, 2, 2, 32)), 4)
    return low.mul(x, y)


@network
def product_of_wide_and_narrow(low):
    x = low.input("x", ROWS)
    return low.mul(low.add(x, x), low.op("TANH", x)), low.mul(low.mul(x, x), low.mul(x, x))


@network
def sloped_then_scaled(low):
    y = activations.leaky_relu(low, _point(low, low.input("x", SMALL), 4), _line(low, 0.5, 0.25, -0.5, 0.0))
    return low.mul(y, _line(low, 1.0, 2.0, 4.0, 0.5))


@network
def sloped_steeply_then_read(low):
    x = _point(low, low.input("x", SMALL), 4)
    y = activations.leaky_relu(low, x, _line(low, 9.0, 9.0, 9.0, 9.0))
    return _point(low, y, 2)


@network
def steep_slopes_that_are_too_steep(low):
    x = _point(low, low.input("x", SMALL), 4)
    return _point(low, activations.leaky_relu(low, x, _line(low, 9.25, 1.0, 1.0, 1.0)), 2)


@network
def slopes_of_one_sign(low):
    x = _point(low, low.input("x", SMALL), 4)
    up = activations.leaky_relu(low, x, _line(low, 2.0, 3.0, 1.5, 4.0))
    return _point(low, up, 2)


# --- comparisons, selections and whole numbers


@network
def comparisons(low):
    x, y = low.input("x", ROWS), low.input("y", ROWS)
    return (
        low.greater(x, y),
        low.op("EQUAL", x, y, dtype=DType.BOOL),
        low.op("GREATER_EQUAL", x, low.scalar(0.5, x), dtype=DType.BOOL),
    )


@network
def whole_numbers(low):
    x = low.input("x", ROWS)
    index = low.op("ARGMAX", x, axis=2, dtype=DType.INT32, nan_mode="PROPAGATE")
    return low.cast(low.times(x, 4.0), DType.INT32), low.cast(x, DType.BOOL), index


@network
def reals_of_whole_numbers(low):
    found = [
        low.cast(low.input(name, ROWS, dtype), DType.FP32)
        for name, dtype in (("i", DType.INT32), ("b", DType.BOOL))
    ]
    return low.add(*found)


@network
def selections(low):
    x, y = low.input("x", ROWS), low.input("y", ROWS)
    chosen = low.select(low.input("c", ROWS, DType.BOOL), x, low.times(y, 8.0))
    return low.select(low.greater(x, low.scalar(0.25, x)), low.scalar(1.5, x), chosen)


# --- reductions and images


@network
def reductions_along_channels(low):
    x = _point(low, low.input("x", SMALL), 4)
    return low.reduce("SUM", x, [3]), low.reduce("MAX", x, [3]), low.reduce("MIN", x, [1])


@network
def averages(low):
    x = _point(low, low.input("x", (1, 4, 4, 4)), 4)
    window = AxisWindow(2, stride=2)
    return pooling.average_pool(low, x, [window] * 2), pooling.average_pool(
        low, low.input("y", SMALL), [AxisWindow(2)] * 2
    )


@network
def averages_of_many(low):
    return pooling.average_pool(low, low.input("x", (1, 2, 4, 4)), [AxisWindow(2), AxisWindow(4)])


@network
def largest_of_what_is_wide(low):
    x = low.input("x", (1, 4, 4, 4))
    return pooling.max_pool(low, low.add(x, x), [AxisWindow(2, stride=2)] * 2)


@network
def bilinear_from_a_zero_point(low):
    shapes = [low.build.shape(values) for values in ([4, 2, 4, 2], [0, 0], [2, 2])]
    x = low.clamp(low.input("x", (1, 2, 3, 4)), -0.25, 2.0)
    return low.op("RESIZE", _point(low, x, 4), *shapes, dtype=DType.FP32, mode="BILINEAR")


# --- moves


@network
def parts_of_one_range(low):
    x = _point(low, low.input("x", SMALL), 4)
    first, rest = low.slice_axis(x, 3, 0, 1), low.slice_axis(x, 3, 1, 3)
    return low.concat([rest, first], 3), _point(low, rest, 2)


@network
def parts_of_different_ranges(low):
    x = low.input("x", SMALL)
    return low.concat([x, low.times(x, 16.0)], 3)


@network
def padded_with_a_real(low):
    return _point(low, low.pad(low.input("x", SMALL), [(0, 0), (1, 0), (0, 1), (0, 0)], -0.75), 2)


@network
def scattered(low):
    values, rows = low.input("x", (1, 6, 4)), low.input("y", (1, 2, 4))
    index = low.constant([[4, 1]], DType.INT32)
    return low.op("SCATTER", values, index, rows)


@network
def reshaped_between_products(low):
    x = low.reshape(_point(low, low.input("x", SMALL), 4), (4, 4))
    return matmul(low, x, low.normal(4, 3)), low.add(x, low.reshape(x, (4, 4)))


# --- curves


@network
def curves_of_a_byte(low):
    x = low.input("x", SMALL)
    return _point(low, low.op("SIGMOID", x), 2), _point(low, low.op("TANH", low.times(x, 2.0)), 2)


@network
def curves_of_sums(low):
    x = _point(low, low.input("x", SMALL), 4)
    return low.op("EXP", x), low.op("SIGMOID", low.plus(x, 3.0)), low.op("FLOOR", x)


@network
def curve_far_from_zero(low):
    return low.op("LOG", low.plus(low.input("x", ROWS), 40.0))


@network
def root_of_what_is_small(low):
    x = low.input("x", ROWS)
    return low.op("RSQRT", low.plus(low.mul(x, x), 2.0**-6))


@network
def a_square_is_no_table(low):
    x = low.op("TANH", low.input("x", ROWS))
    return low.mul(x, x)


@network
def grid_of_the_model(low):
    x = _point(low, low.input("x", SMALL), 4)
    x = linear_grid(low, x, low.scalar(-1.0, x), low.scalar(1.0, x), 4)
    return _point(low, x, 2)


@network
def masked_softly(low):
    x = low.input("x", (1, 4, 4))
    mask = low.constant(np.triu(np.full((1, 4, 4), -1e4), 1), DType.FP32)
    masked = low.add(x, mask)
    largest = low.reduce("MAX", masked, [2])
    return low.op("EXP", low.sub(masked, largest))


@network
def logarithm_of_filtered_squares(low):
    x = low.input("x", SMALL)
    squares = low.mul(x, x)
    weight = low.constant([[[[1.0, 0.5, 0.25, 0.0]]], [[[0.0, 0.0, 2.0, 1.0]]]], DType.FP32)
    power = convolution.convolve(low, squares, weight, None, POINT)
    return low.times(low.op("LOG", low.maximum(power, low.scalar(1e-9, power))), 10 / math.log(10))


# --- convolutions


@network
def depthwise_with_a_dead_channel(low):
    weight = low.constant(
        np.arange(-4.0, 12.0).reshape(4, 2, 2, 1) * [[[[1.0]]], [[[0.0]]], [[[0.5]]], [[[2.0]]]], DType.FP32
    )
    return convolution.convolve(
        low, low.input("x", (1, 3, 3, 4)), weight, low.normal(4), [AxisWindow(2)] * 2, 4
    )


@network
def bias_far_above_the_weights(low):
    x = low.input("x", SMALL)
    weight = low.constant(np.full((2, 1, 1, 4), 2.0**-24), DType.FP32)
    return convolution.convolve(low, x, weight, low.constant([100.0, -3.0], DType.FP32), POINT)


@network
def weights_at_run_time(low):
    x, weight = low.input("x", SMALL), low.input("w", (3, 1, 1, 4))
    return convolution.convolve(low, x, weight, low.normal(3), POINT)


@network
def products_of_two_types(low):
    x = low.input("x", (1, 3, 4))
    return matmul(low, low.op("SIGMOID", x), low.transpose(x, (0, 2, 1)))


@network
def depthwise_weights_at_run_time(low):
    x, weight = low.input("x", (1, 3, 3, 4)), low.input("w", (2, 2, 4, 2))
    zeros = [low.scalar(0, x)] * 2
    zeros = [low.constant([0.0], DType.FP32) for _ in zeros]
    attributes = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.FP32, local_bound=False)
    return low.op("DEPTHWISE_CONV2D", x, weight, low.normal(8), *zeros, dtype=DType.FP32, **attributes)


@network
def sums_of_products_at_run_time(low):
    """What the bound of each is shows in the steps of the sum."""
    x = low.input("x", SMALL)
    parts = [
        convolution.convolve(low, x, low.input(name, (3, 1, 1, 4)), low.normal(3), POINT) for name in "vw"
    ]
    return low.add(*parts)


@network
def sums_that_are_larger_than_int32(low):
    """A constant next to values that are small beside it."""
    x = _point(low, low.input("x", SMALL), 4)
    return low.add(x, low.constant(np.full(SMALL, 2.0**20), DType.FP32)), low.times(x, 2.0**-24)


@network
def a_bounded_product(low):
    x = _point(low, low.input("x", SMALL), 4)
    y = low.mul(low.clamp(x, 0.0, 0.25), _line(low, 1.0, 2.0, 1.0, 1.0))
    return _point(low, y, 2), low.mul(low.clamp(x, -0.5, 8.0), _line(low, 1.0, 2.0, 1.0, 1.0))


@network
def slopes_of_what_is_read_twice(low):
    x = _point(low, low.input("x", SMALL), 4)
    y = activations.leaky_relu(low, x, _line(low, 0.5, 0.25, -0.5, 2.0))
    return low.mul(y, _line(low, 1.0, 2.0, 4.0, 0.5)), low.add(y, x)


@network
def sums_of_squares_of_steps(low):
    """Logarithms of squares whose range is wide: computed in finer steps where they are small."""
    x = low.times(low.input("x", (1, 8, 4)), 2.0**-4)
    y = low.add(x, low.constant(np.linspace(-1.0, 1.0, 32).reshape(1, 8, 4), DType.FP32))
    squares = low.reduce("SUM", low.mul(y, y), [2])
    pairs = low.add(low.mul(x, x), low.mul(y, y))
    return low.op("LOG", low.plus(squares, 2.0**-20)), low.op("LOG", low.plus(pairs, 2.0**-20))


@network
def a_part_of_a_wider_range_that_is_in_memory_anyway(low):
    """Makes the part in coarser steps from those that the convolution reads, in finer ones from the sums."""
    x = _point(low, low.input("x", SMALL), 4)
    return _point(low, x, 2), low.concat([x, low.times(x, 16.0)], 3)
