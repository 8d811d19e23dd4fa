"""Emits a GATHER whose rows are found by branches: a loop over the indices, in it a branch for each bit of the number
of the row's block, and at their ends a LOAD for each block."""

import dataclasses

import numpy as np

from tosaic.compiler.emit.commands import Label
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest_go import GoNest, emit_nest, filling
from tosaic.compiler.emit.vector_go import Access, Dim, Entries, VectorGo
from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.compiler.place.address import Span, activation_span
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.row_search import STATE, WORD_BYTES, RowSearchPlan
from tosaic.hw.isa import STORE_STREAM, Condition, Element, Op


class RowSearchEmission:
    """Emits one such GATHER."""

    def __init__(self, emitter: Emitter, plan: RowSearchPlan):
        self.emitter, self.plan, self.move = emitter, plan, plan.move
        self._several = plan.move.count > 1
        self._state = plan.words + WORD_BYTES
        self._more = plan.flags + plan.levels
        self._list = plan.indices.address.offset if plan.index_list is None else plan.index_list
        self._rows = plan.output.address.offset if plan.rows is None else plan.rows

    def emit(self) -> None:
        """Emits the loop, and brings in and sends what lies outside."""
        plan, emitter, count = self.plan, self.emitter, self.move.count
        if plan.index_list is not None:
            emitter.load(plan.indices.address, plan.index_list, WORD_BYTES * count)
        steps = [plan.block_rows.bit_length() - 1 + level for level in range(plan.levels)]
        each, most = (WORD_BYTES, plan.row_bytes), count - 1
        self._constant([*steps, *each, -1, *(most * size for size in each), most], plan.steps)
        head, found = Label(f"{self.move.operator} head"), Label(f"{self.move.operator} found")
        if self._several:
            self._constant([0, 0, most], self._state)
            # Rows come to places that data tell: `tosaic verify` wants all of them to be written.
            program = filling(0, emitter.config)
            emit_nest(emitter, GoNest(program, [Axis(count * plan.row_bytes, (1,))], [self._rows], (1,)))
            emitter.place(head)
        self._locate()
        self._bring(0, plan.levels, found)
        emitter.place(found)
        self._copy()
        if self._several:
            emitter.test(self._more)
            self._step()
            emitter.branch(Condition.IF_SET, head)
        if plan.rows is not None:
            emitter.store(plan.rows, plan.output.address, count * plan.row_bytes)

    def _constant(self, values: list[int], address: int) -> None:
        data = np.array(values, "<i4").tobytes()
        self.emitter.load(self.emitter.memory.add_constant(data), address, len(data))

    # --- where the row is

    def _locate(self) -> None:
        """The bits of the number of the row's block, its offset there, and whether there is another index."""
        plan, index = self.plan, self._list
        if self._several:
            index = plan.words
            indices = _bytes(self._list, WORD_BYTES * self.move.count)
            self._move(indices, self._state, _bytes(index, WORD_BYTES), Element.INT32)
            more = Node(Op.GT, Load("to come", Element.INT32), Immediate(0))
            self._nest(more, 1, (WORD_BYTES, 1), (self._state + 2 * WORD_BYTES, self._more), (0, 0))
        row: Value = Node(Op.MOV, Load("index", Element.INT32), clamp=(0, self.move.table_rows - 1))
        bits = Node(Op.AND, Node(Op.LSR, row, Load("shifts", Element.INT32)), Immediate(1))
        sizes, strides = (WORD_BYTES, WORD_BYTES, 1), (0, WORD_BYTES, 1)
        self._nest(bits, plan.levels, sizes, (index, plan.steps, plan.flags), strides)
        inside = Node(Op.MUL, Node(Op.AND, row, Immediate(plan.block_rows - 1)), Immediate(plan.row_bytes))
        self._nest(inside, 1, (WORD_BYTES, WORD_BYTES), (index, plan.words), (0, 0))

    def _step(self) -> None:
        """Makes the state that of the next index."""
        state, steps = self._state, self.plan.steps + WORD_BYTES * self.plan.levels
        grown = Node(Op.ADD, Node(Op.MOV, Load("state", Element.INT32)), Load("steps", Element.INT32))
        # Whatever data decide, it stays in the lists: `tosaic verify` follows both ways of each branch.
        kept = Node(Op.MIN, grown, Load("last", Element.INT32))
        sizes = (WORD_BYTES,) * 4
        self._nest(kept, len(STATE), sizes, (state, steps, steps + WORD_BYTES * len(STATE), state), sizes)

    def _nest(
        self,
        value: Value,
        count: int,
        sizes: tuple[int, ...],
        addresses: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        program = assemble(value, self.emitter.config)
        emit_nest(self.emitter, GoNest(program, [Axis(count, strides)], [*addresses], sizes))

    # --- the block and the row

    def _bring(self, first: int, level: int, found: Label) -> None:
        """Brings one of the blocks from `first` on whose numbers differ in the lowest `level` bits, and goes to
        `found`."""
        plan, emitter = self.plan, self.emitter
        if level == 0:
            start = first * plan.block_rows
            rows = min(plan.block_rows, self.move.table_rows - start)
            emitter.load(plan.values.address + start * plan.row_bytes, plan.block, rows * plan.row_bytes)
            if first + 1 < plan.blocks:
                emitter.branch(Condition.ALWAYS, found)
            return
        middle = first + (1 << (level - 1))
        if middle >= plan.blocks:
            self._bring(first, level - 1, found)
            return
        upper = Label(f"{self.move.operator} block {middle}")
        emitter.test(plan.flags + level - 1)
        emitter.branch(Condition.IF_SET, upper)
        self._bring(first, level - 1, found)
        emitter.place(upper)
        self._bring(middle, level - 1, found)

    def _copy(self) -> None:
        """Copies the row from its block to its place in the list."""
        plan, size = self.plan, self.plan.row_bytes
        block = _bytes(plan.block, plan.block_rows * size)
        first = plan.row if plan.row is not None else self._rows
        self._move(block, plan.words, _bytes(first, size), Element.INT8)
        if plan.row is not None:
            rows = _bytes(self._rows, self.move.count * size)
            self._move(rows, self._state + WORD_BYTES, _bytes(plan.row, size), Element.INT8, back=True)

    def _move(self, whole: Span, offset: int, part: Span, element: Element, *, back: bool = False) -> None:
        """Copies the part of some bytes that begins at the offset which lies at address `offset`; or something to
        there."""
        columns, elements = self.emitter.config.columns, (part.end - part.start) // element.bytes
        vectors = -(-elements // columns)
        tail = elements - (vectors - 1) * columns
        along = Dim(vectors, columns * element.bytes)
        indexed = Access(whole.start, element, (along, Dim(1, 0)), indexed=True)
        dense = Access(part.start, element, (along,))
        read, written = (part, whole) if back else (whole, part)
        self.emitter.vector(
            VectorGo(
                assemble(Load("row", element), self.emitter.config),
                {0: dense, STORE_STREAM: indexed} if back else {0: indexed, STORE_STREAM: dense},
                vectors=vectors,
                slots=self.emitter.config.vector_slots,
                lanes=columns if vectors > 1 else tail,
                tail_lanes=tail,
                # The last vector's read may go beyond it.
                reads=[dataclasses.replace(read, end=read.end + columns)],
                writes=[written],
                offsets=Entries(offset, 1),
            )
        )


def _bytes(address: int, size_bytes: int) -> Span:
    return activation_span(address, address + size_bytes)
