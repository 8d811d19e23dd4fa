"""The rows and columns of multipliers."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .accumulate import ACCUMULATOR_BITS
from .layouts import OPERAND_BITS, Control, group_count
from .row import Row
from .select import OperandSelect

LATENCY = 4
"""Cycles from a slot to the vector it delivers."""


class Grid(wiring.Component):
    """Rows of multipliers, weights moving down one row per slot.

    valid, control, vectors, weights: a slot (see `Control`), as it comes out of `Fetch`.
    delivered, accumulators: W finished int32 sums, LATENCY cycles after their slot.
    waiting: slots are under way.
    """

    def __init__(self, config: Config):
        self._config = config
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "valid": In(1),
                "control": In(Control(config)),
                "vectors": In(vector_bits * group_count(config)),
                "weights": In(vector_bits),
                "delivered": Out(1),
                "accumulators": Out(ACCUMULATOR_BITS * config.columns),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, control = self._config, self.control
        shift, advance_depthwise = Signal(), Signal()
        m.d.comb += [
            advance_depthwise.eq(self.valid & control.depthwise),
            shift.eq(self.valid & (~control.depthwise | control.load)),
        ]
        vector_bits = len(self.weights)
        m.submodules.select = select = OperandSelect(config)
        m.d.comb += [
            select.valid.eq(self.valid),
            select.depthwise.eq(control.depthwise),
            select.shift.eq(shift),
            select.start.eq(control.start),
            select.vectors.eq(self.vectors),
            select.group.eq(control.group),
            select.set_group.eq(
                Cat(advance_depthwise & control.load & (control.row == index) for index in range(config.rows))
            ),
        ]
        # The row's sum is complete three cycles after its slot, and passed on for one cycle.
        deliver_1, deliver_2, deliver_3 = Signal(), Signal(), Signal()
        row_1 = Signal(control.row.shape(), reset_less=True)
        depthwise_1, depthwise_2, depthwise_3 = (
            Signal(reset_less=True, name=f"depthwise_{n}") for n in (1, 2, 3)
        )
        m.d.sync += [
            deliver_1.eq(self.valid & control.deliver),
            deliver_2.eq(deliver_1),
            deliver_3.eq(deliver_2),
            self.delivered.eq(deliver_3),
            row_1.eq(control.row),
            depthwise_1.eq(control.depthwise),
            depthwise_2.eq(depthwise_1),
            depthwise_3.eq(depthwise_2),
        ]

        above = None
        rows = []
        for index in range(config.rows):
            row = Row(config)
            m.submodules[f"row_{index}"] = row
            m.d.comb += [
                row.valid.eq(self.valid),
                row.depthwise.eq(control.depthwise),
                row.shift.eq(shift),
                row.operands.eq(select.operands.word_select(index, vector_bits)),
                row.deliver.eq(deliver_1 & (row_1 == index)),
            ]
            if above is None:
                m.d.comb += [
                    row.weights.eq(self.weights),
                    row.mac.eq(control.mac),
                    row.clear.eq(control.clear),
                ]
            else:
                m.d.comb += [
                    row.weights.eq(above.out_weights),
                    row.mac.eq(above.out_mac),
                    row.clear.eq(above.out_clear),
                    row.above.eq(above.passed),
                ]
            rows.append(row)
            above = row

        # Depthwise, only the last row delivers, and all pass on.
        others = reduce(or_, (row.passed for row in rows[:-1]), Const(0, len(self.accumulators)))
        caught = Signal(len(self.accumulators), reset_less=True)
        with m.If(deliver_3):
            m.d.sync += caught.eq(Mux(depthwise_3, 0, others) | rows[-1].passed)
        m.d.comb += [
            self.accumulators.eq(caught),
            self.waiting.eq(deliver_1 | deliver_2 | deliver_3 | self.delivered),
        ]
        return m
