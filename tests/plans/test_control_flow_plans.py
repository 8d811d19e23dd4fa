"""Copies between the graphs of control flow: through which buffers, and what is put aside first."""

import itertools

import pytest
from control_graphs import Control

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.placement import Placement, resident
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.control_flow import ControlFlowPlanner
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.work import ChoiceWork, CopyThrough, FlagTest
from tosaic.hw.config_text import get_config

SMALL = get_config("small")
OUT, AM = Address(Region.DATA, 0), Address(Region.ACTIVATION, 0)


def planner(room: int = SMALL.am_bytes, graph: Graph | None = None) -> ControlFlowPlanner:
    """Returns a planner with `room` bytes of free activation memory."""
    memories = Memories(Arena(SMALL.am_bytes, 1), SMALL.am_bytes)
    if room < SMALL.am_bytes:
        memories.arena.allocate(SMALL.am_bytes - room)
    graph, context = graph or Graph("empty"), PlanContext(SMALL, memories, True)
    placer = Placer(Tensors(graph, SMALL), memories)
    for name in graph.inputs:
        placer.external(name)
    return ControlFlowPlanner(
        placer, lambda inner: GraphPlanner(inner, set(), context, nested=True), lambda name: True
    )


def outside(number: int, size: int = 64) -> Placement:
    return Placement(OUT + 4096 * number, size)


def inside(number: int, size: int = 64) -> Placement:
    return resident(4096 * number, size)


@pytest.mark.parametrize(
    "source, target",
    [(inside(1), outside(0)), (inside(1), inside(0)), (outside(1), inside(0))],
    ids=["store", "move", "load"],
)
def test_what_is_in_activation_memory_needs_no_buffer(source: Placement, target: Placement) -> None:
    assert planner(0).hand_over([source], [target]) == [CopyThrough(source, target.address)]


SIXTEENTH = SMALL.am_bytes // 16


@pytest.mark.parametrize(
    "size, room, piece",
    [
        (100, 100, 100),
        (1000, 1000, 1000),
        # No less than a sixteenth of the memory, unless there is less to copy.
        (2 * SIXTEENTH, 2 * SIXTEENTH - 1, SIXTEENTH),
        (3 * SIXTEENTH, 2 * SIXTEENTH, 3 * SIXTEENTH // 2),
        (3 * SIXTEENTH, SIXTEENTH, SIXTEENTH),
        (9 * SIXTEENTH, 3 * SIXTEENTH, 9 * SIXTEENTH // 4),
    ],
)
def test_pieces_of_a_copy_between_places_outside(size: int, room: int, piece: int) -> None:
    """As few as there is room for, at the end of the memory; nothing is kept."""
    made = planner(room)
    before = made.placer.arena.used()
    source, target = outside(0, size), outside(16, size)
    copy = CopyThrough(source, target.address, SMALL.am_bytes - piece, piece)
    assert made.hand_over([source], [target]) == [copy]
    assert made.placer.arena.used() == before


@pytest.mark.parametrize("size, room", [(100, 99), (4 * SIXTEENTH, SIXTEENTH - 1)])
def test_a_copy_without_room(size: int, room: int) -> None:
    said = f"^there is no activation memory left to copy {size} bytes through$"
    with pytest.raises(OutOfMemory, match=said):
        planner(room).hand_over([outside(0, size)], [outside(16, size)])


def branch(room: int) -> ChoiceWork:
    """A COND_IF whose flag is outside. Its graphs hand on a bool, one byte."""
    build = Control()
    flag, x = build.input("flag", (), DType.BOOL), build.input("x", (), DType.BOOL)
    build.output(build.choose(flag, [x], lambda _, state: state, lambda _, state: state)[0])
    made = planner(room, build.graph).plan(build.graph.operators[0])
    assert isinstance(made, ChoiceWork)
    return made


def test_a_flag_comes_to_activation_memory() -> None:
    assert branch(1).test == FlagTest(Placement(OUT, 1), SMALL.am_bytes - 1)
    said = "^there is no activation memory left for the condition of a branch$"
    with pytest.raises(OutOfMemory, match=said):
        branch(0)


@pytest.mark.parametrize(
    "results", list(itertools.permutations(range(3))) + [(0, 0, 1), (3, 1, 0), (3, 4, 5)]
)
def test_results_become_arguments_whatever_the_order(results: tuple[int, ...]) -> None:
    """As if all were copied at once: what is an argument itself is put aside before others are written."""
    places = [inside(number) if number < 2 else outside(number) for number in range(6)]
    made = planner()
    copies = made.hand_over([places[number] for number in results], places[:3])
    held: dict[Address, int] = {place.address: number for number, place in enumerate(places)}
    for copy in copies:
        assert copy.source.bytes == 64
        held[copy.target] = held[copy.source.address]
    assert [held[place.address] for place in places[:3]] == list(results)
    moved = [number for place, number in enumerate(results) if place != number]
    aside = [number for number in moved if number < 3]
    assert len(copies) == len(moved) + len(aside)
    assert made.placer.memories.external.data_bytes == 64 * len(aside)
