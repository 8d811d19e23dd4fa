"""Emits GATHER and SCATTER: rows are copied by an indexed stream of the vector unit, at offsets that it computes.

The table lies in activation memory, whole or tile by tile. Where not even one bus word of each of its rows fits, a tile
holds a range of the rows with a spare row before and behind it, to which all indices outside the range lead: gathered
spare rows are zero, and the ranges' results are joined by OR; scattered rows are lost there."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from tosaic.compiler.emit.elementwise import emit_nest, filling
from tosaic.compiler.emit.emitter import Access, Dim, Emitter, Rows
from tosaic.compiler.emit.nest import Axis
from tosaic.compiler.emit.operands import Placement, StripeBuffer
from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.indexed import IndexedMove
from tosaic.compiler.fuse.microprogram import MicroProgram, assemble
from tosaic.compiler.place.memory import OutOfMemory
from tosaic.compiler.schedule.tracker import Space, Span
from tosaic.hw.isa import OFFSETS_MAX, STORE_STREAM, Element, Op

_MAX_ROWS = (1 << 16) - 1
_MIN_ROWS = 16
"""Smaller ranges of the table and blocks of the list would take ages; then rather let fewer tensors be resident."""


@dataclasses.dataclass(frozen=True)
class _Tile:
    """Sizes of the part of the table that is in memory at a time."""

    batches: int
    rows: int
    row_bytes: int
    spare: bool = False
    """There is a row before and one behind."""

    @property
    def bytes(self) -> int:
        return (self.batches * self.rows + 2 * self.spare) * self.row_bytes


@dataclasses.dataclass(frozen=True)
class _Part:
    """A tile at its place: what of the table it is, and the address of its first row."""

    batch: int
    batches: int
    row: int
    rows: int
    byte: int
    row_bytes: int
    address: int
    pitch: int
    spare: bool


@dataclasses.dataclass(frozen=True)
class _Block:
    """List rows of some batches: all of them, or some of one batch."""

    batch: int
    batches: int
    row: int
    rows: int


class IndexedKernel:
    """One GATHER or SCATTER. `placements` are those of its tensors by storage name, `size` the bytes of an element."""

    def __init__(
        self,
        emitter: Emitter,
        placements: dict[str, Placement],
        storage: dict[str, str],
        size: int,
        allocate: Callable[[int], int | None],
        free: Callable[[int], None],
    ):
        self.emitter, self.placements, self.storage, self.size = emitter, placements, storage, size
        self.allocate, self.free = allocate, free
        self.columns = emitter.config.columns
        self.taken: list[int] = []
        self._batch_offsets_there = False
        self._constants: dict[bytes, int] = {}
        """Places of constant offsets in external memory: blocks often have the same."""

    def emit(self, move: IndexedMove, output: str) -> list[int]:
        """Emits everything; the addresses of buffers, to be freed afterwards. OutOfMemory when none fit."""
        self.move, self.row_bytes = move, move.row_elements * self.size
        self.values = self.placements[self.storage[move.values]]
        self.output = self.placements[self.storage[output]]
        self.list = self.placements[self.storage[move.input]] if move.input is not None else self.output
        self.table = self.output if move.scatters else self.values
        self._reserve()
        for part in self._parts():
            if move.scatters:
                self._scatter(part)
            else:
                self._gather(part)
        return self.taken

    # --- memory

    def _reserve(self) -> None:
        """Takes buffers: of the table's tiles the largest that fit."""
        move = self.move
        # Offsets that are computed at once: four buffers of them are an eighth of the memory at most.
        self.chunk_rows = min(OFFSETS_MAX, self.emitter.config.am_bytes // 128)
        chunk = 4 * min(self.chunk_rows, move.batches * move.count)
        self.offsets = StripeBuffer([self._take(chunk), self._take(chunk)], chunk)
        run_time = move.constant is None
        if run_time and not self.placements[self.storage[move.indices]].resident:
            self.indices: StripeBuffer | None = StripeBuffer([self._take(chunk), self._take(chunk)], chunk)
        else:
            self.indices = None
        self.batch_offsets = self._take(4 * self._batches_at_once()) if run_time else 0
        whole = _Tile(move.batches, move.table_rows, self.row_bytes)
        for tile in [whole] if self.table.resident else self._tiles():
            if self._try(tile):
                break
        else:
            raise OutOfMemory(
                f"{move.operator}: {_MIN_ROWS} rows of one bus word of its table and its list do not fit the "
                "activation memory"
            )
        self.tile = tile
        if tile.spare and not move.scatters:
            for row in (0, tile.rows + 1):
                self._fill(self.tile_address + row * tile.row_bytes, tile.row_bytes)

    def _take(self, size: int) -> int:
        address = self.allocate(size)
        if address is None:
            for other in self.taken:
                self.free(other)
            raise OutOfMemory(
                f"{self.move.operator}: {size} bytes of offsets do not fit the activation memory"
            )
        self.taken.append(address)
        return address

    def _tiles(self) -> Iterator[_Tile]:
        """Fewer batches, then fewer bytes of each row down to one bus word, then fewer rows."""
        move, batches = self.move, self.move.batches
        while batches > 1:
            yield _Tile(batches, move.table_rows, self.row_bytes)
            batches = -(-batches // 2)
        row_bytes, word = self.row_bytes, min(self.columns, self.row_bytes)
        while row_bytes > word:
            yield _Tile(1, move.table_rows, row_bytes)
            row_bytes = -(-row_bytes // 2 // word) * word
        yield _Tile(1, move.table_rows, word)
        rows = move.table_rows
        while rows > _MIN_ROWS:
            rows = -(-rows // 2)
            yield _Tile(1, rows, word, spare=True)

    def _try(self, tile: _Tile) -> bool:
        """Takes memory for a tile and the longest blocks of list rows that then fit."""
        taken = []
        if not self.table.resident:
            address = self.allocate(tile.bytes + self.columns)
            if address is None:
                return False
            taken.append(address)
            self.tile_address = address
        all_rows = rows = tile.batches * self.move.count
        self.block_rows, self.blocks = rows, None
        if self.list.resident:
            self.taken += taken
            return True
        smallest = min(rows, _MIN_ROWS)
        while True:
            size, copies = rows * tile.row_bytes + self.columns, 1 if rows == all_rows else 2
            found = [self.allocate(size) for _ in range(copies)]
            addresses = [address for address in found if address is not None]
            if len(addresses) == copies:
                self.block_rows, self.blocks = rows, StripeBuffer(addresses, size)
                self.taken += [*taken, *addresses]
                return True
            for address in addresses:
                self.free(address)
            if rows == smallest:
                break
            rows = max(smallest, rows // 2)
        for address in taken:
            self.free(address)
        return False

    def _batches_at_once(self) -> int:
        """Batches whose offsets are computed together."""
        return max(1, min(self.move.batches, self.chunk_rows // self.move.count))

    # --- parts of the table

    def _parts(self) -> Iterator[_Part]:
        move, tile = self.move, self.tile
        address, pitch = self.table.address, self.row_bytes
        if not self.table.resident:
            address, pitch = self.tile_address + tile.spare * tile.row_bytes, tile.row_bytes
        for batch in range(0, move.batches, tile.batches):
            batches = min(tile.batches, move.batches - batch)
            for byte in range(0, self.row_bytes, tile.row_bytes):
                row_bytes = min(tile.row_bytes, self.row_bytes - byte)
                rows = (batch, batches, 0, tile.rows)
                yield _Part(*rows, byte, row_bytes, address, pitch, tile.spare)

    def _ranges(self, part: _Part) -> Iterator[_Part]:
        """The ranges of rows of a part, where a tile does not hold all."""
        for row in range(0, self.move.table_rows, part.rows):
            rows = min(part.rows, self.move.table_rows - row)
            yield dataclasses.replace(part, row=row, rows=rows)

    def _table_rows(self, part: _Part, tensor: Placement) -> tuple[list[Rows], Span, Span]:
        """The transfers between a part and its place in external memory, and what they span there and here."""
        first = (part.batch * self.move.table_rows + part.row) * self.row_bytes
        count = part.batches * part.rows
        rows = self._rows(tensor.address + first + part.byte, part.address, part.pitch, part.row_bytes, count)
        outside = tensor.address + first
        return (
            rows,
            Span(Space.DRAM, outside, outside + count * self.row_bytes),
            Span(Space.AM, part.address, part.address + count * part.pitch),
        )

    def _rows(self, memory: int, address: int, pitch: int, row_bytes: int, count: int) -> list[Rows]:
        if row_bytes == self.row_bytes == pitch:
            return [Rows(memory, 0, address, 0, count * row_bytes, 1)]
        return [
            Rows(
                memory + i * self.row_bytes,
                self.row_bytes,
                address + i * pitch,
                pitch,
                row_bytes,
                min(_MAX_ROWS, count - i),
            )
            for i in range(0, count, _MAX_ROWS)
        ]

    # --- the two operators

    def _gather(self, part: _Part) -> None:
        whole = part.rows == self.move.table_rows
        if whole and not self.table.resident:
            self.emitter.gather(*self._table_rows(part, self.values))
        for block in self._list_blocks(part):
            address, pitch = self._list_place(part, block)
            for current in [part] if whole else self._ranges(part):
                if not whole:
                    self.emitter.gather(*self._table_rows(current, self.values))
                self._copy_rows(current, block, address, pitch, join=current.row > 0)
            if self.blocks is not None:
                rows, memory, local = self._list_rows(part, block, address)
                self.emitter.scatter(rows, memory, local)

    def _scatter(self, part: _Part) -> None:
        for current in self._ranges(part):
            self._copy_table(current)
            for block in self._list_blocks(part):
                address, pitch = self._list_place(part, block)
                if self.blocks is not None:
                    self.emitter.gather(*self._list_rows(part, block, address))
                self._copy_rows(current, block, address, pitch)
            if not self.table.resident:
                rows, memory, local = self._table_rows(current, self.output)
                self.emitter.scatter(rows, memory, local)

    def _copy_table(self, part: _Part) -> None:
        """Fills a part of SCATTER's table with its rows of values_in."""
        if not self.values.resident:
            self.emitter.gather(*self._table_rows(part, self.values))
            return
        first = (part.batch * self.move.table_rows + part.row) * self.row_bytes + part.byte
        axes = [Axis(part.batches * part.rows, (self.row_bytes, part.pitch)), Axis(part.row_bytes, (1, 1))]
        program = assemble(Load(self.move.values, Element.INT8), self.emitter.config)
        emit_nest(self.emitter, program, axes, [self.values.address + first, part.address], (1, 1))

    def _fill(self, address: int, size: int) -> None:
        emit_nest(self.emitter, filling(0, self.emitter.config), [Axis(size, (1,))], [address], (1,))

    # --- the list

    def _list_blocks(self, part: _Part) -> Iterator[_Block]:
        """Blocks of at most `block_rows` list rows of a part's batches."""
        count = self.move.count
        batches, rows = max(1, self.block_rows // count), min(self.block_rows, count)
        for batch in range(part.batch, part.batch + part.batches, batches):
            for row in range(0, count, rows):
                yield _Block(
                    batch, min(batches, part.batch + part.batches - batch), row, min(rows, count - row)
                )

    def _list_place(self, part: _Part, block: _Block) -> tuple[int, int]:
        """Address of a block's first row, and bytes from row to row."""
        if self.blocks is not None:
            return self.blocks.next(), part.row_bytes
        return self.list.address + self._list_offset(part, block), self.row_bytes

    def _list_offset(self, part: _Part, block: _Block) -> int:
        return (block.batch * self.move.count + block.row) * self.row_bytes + part.byte

    def _list_rows(self, part: _Part, block: _Block, address: int) -> tuple[list[Rows], Span, Span]:
        outside, count = self.list.address + self._list_offset(part, block), block.batches * block.rows
        rows = self._rows(outside, address, part.row_bytes, part.row_bytes, count)
        return (
            rows,
            Span(Space.DRAM, outside, outside + count * self.row_bytes),
            Span(Space.AM, address, address + count * part.row_bytes),
        )

    # --- vector unit

    def _copy_rows(self, part: _Part, block: _Block, address: int, pitch: int, join: bool = False) -> None:
        """Copies between a part of the table and a block of the list at `address`."""
        constant = self.move.constant
        if constant is not None and len(constant) == 1:
            # The same offsets for every batch: the batches are one more dimension.
            for first in range(0, block.rows, self.chunk_rows):
                count = min(self.chunk_rows, block.rows - first)
                offsets = self._constant_offsets(part, block.batch, 1, block.row + first, count)
                table = self._batch_address(part, block.batch)
                batches = block.batches
                self._copy(part, table, address + first * pitch, pitch, offsets, count, join, batches)
            return
        batches = max(1, min(block.batches, self.chunk_rows // block.rows))
        for batch in range(block.batch, block.batch + block.batches, batches):
            together = min(batches, block.batch + block.batches - batch)
            for first in range(0, block.rows, self.chunk_rows):
                count = min(self.chunk_rows, block.rows - first)
                if constant is not None:
                    offsets = self._constant_offsets(part, batch, together, block.row + first, count)
                else:
                    offsets = self._computed_offsets(part, batch, together, block.row + first, count)
                rows = (batch - block.batch) * block.rows + first
                table = self._batch_address(part, batch)
                self._copy(part, table, address + rows * pitch, pitch, offsets, together * count, join)

    def _batch_address(self, part: _Part, batch: int) -> int:
        return part.address + (batch - part.batch) * part.rows * part.pitch

    def _copy(
        self,
        part: _Part,
        table: int,
        address: int,
        pitch: int,
        offsets: int,
        count: int,
        join: bool,
        batches: int = 1,
    ) -> None:
        """One GO: `count` rows of every batch, by the offsets at an address of the activation memory."""
        vectors = -(-part.row_bytes // self.columns)
        tail = part.row_bytes - (vectors - 1) * self.columns
        along = Dim(vectors, self.columns)
        batch_bytes = part.rows * part.pitch
        indexed = Access(table, Element.INT8, (along, Dim(count, 0), Dim(batches, batch_bytes)), indexed=True)
        # The list's batches follow each other only where all their rows are in the block.
        dense = Access(
            address, Element.INT8, (along, Dim(count, pitch), Dim(batches, self.move.count * pitch))
        )
        start = part.address - part.spare * part.pitch
        end = part.address + (part.batches * part.rows + part.spare) * part.pitch
        table_span = Span(Space.AM, start, end)
        list_end = address + ((batches - 1) * self.move.count + count) * pitch
        list_span = Span(Space.AM, address, list_end)
        scatters = self.move.scatters
        read, written = (list_span, table_span) if scatters else (table_span, list_span)
        # The last row's read may go beyond it.
        read = dataclasses.replace(read, end=read.end + self.columns)
        if scatters:
            program, streams = _moving(self.emitter), {0: dense, STORE_STREAM: indexed}
        elif join:
            program, streams = _joining(self.emitter), {0: indexed, 1: dense, STORE_STREAM: dense}
        else:
            program, streams = _moving(self.emitter), {0: indexed, STORE_STREAM: dense}
        self.emitter.vector(
            program,
            streams,
            vectors=vectors * count * batches,
            slots=self.emitter.config.vector_slots,
            lanes=self.columns if vectors > 1 else tail,
            tail_lanes=tail,
            reads=[read],
            writes=[written],
            offsets=(offsets, count),
        )

    def _constant_offsets(self, part: _Part, batch: int, batches: int, row: int, count: int) -> int:
        """Brings offsets of constant indices; their address."""
        constant = self.move.constant
        assert constant is not None
        chosen = constant[batch : batch + batches] if len(constant) > 1 else constant
        rows = np.clip(chosen[:, row : row + count] - part.row, -part.spare, part.rows - 1 + part.spare)
        rows = rows + np.arange(batches)[:, None] * part.rows
        values = (rows * part.pitch).astype("<i4").tobytes()
        address = self.offsets.next()
        if values not in self._constants:
            self._constants[values] = self.emitter.add_constant(values)
        self.emitter.load(self._constants[values], address, len(values))
        return address

    def _computed_offsets(self, part: _Part, batch: int, batches: int, row: int, count: int) -> int:
        """Computes offsets of run-time indices; their address."""
        name = self.storage[self.move.indices]
        place, size = self.placements[name], 4 * batches * count
        source = place.address + 4 * (batch * self.move.count + row)
        if self.indices is not None:
            buffer = self.indices.next()
            self.emitter.load(source, buffer, size)
            source = buffer
        address = self.offsets.next()
        value: Value = Node(Op.MOV, Load(name, Element.INT32), clamp=(0, self.move.table_rows - 1))
        if part.spare:
            value = Node(Op.SUB, value, Immediate(part.row), clamp=(-1, part.rows))
        value = Node(Op.MUL, value, Immediate(part.pitch))
        if batches > 1:
            self._bring_batch_offsets(part)
            value = Node(Op.ADD, value, Load("offsets of batches", Element.INT32))
            axes = [Axis(batches, (4 * count, 4, 4 * count)), Axis(count, (4, 0, 4))]
            addresses = [source, self.batch_offsets, address]
        else:
            axes, addresses = [Axis(count, (4, 4))], [source, address]
        program = assemble(value, self.emitter.config)
        emit_nest(self.emitter, program, axes, addresses, (4,) * len(addresses))
        return address

    def _bring_batch_offsets(self, part: _Part) -> None:
        """Offsets of each batch's first row behind that of the first batch; the same for all parts."""
        if not self._batch_offsets_there:
            step = part.rows * part.pitch
            values = (np.arange(self._batches_at_once()) * step).astype("<i4").tobytes()
            self.emitter.load(self.emitter.add_constant(values), self.batch_offsets, len(values))
            self._batch_offsets_there = True


def _moving(emitter: Emitter) -> MicroProgram:
    return assemble(Load("rows", Element.INT8), emitter.config)


def _joining(emitter: Emitter) -> MicroProgram:
    """Rows of the table, joined with what earlier ranges put into the list."""
    value = Node(Op.OR, Load("rows", Element.INT8), Load("joined", Element.INT8))
    return assemble(value, emitter.config)
