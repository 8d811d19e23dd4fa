"""Pools in the form that takes the fewest cycles (clauses 2.3.2 and 2.3.9).

A maximum over a window is one over its rows and then over its columns: k + k steps in place of k * k, and the first of
both walks whole rows of the image, which fill the lanes whatever the stride and the channels are. An average whose
windows lie inside the image is a depthwise convolution by ones, which the array computes, and the average's scale.
"""

import numpy as np

from tosaic.compiler.cost import array, vector
from tosaic.compiler.cut.rules import windows_of
from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import reciprocal_scale
from tosaic.compiler.machine_numbers import POOL_APART_SHARE, POOL_ON_ARRAY_SHARE
from tosaic.hw.config import Config


def cheaper_pools(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; pools of int8 and int16 as whatever is predicted to take the fewest cycles."""
    graph, done = graph.copy(), list[Operator]()
    for operator in graph.operators:
        new = Rewriting(graph, operator)
        rule = {"MAX_POOL2D": _rows_first, "AVG_POOL2D": _by_ones}.get(operator.op)
        done += new.operators if rule is not None and rule(new, config) else [operator]
    graph.operators = done
    return graph


def _around(axis: WindowAxis) -> list[int]:
    """Padding before and after the image."""
    return axis.padding((0, axis.outputs), (0, axis.taps), (0, axis.extent))


def _edges(axis: WindowAxis) -> int:
    """Groups of output positions whose windows have the same valid elements, each of which is a GO."""
    return 1 + sum(-(-amount // axis.stride) for amount in _around(axis))


def _as_it_is(extent: int) -> WindowAxis:
    """An axis along which nothing is pooled."""
    return WindowAxis(extent, extent, 1, 0)


def _on_vector(y: WindowAxis, x: WindowAxis, shape: tuple[int, ...], beats: int, config: Config) -> int:
    """Returns the cycles of a pool on VECTOR, whose lanes take elements that follow each other in both
    tensors.
    """
    images, channels = shape[0], shape[3]
    if x.stride == 1:
        axes = [y.outputs, -(-x.outputs * channels // config.columns)]
    else:
        axes = [y.outputs, x.outputs, -(-channels // config.columns)]
    return vector.pool_cycles(axes, images, y.taps * x.taps, beats, _edges(y) * _edges(x), config)


def _on_array(y: WindowAxis, x: WindowAxis, shape: tuple[int, ...], config: Config) -> int | None:
    """Returns the cycles of a depthwise convolution in place of a pool; None where the array cannot do it."""
    pixels = y.outputs * y.stride * (x.outputs * x.stride + x.taps)
    blocks = shape[0] * -(-shape[3] // config.columns)
    return array.pool_cycles(pixels, blocks, y.taps, x.taps, config)


def _rows_first(new: Rewriting, config: Config) -> bool:
    """A maximum over columns of maxima over rows."""
    operator, source = new.operator, new.operator.inputs[0]
    dtype, shape = new.dtype(source), new.shape(source)
    if dtype not in (DType.INT8, DType.INT16):
        return False
    y, x = windows_of(new.graph, operator)
    beats = dtype.bits // 8
    between = (shape[0], y.outputs, shape[2], shape[3])
    apart = _on_vector(y, _as_it_is(x.extent), shape, beats, config) + _on_vector(
        _as_it_is(y.outputs), x, between, beats, config
    )
    if apart > POOL_APART_SHARE * _on_vector(y, x, shape, beats, config):
        return False
    nan_mode = operator.attributes.get("nan_mode", "PROPAGATE")
    rows = new.add(
        "MAX_POOL2D",
        [source],
        between,
        dtype,
        kernel=[y.taps, 1],
        stride=[y.stride, 1],
        pad=[*_around(y), 0, 0],
        nan_mode=nan_mode,
    )
    new.add(
        "MAX_POOL2D",
        [rows],
        new.shape(operator.outputs[0]),
        dtype,
        operator.outputs[0],
        kernel=[1, x.taps],
        stride=[1, x.stride],
        pad=[0, 0, *_around(x)],
        nan_mode=nan_mode,
    )
    return True


def _by_ones(new: Rewriting, config: Config) -> bool:
    """An average as a depthwise convolution by ones and a RESCALE: the sums are the same, and so is the scale."""
    operator, source = new.operator, new.operator.inputs[0]
    dtype, shape, target = new.dtype(source), new.shape(source), new.shape(operator.outputs[0])
    if dtype is not DType.INT8 or any(operator.attributes["pad"]):
        return False
    y, x = windows_of(new.graph, operator)
    taps, channels = y.taps * x.taps, shape[3]
    if (y.outputs, x.outputs) == (1, 1):
        return False  # A mean, which has forms of its own.
    cycles = _on_array(y, x, shape, config)
    if cycles is None or cycles > POOL_ON_ARRAY_SHARE * _on_vector(y, x, shape, 1, config):
        return False
    input_zp, output_zp = (
        new.constant(new.graph.operand_value(operator, name).reshape(1), dtype)
        for name in ("input_zp", "output_zp")
    )
    ones = new.constant(np.ones((y.taps, x.taps, channels, 1), np.int8), dtype)
    sums = new.add(
        "DEPTHWISE_CONV2D",
        [source, ones, new.zeros(channels, DType.INT32), input_zp, new.zeros(1, dtype)],
        target,
        DType.INT32,
        stride=[y.stride, x.stride],
        pad=[0, 0, 0, 0],
        dilation=[1, 1],
        acc_type=DType.INT32,
        local_bound=False,
    )
    multiplier, shift = reciprocal_scale(taps)
    new.add(
        "RESCALE",
        [
            sums,
            new.constant(np.array([multiplier]), DType.INT32),
            new.constant(np.array([shift]), DType.INT8),
            new.zeros(1, DType.INT32),
            output_zp,
        ],
        target,
        dtype,
        operator.outputs[0],
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )
    return True
