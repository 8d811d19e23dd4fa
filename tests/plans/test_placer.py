"""Where tensors are placed, one rule at a time: what fits, beside what, and how long it stays."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.memory_history import MemoryBlock
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.placement import Arrival, Copy, Placement, resident
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.place.tensors import Tensors
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

ONE_BANK = get_config("small,am_banks=1")
SIZE = ONE_BANK.am_bytes
"""Bytes of the activation memory."""


def placer(*sizes: int, limit: int = SIZE, config: Config = ONE_BANK, **constants: int) -> Placer:
    """Returns the placer of int8 inputs "a", "b", ... of these sizes in bytes, and of constants by name."""
    build = LayerBuilder(1)
    names = [build.input(name, (1, size), DType.INT8) for name, size in zip("abcdef", sizes, strict=False)]
    for name, size in constants.items():
        made = build.constant(np.full((1, size), 7), DType.INT8)
        build.graph.tensors[name] = build.graph.tensors.pop(made)
        build.graph.tensors[name].name = name
    for name in names:
        build.output(name)
    memories = Memories(Arena(config.am_bytes, 1), limit)
    return Placer(Tensors(build.graph, config), memories)


def taken(made: Placer, size: int) -> int:
    """A block that is none of the tensors'."""
    address = made.arena.allocate(size)
    assert address is not None
    return address


# --- what a layer reads


@pytest.mark.parametrize(
    "limit, beside, fits", [(100, 0, True), (99, 0, False), (164, 64, True), (163, 64, False)]
)
def test_an_operand_is_brought_in_up_to_a_limit(limit: int, beside: int, fits: bool) -> None:
    """The limit holds for the operand together with everything else that the layer needs."""
    made = placer(100, limit=limit)
    outside = made.external("a")
    copy = made.bring("a", beside)
    assert made.memories.crowded != fits
    if not fits:
        assert (copy, made.placements["a"]) == (None, outside)
        return
    assert copy == Copy(outside.address, Address(Region.ACTIVATION, 0), 100)
    assert made.placements["a"] == resident(0, 100)
    assert made.bring("a") is None


def test_an_operand_without_room_stays_outside() -> None:
    made = placer(100)
    taken(made, SIZE - 99)
    made.external("a")
    assert made.bring("a") is None
    assert made.memories.crowded and not made.placements["a"].resident


def test_what_comes_ahead_comes_to_the_end_of_the_memory() -> None:
    made = placer(100, w=40)
    assert made.bring("w", ahead=True) == Copy(
        Address(Region.CONSTANTS, 0), Address(Region.ACTIVATION, SIZE - 40), 40
    )


def test_buffers_of_earlier_layers_make_room() -> None:
    made = placer(100)
    block = taken(made, SIZE - 60)
    made.pending_free.append([block])
    made.external("a")
    assert made.bring("a") is not None
    assert made.pending_free == []
    kept = placer(100)
    kept.pending_free.append([taken(kept, 60)])
    kept.external("a")
    kept.bring("a")
    assert len(kept.pending_free) == 1


def images(height: int, width: int, pitch: int = 0, **options: int) -> Placer:
    build = LayerBuilder(1)
    build.output(build.input("a", (1, height, width, 8), DType.INT8))
    memories = Memories(Arena(SIZE, 1), options.get("limit", SIZE))
    made = Placer(Tensors(build.graph, ONE_BANK), memories)
    if pitch:
        made.pitches["a"] = pitch
    made.external("a")
    return made


@pytest.mark.parametrize("pitch, bytes_", [(0, 5 * 48), (56, 5 * 56)])
def test_an_image_that_arrives_row_by_row(pitch: int, bytes_: int) -> None:
    """Rows may lie apart, which takes more memory."""
    made = images(5, 6, pitch)
    outside = made.placements["a"]
    assert made.bring_by_rows("a") == Arrival(outside, 48, 5)
    assert made.placements["a"] == resident(0, 5 * 48, pitch)
    assert made.arena.used() == [(0, bytes_)]
    assert made.bring_by_rows("a") is None
    assert images(5, 6, pitch, limit=bytes_).bring_by_rows("a") is not None
    assert images(5, 6, pitch, limit=bytes_ - 1).bring_by_rows("a") is None


def test_an_image_without_room_does_not_arrive() -> None:
    made = images(5, 6)
    taken(made, SIZE - 239)
    assert made.bring_by_rows("a") is None


# --- what a layer makes


