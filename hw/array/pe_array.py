"""The rows and columns of processing elements."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .accumulate import ACCUMULATOR_BITS
from .layouts import OPERAND_BITS, SlotControl, group_count
from .operand_select import OperandSelect
from .part_sums import PartSums
from .partial_sums import PartialSums
from .pe_row import PeRow
from .processing_element import hides_sums

LATENCY = 4
"""Cycles from a slot to the vector it delivers."""


class PeArray(wiring.Component):
    """Rows of processing elements; weights move down one row per slot.

    Ports:
        valid (1, in), control (SlotControl, in): a slot, and what it does.
        vectors (9 W per group, in), weights (9 W, in): its operands.
        part_weights (8 W per bank but one, in): weights of lower parts of the rows, which `control.inject` selects.
        delivered (1, out), accumulators (32 W, out): finished sums, LATENCY cycles after their slot.
        waiting (1, out): a slot that delivers is on its way.
    """

    def __init__(self, config: Config):
        self._config = config
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "valid": In(1),
                "control": In(SlotControl(config)),
                "vectors": In(vector_bits * group_count(config)),
                "weights": In(vector_bits),
                "part_weights": In(8 * config.columns * (config.most_row_parts - 1)),
                "delivered": Out(1),
                "accumulators": Out(ACCUMULATOR_BITS * config.columns),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, shift = self.control, Signal()
        m.d.comb += shift.eq(self.valid & (~control.depthwise | control.load))
        loading = self.valid & control.depthwise & control.load
        m.submodules.select = select = OperandSelect(self._config)
        m.d.comb += [
            select.valid.eq(self.valid),
            select.depthwise.eq(control.depthwise),
            select.shift.eq(shift),
            select.start.eq(control.start),
            select.vectors.eq(self.vectors),
            select.group.eq(control.group),
            select.set_group.eq(Cat(loading & (control.row == row) for row in range(self._config.rows))),
        ]
        # A row's sum is complete three cycles after its slot, and stays for one cycle.
        deliver = [self.valid & control.deliver]
        depthwise = [control.depthwise]
        for cycle in range(1, LATENCY):
            deliver.append(Signal(name=f"deliver_{cycle}"))
            depthwise.append(Signal(name=f"depthwise_{cycle}", reset_less=True))
            m.d.sync += [deliver[cycle].eq(deliver[cycle - 1]), depthwise[cycle].eq(depthwise[cycle - 1])]
        m.d.sync += self.delivered.eq(deliver[-1])
        keep = _delayed(m, self.valid & control.keep, "keep", LATENCY - 1)
        m.d.comb += self.waiting.eq(Cat(*deliver[1:], self.delivered).any())

        gather = [self.valid & control.gather]
        for cycle in range(1, LATENCY + 1):
            gather.append(Signal(name=f"gather_{cycle}"))
            m.d.sync += gather[cycle].eq(gather[cycle - 1])

        # The last row's sums are the result of the depthwise mode.
        if hides_sums(platform):
            rows = self._rows(m, shift, deliver[1] | gather[1])
            # Output stationary: at most one row passes on sums other than zero. Depthwise: all rows do.
            others = reduce(or_, (row.passed for row in rows[:-1]), Const(0, len(self.accumulators)))
            passed = Mux(depthwise[-1], 0, others) | rows[-1].passed
        else:
            rows = self._rows(m, shift, None)
            row = Signal.like(control.row, reset_less=True)
            m.d.sync += row.eq(
                Mux(depthwise[-2], len(rows) - 1, _delayed(m, control.row, "drained_row", LATENCY - 2))
            )
            passed = Array(row.passed for row in rows)[row]
        caught = Signal(len(self.accumulators), reset_less=True)
        with m.If(deliver[-1] | gather[LATENCY - 1] | keep):
            m.d.sync += caught.eq(passed)
        m.d.comb += self.accumulators.eq(caught)
        if self._config.most_row_parts > 1:
            m.submodules.part_sums = part_sums = PartSums(self._config)
            m.d.comb += [
                part_sums.add.eq(_delayed(m, self.valid & control.add, "add", LATENCY - 1)),
                part_sums.place.eq(_delayed(m, control.place, "place", LATENCY - 1)),
                part_sums.sums.eq(caught),
                part_sums.gather.eq(gather[LATENCY]),
                self.accumulators.eq(part_sums.total),
            ]
        if self._config.partial_sums:
            m.submodules.partial_sums = partial_sums = PartialSums(self._config)
            m.d.sync += partial_sums.write.eq(keep)
            m.d.comb += [
                partial_sums.restart_reads.eq(loading),
                partial_sums.read.eq(self.valid & control.resume),
                rows[0].above.eq(partial_sums.vector),
                partial_sums.restart_writes.eq(_delayed(m, loading, "loading", LATENCY)),
                partial_sums.sums.eq(caught),
            ]
        return m

    def _rows(self, m: Module, shift: Signal, deliver: Value | None) -> list[PeRow]:
        """The rows, each below the one before it. `deliver`: of rows that hide their sums, when one shows them."""
        control, hides = self.control, deliver is not None
        rows = [PeRow(self._config, hides=hides) for _ in range(self._config.rows)]
        operands = m.submodules.select.operands
        for index, row in enumerate(rows):
            m.submodules[f"row_{index}"] = row
            m.d.comb += [
                row.valid.eq(self.valid),
                row.depthwise.eq(control.depthwise),
                row.shift.eq(shift),
                row.operands.eq(operands.word_select(index, len(self.weights))),
            ]
        m.d.comb += [
            rows[0].weights.eq(self.weights),
            rows[0].mac.eq(control.mac),
            rows[0].clear.eq(control.clear),
        ]
        for index, (above, row) in enumerate(zip(rows[:-1], rows[1:], strict=True), 1):
            m.d.comb += [
                row.weights.eq(self._weights(index, above)),
                row.mac.eq(above.out_mac),
                row.clear.eq(above.out_clear),
                row.above.eq(above.passed),
            ]
        if deliver is not None:
            row_1 = Signal.like(control.row, reset_less=True)
            m.d.sync += row_1.eq(control.row)
            m.d.comb += [row.deliver.eq(deliver & (row_1 == index)) for index, row in enumerate(rows)]
        return rows

    def _weights(self, row: int, above: PeRow) -> Value:
        """The weights that come into a row: those of the row above, or of the part that begins with it."""
        config = self._config
        banks = config.most_row_parts
        part, rest = divmod(row, config.divided_rows // banks)
        if part >= banks or rest:
            return above.out_weights
        word = self.part_weights.word_select(part - 1, 8 * config.columns)
        extended = Cat(
            Cat(byte, byte[7]) for j in range(config.columns) for byte in (word.word_select(j, 8),)
        )
        return Mux(self.control.inject[part - 1], extended, above.out_weights)


def _delayed(m: Module, signal: Value, name: str, cycles: int) -> Value:
    """Returns `signal` as it was `cycles` cycles ago."""
    for cycle in range(1, cycles + 1):
        register = Signal(len(signal), name=f"{name}_{cycle}")
        m.d.sync += register.eq(signal)
        signal = register
    return signal
