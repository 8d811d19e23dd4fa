"""Convolutions with few output channels compute neighbouring pixels in one vector."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder
from rtl_configs import on_rtl

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session


def session(
    shape: tuple[int, int, int, int],
    channels: int,
    kernel: tuple[int, int],
    stride: int = 1,
    *,
    config: str = "base",
    target: str = "emulator",
    residual: bool = False,
    raw: bool = False,
) -> Session:
    """A convolution whose output is as high and wide as its stride gives, checked against golden."""
    build = LayerBuilder(shape[2] + channels)
    x = build.input("x", shape, DType.INT8)
    pads = []
    for size, taps in zip(shape[1:3], kernel, strict=True):
        pads += [taps // 2, (taps - size - taps // 2) % stride + (taps - 1 - taps // 2) // stride * stride]
    y = build.conv(x, channels, kernel, stride=(stride, stride), pad=tuple(pads), input_zp=-3, weight_zp=5)
    if not raw:
        y = build.rescale(y, DType.INT8, per_channel=True)
    if residual:
        other = build.input("r", build.graph.tensors[y].shape, DType.INT8)
        y = build.residual(y, other)
    build.output(y)
    made = Session(build.finish(), target, config)
    random = np.random.default_rng(7)
    made.run({a.name: random.integers(-128, 128, a.shape).astype(np.int8) for a in made.inputs}, check=True)
    return made


@pytest.mark.parametrize(
    "shape, channels, kernel, stride",
    [
        ((1, 20, 24, 3), 8, (3, 3), 2),
        ((2, 9, 16, 3), 4, (3, 3), 1),
        ((1, 8, 12, 5), 2, (1, 5), 1),
        ((1, 6, 40, 1), 1, (3, 2), 2),
        ((1, 7, 10, 16), 3, (1, 1), 1),
        ((2, 8, 1, 33), 2, (3, 1), 1),  # one column: the window turns it into a row
        ((1, 16, 9, 3), 8, (3, 3), 1),  # an odd row: by threes
        ((1, 40, 19, 3), 8, (3, 3), 1),  # a prime one: as a whole
    ],
)
def test_equal_golden(shape, channels, kernel, stride):
    session(shape, channels, kernel, stride)


def test_with_an_operand_and_with_raw_sums():
    session((1, 10, 16, 3), 8, (3, 3), residual=True)
    session((1, 10, 16, 3), 2, (3, 3), raw=True)


def test_one_bias_for_all_channels():
    build = LayerBuilder(3)
    x = build.input("x", (1, 10, 16, 3), DType.INT8)
    weight = build.random_constant((4, 3, 3, 3), DType.INT8, -128, 127)
    zero = build.zero_point(DType.INT8)
    window = {"pad": [1, 1, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
    operands = [x, weight, build.constant([-777], DType.INT32), zero, zero]
    build.output(build.add("CONV2D", operands, acc_type=DType.INT32, local_bound=False, **window))
    values = np.random.default_rng(1).integers(-128, 128, (1, 10, 16, 3)).astype(np.int8)
    Session(build.finish(), "emulator", "base").run({"x": values}, check=True)


@pytest.mark.parametrize("config", [on_rtl("small"), on_rtl("base")])
def test_on_rtl(config):
    session((1, 10, 16, 3), 4, (3, 3), config=config, target="sim")


def test_half_the_columns_take_half_the_cycles():
    """3x3 on 4 channels: one word of 12 bytes per kernel row, or one of 16 for two pixels."""
    few, many = (session((1, 32, 32, 4), c, (3, 3)).stats["counters"]["array_active"] for c in (8, 16))
    assert few < 0.55 * many


@pytest.mark.parametrize("width", [33, 27, 19])
def test_odd_rows_share_vectors_too(width):
    few, many = (session((1, 40, width, 4), c, (3, 3)).stats["counters"]["array_active"] for c in (8, 16))
    # The first rows are a box of their own, which may leave a tile partly empty.
    assert few < 0.85 * many
