"""One row of cells."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .accumulate import ACCUMULATOR_BITS
from .cell import Cell
from .layouts import OPERAND_BITS


class Row(wiring.Component):
    """W cells.

    In three cycles after a slot: its operands are registered (by OperandSelect), multiplied, added.
    Output stationary: products are added up. Depthwise: they are added to the sums of the row above.

    valid, depthwise: the slot. operands: the row's, one cycle later.
    shift: `weights`, `mac` (they are to be used) and `clear` (drop the old accumulators) come in from the row
        above; the `out_` ports lead to the row below.
    deliver: one cycle after the slot: its sums are to appear in `passed`.
    above: `passed` of the row above.
    passed: W int32 sums, three cycles after the slot. Depthwise: they stay until the next slot's. Output stationary:
        zero but in the cycle in which they are delivered.
    """

    def __init__(self, config: Config):
        self._columns = config.columns
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "valid": In(1),
                "depthwise": In(1),
                "operands": In(vector_bits),
                "shift": In(1),
                "weights": In(vector_bits),
                "mac": In(1),
                "clear": In(1),
                "out_weights": Out(vector_bits),
                "out_mac": Out(1),
                "out_clear": Out(1),
                "deliver": In(1),
                "above": In(ACCUMULATOR_BITS * config.columns),
                "passed": Out(ACCUMULATOR_BITS * config.columns),
            }
        )

    def elaborate(self, platform):
        m = Module()
        weights = Signal(len(self.weights), reset_less=True)
        m.d.comb += self.out_weights.eq(weights)
        with m.If(self.shift):
            m.d.sync += [
                weights.eq(self.weights),
                self.out_mac.eq(self.mac),
                self.out_clear.eq(self.clear),
            ]

        fresh, chained = Signal(), Signal()  # `chained` is the mode, also between slots
        m.d.sync += fresh.eq(self.valid)
        with m.If(self.valid):
            m.d.sync += chained.eq(self.depthwise)
        add, keep, hide = Signal(), Signal(), Signal()
        m.d.sync += [
            add.eq(fresh & (chained | self.out_mac)),
            keep.eq(~chained & ~self.out_clear),
            hide.eq(~chained & ~self.deliver),
        ]
        passed = []
        for c in range(self._columns):
            m.submodules[f"cell_{c}"] = cell = Cell()
            m.d.comb += [
                cell.multiply.eq(fresh),
                cell.operand.eq(self.operands.word_select(c, OPERAND_BITS)),
                cell.weight.eq(weights.word_select(c, OPERAND_BITS)),
                cell.add.eq(add),
                cell.keep.eq(keep),
                cell.hide.eq(hide),
                cell.above.eq(self.above.word_select(c, ACCUMULATOR_BITS)),
            ]
            passed.append(cell.passed)
        m.d.comb += self.passed.eq(Cat(passed))
        return m
