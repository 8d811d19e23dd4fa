"""Offsets of table rows for the vector unit's indexed stream: constants, or computed from indices on the machine."""

import numpy as np

from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest_go import GoNest, emit_nest
from tosaic.compiler.emit.table_part import ListBlock, TablePart
from tosaic.compiler.emit.vector_go import Entries
from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.placement import Buffer
from tosaic.compiler.tile.gather_scatter import OFFSET_BYTES, GatherScatterPlan
from tosaic.compiler.tile.loops import Axis
from tosaic.hw.isa import Element, Op


class TableOffsets:
    """Brings the offsets that the rows of a block have in a part of the table."""

    def __init__(self, emitter: Emitter, plan: GatherScatterPlan):
        self.emitter, self.plan, self.move = emitter, plan, plan.move
        self._batch_offsets_there = False
        self._turns: dict[Buffer, int] = {}
        self._constants: dict[bytes, Address] = {}
        """Places of constant offsets in external memory: blocks often have the same."""

    def of(self, part: TablePart, rows: ListBlock) -> Entries:
        """Where the offsets of some list rows are in activation memory; few enough for the unit."""
        if self.move.constant is not None:
            return self._constant(self.move.constant, part, rows)
        return self._computed(part, rows)

    def _next(self, buffer: Buffer) -> int:
        self._turns[buffer] = (self._turns.get(buffer, 0) + 1) % len(buffer.addresses)
        return buffer.addresses[self._turns[buffer]]

    def _constant(self, constant: np.ndarray, part: TablePart, block: ListBlock) -> Entries:
        chosen = constant[block.batch : block.batch + block.batches] if len(constant) > 1 else constant
        rows = chosen[:, block.row : block.row + block.rows] - part.row
        rows = np.clip(rows, -part.spare, part.rows - 1 + part.spare)
        rows = rows + np.arange(block.batches)[:, None] * part.rows
        values = (rows * part.pitch).astype("<i4").tobytes()
        address = self._next(self.plan.offsets)
        if values not in self._constants:
            self._constants[values] = self.emitter.memory.add_constant(values)
        self.emitter.load(self._constants[values], address, len(values))
        return Entries(address, len(values) // OFFSET_BYTES)

    def _computed(self, part: TablePart, block: ListBlock) -> Entries:
        indices = self.plan.indices
        assert indices is not None
        count, batches = block.rows, block.batches
        source = indices.address + OFFSET_BYTES * (block.batch * self.move.count + block.row)
        from_address = source.offset
        if self.plan.index_buffer is not None:
            from_address = self._next(self.plan.index_buffer)
            self.emitter.load(source, from_address, OFFSET_BYTES * batches * count)
        address = self._next(self.plan.offsets)
        value: Value = Node(
            Op.MOV, Load(self.move.indices, Element.INT32), clamp=(0, self.move.table_rows - 1)
        )
        if part.spare:
            value = Node(Op.SUB, value, Immediate(part.row), clamp=(-1, part.rows))
        value = Node(Op.MUL, value, Immediate(part.pitch))
        step = OFFSET_BYTES * count
        if batches > 1:
            self._bring_batch_offsets(part)
            value = Node(Op.ADD, value, Load("offsets of batches", Element.INT32))
            axes = [
                Axis(batches, (step, OFFSET_BYTES, step)),
                Axis(count, (OFFSET_BYTES, 0, OFFSET_BYTES)),
            ]
            addresses = [from_address, self.plan.batch_offsets, address]
        else:
            axes, addresses = [Axis(count, (OFFSET_BYTES, OFFSET_BYTES))], [from_address, address]
        program = assemble(value, self.emitter.config)
        emit_nest(self.emitter, GoNest(program, axes, addresses, (OFFSET_BYTES,) * len(addresses)))
        return Entries(address, batches * count)

    def _bring_batch_offsets(self, part: TablePart) -> None:
        """Offset of each batch's first row from that of the first batch; the same for all parts."""
        if not self._batch_offsets_there:
            step = part.rows * part.pitch
            values = (np.arange(self.plan.batches_at_once) * step).astype("<i4").tobytes()
            memory = self.emitter.memory
            self.emitter.load(memory.add_constant(values), self.plan.batch_offsets, len(values))
            self._batch_offsets_there = True
