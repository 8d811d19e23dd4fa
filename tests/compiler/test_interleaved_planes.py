"""Images of planes that become channels last: golden's integers, near the cycles of their bytes on the bus."""

import itertools
import math

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds
from rtl_configs import on_rtl
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

CASE = SHARED / "cases/performance/turned_224.tosa"
LAST = [0, 2, 3, 1]


def turned(shape, perms=LAST, dtype=DType.INT8) -> Graph:
    build = LayerBuilder(1)
    build.output(build.add("TRANSPOSE", [build.input("x", shape, dtype)], perms=list(perms)))
    return build.finish()


def cycles_of(graph: Graph, config: str = "base", target: str = "emulator") -> int:
    session = Session(graph, target, config)
    session.run(feeds(graph, 1), check=True)
    return session.stats["cycles"]


def bus_cycles(shape, config: str = "base") -> float:
    """Returns the cycles in which a tensor's bytes come in and go out."""
    return 2 * math.prod(shape) / get_config(config).word_bytes


def test_an_image_of_224() -> None:
    if not CASE.exists():
        pytest.skip(ABSENT)
    session = Session(CASE, "emulator", "base")
    session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
    assert session.stats["cycles"] <= 2 * 18_816


@pytest.mark.parametrize(
    "shape, config, times",
    [
        ((1, 1, 224, 224), "base", 2),
        ((1, 2, 224, 224), "base", 2),
        ((1, 4, 224, 224), "base", 2),
        ((1, 5, 224, 224), "base", 3),
        ((1, 6, 224, 224), "base", 3.2),
        ((1, 3, 225, 223), "base", 2),
        ((1, 3, 227, 227), "base", 2),  # no divisor up to 16
        ((1, 3, 221, 221), "base", 2),
        ((1, 3, 320, 320), "base", 2),  # in and out more than the activation memory
        ((1, 3, 96, 96), "base", 2),
        ((4, 3, 96, 96), "base", 2),
        ((1, 3, 224, 224), "base,am_bytes=8K", 2),
        ((1, 3, 224, 224), "base,cores=2,bus_words=2", 2),
        ((1, 3, 224, 224), "small", 2),
        ((1, 3, 224, 224), "large", 2),
        ((1, 3, 96, 96), "nano", 2.5),
    ],
)
def test_neighbours(shape, config: str, times: float) -> None:
    assert cycles_of(turned(shape), config) <= times * bus_cycles(shape, config)


@pytest.mark.parametrize("config", ["nano", "small", "base", "large", "base,am_bytes=4096"])
@pytest.mark.parametrize(
    "sizes", [(1, 3, 32, 48), (2, 3, 17, 19), (3, 5, 9, 40), (1, 7, 37, 23), (40, 3, 5, 20)]
)
def test_equal_golden(sizes, config: str) -> None:
    for shape, dtype in itertools.product((sizes, (1, *sizes[1:])), (DType.INT8, DType.INT16)):
        assert_equal_to_golden(turned(shape, dtype=dtype), get_config(config), check_hazards=True)


@pytest.mark.parametrize("count", range(1, 9))
def test_any_number_of_planes(count: int) -> None:
    for config, pixels in itertools.product(("small", "base"), ((40, 50), (1, 2000), (1999, 1))):
        assert_equal_to_golden(turned((1, count, *pixels)), config, check_hazards=True)


@pytest.mark.parametrize(
    "shape, perms",
    [
        ((3, 60, 40), [1, 2, 0]),
        ((3, 60, 40), [2, 1, 0]),  # the pixels change their order, too
        ((60, 3, 40), [0, 2, 1]),
        ((1, 60, 1, 3, 40), [2, 1, 4, 0, 3]),
        ((2, 3, 500), [2, 0, 1]),  # six planes
        ((60, 40, 3), [2, 0, 1]),
    ],
)
def test_other_orders(shape, perms) -> None:
    assert_equal_to_golden(turned(shape, perms), "base", check_hazards=True)


def test_in_front_of_a_convolution() -> None:
    """The image stays in the activation memory."""
    build = LayerBuilder(2)
    x = build.add("TRANSPOSE", [build.input("x", (1, 3, 96, 96), DType.INT8)], perms=LAST)
    y = build.conv(x, 16, (3, 3), stride=(2, 2), pad=(0, 1, 0, 1), input_zp=-3)
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    session = Session(build.finish(), "emulator", "base")
    session.run(feeds(session.graph, 1), check=True)
    assert session.stats["dram_write_bytes"] == 48 * 48 * 16
    assert session.stats["cycles"] < 15_000


def test_a_product_reads_its_operand_as_it_was() -> None:
    """A MATMUL alone reads what is turned: no convolution comes in between."""
    build = LayerBuilder(3)
    x, y = build.input("x", (1, 3, 512), DType.INT8), build.input("y", (1, 3, 40), DType.INT8)
    zero = build.zero_point(DType.INT8)
    left = build.add("TRANSPOSE", [x], perms=[0, 2, 1])
    build.output(build.add("MATMUL", [left, y, zero, zero]))
    session = Session(build.finish(), "emulator", "base")
    session.run(feeds(session.graph, 1), check=True)
    assert [layer["op"] for layer in session.stats["layers"] if layer["op"] == "CONV2D"] == []


@pytest.mark.parametrize("config", [on_rtl("small"), on_rtl("base")])
@pytest.mark.parametrize("shape", [(1, 3, 32, 32), (2, 3, 19, 23)])
def test_rtl(config, shape) -> None:
    emulated, simulated = (cycles_of(turned(shape), config, target) for target in ("emulator", "sim"))
    assert emulated == pytest.approx(simulated, rel=0.03)
