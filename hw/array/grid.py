"""The rows and columns of multipliers."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .layouts import OPERAND_BITS, Control, group_count, possible_groups
from .row import ACCUMULATOR_BITS, Row

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
        above = None
        rows = []
        for index in range(config.rows):
            row = Row(config, groups=possible_groups(config, index))
            m.submodules[f"row_{index}"] = row
            m.d.comb += [
                row.valid.eq(self.valid),
                row.depthwise.eq(control.depthwise),
                row.shift.eq(shift),
                row.set_group.eq(advance_depthwise & control.load & (control.row == index)),
                row.group.eq(control.group),
                row.vectors.eq(self.vectors),
            ]
            if above is None:
                m.d.comb += [
                    row.weights.eq(self.weights),
                    row.mac.eq(control.mac),
                    row.start.eq(control.start),
                    row.clear.eq(control.clear),
                ]
            else:
                m.d.comb += [
                    row.weights.eq(above.out_weights),
                    row.mac.eq(above.out_mac),
                    row.start.eq(above.out_start),
                    row.clear.eq(above.out_clear),
                    row.sums.eq(above.accumulators),
                ]
            rows.append(row)
            above = row

        # The row's sum is complete three cycles after its slot, and gone one slot later: it is caught in
        # between.
        deliver_1, deliver_2, deliver_3 = Signal(), Signal(), Signal()
        row_1, row_2, row_3 = (
            Signal(control.row.shape(), reset_less=True, name=f"row_{n}") for n in (1, 2, 3)
        )
        caught = Signal(len(self.accumulators), reset_less=True)
        m.d.sync += [
            deliver_1.eq(self.valid & control.deliver),
            deliver_2.eq(deliver_1),
            deliver_3.eq(deliver_2),
            self.delivered.eq(deliver_3),
            row_1.eq(control.row),
            row_2.eq(row_1),
            row_3.eq(row_2),
        ]
        with m.If(deliver_3):
            with m.Switch(row_3):
                for index, row in enumerate(rows):
                    with m.Case(index):
                        m.d.sync += caught.eq(row.accumulators)
        m.d.comb += [
            self.accumulators.eq(caught),
            self.waiting.eq(deliver_1 | deliver_2 | deliver_3 | self.delivered),
        ]
        return m