@pytest.mark.parametrize(
    "limit, room, inside",
    [(100, 100, True), (99, SIZE, False), (100, 99, False)],
    ids=["fits", "limit", "room"],
)
def test_a_result_stays_inside(limit: int, room: int, inside: bool) -> None:
    made = placer(100, limit=limit)
    if room < SIZE:
        taken(made, SIZE - room)
    made.place_output("a", [])
    assert made.placements["a"].resident == inside
    assert made.memories.crowded != inside
    assert made.arena.largest_gap_bytes() == room - 100 * inside


@pytest.mark.parametrize(
    "operand, room, inside",
    [
        # What streams in has room for all of it, or for a quarter of the memory.
        (64, 100 + 64, True),
        (64, 100 + 63, False),
        (SIZE // 4 + 1, 100 + SIZE // 4, True),
        (SIZE // 4 + 1, 100 + SIZE // 4 - 1, False),
    ],
)
def test_a_result_leaves_room_for_what_streams(operand: int, room: int, inside: bool) -> None:
    made = placer(100, operand)
    made.external("b")
    taken(made, SIZE - room)
    made.place_output("a", ["b"])
    assert made.placements["a"].resident == inside
    assert made.arena.largest_gap_bytes() == room - 100 * inside


def test_operands_that_are_inside_do_not_stream() -> None:
    made = placer(100, SIZE // 2)
    made.external("b")
    made.bring("b")
    taken(made, SIZE // 2 - 100)
    made.place_output("a", ["b"])
    assert made.placements["a"].resident


def test_a_result_that_loads_bring_keeps_away_from_what_was_used() -> None:
    """In the last sixteen layers, or at least in the last four."""
    quarter = SIZE // 4
    made = placer(quarter, quarter)
    for first in (0, 1):
        block = taken(made, quarter)
        made.free_after(first, [])
        made.arena.free(block)
    made.place_output("a", [], ahead=True)
    assert made.placements["a"] == resident(quarter, quarter)
    # Without a place that nobody used it lies where it would else.
    full = placer(SIZE)
    block = taken(full, SIZE)
    full.free_after(0, [])
    full.arena.free(block)
    full.place_output("a", [], ahead=True)
    assert full.placements["a"] == resident(0, SIZE)


def test_older_layers_count_less() -> None:
    made = placer(64)
    half = SIZE // 2
    old, rest = taken(made, half), taken(made, half)
    made.free_after(0, [])
    made.arena.free(old)
    made.free_after(1, [])
    for index in range(2, 5):
        made.free_after(index, [])
    made.arena.free(rest)
    # All of it was used in the last sixteen layers; the first half not in the last four.
    made.place_output("a", [], ahead=True)
    assert made.placements["a"] == resident(0, 64)


def test_a_result_at_a_place_that_is_taken_over() -> None:
    made = placer(100)
    made.taken_over["a"] = resident(640, 100)
    made.take_over("a")
    made.place_output("a", [])
    assert made.placements["a"] == resident(640, 100) and made.arena.used() == []


@pytest.mark.parametrize("may_take, outside", [(False, False), (False, True), (True, False)])
def test_a_result_has_a_place_of_its_own_until_one_is_taken_over(may_take: bool, outside: bool) -> None:
    """Though it might take one over, or has been outside."""
    made = placer(100)
    if may_take:
        made.taken_over["a"] = resident(640, 100)
    if outside:
        made.external("a")
    made.place_output("a", [])
    assert made.placements["a"] == resident(0, 100) and made.arena.used() == [(0, 100)]


def test_a_result_without_reserve() -> None:
    for limit, room, found in ((100, 100, True), (99, 100, False), (100, 99, False)):
        made = placer(100, limit=limit)
        taken(made, SIZE - room)
        assert made.place_resident("a") == found
        assert ("a" in made.placements) == found


def test_what_passes_through_has_no_memory() -> None:
    made = placer(100)
    made.pass_through("a")
    assert made.placements["a"] == resident(0, 100) and made.arena.used() == []
    made.withdraw("a")
    assert "a" not in made.placements


@pytest.mark.parametrize("limit, room, inside", [(100, 100, True), (99, SIZE, False), (100, 99, False)])
def test_what_goes_round_a_loop(limit: int, room: int, inside: bool) -> None:
    """At the end of the memory, or outside."""
    made = placer(100, limit=limit)
    if room < SIZE:
        taken(made, SIZE - room)
    place = made.hold("a")
    assert place == (resident(SIZE - 100, 100) if inside else Placement(Address(Region.DATA, 0), 100))
    assert made.memories.crowded != inside


def test_parameters_lie_at_the_end_of_the_memory() -> None:
    made, source, noted = placer(), Address(Region.CONSTANTS, 64), list[int]()
    assert made.bring_constants(source, 40, noted) == Copy(source, Address(Region.ACTIVATION, SIZE - 40), 40)
    assert noted == [SIZE - 40]
    with pytest.raises(OutOfMemory, match=f"^{SIZE} bytes of parameters do not fit the activation memory$"):
        made.bring_constants(source, SIZE, noted)
    assert noted == [SIZE - 40]


def test_a_tensor_that_nobody_has_written() -> None:
    with pytest.raises(AssertionError, match="^tensor a is read before it is written$"):
        placer(100).locate("a")
    made = placer(w=40)
    assert made.locate("w") == made.locate("w") == Placement(Address(Region.CONSTANTS, 0), 40)


# --- life times


def living(uses: dict[str, int], reads: list[list[str]], **constants: int) -> Placer:
    """Tensors of 64 bytes, resident one behind the other."""
    made = placer(*[64] * 3, **constants)
    made.set_uses(uses, reads)
    for name in "abc":
        made.external(name)
        made.bring(name)
    return made


def test_tensors_die_with_the_last_layer_that_reads_them() -> None:
    made = living({"a": 0, "b": 1, "c": 1}, [["a"], ["b", "c"]])
    assert [made.dies_now(name) for name in "abc"] == [True, False, False]
    made.free_after(0, [])
    assert [made.dies_now(name) for name in "abc"] == [False, True, True]
    assert made.arena.used() == [(64, 128), (128, 192)] and "a" not in made.placements
    made.free_after(1, [])
    assert made.arena.used() == []


def test_parameters_stay_for_twelve_layers() -> None:
    made = living({}, [], w=32)
    made.set_uses({"w": 0}, [])
    made.bring("w")
    address = made.placements["w"].address.offset
    block = taken(made, 16)
    made.free_after(0, [block])
    assert "w" not in made.placements
    for index in range(1, 12):
        made.free_after(index, [])
        assert {address, block} <= {start for start, _ in made.arena.used()}
    made.free_after(12, [])
    assert {start for start, _ in made.arena.used()} == {0, 64, 128}


def test_what_the_graph_around_has_stays() -> None:
    made = living({"a": 0, "c": 0}, [])
    made.adopt("a", made.placements["a"])
    made.free_after(0, [])
    assert made.arena.used() == [(0, 64), (64, 128)]
    made.close()
    assert made.arena.used() == [(0, 64)]


def test_what_was_where() -> None:
    made = living({"a": 0, "b": 1, "c": 2}, [])
    block = taken(made, 32)
    for index in range(3):
        made.free_after(index, [block] if not index else [])
    made.release_pending()
    made.free_after(3, [])
    blocks = {(each.name, each.first_layer, each.last_layer) for each in made.memories.history.blocks()}
    assert blocks == {("a", 0, 0), ("b", 0, 1), ("c", 0, 2), ("parameters and buffers", 0, 2)}
    assert MemoryBlock("b", 64, 64, 0, 1) in made.memories.history.blocks()
    assert made.memories.last_used == []


# --- banks

FOUR_BANKS = get_config("small,am_banks=4")
BANK = FOUR_BANKS.am_bank_bytes


def test_results_lie_in_banks_of_their_own() -> None:
    """While that leaves nearly half of the memory in one piece."""
    made = placer(64, 64, 64, 64, config=FOUR_BANKS)
    for name in "abcd":
        made.place_output(name, [])
    assert [made.placements[name].address.offset for name in "abcd"] == [0, BANK, 2 * BANK, 64]


def test_results_lie_beside_those_that_nobody_reads_with_them() -> None:
    """Once every bank is in use."""
    made = placer(64, 64, 64, config=FOUR_BANKS)
    made.set_uses({}, [["b", "c"], ["a"]])
    made.adopt("b", resident(0, 64))
    made.arena.occupy([(0, 64)])
    for number in range(1, 4):
        made.adopt(f"other {number}", resident(BANK * number, 64))
    made.place_output("c", [])
    assert made.placements["c"].address.offset // BANK != 0
    made.place_output("a", [])
    assert made.placements["a"].address.offset == 64


def test_elements_that_the_memory_does_not_hold() -> None:
    build = LayerBuilder(1)
    build.input("x", (1, 4), DType.FP32)
    build.input("y", (1, 4), DType.INT48)
    tensors = Tensors(build.graph, ONE_BANK)
    with pytest.raises(
        UnsupportedError, match="cannot be in the accelerator's memory: its type does not run yet$"
    ):
        tensors.size_bytes("x")
    assert tensors.size_bytes("y") == 32
    narrow = Tensors(build.graph, get_config("nano"))
    with pytest.raises(UnsupportedError, match="has elements of 8 bytes on a 4-byte machine; "):
        narrow.size_bytes("y")
