"""GATHER and SCATTER as they are emitted, part by part: what is executed is NumPy's result, and each piece of work
tells what it touches. The parts' sizes are given here; tile/gather_scatter.py chooses them for a machine."""

import dataclasses
import itertools

import numpy as np
import pytest
from executed_work import Machine, gos

from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.emitter import MAX_ROWS, Emitter
from tosaic.compiler.emit.gather_scatter import GatherScatterEmission
from tosaic.compiler.emit.table_offsets import TableOffsets
from tosaic.compiler.emit.table_part import ListBlock, TablePart
from tosaic.compiler.emit.vector_go import Entries
from tosaic.compiler.fuse.indexed import IndexedMove
from tosaic.compiler.ir import Operator
from tosaic.compiler.place.address import Address, Region, activation_span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.placement import Buffer, Placement, resident
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan, TableTile
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import STORE_STREAM, Opcode, Unit

CONFIG = get_config("small")
WORD = CONFIG.columns
OUTSIDE = {"values": 0, "list": 0x1000, "output": 0x2000, "indices": 0x3000}
INSIDE = {"values": 0x2000, "list": 0x2800, "output": 0x3000, "indices": 0x3800}
OFFSETS, INDICES, BATCH_OFFSETS, TILE, BLOCKS = 0, 0x400, 0x800, 0x900, 0x1100


@dataclasses.dataclass
class Case:
    """Sizes of a move, and what of it lies in activation memory."""

    batches: int = 2
    rows: int = 6
    count: int = 5
    row_bytes: int = 12
    scatters: bool = False
    constant: str = "own"
    """The batches' "own" indices, the "same" for all, or "none": they are computed."""
    inside: tuple[str, ...] = ()
    tile: tuple[int, int, int] | None = None
    """Batches, rows, and bytes of a row; None: the whole table."""
    spare: bool = False
    block_rows: int = 100
    blocks: int = 2
    chunk_rows: int = 100

    @property
    def table(self) -> str:
        return "output" if self.scatters else "values"

    @property
    def list(self) -> str:
        return "list" if self.scatters else "output"

    def indices(self, dice: np.random.Generator) -> np.ndarray:
        if self.scatters:
            found = np.stack([dice.permutation(self.rows)[: self.count] for _ in range(self.batches)])
        else:
            found = dice.integers(0, self.rows, (self.batches, self.count))
        return np.repeat(found[:1], self.batches, axis=0) if self.constant == "same" else found

    def plan(self, indices: np.ndarray) -> GatherScatterPlan:
        constant = {"own": indices, "same": indices[:1], "none": None}[self.constant]
        move = IndexedMove(
            Operator("SCATTER" if self.scatters else "GATHER", [], []),
            "values",
            "indices",
            "list" if self.scatters else None,
            self.batches,
            self.rows,
            self.count,
            self.row_bytes,
            constant,
        )
        whole = (self.batches, self.rows, self.row_bytes)
        tile = TableTile(*(self.tile or whole), spare=self.spare)
        return GatherScatterPlan(
            move=move,
            row_bytes=self.row_bytes,
            values=self.place("values"),
            output=self.place("output"),
            rows=self.place(self.list),
            indices=self.place("indices") if constant is None else None,
            chunk_rows=self.chunk_rows,
            offsets=Buffer((OFFSETS, OFFSETS + 0x200), 0x200),
            index_buffer=None if "indices" in self.inside else Buffer((INDICES, INDICES + 0x200), 0x200),
            batch_offsets=BATCH_OFFSETS,
            tile=tile,
            tile_address=None if self.table in self.inside else TILE,
            block_rows=min(self.block_rows, tile.batches * self.count),
            blocks=None
            if self.list in self.inside
            else Buffer(tuple(BLOCKS + 0x400 * number for number in range(self.blocks)), 0x400),
        )

    def place(self, name: str) -> Placement:
        size = self.batches * (self.count if name == self.list else self.rows) * self.row_bytes
        if name in self.inside:
            return resident(INSIDE[name], size)
        return Placement(Address(Region.DATA, OUTSIDE[name]), size)


def planned(case: Case, indices: np.ndarray) -> list[Work]:
    """The work, not executed."""
    emitter = Emitter(CONFIG, ExternalMemory())
    GatherScatterEmission(emitter, case.plan(indices)).emit()
    return emitter.blocks.current.work


