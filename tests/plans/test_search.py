"""Plans come in an order: residencies, cascades, and those that are asked for where fields overflow."""

import pytest
from cascade_graphs import inverted_bottleneck
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.machine_numbers import RESIDENCY_SHARES
from tosaic.compiler.search import Choices, ProgramPlan, plans_of, ranked, task_of
from tosaic.compiler.tile.work import CascadeWork
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config

BOTTLENECK = inverted_bottleneck(28, 1)
"""Its largest tensors have 75,264 bytes."""


def plans(memory: str, graph: Graph = BOTTLENECK, **choices: bool) -> list[ProgramPlan]:
    config = get_config(f"base,am_bytes={memory}")
    return list(plans_of(task_of(graph, Choices(config, **choices))))


def cascades(plan: ProgramPlan) -> int:
    return sum(isinstance(step.work, CascadeWork) for step in plan.main.steps)


@pytest.mark.parametrize(
    "memory, order",
    [
        ("8K", [0.75, 0.5, 0.25, 0.125, 0.0]),
        ("32K", [0.75, 0.5, 0.25, 0.125, 0.0]),
        ("64K", [0.75, 0.5, 0.25, 0.125, 0.0]),
    ],
)
def test_plans_of_all_residencies(memory: str, order: list[float]) -> None:
    """Those that are clearly better come first; the others in their order."""
    found = plans(memory, cascades=False)
    assert [plan.residency for plan in found] == order
    assert sorted(order, reverse=True) == list(RESIDENCY_SHARES)
    best, *others = found
    assert all(best.cycles <= 0.9 * plan.cycles for plan in others if plan.residency > best.residency)
    again = ranked(sorted(found, key=lambda plan: -plan.residency))
    assert [plan.residency for plan in again] == order


def test_less_residency_comes_first_where_it_is_clearly_better() -> None:
    """A line that all pixels share takes memory from their boxes where it stays."""
    build = LayerBuilder(1)
    shapes = {"x": (1, 57, 1240), "y": (1, 1, 1240)}
    operands = [
        build.rescale(build.input(name, shape, DType.INT8), DType.INT32) for name, shape in shapes.items()
    ]
    product = build.add("MUL", [*operands, build.zero_point(DType.INT8)])
    build.output(build.rescale(product, DType.INT8, per_channel=True))
    task = task_of(build.finish(), Choices(get_config("small,am_bytes=8K"), cascades=False))
    found = list(plans_of(task))
    assert [plan.residency for plan in found] == [0.5, 0.75, 0.25, 0.125, 0.0]
    assert found[0].cycles < 0.9 * found[1].cycles and all(plan.memories.crowded for plan in found)


def test_with_less_residency_nothing_is_nearer() -> None:
    """Plans behind one in which everything has room are made where they are asked for, whatever they cost."""
    found = plans("256K", cascades=False)
    assert [plan.residency for plan in found] == list(RESIDENCY_SHARES)
    assert [plan.memories.crowded for plan in found] == [False, False, True, True, True]


def test_what_does_not_fit() -> None:
    """Scales that are computed at run time must be there as a whole."""
    build = LayerBuilder(1)
    x, channels = build.input("x", (1, 4096), DType.INT32), 4096
    scales = [
        build.input(f"scale {n}", (channels,), dtype) for n, dtype in enumerate((DType.INT32, DType.INT8))
    ]
    zeros = [build.zero_point(DType.INT32), build.zero_point(DType.INT8)]
    how = dict(scale32=True, rounding_mode="SINGLE_ROUND", per_channel=True)
    how |= dict(input_unsigned=False, output_unsigned=False)
    build.output(build.add("RESCALE", [x, *scales, *zeros], dtype=DType.INT8, **how))
    graph = build.finish()
    said = (
        "^20480 bytes of parameters do not fit the activation memory; use a configuration with more activation memory "
        "than 'base,am_bytes=16384'$"
    )
    with pytest.raises(UnsupportedError, match=said):
        plans("16K", graph)
    assert plans("32K", graph)


@pytest.mark.parametrize("memory, layers", [("32K", 4), ("64K", 3), ("128K", 2)])
def test_the_best_plan_with_cascades_comes_first(memory: str, layers: int) -> None:
    """Then the same without them."""
    first, second, *others = plans(memory)
    (cascade,) = [step.work for step in first.main.steps if isinstance(step.work, CascadeWork)]
    assert len(cascade.members) == layers
    assert first.residency == second.residency and first.cycles < second.cycles
    assert not any(cascades(plan) for plan in (second, *others))
    assert [plan.cycles for plan in (second, *others)] == [
        plan.cycles for plan in plans(memory, cascades=False)
    ]


@pytest.mark.parametrize("memory", ["4K", "8K", "256K"])
def test_a_plan_without_cascades_stays(memory: str) -> None:
    """Where they do not fit, and where nothing leaves the memory between layers."""
    assert not any(cascades(plan) for plan in plans(memory))


@pytest.mark.parametrize("options", [dict(optimize=False), dict(cascades=False)])
def test_without_cascades(options: dict[str, bool]) -> None:
    assert not any(cascades(plan) for plan in plans("32K", **options))
