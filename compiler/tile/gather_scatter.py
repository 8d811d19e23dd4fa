"""GATHER and SCATTER: the part of the table that is in activation memory at a time, and the buffers that this takes.

The table lies in activation memory, whole or tile by tile. Where not even one bus word of each of its rows fits, a tile
holds a range of the rows with a spare row before and after it, to which all indices outside the range lead."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from tosaic.compiler.cost.moves import TableDemand, table_cycles
from tosaic.compiler.fuse.indexed import IndexedMove
from tosaic.compiler.machine_numbers import INDEXED_LEAST_ROWS, OFFSETS_AM_PART, OTHER_BOXES_SHARE
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Buffer, BufferKey, Placement, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.tile.box_search import Room, cheapest, halved
from tosaic.hw.isa import OFFSETS_MAX, Element

OFFSET_BYTES = Element.INT32.bytes


@dataclasses.dataclass(frozen=True)
class TableTile:
    """Sizes of the part of the table that is in memory at a time."""

    batches: int
    rows: int
    row_bytes: int
    spare: bool = False
    """There is a row before and one after it."""

    @property
    def bytes(self) -> int:
        return (self.batches * self.rows + 2 * self.spare) * self.row_bytes


@dataclasses.dataclass(frozen=True)
class GatherScatterPlan:
    """A GATHER or SCATTER with everything it has in memory."""

    move: IndexedMove
    row_bytes: int
    values: Placement
    output: Placement
    rows: Placement
    """The list: GATHER's output, SCATTER's input."""
    indices: Placement | None
    """Where the indices are, when they are computed at run time."""
    chunk_rows: int
    """The largest number of offsets that are computed at a time."""
    offsets: Buffer
    index_buffer: Buffer | None
    """Brings indices in that are not resident."""
    batch_offsets: int
    """Activation-memory address of each batch's offset, when indices are computed at run time."""
    tile: TableTile
    tile_address: int | None
    """Address of the tile's first row; None: the table is resident."""
    block_rows: int
    """The largest number of list rows at a time."""
    blocks: Buffer | None
    """Holds list rows; None: the list is resident."""

    @property
    def table(self) -> Placement:
        return self.output if self.move.scatters else self.values

    @property
    def batches_at_once(self) -> int:
        """Batches whose offsets are computed together."""
        return max(1, min(self.move.batches, self.chunk_rows // self.move.count))

    def addresses(self) -> list[int]:
        """All buffers, to be freed afterwards."""
        buffers = [self.offsets, self.index_buffer, self.blocks]
        found = [address for buffer in buffers if buffer is not None for address in buffer.addresses]
        found += [self.batch_offsets] if self.indices is not None else []
        return found + ([self.tile_address] if self.tile_address is not None else [])


class GatherScatterPlanner:
    """Takes buffers for one GATHER or SCATTER: of the table's tiles the largest that fit."""

    def __init__(self, placer: Placer, move: IndexedMove, output: str):
        tensors, placements = placer.tensors, placer.placements
        self.placer, self.move = placer, move
        self.columns = placer.config.columns
        self.row_bytes = move.row_elements * tensors.element(output).bytes
        self.values = placements[tensors.storage[move.values]]
        self.output = placements[tensors.storage[output]]
        self.list = placements[tensors.storage[move.input]] if move.input is not None else self.output
        self.indices = placements[tensors.storage[move.indices]] if move.constant is None else None
        self.table = self.output if move.scatters else self.values
        self._taken: list[int] = []

    def plan(self) -> GatherScatterPlan:
        """Raises OutOfMemory when not even the smallest buffers fit."""
        move, config = self.move, self.placer.config
        chunk_rows = min(OFFSETS_MAX, config.am_bytes // OFFSETS_AM_PART)
        chunk = OFFSET_BYTES * min(chunk_rows, move.batches * move.count)
        offsets = Buffer((self._take(chunk), self._take(chunk)), chunk)
        index_buffer, batch_offsets = None, 0
        if self.indices is not None:
            if not self.indices.resident:
                index_buffer = Buffer((self._take(chunk), self._take(chunk)), chunk)
            batch_offsets = self._take(OFFSET_BYTES * max(1, min(move.batches, chunk_rows // move.count)))
        tile, tile_address, block_rows, blocks = self._tile()
        return GatherScatterPlan(
            move=move,
            row_bytes=self.row_bytes,
            values=self.values,
            output=self.output,
            rows=self.list,
            indices=self.indices,
            chunk_rows=chunk_rows,
            offsets=offsets,
            index_buffer=index_buffer,
            batch_offsets=batch_offsets,
            tile=tile,
            tile_address=tile_address,
            block_rows=block_rows,
            blocks=blocks,
        )

    def _take(self, size: int) -> int:
        address = self.placer.allocate(size, high=True)
        if address is None:
            self.placer.arena.give_back(self._taken)
            raise OutOfMemory(
                f"{self.move.operator}: {size} bytes of offsets do not fit the activation memory"
            )
        self._taken.append(address)
        return address

    def _tile(self) -> tuple[TableTile, int | None, int, Buffer | None]:
        """(tile, its address, list rows at a time, their buffer)."""
        cuts, room = _TableCuts(self), Room(self.placer.arena)
        if not room.turns_of(cuts.sizes(next(iter(next(cuts.rungs()))))):
            self.placer.release_pending()
        found = cheapest(cuts, room)
        if found is None:
            self.placer.arena.give_back(self._taken)
            raise OutOfMemory(
                f"{self.move.operator}: {INDEXED_LEAST_ROWS} rows of one bus word of its table and its list do not fit "
                "the activation memory"
            )
        (tile, rows), buffers = found.tiles, found.buffers
        table = buffers[_TABLE].addresses[0] if _TABLE in buffers else None
        return tile, table, rows, buffers.get(_LIST) or buffers.get(_WHOLE_LIST)


_TABLE, _LIST = BufferKey(Role.WHOLE, "table"), BufferKey(Role.OPERAND, "list")
_WHOLE_LIST = BufferKey(Role.WHOLE, "list")


class _TableCuts:
    """The parts of a table, and the numbers of list rows with each, that a GATHER or SCATTER may work on at a time."""

    clearly: ClassVar[float] = OTHER_BOXES_SHARE

    def __init__(self, planner: GatherScatterPlanner):
        self.planner, self.move, self.columns = planner, planner.move, planner.columns
        self.speed, self.row_bytes = planner.placer.memories.speed, planner.row_bytes
        self.config = planner.placer.config

    def rungs(self) -> Iterator[Iterator[tuple[TableTile, int]]]:
        for tile in self._tiles():
            yield ((tile, rows) for rows in self._rows(tile.batches * self.move.count))

    def _rows(self, rows: int) -> Iterator[int]:
        """Numbers of list rows, the largest first."""
        return halved(rows, rows if self.planner.list.resident else min(rows, INDEXED_LEAST_ROWS))

    def _tiles(self) -> Iterator[TableTile]:
        """Fewer batches, then fewer bytes of each row down to one bus word, then fewer rows."""
        move, batches = self.move, self.move.batches
        if self.planner.table.resident:
            yield TableTile(batches, move.table_rows, self.row_bytes)
            return
        while batches > 1:
            yield TableTile(batches, move.table_rows, self.row_bytes)
            batches = -(-batches // 2)
        row_bytes, word = self.row_bytes, min(self.columns, self.row_bytes)
        while row_bytes > word:
            yield TableTile(1, move.table_rows, row_bytes)
            row_bytes = -(-row_bytes // 2 // word) * word
        yield TableTile(1, move.table_rows, word)
        rows = move.table_rows
        while rows > INDEXED_LEAST_ROWS:
            rows = -(-rows // 2)
            yield TableTile(1, rows, word, spare=True)

    def sizes(self, tiles: tuple[TableTile, int]) -> Sizes:
        (tile, rows), sizes = tiles, Sizes()
        if not self.planner.table.resident:
            sizes[_TABLE] = tile.bytes + self.columns
        if not self.planner.list.resident:
            one = rows == tile.batches * self.move.count
            sizes[_WHOLE_LIST if one else _LIST] = rows * tile.row_bytes + self.columns
        return sizes

    def cycles(self, tiles: tuple[TableTile, int], sizes: Sizes, turns: int) -> float:
        return table_cycles(self._demand(*tiles), self.config, self.speed, doubled=turns > 1)

    def _demand(self, tile: TableTile, rows: int) -> TableDemand:
        move, whole = self.move, tile.row_bytes == self.row_bytes
        ranges = -(-move.table_rows // tile.rows)
        parts = -(-move.batches // tile.batches) * -(-self.row_bytes // tile.row_bytes)
        blocks = parts * -(-tile.batches * move.count // rows)
        return TableDemand(
            blocks,
            ranges,
            vectors=rows * -(-tile.row_bytes // self.columns) * ranges,
            # A range of rows comes for each block of the list.
            table_comes=ranges * (blocks if ranges > 1 else parts),
            table=None if self.planner.table.resident else (tile.batches * tile.rows, tile.row_bytes, whole),
            rows=None if self.planner.list.resident else (rows, tile.row_bytes, whole),
        )