def emitted(case: Case) -> tuple[list[Work], Machine, np.ndarray, np.ndarray]:
    """The work, executed; the result in memory and the one that is right."""
    dice = np.random.default_rng(3)
    indices = case.indices(dice)
    external = ExternalMemory()
    emitter = Emitter(CONFIG, external)
    GatherScatterEmission(emitter, case.plan(indices)).emit()
    works, machine = emitter.blocks.current.work, Machine(CONFIG, external)
    machine.activations[:] = 0xEE
    counts = {"values": case.rows, "list": case.count}
    tensors = {
        name: dice.integers(0, 256, (case.batches, counts[name], case.row_bytes)).astype(np.uint8)
        for name in counts
    }
    for name, tensor in (*tensors.items(), ("indices", indices.astype("<i4"))):
        raw = np.frombuffer(np.ascontiguousarray(tensor).tobytes(), np.uint8)
        memory, places = (machine.activations, INSIDE) if name in case.inside else (machine.data, OUTSIDE)
        memory[places[name] : places[name] + len(raw)] = raw
    machine.run(works)
    wanted = tensors["values"].copy()
    for batch in range(case.batches):
        if case.scatters:
            wanted[batch, indices[batch]] = tensors["list"][batch]
    if not case.scatters:
        wanted = np.stack([tensors["values"][batch, indices[batch]] for batch in range(case.batches)])
    memory, places = (machine.activations, INSIDE) if "output" in case.inside else (machine.data, OUTSIDE)
    found = memory[places["output"] : places["output"] + wanted.size].reshape(wanted.shape)
    return works, machine, found, wanted


TILES = [
    {},
    dict(tile=(1, 6, 12)),
    dict(tile=(2, 6, 8)),
    dict(tile=(1, 6, 8)),
    dict(tile=(1, 3, 8), spare=True),
    dict(tile=(1, 2, 8), spare=True),
    dict(tile=(1, 4, 12), spare=True),
]
BLOCK_ROWS = [dict(), dict(block_rows=5), dict(block_rows=3), dict(block_rows=2, blocks=1)]


@pytest.mark.parametrize("scatters", [False, True])
@pytest.mark.parametrize("constant", ["own", "same", "none"])
@pytest.mark.parametrize("tile", TILES)
def test_any_parts_give_the_same_result(scatters: bool, constant: str, tile: dict) -> None:
    for blocks, chunk_rows in itertools.product(BLOCK_ROWS, (100, 3)):
        case = Case(scatters=scatters, constant=constant, chunk_rows=chunk_rows, **tile, **blocks)
        _, _, found, wanted = emitted(case)
        np.testing.assert_array_equal(found, wanted, str(case))


@pytest.mark.parametrize("scatters", [False, True])
@pytest.mark.parametrize("constant", ["own", "same", "none"])
@pytest.mark.parametrize("row_bytes", [3, 8, 20])
def test_tensors_that_are_there(scatters: bool, constant: str, row_bytes: int) -> None:
    """Nothing is transferred but offsets."""
    names = ("values", "list", "output", "indices")
    for number in (0, 1, 2, 4, 8, 15):
        inside = tuple(name for bit, name in enumerate(names) if number >> bit & 1)
        case = Case(3, 7, 4, row_bytes, scatters, constant, inside)
        works, _, found, wanted = emitted(case)
        np.testing.assert_array_equal(found, wanted, str(case))
        if number == 15:
            loaded = [work.reads[0].region for work in works if work.unit is Unit.LOAD]
            assert set(loaded) == {Region.CONSTANTS}
            assert not any(work.unit is Unit.STORE for work in works)


