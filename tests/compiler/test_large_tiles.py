"""Weights of which two tiles of output channels do not fit the weight memory: the array begins with the words that are
there, or reads those of the last tile of pixels in two parts, so that the next ones come meanwhile."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder
from rtl_configs import on_rtl

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session

CASES = {
    # (image, output channels, kernel)
    "one tile of pixels": ((1, 1, 8, 2400), 24, (1, 1)),
    "a column": ((1, 24, 1, 2400), 24, (1, 1)),
    "rows": ((1, 4, 8, 2400), 16, (1, 1)),
    "a part of a tile": ((1, 1, 19, 2400), 16, (1, 1)),
    "a kernel": ((1, 6, 8, 270), 16, (3, 3)),
    "within a row": ((1, 5, 9, 270), 16, (3, 3)),
    "a pixel in the last row": ((1, 5, 5, 270), 16, (3, 3)),
    "little room": ((1, 1, 19, 3300), 16, (1, 1)),
}


def _run(name: str, target: str, config: str = "nano") -> Session:
    shape, channels, kernel = CASES[name]
    build = LayerBuilder(5)
    x = build.input("x", shape, DType.INT8)
    pad = tuple(side for taps in kernel for side in (taps // 2, taps // 2))
    build.output(build.rescale(build.conv(x, channels, kernel, pad=pad, input_zp=-3), DType.INT8))
    made = Session(build.finish(), target, config)
    values = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    made.run({"x": values}, check=True)
    return made


@pytest.mark.parametrize("name", CASES)
def test_equal_golden(name: str) -> None:
    _run(name, "emulator")


@pytest.mark.parametrize(
    "config, name", [on_rtl("nano", name) for name in ("a column", "a kernel", "little room")]
)
def test_on_rtl(config: str, name: str) -> None:
    _run(name, "sim", config)


def test_a_projection_back_of_a_language_model() -> None:
    """64 rows of 4,864 bytes are more than the activation memory, a tile of weights more than half of their memory."""
    build = LayerBuilder(2)
    x = build.input("x", (1, 64, 1, 4864), DType.INT8)
    build.output(build.rescale(build.conv(x, 896, (1, 1)), DType.INT8, per_channel=True))
    session = Session(build.finish(), "emulator", "base")
    values = np.random.default_rng(7).integers(-128, 128, (1, 64, 1, 4864)).astype(np.int8)
    session.run({"x": values}, check=True)
    products_cycles = 64 * 4864 * 896 // 256
    assert session.stats["cycles"] < 1.05 * products_cycles


@pytest.mark.parametrize("config, target", [on_rtl("base", "emulator"), on_rtl("base", "sim")])
def test_seven_by_seven_pixels(config: str, target: str) -> None:
    """The last layers of a ResNet: three tiles of pixels and one pixel, whose tile takes a quarter of another."""
    build, shape = LayerBuilder(3), (1, 7, 7, 512)
    x = build.input("x", shape, DType.INT8)
    build.output(build.rescale(build.conv(x, 128, (3, 3), pad=(1, 1, 1, 1)), DType.INT8))
    session = Session(build.finish(), target, config)
    values = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    session.run({"x": values}, check=True)
    tiles, products_cycles = 128 // 16, 9 * 512 * 13 // 4
    assert session.stats["cycles"] < 1.05 * tiles * products_cycles
