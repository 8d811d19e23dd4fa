"""Which layers run as a cascade, and what it takes and leaves behind, in activation memory and outside."""

import itertools

import numpy as np
import pytest
from cascade_graphs import SMALL_MEMORY, inverted_bottleneck
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import FULL_SPEED
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.search import Choices, ProgramPlan, plans_of, task_of
from tosaic.compiler.tile.cascade_choice import propose, worthwhile
from tosaic.compiler.tile.demands import predicted_cycles
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.work import CascadeWork, GraphPlan, LayerWork
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

Chain = tuple[int, int]
SIZE, WIDE = 28, 96


def planned(graph: Graph, config: Config, *chains: Chain) -> tuple[GraphPlan, Memories]:
    """The layers of the chains as cascades, if these fit; no tensor takes more than a quarter of the memory."""
    memories = Memories(Arena(config.am_bytes, config.columns), config.am_bytes // 4)
    task = task_of(graph, Choices(config))
    planner = GraphPlanner(task.graph, task.names, PlanContext(config, memories, True), chains=chains)
    for name in graph.inputs:
        planner.placer.external(name)
    return planner.plan(), memories


def proposed(graph: Graph, config: Config = SMALL_MEMORY) -> list[Chain]:
    return propose(planned(graph, config)[0], config, FULL_SPEED)


# --- what may be linked


class Bottleneck(LayerBuilder):
    """Expand 1x1 to a tensor that does not fit, depthwise, project 1x1. Layers 0 to 2."""

    def __init__(self, images: int = 1):
        super().__init__(7)
        self.images = images

    def expanded(self) -> str:
        x = self.input("x", (self.images, SIZE, SIZE, 16), DType.INT8)
        return self.rescale(self.conv(x, WIDE, (1, 1)), DType.INT8, per_channel=True)

    def behind(self, y: str) -> str:
        z = self.conv(y, 1, (3, 3), pad=(1,) * 4, depthwise=True)
        z = self.rescale(z, DType.INT8, per_channel=True)
        return self.rescale(self.conv(z, 16, (1, 1)), DType.INT8)

    def made(self, *outputs: str) -> Graph:
        for name in outputs:
            self.output(name)
        return self.finish()


def test_layers_one_behind_the_other_are_linked() -> None:
    build = Bottleneck()
    assert proposed(build.made(build.behind(build.expanded()))) == [(0, 2)]


@pytest.mark.parametrize("change", ["shown", "another name", "another reader"])
def test_what_somebody_else_needs_is_not_linked(change: str) -> None:
    """The first result is an output, has another name, or another reader."""
    build = Bottleneck()
    y = build.expanded()
    z = build.behind(y)
    match change:
        case "shown":
            other = y
        case "another name":
            other = build.add("RESHAPE", [y, build.shape((SIZE * SIZE, WIDE))])
        case _:
            other = build.rescale(build.conv(y, 1, (1, 1)), DType.INT8)
    assert all(first > 0 for first, _ in proposed(build.made(z, other)))


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_read_otherwise_is_not_linked(turned: bool) -> None:
    """The next layer reads from the second row on, or column by column."""
    build = Bottleneck()
    y = build.expanded()
    if turned:
        y = build.add("TRANSPOSE", [y], perms=[0, 2, 1, 3])
    else:
        y = build.add("SLICE", [y, build.shape((0, 1, 0, 0)), build.shape((1, SIZE - 1, SIZE, WIDE))])
    assert all(first > 0 for first, _ in proposed(build.made(build.behind(y))))


def test_only_one_whole_image_runs_in_rows() -> None:
    build = Bottleneck(2)
    assert proposed(build.made(build.behind(build.expanded()))) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_table_that_is_computed_at_run_time_is_not_there_for_stripes(known: bool) -> None:
    build = Bottleneck()
    entries = (256,)
    table = (
        build.random_constant(entries, DType.INT8, -9, 9) if known else build.input("t", entries, DType.INT8)
    )
    y = build.add("TABLE", [build.expanded(), table])
    assert proposed(build.made(build.behind(y))) == ([(0, 2)] if known else [(2, 3)])


@pytest.mark.parametrize("known", [True, False])
def test_scales_that_are_computed_at_run_time_are_not_there_for_stripes(known: bool) -> None:
    build = Bottleneck()
    x = build.input("x", (1, SIZE, SIZE, 16), DType.INT8)
    y = build.rescale(build.conv(x, WIDE, (1, 1)), DType.INT8, per_channel=True)
    if not known:
        operator = build.graph.operators[-1]
        operator.inputs[1] = build.input("multiplier", (WIDE,), DType.INT32)
        operator.inputs[2] = build.input("shift", (WIDE,), DType.INT8)
    assert proposed(build.made(build.behind(y))) == ([(0, 2)] if known else [(1, 2)])


def test_results_that_are_inside_need_no_cascade() -> None:
    graph = inverted_bottleneck(SIZE, 1)
    assert (
        planned(graph, get_config("base"))[0].steps
        and proposed(graph, get_config("base,am_bytes=512K")) == []
    )


# --- which of them


@pytest.mark.parametrize("memory", ["16K", "32K"])
def test_the_cascades_that_save_most(memory: str) -> None:
    """None of all ways to join up to four layers of a network each takes clearly fewer cycles."""
    config = get_config(f"base,am_bytes={memory}")
    build = LayerBuilder(7)
    x = build.input("x", (1, SIZE, SIZE, 16), DType.INT8)
    for stride in (1, 2):
        y = build.rescale(build.conv(x, 64, (1, 1)), DType.INT8)
        pad = (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1)
        y = build.rescale(build.conv(y, 1, (3, 3), stride=(stride,) * 2, pad=pad, depthwise=True), DType.INT8)
        x = build.rescale(build.conv(y, 16, (1, 1)), DType.INT8)
    build.output(x)
    graph = build.finish()
    found = proposed(graph, config)
    assert found == sorted(found) and found
    chains = [(a, b) for a in range(6) for b in range(a + 1, min(a + 4, 6))]
    ways = [[chain] for chain in chains]
    ways += [[a, b] for a, b in itertools.combinations(chains, 2) if a[1] < b[0]]
    cycles = [predicted_cycles(planned(graph, config, *way)[0], config, FULL_SPEED) for way in [found, *ways]]
    assert cycles[0] <= 1.02 * min(cycles)


def test_cascades_of_a_plan_that_are_worth_it() -> None:
    """Those that take fewer cycles than the same layers by themselves."""
    graph = inverted_bottleneck(SIZE, 1)
    plain, _ = planned(graph, SMALL_MEMORY)
    good, _ = planned(graph, SMALL_MEMORY, (1, 3))
    assert worthwhile(good, plain, SMALL_MEMORY, FULL_SPEED) == [(1, 3)]
    roomy = get_config("base,am_bytes=512K")
    plain, _ = planned(graph, roomy)
    bad, _ = planned(graph, roomy, (1, 3))
    assert isinstance(bad.steps[1].work, CascadeWork)
    assert worthwhile(bad, plain, roomy, FULL_SPEED) == []


# --- what a cascade takes


@pytest.mark.parametrize("wide", [48, 96])
def test_rows_that_are_kept_have_their_place_outside(wide: int) -> None:
    """Two rows of the image of `wide` channels that the depthwise layer reads for one stripe and the next; of the other
    layers' images none. They come back to the first rows of a stripe's buffer, and go from its last."""
    plan, memories = planned(inverted_bottleneck(SIZE, 1, wide=wide), SMALL_MEMORY, (1, 3))
    (cascade,) = [step.work for step in plan.steps if isinstance(step.work, CascadeWork)]
    saved = [copy for stripe in cascade.stripes for copy in stripe.work.saved]
    row_bytes = SIZE * wide
    assert {copy.size_bytes for copy in saved} == {2 * row_bytes}
    (place,) = {copy.target for copy in saved}
    restored = [copy for stripe in cascade.stripes for copy in stripe.work.preloads if copy.source == place]
    assert [copy.size_bytes for copy in restored] == [copy.size_bytes for copy in saved]
    assert len({copy.target for copy in restored}) == 1
    assert all((copy.source.offset - restored[0].target.offset) % row_bytes == 0 for copy in saved)
    # The image, what the first layer made of it, the result, and the rows.
    assert memories.external.data_bytes == 3 * SIZE * SIZE * 16 + 2 * row_bytes


def test_nothing_is_left_behind_a_cascade() -> None:
    _, memories = planned(inverted_bottleneck(SIZE, 1), SMALL_MEMORY, (1, 3))
    assert memories.arena.used() == []


@pytest.mark.parametrize("memory", ["4K", "8K"])
def test_a_cascade_that_does_not_fit_leaves_nothing(memory: str) -> None:
    graph, config = inverted_bottleneck(SIZE, 1), get_config(f"base,am_bytes={memory}")
    plain, plan = planned(graph, config), planned(graph, config, (1, 3))
    assert all(isinstance(step.work, LayerWork) for step in plan[0].steps)
    assert plan[1].external.data_bytes == plain[1].external.data_bytes
    assert plan[1].arena.used() == []


def test_a_cascade_sends_what_is_wanted_outside_once() -> None:
    """Each row of a result in the middle, which a check compares."""
    graph = inverted_bottleneck(SIZE, 1)
    plan: ProgramPlan = next(plans_of(task_of(graph, Choices(SMALL_MEMORY, keep_layers=True))))
    (cascade,) = [step.work for step in plan.main.steps if isinstance(step.work, CascadeWork)]
    for step in cascade.members[:-1]:
        stripes = [stripe.work for stripe in cascade.stripes if stripe.number == step.number]
        sent = [work.result for work in stripes if work.result is not None]
        assert [each.first_byte for each in sent] == [0, *(each.size_bytes for each in sent[:-1])]
        assert sent[-1].size_bytes == int(np.prod(graph.tensors[step.info.output].shape))