def test_work_of_a_gather_of_a_whole_table() -> None:
    """Two batches of six rows of 12 bytes come at once, and with offsets of both batches their rows are copied by one
    GO: two vectors of a row, of 8 and of 4 lanes."""
    works, *_ = emitted(Case())
    table, offsets, copy, store = works
    assert [work.unit for work in works] == [Unit.LOAD, Unit.LOAD, Unit.VECTOR, Unit.STORE]
    assert table.reads == [Address(Region.DATA, 0).span(144)]
    assert table.writes == [activation_span(TILE, TILE + 144)]
    assert offsets.writes == [activation_span(OFFSETS + 0x200, OFFSETS + 0x200 + 40)]
    block = BLOCKS + 0x400
    # The read of the last word goes up to a word beyond the table.
    assert copy.reads == [activation_span(TILE, TILE + 144 + WORD), *offsets.writes]
    assert copy.writes == [activation_span(block, block + 120)]
    assert store.reads == copy.writes
    assert store.writes == [Address(Region.DATA, OUTSIDE["output"]).span(120)]
    (whole, _, go, out) = gos(works)
    assert (whole.row_bytes, whole.rows, out.row_bytes, out.rows) == (144, 1, 120, 1)
    assert (go.vectors, go.slots, go.lanes, go.tail_lanes) == (20, 16, 8, 4)
    dims = {
        (item.instruction.stream, item.instruction.pair): item.instruction
        for item in copy.configuration
        if item.instruction.opcode == Opcode.VECTOR_DIMS
    }
    indexed, dense = dims[0, 0], dims[STORE_STREAM, 0]
    assert (indexed.count_low, indexed.stride_low, indexed.count_high) == (2, 8, 10)
    assert (dense.count_low, dense.stride_low, dense.count_high, dense.stride_high) == (2, 8, 10, 12)


def test_the_same_offsets_for_all_batches_take_one_go_with_a_dimension_of_batches() -> None:
    """The list's batches are 5 rows of 12 bytes apart, the table's 6."""
    works, *_ = emitted(Case(constant="same", chunk_rows=3, inside=("values", "output")))
    copies = [work for work in works if work.unit is Unit.VECTOR]
    assert [go.vectors for go in gos(copies)] == [2 * 3 * 2, 2 * 2 * 2]
    start = INSIDE["output"]
    assert [copy.writes for copy in copies] == [
        [activation_span(start, start + 60 + 36)],
        [activation_span(start + 36, start + 36 + 60 + 24)],
    ]
    strides = [
        item.instruction.stride_low
        for item in copies[0].configuration
        if item.instruction.opcode == Opcode.VECTOR_DIMS and item.instruction.pair == 1
    ]
    assert strides == [72, 60]


def test_lanes_of_rows_that_are_shorter_than_a_word() -> None:
    works, *_ = emitted(Case(row_bytes=3))
    (go,) = gos(work for work in works if work.unit is Unit.VECTOR)
    assert (go.vectors, go.lanes, go.tail_lanes) == (10, 3, 3)


def test_ranges_of_rows_are_joined_and_spare_rows_are_zero() -> None:
    """Three ranges of two rows with a spare row before and after them; those of a gather are filled once."""
    works, *_ = emitted(Case(batches=1, tile=(1, 2, 8), row_bytes=8, spare=True))
    filled, rows = works[:2], [TILE, TILE + 3 * 8]
    assert [work.writes for work in filled] == [[activation_span(row, row + 8)] for row in rows]
    loads = [work for work in works if work.unit is Unit.LOAD and work.reads[0].region is Region.DATA]
    assert [work.reads[0].start for work in loads] == [0, 16, 32]
    assert [work.writes for work in loads] == [[activation_span(TILE + 8, TILE + 24)]] * 3
    copies = [work for work in works[2:] if work.unit is Unit.VECTOR]
    # The first one copies; the others read what is there already, too.
    assert [go.uops for go in gos(copies)] == [1, 2, 2]
    assert all(copy.reads[0] == activation_span(TILE, TILE + 32 + WORD) for copy in copies)
    scattered, *_ = emitted(Case(batches=1, tile=(1, 2, 8), row_bytes=8, spare=True, scatters=True))
    assert scattered[0].unit is Unit.LOAD
    copies = [work for work in scattered if work.unit is Unit.VECTOR]
    assert [copy.writes for copy in copies] == [[activation_span(TILE, TILE + 32)]] * 3


