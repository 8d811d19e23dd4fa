"""Elementwise layers whose scales or biases go by channels: as boxes of many rows and few channels."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

CASE = SHARED / "cases/performance/gated_64x4864.tosa"
SMALL_NUMBERS = 3000
"""Largest magnitude of int16 and int32 inputs: the product of two is an int32."""


def gate(
    shape: tuple[int, ...],
    other: tuple[int, ...] | None = None,
    dtype: DType = DType.INT8,
    stored: DType = DType.INT8,
    *,
    per_channel: bool = True,
) -> Graph:
    """The product of two tensors, of which one may be broadcast, scaled by channels."""
    build = LayerBuilder(1)
    wide = [build.input(name, size, dtype) for name, size in (("x", shape), ("y", other or shape))]
    if dtype is not DType.INT32:
        wide = [build.rescale(name, DType.INT32, double=False, shift=31) for name in wide]
    product = build.add("MUL", [*wide, build.zero_point(DType.INT8)])
    build.output(build.rescale(product, stored, per_channel=per_channel, double=False, shift=36))
    return build.finish()


def values(graph: Graph) -> dict[str, np.ndarray]:
    return {
        name: np.clip(value, -SMALL_NUMBERS, SMALL_NUMBERS).astype(value.dtype)
        for name, value in feeds(graph, 2).items()
    }


def measured(graph: Graph, config: str = "base") -> tuple[int, int]:
    """(cycles, those in which VECTOR has a micro-operation) on the emulator."""
    session = Session(graph, target="emulator", config=config)
    session.run(values(graph))
    return session.stats["cycles"], session.stats["counters"]["vector_active"]


def test_the_gate_of_a_language_model() -> None:
    if not CASE.exists():
        pytest.skip(ABSENT)
    session = Session(str(CASE), target="emulator", config="base")
    random = np.random.default_rng(1)
    session.run({node.name: random.integers(-128, 128, node.shape, dtype=np.int8) for node in session.inputs})
    assert session.stats["counters"]["vector_active"] == 77_824
    assert session.stats["cycles"] <= 97_280


@pytest.mark.parametrize(
    "config, shape, other",
    [
        ("base", (1, 32, 4864), None),
        ("base", (1, 48, 2048), None),
        ("base", (1, 100, 1000), None),
        ("base", (128, 1536), None),
        ("base", (1, 257, 333), None),
        ("base", (4, 50, 777), None),
        ("base", (1, 3000, 40), None),
        ("base", (1, 6, 6, 1152), (1, 1, 1, 1152)),
        ("base", (1, 7, 7, 960), (1, 1, 1, 960)),
        ("base", (1, 12, 12, 672), (1, 1, 1, 672)),
        ("base", (2, 12, 12, 336), (2, 1, 1, 336)),
        ("small", (1, 64, 1024), None),
        ("nano", (1, 64, 512), None),
        ("nano", (1, 12, 12, 96), (1, 1, 1, 96)),
    ],
)
def test_gates_take_little_more_than_their_micro_operations(
    config: str, shape: tuple[int, ...], other: tuple[int, ...] | None
) -> None:
    cycles, active = measured(gate(shape, other), config)
    assert cycles <= 1.3 * active


def test_the_type_of_a_gate_changes_little() -> None:
    cycles, active = measured(gate((1, 64, 2048), dtype=DType.INT16, stored=DType.INT16))
    assert cycles <= 1.3 * active


@pytest.mark.parametrize("other", [None, (1, 1, 1, 672)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_operands_come_while_others_are_computed(other: tuple[int, ...] | None, per_channel: bool) -> None:
    """All tensors fit the memory; one after the other they would take 1.3 times as long."""
    graph = gate((1, 12, 12, 672), other, per_channel=per_channel)
    cycles, active = measured(graph)
    assert cycles <= 1.15 * active
    assert_equal_to_golden(graph, "base", values(graph), check_hazards=True)


@pytest.mark.parametrize("config", ["nano", "small", "base", "nano,am_bytes=4096", "base,am_bytes=32K"])
@pytest.mark.parametrize(
    "shape, other",
    [
        ((1, 1, 200), None),
        ((16, 77), None),
        ((17, 77), None),
        ((3, 5, 130), (3, 1, 1)),
        ((2, 9, 7, 50), (2, 1, 1, 50)),
        ((2, 3, 2, 1, 4, 33), (1, 3, 1, 1, 4, 1)),
        ((5000, 3), None),
        ((2500,), None),
    ],
)
@pytest.mark.parametrize("dtype, stored", [(DType.INT8, DType.INT8), (DType.INT32, DType.INT16)])
def test_gates_are_exact(
    config: str, shape: tuple[int, ...], other: tuple[int, ...] | None, dtype: DType, stored: DType
) -> None:
    graph = gate(shape, other, dtype, stored)
    assert_equal_to_golden(graph, config, values(graph), check_hazards=True)


@pytest.mark.parametrize("config", ["nano", "base,am_bytes=32K"])
def test_a_result_by_channels_that_others_read_and_biases(config: str) -> None:
    """A line is added before the scale: it is the biases. The result is an output, and read again with its input."""
    build = LayerBuilder(3)
    x = build.input("x", (20, 300), DType.INT32)
    line = build.random_constant((1, 300), DType.INT32, -40_000, 40_000)
    scaled = build.rescale(build.add("ADD", [x, line]), DType.INT8, per_channel=True, double=False, shift=38)
    build.output(scaled)
    wide = build.rescale(scaled, DType.INT32, double=False, shift=31)
    build.output(build.rescale(build.add("SUB", [wide, x]), DType.INT16, per_channel=True, double=False))
    graph = build.finish()
    assert_equal_to_golden(graph, config, values(graph), check_hazards=True)


@pytest.mark.parametrize(
    "target, config, shape",
    [("sim", "nano", (3, 150)), ("sim", "nano", (20, 150)), ("emulator", "base,cores=2", (60, 1000))],
)
def test_gates_on_the_rtl_and_on_two_cores(target: str, config: str, shape: tuple[int, ...]) -> None:
    """Groups of channels by one command, and by commands of their own; the last group is shorter."""
    graph = gate(shape)
    found = Session(graph, target=target, config=config).run(values(graph))
    for name, value in Session(graph, target="golden").run(values(graph)).items():
        np.testing.assert_array_equal(found[name], value)
