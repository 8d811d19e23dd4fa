"""Channels that are evened out behind a normalization of their row: one RESCALE by channel, no product before it."""

import numpy as np
from float_networks import Floats, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.quantize import quantize_graph

IMAGE = (1, 12, 12, 32)
SPREAD = 2.0 ** (-0.2 * np.arange(32))


def convolve(low: Floats, x: str, out: int, kernel: int, groups: int = 1) -> str:
    weight = low.normal(out, kernel, kernel, low.shape(x)[-1] // groups, scale=0.3)
    windows = [AxisWindow(kernel, before=kernel // 2, after=kernel // 2)] * 2
    return convolution.convolve(low, x, weight, low.normal(out, scale=0.1), windows, groups)


def normalized() -> Graph:
    """Returns a graph like a ConvNeXt block: a depthwise convolution, each pixel less its mean, a factor of each
    channel, and what many products read."""
    low = Floats()
    y = convolve(low, low.input("x", IMAGE), 32, 3, groups=32)
    mean = low.mul(low.op("REDUCE_SUM", y, axis=3), low.constant(np.full((1, 1, 1, 1), 1 / 32), DType.FP32))
    row = low.op("SUB", y, mean)
    square = low.mul(row, row)
    spread = low.op("REDUCE_SUM", square, axis=3)
    scale = low.op("RSQRT", low.op("ADD", spread, low.constant(np.full((1, 1, 1, 1), 0.01), DType.FP32)))
    even = low.mul(low.mul(row, scale), low.constant(SPREAD.reshape(1, 1, 1, -1), DType.FP32))
    shifted = low.add(even, low.normal(1, 1, 1, 32, scale=0.01))
    return low.finish(convolve(low, shifted, 512, 1))


def test_no_product_in_front_of_a_rescale_by_channel() -> None:
    graph = normalized()
    quantization = quantize_graph(graph, samples(graph))
    made = quantization.graph
    lines = [
        op
        for op in made.operators
        if op.op == "MUL"
        and made.tensors[op.inputs[1]].shape == (1, 1, 1, 32)
        and made.tensors[op.inputs[1]].data is not None
    ]
    scaled = [op for op in made.operators if op.op == "RESCALE" and op.attributes["per_channel"]]
    assert lines == []
    assert scaled
    assert worst_db(quantization) > 25
    run_everywhere(quantization)
