"""Results and operands wider than a byte: all lanes and columns work on them, and they equal golden, bit for bit."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator

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


@pytest.mark.parametrize("config", ["nano", "small", "base", "large"])
@pytest.mark.parametrize("dtype", [None, DType.INT16, DType.INT8])
def test_any_pixels_and_channels(config, dtype):
    # 35 pixels are batches of 16, 16 and 3; 19 channels fill no tile.
    graph = sum_of_convolutions((1, 5, 7, 9), 19, dtype=dtype)
    assert_equal_to_golden(graph, config)


@pytest.mark.parametrize("config", ["small", "base"])
def test_the_edges_of_int32(config):
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
    assert_equal_to_golden(graph, config)


def test_pixels_that_do_not_fit():
    """A pixel's channels do not fit the memory together."""
    config = dataclasses.replace(get_config("small"), name="tight", am_bytes=1 << 12)
    graph = sum_of_convolutions((1, 2, 2, 8), 600, dtype=DType.INT16)
    assert_equal_to_golden(graph, config)


def cycles(graph: Graph) -> int:
    config = get_config("base")
    program = compile_graph(graph, config)
    return Emulator(config).run(program.memory(), program.program_address, program.program_bytes).cycles


def convolution(shape, channels, dtype):
    """A 1x1 convolution whose result is stored as `dtype`."""
    build = LayerBuilder(3)
    sums = build.conv(build.input("x", shape, DType.INT8), channels, (1, 1))
    build.output(build.rescale(sums, dtype, per_channel=True))
    return build.finish()


@pytest.mark.parametrize(("shape", "channels"), [((1, 1, 1, 320), 512), ((1, 8, 8, 256), 256)])
@pytest.mark.parametrize("dtype", [DType.INT16, DType.INT32])
def test_wide_results_cost_what_narrow_ones_do(shape, channels, dtype):
    """The beats of a vector hide behind the array's steps, and weights are fetched once."""
    assert cycles(convolution(shape, channels, dtype)) <= 1.1 * cycles(
        convolution(shape, channels, DType.INT8)
    )


def test_a_chain_of_wide_operators_uses_all_lanes():
    """Sixteen micro-operations on 4096 int32: those that touch no memory take a cycle for 16 elements."""

    def chain(operators: int):
        build = LayerBuilder(4)
        value = x = build.input("x", (4096,), DType.INT32)
        for _ in range(operators):
            value = build.add("ADD", [value, x])
        build.output(value)
        return build.finish()

    more = cycles(chain(9)) - cycles(chain(1))
    assert 0.95 * 8 * 4096 // 16 <= more <= 1.1 * 8 * 4096 // 16


@pytest.mark.parametrize("config", ["nano", "small", "base", "large"])
@pytest.mark.parametrize("elements", [1, 15, 37, 300])
def test_chains_of_any_length(config, elements):
    build = LayerBuilder(elements)
    x, y = (build.input(name, (elements,), DType.INT32) for name in "xy")
    total = build.add("ADD", [build.add("MAXIMUM", [x, y]), build.add("BITWISE_XOR", [x, y])])
    build.output(build.rescale(total, DType.INT16, shift=46))
    build.output(total)
    assert_equal_to_golden(build.finish(), config, check_hazards=True)
