"""One row of processing elements."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .accumulate import ACCUMULATOR_BITS
from .dsp48_element import Dsp48Element, sum_block
from .layouts import OPERAND_BITS
from .processing_element import HidingElement, ProcessingElement


class PeRow(wiring.Component):
    """W processing elements. After a slot its operands are registered (by OperandSelect), multiplied and added, one
    cycle each. Output stationary: products are added up. Depthwise: they are added to the sums of the row above.

    Ports:
        valid, depthwise (1, in): a slot, and its mode.
        operands (9 W, in): the row's, one cycle after the slot.
        shift (1, in): `weights`, `mac` and `clear` come in from the row above.
        weights (9 W, in), mac (1, in): the next weights, and whether they are to be used.
        clear (1, in): drop the old sums.
        out_weights (9 W, out), out_mac, out_clear (1, out): what came in at the last `shift`, for the row below.
        deliver (1, in): only of a row that `hides`: one cycle after a slot: its sums are to appear in `passed`.
        above (32 W, in): `passed` of the row above.
        passed (32 W, out): the sums, three cycles after the slot, until the next slot's. Of a row that `hides`, output
            stationary: zero but in the cycle in which they are delivered.
    """

    def __init__(self, config: Config, *, hides: bool = False):
        self._columns, self._hides = config.columns, hides
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
                **({"deliver": In(1)} if hides else {}),
                "above": In(ACCUMULATOR_BITS * config.columns),
                "passed": Out(ACCUMULATOR_BITS * config.columns),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        weights = Signal(len(self.weights), reset_less=True)
        m.d.comb += self.out_weights.eq(weights)
        with m.If(self.shift):
            m.d.sync += [
                weights.eq(self.weights),
                self.out_mac.eq(self.mac),
                self.out_clear.eq(self.clear),
            ]

        fresh = Signal()
        chained = Signal()  # the mode, also between slots
        m.d.sync += fresh.eq(self.valid)
        with m.If(self.valid):
            m.d.sync += chained.eq(self.depthwise)
        add, keep = Signal(), Signal()
        m.d.sync += [
            add.eq(fresh & (chained | self.out_mac)),
            keep.eq(~chained & ~self.out_clear),
        ]
        block = sum_block(platform)
        if self._hides:
            hide = Signal()
            m.d.sync += hide.eq(~chained & ~self.deliver)
        else:
            chain = Signal()
            m.d.sync += chain.eq(chained)
        passed = []
        for c in range(self._columns):
            pe: HidingElement | Dsp48Element | ProcessingElement
            if self._hides:
                pe = HidingElement()
                m.d.comb += pe.hide.eq(hide)
                passed.append(pe.passed)
            else:
                pe = Dsp48Element(block) if block else ProcessingElement()
                m.d.comb += pe.chain.eq(chain)
                passed.append(pe.sum)
            if isinstance(pe, Dsp48Element):
                m.d.comb += pe.multiply.eq(fresh)
            m.submodules[f"pe_{c}"] = pe
            m.d.comb += [
                pe.operand.eq(self.operands.word_select(c, OPERAND_BITS)),
                pe.weight.eq(weights.word_select(c, OPERAND_BITS)),
                pe.add.eq(add),
                pe.keep.eq(keep),
                pe.above.eq(self.above.word_select(c, ACCUMULATOR_BITS)),
            ]
        m.d.comb += self.passed.eq(Cat(passed))
        return m