def test_bytes_of_rows_are_transferred_with_pitches() -> None:
    """Bytes 0 to 8 and 8 to 12 of 12 rows; between them what is told is the rows of all bytes."""
    works, *_ = emitted(Case(tile=(2, 6, 8)))
    loads = [work for work in works if work.unit is Unit.LOAD and work.reads[0].region is Region.DATA]
    assert [(load.reads[0].start, load.reads[0].end) for load in loads] == [(0, 144)] * 2
    assert [load.writes for load in loads] == [[activation_span(TILE, TILE + 96)]] * 2
    assert [(go.row_bytes, go.rows, go.local_address) for go in gos(loads)] == [(8, 12, TILE), (4, 12, TILE)]
    pitches = [load.commands[0].instruction.fields for load in loads]
    assert [(each["memory_pitch"], each["local_pitch"]) for each in pitches] == [(12, 8)] * 2
    assert [load.commands[1].address for load in loads] == [Address(Region.DATA, byte) for byte in (0, 8)]
    stores = [work for work in works if work.unit is Unit.STORE]
    # Two blocks of the list take turns: rows of 8 bytes, then of 4.
    first, second = BLOCKS + 0x400, BLOCKS
    assert [store.reads for store in stores] == [
        [activation_span(first, first + 80)],
        [activation_span(second, second + 40)],
    ]


@pytest.mark.parametrize("rows, counts", [(MAX_ROWS, [MAX_ROWS]), (MAX_ROWS + 1, [MAX_ROWS, 1])])
@pytest.mark.parametrize("tile_bytes", [8, 12])
def test_rows_of_a_transfer(rows: int, counts: list[int], tile_bytes: int) -> None:
    """There are as many as a field holds; those that lie densely are one row."""
    case = Case(batches=1, rows=rows, count=1, row_bytes=12, tile=(1, rows, tile_bytes))
    works = planned(case, np.zeros((1, 1), np.int64))
    loads = [go for go in gos(works) if go.opcode is Opcode.LOAD_GO and go.local_address >= TILE]
    if tile_bytes == 12:
        assert [(go.row_bytes, go.rows, go.local_address) for go in loads] == [(12 * rows, 1, TILE)]
        return
    assert [(go.row_bytes, go.rows, go.local_address) for go in loads] == [
        (size, count, TILE + 8 * MAX_ROWS * number) for size in (8, 4) for number, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    "block_rows, tile, blocks",
    [
        (15, 3, [(0, 3, 0, 5)]),
        (14, 3, [(0, 2, 0, 5), (2, 1, 0, 5)]),
        (10, 3, [(0, 2, 0, 5), (2, 1, 0, 5)]),
        (9, 3, [(0, 1, 0, 5), (1, 1, 0, 5), (2, 1, 0, 5)]),
        (5, 1, [(batch, 1, 0, 5) for batch in range(3)]),
        (4, 1, [(batch, 1, row, rows) for batch in range(3) for row, rows in ((0, 4), (4, 1))]),
        (2, 1, [(batch, 1, row, rows) for batch in range(3) for row, rows in ((0, 2), (2, 2), (4, 1))]),
    ],
)
def test_blocks_of_the_list(block_rows: int, tile: int, blocks: list[tuple[int, ...]]) -> None:
    """(First batch, batches, first row, rows) of what is stored at once."""
    case = Case(batches=3, block_rows=block_rows, tile=(tile, 6, 12))
    works = planned(case, np.zeros((3, 5), np.int64))
    stores = [work.writes[0] for work in works if work.unit is Unit.STORE]
    output = Address(Region.DATA, OUTSIDE["output"])
    assert stores == [
        (output + 12 * (5 * batch + row)).span(12 * (5 * (batches - 1) + rows))
        for batch, batches, row, rows in blocks
    ]


def test_parts_of_a_table() -> None:
    """Three batches, two at a time, and rows of 20 bytes, 8 at a time."""
    case = Case(batches=3, row_bytes=20, tile=(2, 6, 8))
    works = planned(case, np.zeros((3, 5), np.int64))
    loads = [work for work in works if work.unit is Unit.LOAD and work.reads[0].region is Region.DATA]
    found = [(go.row_bytes, go.rows) for go in gos(loads)]
    assert found == [(size, 6 * batches) for batches in (2, 1) for size in (8, 8, 4)]
    starts = [work.commands[-1].address for work in loads]
    assert starts == [Address(Region.DATA, 120 * batch + byte) for batch in (0, 2) for byte in (0, 8, 16)]


