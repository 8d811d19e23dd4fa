"""One row of multipliers."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .accumulate import ACCUMULATOR_BITS, Accumulate
from .layouts import OPERAND_BITS

PRODUCT_BITS = 2 * OPERAND_BITS


class Row(wiring.Component):
    """W multipliers and accumulators.

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

        # Products.
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
        products = [
            Signal(signed(PRODUCT_BITS), reset_less=True, name=f"product_{c}") for c in range(self._columns)
        ]
        places = [slice(OPERAND_BITS * c, OPERAND_BITS * (c + 1)) for c in range(self._columns)]
        with m.If(fresh):
            for place, product in zip(places, products, strict=True):
                m.d.sync += product.eq(self.operands[place].as_signed() * weights[place].as_signed())

        # Sums.
        passed = []
        for c, product in enumerate(products):
            m.submodules[f"accumulate_{c}"] = accumulate = Accumulate(PRODUCT_BITS)
            own = Signal(ACCUMULATOR_BITS, reset_less=True, name=f"sum_{c}")
            out = Signal(ACCUMULATOR_BITS, reset_less=True, name=f"passed_{c}")
            m.d.comb += [
                accumulate.keep.eq(keep),
                accumulate.own.eq(own),
                accumulate.above.eq(self.above.word_select(c, ACCUMULATOR_BITS)),
                accumulate.product.eq(product),
            ]
            with m.If(add):
                m.d.sync += [own.eq(accumulate.sum), out.eq(accumulate.sum)]
            with m.If(hide):
                m.d.sync += out.eq(0)
            passed.append(out)
        m.d.comb += self.passed.eq(Cat(passed))
        return m
