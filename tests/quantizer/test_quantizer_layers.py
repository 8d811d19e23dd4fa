"""What goes from layer to layer: 8 bits where a convolution reads it anyway, 16 where several layers do."""

import numpy as np
from float_networks import IMAGE, Floats, activations, quantize_graph, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType

POINT = [AxisWindow(1)] * 2


def convolve(low: Floats, x: str, channels: int) -> str:
    return convolution.convolve(low, x, low.normal(channels, 1, 1, low.shape(x)[-1], scale=0.4), None, POINT)


def operators(quantization) -> list[str]:
    graph = quantization.graph
    return [f"{op.op} {graph.tensors[op.outputs[0]].dtype.name.lower()}" for op in graph.operators]


def test_a_skip_connection_has_one_form():
    """The branch and the CONCAT behind it share a scale: each convolution is rounded once."""
    low = Floats()
    x = activations.relu(low, convolve(low, low.input("x", IMAGE), 8))
    deep = activations.relu(low, convolve(low, x, 8))
    graph = low.finish(convolve(low, low.concat([deep, x], 3), 4))
    quantization = quantize_graph(graph, samples(graph))
    assert operators(quantization) == [
        *["CONV2D int32", "RESCALE int8"] * 2,
        "CONCAT int8",
        "CONV2D int32",
        "RESCALE int8",
    ]
    assert worst_db(quantization) >= 30
    run_everywhere(quantization)


def test_what_several_layers_read_has_16_bits():
    """A residual stream that no convolution reads: int16 between layers, never int32."""
    low = Floats()
    rows = matmul(low, low.input("x", (1, 6, 16)), low.normal(16, 16))
    stream = low.add(rows, low.times(low.op("TANH", rows), 0.5))
    squares = low.op("REDUCE_SUM", low.mul(stream, stream), axis=2)
    graph = low.finish(low.mul(stream, low.op("RSQRT", low.plus(squares, 1.0))))
    quantization = quantize_graph(graph, samples(graph))
    readers = {name: len(quantization.graph.consumers(name)) for name in quantization.graph.tensors}
    wide = [
        name
        for name, tensor in quantization.graph.tensors.items()
        if tensor.data is None and readers[name] > 1 and tensor.dtype.bits > 16 and tensor.shape[-1] > 1
    ]
    assert wide == [] and worst_db(quantization) >= 30
    run_everywhere(quantization)


def test_what_waits_for_the_other_operand_of_a_sum_has_16_bits():
    """A running sum goes through memory until the next convolution is there; the last one is no longer than a layer."""
    low = Floats()
    parts = [convolve(low, low.input(f"x{number}", IMAGE), 8) for number in range(3)]
    graph = low.finish(low.add(low.add(*parts[:2]), parts[2]))
    quantization = quantize_graph(graph, samples(graph))
    found = operators(quantization)
    assert found.count("ADD int32") == 2
    assert found.count("RESCALE int16") == 2
    assert worst_db(quantization) >= 30
    run_everywhere(quantization)


def test_an_upper_bound_is_saturation_behind_equalization():
    """Channels of different ranges under a Relu6 in front of a depthwise convolution: no bounds of their own."""
    low = Floats()
    x = low.input("x", IMAGE)
    spread = np.array([0.1, 8, 0.2, 4, 0.1, 8, 0.2, 4], np.float32).reshape(8, 1, 1, 1)
    weight = low.constant(np.abs(low.random.standard_normal((8, 1, 1, 8))) * spread, low.dtype(x))
    x = low.op(
        "CLAMP",
        convolution.convolve(low, x, weight, None, POINT),
        min_val=0.0,
        max_val=6.0,
        nan_mode="PROPAGATE",
    )
    graph = low.finish(convolve(low, x, 4))
    quantization = quantize_graph(graph, samples(graph))
    assert not {"MAXIMUM", "MINIMUM"} & {op.op for op in quantization.graph.operators}
    assert len([op for op in quantization.graph.operators if op.op == "RESCALE"]) == 2
    run_everywhere(quantization)


def test_dead_channel_does_not_coarsen_the_others():
    """A channel whose weights are next to nothing beside its bias has huge sums, at a tiny scale."""
    low = Floats()
    weight, bias = low.random.standard_normal((8, 1, 1, IMAGE[-1])), low.random.standard_normal(8)
    weight[3] *= 1e-30
    x = convolution.convolve(
        low,
        low.input("x", IMAGE),
        low.constant(weight, DType.FP32),
        low.constant(bias, DType.FP32),
        POINT,
    )
    graph = low.finish(low.mul(x, activations.hard_sigmoid(low, x, 1 / 6, 0.5)))
    assert worst_db(quantize_graph(graph, samples(graph), activations="int16")) > 38
