"""int32 tensors between array layers, whose bytes lie apart: on the emulator they equal golden, bit for bit."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config

EDGES = [-(1 << 31), (1 << 31) - 1, -1, 0, 127, 128, -128, -129, 32767, 32768, -32769, 1 << 23, 0x7F7F7F7F]


def sum_of_convolutions(shape, channels, *, edges=False, dtype=None):
    """Two CONV2Ds of one image, added; with `edges` the sums are these values."""
    build = LayerBuilder(5)
    x = build.input("x", shape, DType.INT8)
    sums = []
    for number in range(2):
        weights = np.zeros((channels, 3, 3, shape[3]), np.int8)
        bias = np.resize(EDGES, channels) * (number == 0)
        if not edges:
            weights = build.random.integers(-128, 128, weights.shape)
            bias = build.random.integers(-(1 << 29), 1 << 29, channels)
        operands = [x, build.constant(weights, DType.INT8), build.constant(bias, DType.INT32)]
        operands += [build.zero_point(DType.INT8, 4), build.zero_point(DType.INT8)]
        attributes = dict(pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1])
        sums.append(build.add("CONV2D", operands, acc_type=DType.INT32, local_bound=False, **attributes))
    total = build.add("ADD", sums)
    build.output(total if dtype is None else build.rescale(total, dtype, per_channel=True, shift=48))
    return build.finish()


def tensors_apart(graph, config) -> set[str]:
    fuser = Fuser(graph, config, digits=True)
    fuser.layers(set())
    return fuser.apart


@pytest.mark.parametrize("config", ["nano", "small", "base", "large"])
@pytest.mark.parametrize("dtype", [None, DType.INT16, DType.INT8])
def test_any_pixels_and_channels(config, dtype):
    # 35 pixels are batches of 16, 16 and 3; 19 channels fill no tile.
    graph = sum_of_convolutions((1, 5, 7, 9), 19, dtype=dtype)
    if dtype is DType.INT8:
        assert tensors_apart(graph, get_config(config)) == {"conv2d_1"}
    assert_equal_to_golden(graph, config)


@pytest.mark.parametrize("config", ["small", "base"])
def test_every_digit_and_carry(config):
    graph = sum_of_convolutions((1, 4, 4, 8), 13, edges=True)
    assert_equal_to_golden(graph, config)


def test_whole_batches_and_less_than_one():
    for shape in ((2, 4, 8, 8), (1, 1, 3, 8), (1, 1, 1, 8)):
        assert_equal_to_golden(sum_of_convolutions(shape, 16, dtype=DType.INT8), "base")


@pytest.mark.parametrize(
    ("shape", "channels", "am_bytes"),
    [((2, 12, 11, 8), 24, 1 << 14), ((2, 12, 11, 8), 24, 1 << 13), ((1, 3, 210, 8), 16, 1 << 13)],
)
def test_stripes(shape, channels, am_bytes):
    """Tensors that do not fit the activation memory: rows, and parts of rows, at a time."""
    config = dataclasses.replace(get_config("small"), name="tight", am_bytes=am_bytes)
    graph = sum_of_convolutions(shape, channels, dtype=DType.INT16)
    assert tensors_apart(graph, config)
    assert_equal_to_golden(graph, config)


def test_pixels_that_do_not_fit():
    """A pixel's channels do not fit the memory together: then the bytes stay together."""
    config = dataclasses.replace(get_config("small"), name="tight", am_bytes=1 << 12)
    graph = sum_of_convolutions((1, 2, 2, 8), 600, dtype=DType.INT16)
    assert_equal_to_golden(graph, config)


def test_outputs_and_kept_tensors_are_dense():
    graph = sum_of_convolutions((1, 4, 4, 8), 16, dtype=DType.INT8)
    graph.outputs.append("conv2d_1")
    assert not tensors_apart(graph, get_config("base"))
    assert_equal_to_golden(graph, "base")
    kept = compile_graph(
        sum_of_convolutions((1, 4, 4, 8), 16), get_config("base"), optimize=True, keep_layers=True
    )
    assert "conv2d_1" in [port.name for port in kept.kept]
