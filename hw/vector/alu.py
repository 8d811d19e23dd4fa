"""One lane's arithmetic, stages 1 to 9: from the operands to the result."""

import dataclasses

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..booth import booth_rows, carry_save, has_multipliers, multiply
from ..config import Config
from ..isa import Opcode
from ..layouts import shapes
from .addend import make_addend
from .extend import sign_extend
from .lane_control import LaneControl
from .layouts import TABLE_ENTRIES
from .multiplier import CHUNK_BITS, FACTOR_BITS, PRODUCT_BITS, part_products, partial_sums
from .shifter import shift_right


@dataclasses.dataclass(frozen=True)
class Factors:
    """Stage 4 of a lane: x, what it is multiplied with, b, and what the product is shifted by."""

    x: Signal
    factor: Signal
    b: Signal
    amount: Signal


class Alu(wiring.Component):
    """The operations of isa.Op.

    Every one is y = (x * factor >> shift) + addend + carry + out_zp with x = a - a_zp + bias, where a factor, an
    addend, or both are 0:

    - factor: the multiplier (RESCALE), the low 32 bits of b (MUL), 2**b (LSL), 1 (ADD, SUB, ASR, LSR).
    - addend: b (RESCALE, ADD), ~b with a carry (SUB), what make_addend makes of x and b, the table's entry.
    - carry: the rounding. Double rounding adds or subtracts 2**30 before the shift; that reaches the result only where
      all bits from 30 on to the last but one that is shifted out are ones, or zeros: then the carry is certain.

    Ports:
        control (LaneControl, in): what to do.
        a, b (vector_bits, in): stage 3: the operands.
        bias (32, in): stage 1: the lane's.
        multiplier (32, in), shift (VECTOR_UOP.shift, in): stage 2: the lane's.
        table_entry (0..TABLE_ENTRIES-1, out): stage 5: the entry to read.
        table_low, table_high (16, in): stage 6: the entry.
        result (vector_bits, out): stage 10: the result.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "a": In(signed(config.vector_bits)),
                "b": In(signed(config.vector_bits)),
                "bias": In(signed(32)),
                **{
                    name: In(shape)
                    for name, shape in shapes(Opcode.VECTOR_UOP, "multiplier", "shift").items()
                },
                "table_entry": Out(range(TABLE_ENTRIES)),
                "table_low": In(signed(16)),
                "table_high": In(signed(16)),
                "result": Out(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        s4 = self._factors(m)
        q, carry = self._shifted(m, s4, self._product(m, s4, platform), platform)
        addend = self._addend(m, s4)
        # Stage 8: y. A place below the lowest one adds 1 and `carry`: this carries into the sum.
        y = Signal(signed(self.config.vector_bits), name="s9_y", reset_less=True)
        m.d.sync += y.eq((Cat(C(1, 1), q) + Cat(carry, addend))[1 : len(y) + 1])
        self._limit(m, y)
        return m

    def _factors(self, m: Module) -> Factors:
        """Stages 1 to 3: parameters; x, and what to multiply it with and to shift it by."""
        control, bits, b = self.control, self.config.vector_bits, self.b
        bias, offset = Signal(signed(32), reset_less=True), Signal(signed(33), reset_less=True)
        multiplier, shift = Signal(signed(32), reset_less=True), Signal(6, reset_less=True)
        m.d.sync += bias.eq(Mux(control.s1_bias, self.bias, 0))
        m.d.sync += offset.eq(bias - control.s2_a_zp)
        m.d.sync += shift.eq(Mux(control.s2_per_channel, self.shift, control.s2_shift))
        with m.If(control.s2_rescale):
            m.d.sync += multiplier.eq(Mux(control.s2_per_channel, self.multiplier, control.s2_multiplier))
        with m.Else():
            m.d.sync += multiplier.eq(0)

        s4 = Factors(
            x=Signal(signed(bits), name="s4_x", reset_less=True),
            factor=Signal(signed(FACTOR_BITS), name="s4_factor", reset_less=True),
            b=Signal(signed(bits), name="s4_b", reset_less=True),
            amount=Signal(6, name="s4_amount", reset_less=True),
        )
        # 2**b is the product of a one-hot number of four bits and one of eight.
        lows, highs = Signal(4), Signal(8)
        with m.If(control.s3.power & ~b[5]):
            m.d.comb += lows.eq(C(1, 4) << b[:2])
        m.d.comb += highs.eq(C(1, 8) << b[2:5])
        power = Cat(high & low for high in highs for low in lows)
        low = multiplier.as_unsigned() | power | (b[:32] & control.s3.b.replicate(32))
        m.d.sync += [
            s4.x.eq(self.a + offset),
            s4.factor.eq(Cat(low, multiplier[-1] | (b[31] & control.s3.b)).as_signed()),
            s4.b.eq(b),
            s4.amount.eq(Mux(control.s3.shift_b, b[:6], shift)),
        ]
        with m.If(control.s3.one):
            m.d.sync += s4.factor.eq(1)
        with m.If(control.s3.unsigned32):
            m.d.sync += s4.x[32:].eq(0)
        with m.If(control.s3.b_ones):
            m.d.sync += s4.b.eq(-1)
        return s4

    def _product(self, m: Module, s4: Factors, platform: object) -> Signal:
        """Stages 4 to 6: the product, of stage 7."""
        product = Signal(signed(PRODUCT_BITS), reset_less=True)
        if not has_multipliers(platform):
            rows = booth_rows(m, s4.x, s4.factor, PRODUCT_BITS)
            first, second = (_later(m, row, f"row_{i}", 4, 5) for i, row in enumerate(carry_save(m, rows)))
            m.d.sync += product.eq(_later(m, (first + second)[:PRODUCT_BITS], "product", 5, 6))
            return product
        products = {
            (i, k): _later(m, part, f"product_{i}_{k}", 4, 5)
            for (i, k), part in part_products(s4.x, s4.factor).items()
        }
        sums = [_later(m, part, f"part_{i}", 5, 6) for i, part in enumerate(partial_sums(products))]
        m.d.sync += product.eq(Cat(sums[0], (sums[1] + sums[2])[: PRODUCT_BITS - CHUNK_BITS]))
        return product

    def _shifted(self, m: Module, s4: Factors, product: Signal, platform: object) -> tuple[Signal, Signal]:
        """Stages 4 to 7: the shifted product, or what lies between two entries of the table; the carry. Of stage 8."""
        control, bits, x = self.control, self.config.vector_bits, s4.x
        slope = Signal(signed(17), reset_less=True)
        m.d.sync += slope.eq(Mux(control.s6.table16, self.table_high - self.table_low, 0))
        amount, negative = _later(m, s4.amount, "amount", 4, 7), _later(m, x[-1], "negative", 4, 7)
        fraction = _later(m, x[:7], "fraction", 4, 7)
        q, carry = Signal(bits, reset_less=True), Signal(reset_less=True)
        shifted, guard, filled = shift_right(m, product, amount, bits, ~negative)
        nudged = control.s7.double_round & amount[5] & filled
        m.d.sync += [
            q.eq(shifted | sign_extend(multiply(m, slope, fraction, platform), bits)),
            carry.eq(
                (control.s7.round & Mux(nudged, ~negative, guard))
                | control.s7.one
                | (control.s7.abs & negative)
            ),
        ]
        return q, carry

    def _addend(self, m: Module, s4: Factors) -> Signal:
        """Stages 4 to 7: the addend, inverted, or a table's entry; with the zero point. Of stage 8."""
        control, bits = self.control, self.config.vector_bits
        s5_addend = Signal(bits, reset_less=True)
        s7_addend, s8_addend = Signal(signed(bits), reset_less=True), Signal(signed(bits), reset_less=True)
        short, long = Cat(s4.x[:7], ~s4.x[7], C(0, 1)), Cat(s4.x[7:15], ~s4.x[15])
        m.d.comb += self.table_entry.eq(_later(m, Mux(control.s4.table8, short, long), "entry", 4, 5))
        make_addend(m, s5_addend, control.s4, s4.x, s4.b)
        entry = Signal(signed(24))
        with m.If(control.s6.table16):
            m.d.comb += entry.eq(Cat(C(0, 7), self.table_low).as_signed())
        with m.Elif(control.s6.table8):
            m.d.comb += entry.eq(self.table_low)
        inverted = _later(m, s5_addend, "addend", 5, 6) ^ control.s6.invert.replicate(bits)
        m.d.sync += [
            s7_addend.eq(inverted | sign_extend(entry, bits)),
            s8_addend.eq(s7_addend + control.s7_out_zp),
        ]
        return s8_addend

    def _limit(self, m: Module, y: Signal) -> None:
        """Stage 9: clamp, wrap. What does not fit in 32 bits is beyond the limit of its sign."""
        control, bits = self.control, self.config.vector_bits
        result = Signal(signed(bits), name="s10_result", reset_less=True)
        low, high = y[:32].as_signed() < control.s9_low, y[:32].as_signed() > control.s9_high
        wide, below, above = Signal(), Signal(), Signal()
        m.d.comb += [
            wide.eq(y[31:] != y[31].replicate(bits - 31)),
            below.eq(control.s9_clamp & Mux(wide, y[-1], low)),
            above.eq(control.s9_clamp & Mux(wide, ~y[-1], high)),
            self.result.eq(result),
        ]
        limited = Mux(below, control.s9_low[:32], Mux(above, control.s9_high[:32], y[:32]))
        extended = below | above | control.s9_wrap32
        m.d.sync += result.eq(Cat(limited, Mux(extended, limited[-1].replicate(bits - 32), y[32:])))


def _later(m: Module, value: Value, name: str, stage: int, later: int) -> Value:
    """What is `value` in a stage, in a later one."""
    while stage < later:
        stage += 1
        register = Signal.like(value, name=f"s{stage}_{name}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value
