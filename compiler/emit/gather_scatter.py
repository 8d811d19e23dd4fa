"""Emits GATHER and SCATTER: rows are copied by an indexed stream of the vector unit, at offsets that it computes.

Where a tile of the table holds a range of the rows, gathered spare rows are zero, and the ranges' results are joined by
OR; rows that are scattered to spare rows are lost there."""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.emit.emitter import Emitter, RowCopies, Rows
from tosaic.compiler.emit.layer_emission import MAX_ROWS
from tosaic.compiler.emit.nest_go import GoNest, emit_gos, emit_nest, filling
from tosaic.compiler.emit.table_offsets import TableOffsets
from tosaic.compiler.emit.table_part import ListBlock, TablePart
from tosaic.compiler.emit.vector_go import Access, Dim, Entries, VectorGo
from tosaic.compiler.fuse.expression import Load, Node
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.place.address import Address, activation_span
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.loops import Axis
from tosaic.hw.isa import STORE_STREAM, Element, Op


@dataclasses.dataclass(frozen=True)
class _ListPlace:
    """Where rows of a block are in activation memory."""

    address: int
    pitch: int
    """Bytes from row to row."""


class GatherScatterEmission:
    """Emits one GATHER or SCATTER."""

    def __init__(self, emitter: Emitter, plan: GatherScatterPlan):
        self.emitter, self.plan, self.move = emitter, plan, plan.move
        self.columns, self.row_bytes = emitter.config.columns, plan.row_bytes
        self.offsets = TableOffsets(emitter, plan)
        self._turn = 0

    def emit(self) -> None:
        """Emits everything, part of the table by part."""
        plan = self.plan
        if plan.tile.spare and not self.move.scatters:
            assert plan.tile_address is not None
            for row in (0, plan.tile.rows + 1):
                self._fill(plan.tile_address + row * plan.tile.row_bytes, plan.tile.row_bytes)
        for part in self._parts():
            if self.move.scatters:
                self._scatter(part)
            else:
                self._gather(part)

    # --- parts of the table

    def _parts(self) -> Iterator[TablePart]:
        move, plan, tile = self.move, self.plan, self.plan.tile
        address, pitch = plan.table.address.offset, self.row_bytes
        if plan.tile_address is not None:
            address, pitch = plan.tile_address + tile.spare * tile.row_bytes, tile.row_bytes
        for batch in range(0, move.batches, tile.batches):
            batches = min(tile.batches, move.batches - batch)
            for byte in range(0, self.row_bytes, tile.row_bytes):
                row_bytes = min(tile.row_bytes, self.row_bytes - byte)
                yield TablePart(
                    batch=batch,
                    batches=batches,
                    row=0,
                    rows=tile.rows,
                    byte=byte,
                    row_bytes=row_bytes,
                    address=address,
                    pitch=pitch,
                    spare=tile.spare,
                )

    def _ranges(self, part: TablePart) -> Iterator[TablePart]:
        """The ranges of rows of a part, where a tile does not hold all."""
        for row in range(0, self.move.table_rows, part.rows):
            rows = min(part.rows, self.move.table_rows - row)
            yield dataclasses.replace(part, row=row, rows=rows)

    def _table_rows(self, part: TablePart, tensor: Placement) -> RowCopies:
        """The transfers between a part and its place in external memory."""
        first = (part.batch * self.move.table_rows + part.row) * self.row_bytes
        count = part.batches * part.rows
        outside = tensor.address + first
        rows = self._rows(outside + part.byte, part.address, part.pitch, part.row_bytes, count)
        here = activation_span(part.address, part.address + count * part.pitch)
        return RowCopies(rows, outside.span(count * self.row_bytes), here)

    def _rows(self, memory: Address, address: int, pitch: int, row_bytes: int, count: int) -> list[Rows]:
        if row_bytes == self.row_bytes == pitch:
            return [Rows(memory, 0, address, 0, count * row_bytes, 1)]
        return [
            Rows(
                memory + i * self.row_bytes,
                self.row_bytes,
                address + i * pitch,
                pitch,
                row_bytes,
                min(MAX_ROWS, count - i),
            )
            for i in range(0, count, MAX_ROWS)
        ]

    # --- the two operators

    def _gather(self, part: TablePart) -> None:
        whole, resident = part.rows == self.move.table_rows, self.plan.table.resident
        if whole and not resident:
            self.emitter.gather(self._table_rows(part, self.plan.values))
        for block in self._list_blocks(part):
            place = self._list_place(part, block)
            for current in [part] if whole else self._ranges(part):
                if not whole:
                    self.emitter.gather(self._table_rows(current, self.plan.values))
                self._copy_rows(current, block, place, join=current.row > 0)
            if self.plan.blocks is not None:
                self.emitter.scatter(self._list_rows(part, block, place))

    def _scatter(self, part: TablePart) -> None:
        for current in self._ranges(part):
            self._copy_table(current)
            for block in self._list_blocks(part):
                place = self._list_place(part, block)
                if self.plan.blocks is not None:
                    self.emitter.gather(self._list_rows(part, block, place))
                self._copy_rows(current, block, place)
            if not self.plan.table.resident:
                self.emitter.scatter(self._table_rows(current, self.plan.output))

    def _copy_table(self, part: TablePart) -> None:
        """Fills a part of SCATTER's table with its rows of values_in."""
        values = self.plan.values
        if not values.resident:
            self.emitter.gather(self._table_rows(part, values))
            return
        first = (part.batch * self.move.table_rows + part.row) * self.row_bytes + part.byte
        axes = [Axis(part.batches * part.rows, (self.row_bytes, part.pitch)), Axis(part.row_bytes, (1, 1))]
        program = assemble(Load(self.move.values, Element.INT8), self.emitter.config)
        addresses = [values.address.offset + first, part.address]
        emit_nest(self.emitter, GoNest(program, axes, addresses, (1, 1)))

    def _fill(self, address: int, size: int) -> None:
        nest = GoNest(filling(0, self.emitter.config), [Axis(size, (1,))], [address], (1,))
        emit_nest(self.emitter, nest)

    # --- the list

    def _list_blocks(self, part: TablePart) -> Iterator[ListBlock]:
        """Blocks of at most `block_rows` list rows of a part's batches."""
        count, most = self.move.count, self.plan.block_rows
        batches, rows = max(1, most // count), min(most, count)
        for batch in range(part.batch, part.batch + part.batches, batches):
            together = min(batches, part.batch + part.batches - batch)
            for row in range(0, count, rows):
                yield ListBlock(batch, together, row, min(rows, count - row))

    def _list_place(self, part: TablePart, block: ListBlock) -> _ListPlace:
        buffer = self.plan.blocks
        if buffer is not None:
            self._turn = (self._turn + 1) % len(buffer.addresses)
            return _ListPlace(buffer.addresses[self._turn], part.row_bytes)
        return _ListPlace(self.plan.rows.address.offset + self._list_offset(part, block), self.row_bytes)

    def _list_offset(self, part: TablePart, block: ListBlock) -> int:
        return (block.batch * self.move.count + block.row) * self.row_bytes + part.byte

    def _list_rows(self, part: TablePart, block: ListBlock, place: _ListPlace) -> RowCopies:
        outside = self.plan.rows.address + self._list_offset(part, block)
        count = block.batches * block.rows
        rows = self._rows(outside, place.address, part.row_bytes, part.row_bytes, count)
        here = activation_span(place.address, place.address + count * part.row_bytes)
        return RowCopies(rows, outside.span(count * self.row_bytes), here)

    # --- vector unit

    def _copy_rows(self, part: TablePart, block: ListBlock, place: _ListPlace, *, join: bool = False) -> None:
        """Copies between a part of the table and a block of the list."""
        constant = self.move.constant
        chunk_rows = self.plan.chunk_rows
        if constant is not None and len(constant) == 1:
            # The same offsets for every batch: the batches are one more dimension.
            for first in range(0, block.rows, chunk_rows):
                rows = ListBlock(block.batch, 1, block.row + first, min(chunk_rows, block.rows - first))
                offsets = self.offsets.of(part, rows)
                here = _ListPlace(place.address + first * place.pitch, place.pitch)
                self._copy(part, self._batch_address(part, block.batch), here, offsets, block.batches, join)
            return
        batches = max(1, min(block.batches, chunk_rows // block.rows))
        for batch in range(block.batch, block.batch + block.batches, batches):
            together = min(batches, block.batch + block.batches - batch)
            for first in range(0, block.rows, chunk_rows):
                rows = ListBlock(batch, together, block.row + first, min(chunk_rows, block.rows - first))
                offsets = self.offsets.of(part, rows)
                skipped = (batch - block.batch) * block.rows + first
                here = _ListPlace(place.address + skipped * place.pitch, place.pitch)
                self._copy(part, self._batch_address(part, batch), here, offsets, 1, join)

    def _batch_address(self, part: TablePart, batch: int) -> int:
        return part.address + (batch - part.batch) * part.rows * part.pitch

    def _copy(
        self, part: TablePart, table: int, place: _ListPlace, offsets: Entries, batches: int, join: bool
    ) -> None:
        """One GO: the rows that `offsets` tells of every one of `batches` batches, from the table's batch at address
        `table` on."""
        count, pitch = offsets.count, place.pitch
        vectors = -(-part.row_bytes // self.columns)
        tail = part.row_bytes - (vectors - 1) * self.columns
        along, batch_bytes = Dim(vectors, self.columns), part.rows * part.pitch
        indexed = Access(table, Element.INT8, (along, Dim(count, 0), Dim(batches, batch_bytes)), indexed=True)
        # The list's batches follow each other only where all their rows are in the block.
        dims = (along, Dim(count, pitch), Dim(batches, self.move.count * pitch))
        dense = Access(place.address, Element.INT8, dims)
        start = part.address - part.spare * part.pitch
        end = part.address + (part.batches * part.rows + part.spare) * part.pitch
        table_span = activation_span(start, end)
        list_end = place.address + ((batches - 1) * self.move.count + count) * pitch
        list_span = activation_span(place.address, list_end)
        read, written = (list_span, table_span) if self.move.scatters else (table_span, list_span)
        rows: Load | Node = Load("rows", Element.INT8)
        if self.move.scatters:
            streams = {0: dense, STORE_STREAM: indexed}
        elif join:
            # Rows of the table, joined with what earlier ranges put into the list.
            rows = Node(Op.OR, rows, Load("joined", Element.INT8))
            streams = {0: indexed, 1: dense, STORE_STREAM: dense}
        else:
            streams = {0: indexed, STORE_STREAM: dense}
        go = VectorGo(
            assemble(rows, self.emitter.config),
            streams,
            vectors=vectors * count * batches,
            slots=self.emitter.config.vector_slots,
            lanes=self.columns if vectors > 1 else tail,
            tail_lanes=tail,
            # The last row's read may go beyond it.
            reads=[dataclasses.replace(read, end=read.end + self.columns)],
            writes=[written],
            offsets=offsets,
        )
        emit_gos(self.emitter, [go])
