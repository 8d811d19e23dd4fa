"""Constants that are added to the sums of a convolution go into its bias."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session


def _cycles(
    term: np.ndarray | None, op: str = "SUB", *, depthwise: bool = False, swapped: bool = False
) -> int:
    """Cycles of a convolution with a term behind it, checked against golden."""
    build = LayerBuilder(3)
    x = build.input("x", (1, 8, 8, 16), DType.INT8)
    y = build.conv(x, 1 if depthwise else 16, (3, 3), input_zp=-5, depthwise=depthwise)
    if term is not None:
        operands = [y, build.constant(term, DType.INT32)]
        y = build.add(op, operands[::-1] if swapped else operands, dtype=DType.INT32)
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    session = Session(build.finish(), "emulator", "small")
    values = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 16)).astype(np.int8)
    session.run({"x": values}, check=True)
    return session.stats["cycles"]


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("op", ["ADD", "SUB"])
def test_a_term_of_each_channel_costs_nothing(op: str, depthwise: bool) -> None:
    term = np.arange(-800, 800, 100).reshape(1, 1, 1, 16)
    assert _cycles(term, op, depthwise=depthwise) == _cycles(None, depthwise=depthwise)


def test_one_term_for_all_channels() -> None:
    assert _cycles(np.full((1, 1, 1, 1), 12345)) == _cycles(None)
    assert _cycles(np.full((1, 1, 1, 1), 12345), "ADD", swapped=True) == _cycles(None)


def _vector_cycles(zero_point: int | None) -> int:
    """Cycles in which VECTOR works on an image of twice the size, and on its conversion to int8."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 8, 8, 16), DType.INT8)
    sizes = ([4, 2, 4, 2], [-1, -1], [1, 1])
    shapes = [build.shape(values) for values in sizes]
    y = build.add("RESIZE", [x, *shapes], dtype=DType.INT32, mode="BILINEAR")
    if zero_point is not None:
        y = build.add("SUB", [y, build.constant(np.full((1, 1, 1, 1), 16 * zero_point), DType.INT32)])
    build.output(build.rescale(y, DType.INT8))
    session = Session(build.finish(), "emulator", "base")
    values = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 16)).astype(np.int8)
    session.run({"x": values}, check=True)
    return session.stats["counters"]["vector_active"]


def test_the_zero_point_of_an_image_that_is_enlarged_costs_nothing() -> None:
    assert _vector_cycles(-92) == _vector_cycles(None)


@pytest.mark.parametrize(
    "term, swapped",
    [
        (np.full((1, 1, 1, 16), 2**31 - 1000), False),  # the sums might not fit
        (np.arange(6 * 6 * 16).reshape(1, 6, 6, 16), False),  # of each place
        (np.arange(16).reshape(1, 1, 1, 16), True),  # the sums are subtracted
    ],
)
def test_what_stays_is_exact(term: np.ndarray, swapped: bool) -> None:
    assert _cycles(term, swapped=swapped) > _cycles(None)
