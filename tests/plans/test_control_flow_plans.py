"""Copies between the graphs of control flow: through which buffers, and what is put aside first."""

import itertools
from types import SimpleNamespace

import pytest

from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.placement import Placement, resident
from tosaic.compiler.tile.control_flow import ControlFlowPlanner
from tosaic.compiler.tile.work import CopyThrough, FlagTest
from tosaic.hw.config_text import get_config

SMALL = get_config("small")
OUT, AM = Address(Region.DATA, 0), Address(Region.ACTIVATION, 0)


def planner(room: int | None = None) -> ControlFlowPlanner:
    """With `room` bytes of free activation memory."""
    arena = Arena(SMALL.am_bytes, 1)
    if room is not None:
        arena.allocate(SMALL.am_bytes - room)
    placer = SimpleNamespace(
        arena=arena,
        allocate=arena.allocate,
        config=SMALL,
        memories=SimpleNamespace(external=ExternalMemory()),
        tensors=SimpleNamespace(graph=None, storage={}),
    )
    return ControlFlowPlanner(placer, None, None)  # type: ignore[arg-type]


def outside(number: int, size: int = 64) -> Placement:
    return Placement(OUT + 4096 * number, size)


def inside(number: int, size: int = 64) -> Placement:
    return resident(4096 * number, size)


@pytest.mark.parametrize(
    "source, target", [(inside(1), OUT), (inside(1), AM), (outside(1), AM)], ids=["store", "move", "load"]
)
def test_what_is_in_activation_memory_needs_no_buffer(source: Placement, target: Address) -> None:
    assert planner(0)._copy(source, target) == CopyThrough(source, target)


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
    source = Placement(OUT, size)
    assert made._copy(source, OUT + 65536) == CopyThrough(source, OUT + 65536, SMALL.am_bytes - piece, piece)
    assert made.placer.arena.used() == before


@pytest.mark.parametrize("size, room", [(100, 99), (4 * SIXTEENTH, SIXTEENTH - 1)])
def test_a_copy_without_room(size: int, room: int) -> None:
    said = f"^there is no activation memory left to copy {size} bytes through$"
    with pytest.raises(OutOfMemory, match=said):
        planner(room)._copy(Placement(OUT, size), OUT + 65536)


def test_a_flag_is_read_in_activation_memory() -> None:
    assert planner(0)._test(inside(1, 1)) == FlagTest(inside(1, 1))
    made = planner(1)
    assert made._test(outside(1, 1)) == FlagTest(outside(1, 1), SMALL.am_bytes - 1)
    assert made.placer.arena.largest_gap_bytes() == 1
    with pytest.raises(
        OutOfMemory, match="^there is no activation memory left for the condition of a branch$"
    ):
        planner(0)._test(outside(1, 1))


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
