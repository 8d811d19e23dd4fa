"""One row of multipliers."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from .layouts import OPERAND_BITS, group_count

ACCUMULATOR_BITS = 32
PRODUCT_BITS = 2 * OPERAND_BITS


class Row(wiring.Component):
    """W multipliers and accumulators.

    In three cycles after a slot: its operands are registered, multiplied, added.
    Output stationary: a word of W operands shifts by one operand per slot, and the lowest one meets all
    weights.
    Depthwise: operand c meets weight c, and the sum of the row above is added.

    valid, depthwise, vectors: the slot.
    shift: `weights`, `mac` (they are to be used), `start` (take a new word from vector 0) and `clear` (drop
        the old accumulators) come in from the row above; the `out_` ports lead to the row below.
    set_group, group: the vector that the row takes in depthwise mode; one of `groups`.
    sums: accumulators of the row above.
    accumulators: W int32 sums.
    """

    def __init__(self, config: Config, groups: list[int]):
        self._columns, self._groups = config.columns, groups
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "valid": In(1),
                "depthwise": In(1),
                "vectors": In(vector_bits * group_count(config)),
                "shift": In(1),
                "weights": In(vector_bits),
                "mac": In(1),
                "start": In(1),
                "clear": In(1),
                "out_weights": Out(vector_bits),
                "out_mac": Out(1),
                "out_start": Out(1),
                "out_clear": Out(1),
                "set_group": In(1),
                "group": In(bits_for(group_count(config) - 1)),
                "sums": In(ACCUMULATOR_BITS * config.columns),
                "accumulators": Out(ACCUMULATOR_BITS * config.columns),
            }
        )

    def elaborate(self, platform):
        m = Module()
        vector_bits = len(self.weights)
        group = Signal(bits_for(max(self._groups)), reset_less=True)
        with m.If(self.set_group):
            m.d.sync += group.eq(self.group)

        # Operands.
        word, weights = Signal(vector_bits, reset_less=True), Signal(vector_bits, reset_less=True)
        m.d.comb += self.out_weights.eq(weights)
        with m.If(self.shift):
            m.d.sync += [
                weights.eq(self.weights),
                self.out_mac.eq(self.mac),
                self.out_start.eq(self.start),
                self.out_clear.eq(self.clear),
            ]
        with m.If(self.valid):
            with m.If(self.depthwise):
                with m.Switch(group):
                    for index in self._groups:
                        with m.Case(index):
                            m.d.sync += word.eq(self.vectors[index * vector_bits :][:vector_bits])
            with m.Elif(self.start):
                m.d.sync += word.eq(self.vectors[:vector_bits])
            with m.Else():
                m.d.sync += word.eq(word >> OPERAND_BITS)

        # Products.
        fresh, chained = Signal(), Signal()
        m.d.sync += [fresh.eq(self.valid), chained.eq(self.valid & self.depthwise)]
        add, add_clear, add_chained = Signal(), Signal(), Signal()
        m.d.sync += [
            add.eq(fresh & (chained | self.out_mac)),
            add_chained.eq(chained),
            add_clear.eq(self.out_clear),
        ]
        products = [
            Signal(signed(PRODUCT_BITS), reset_less=True, name=f"product_{c}") for c in range(self._columns)
        ]
        places = [slice(OPERAND_BITS * c, OPERAND_BITS * (c + 1)) for c in range(self._columns)]
        with m.If(fresh):
            for place, product in zip(places, products, strict=True):
                operand = Mux(chained, word[place], word[:OPERAND_BITS]).as_signed()
                m.d.sync += product.eq(operand * weights[place].as_signed())

        # Sums.
        sums = [Signal(ACCUMULATOR_BITS, reset_less=True, name=f"sum_{c}") for c in range(self._columns)]
        with m.If(add):
            for c, product in enumerate(products):
                before = Mux(add_chained, self.sums.word_select(c, 32), Mux(add_clear, 0, sums[c]))
                m.d.sync += sums[c].eq(before.as_signed() + product)
        m.d.comb += self.accumulators.eq(Cat(sums))
        return m