def test_rows_of_a_tile_between_spare_rows() -> None:
    """Six, four at a time."""
    case = Case(batches=1, row_bytes=8, tile=(1, 4, 8), spare=True)
    works = planned(case, np.zeros((1, 5), np.int64))
    loads = [work for work in works if work.unit is Unit.LOAD and work.reads[0].region is Region.DATA]
    assert [work.reads[0] for work in loads] == [
        Address(Region.DATA, 8 * row).span(8 * rows) for row, rows in ((0, 4), (4, 2))
    ]
    assert [work.writes[0].start for work in loads] == [TILE + 8] * 2


def test_offsets_lead_to_spare_rows_where_an_index_is_outside_the_range() -> None:
    """Rows 2 and 3 of 8 bytes each: index 1 leads to the row before, indices 4 and 5 to the one behind."""
    external, constant = ExternalMemory(), np.array([[0, 1, 2, 3, 4, 5]])
    case = Case(batches=1, count=6, row_bytes=8, tile=(1, 2, 8), spare=True)
    offsets = TableOffsets(Emitter(CONFIG, external), case.plan(constant))
    part = TablePart(0, 1, 2, 2, 0, 8, TILE + 8, 8, True)
    assert offsets.of(part, ListBlock(0, 1, 0, 6)) == Entries(OFFSETS + 0x200, 6)
    assert offsets.of(part, ListBlock(0, 1, 1, 3)) == Entries(OFFSETS, 3)
    assert offsets.of(part, ListBlock(0, 1, 0, 6)) == Entries(OFFSETS + 0x200, 6)
    raw = np.frombuffer(external.constants(), "<i4")
    # Equal ones lie there once, 64 bytes from the next.
    assert raw[:6].tolist() == [-8, -8, 0, 8, 16, 16]
    assert raw[16:19].tolist() == [-8, 0, 8]
    assert external.constants_bytes == 128


def test_offsets_of_batches_lie_one_after_the_other_in_the_table() -> None:
    external, constant = ExternalMemory(), np.array([[0, 5], [3, 1], [2, 2]])
    case = Case(batches=3, count=2, row_bytes=12)
    offsets = TableOffsets(Emitter(CONFIG, external), case.plan(constant))
    part = TablePart(0, 3, 0, 6, 0, 12, TILE, 12, False)
    assert offsets.of(part, ListBlock(1, 2, 0, 2)).count == 4
    assert np.frombuffer(external.constants(), "<i4")[:4].tolist() == [36, 12, 72 + 24, 72 + 24]


def test_offsets_of_batches_are_brought_once() -> None:
    """Where indices are computed, five batches of two: the first offsets of the four that fit a chunk of nine."""
    case = Case(batches=5, count=2, row_bytes=12, constant="none", chunk_rows=9)
    works, _, found, wanted = emitted(case)
    np.testing.assert_array_equal(found, wanted)
    brought = [work for work in works if work.writes == [activation_span(BATCH_OFFSETS, BATCH_OFFSETS + 16)]]
    assert len(brought) == 1 and brought[0].reads == [Address(Region.CONSTANTS, 0).span(16)]
    loaded = [
        go.row_bytes
        for go in gos(works)
        if hasattr(go, "space") and go.local_address >= INDICES and go.local_address < BATCH_OFFSETS
    ]
    assert loaded == [32, 8]


@pytest.mark.parametrize("scatters", [False, True])
@pytest.mark.parametrize("constant", ["own", "same", "none"])
def test_offsets_of_a_block_end_with_it(scatters: bool, constant: str) -> None:
    """Blocks of 5 of the 9 rows, and offsets of 3 of them at a time: none of the next block's."""
    case = Case(1, 12, 9, 8, scatters, constant, block_rows=5, chunk_rows=3)
    works, _, found, wanted = emitted(case)
    np.testing.assert_array_equal(found, wanted)
    # What reads or writes the table copies rows; others compute offsets.
    copies = [work for work in works if work.unit is Unit.VECTOR and _at_the_table(work)]
    assert [go.vectors for go in gos(copies)] == [3, 2, 3, 1]


def _at_the_table(work: Work) -> bool:
    return any(span.start == TILE for span in (*work.reads, *work.writes))
