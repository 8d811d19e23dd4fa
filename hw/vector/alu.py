"""One lane's arithmetic, stages 1 to 8: from the operands to the result."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .addend import make_addend
from .extend import sign_extend
from .lane_control import LaneControl
from .multiplier import CHUNK_BITS, FACTOR_BITS, PRODUCT_BITS, partial_sums
from .shifter import shift_right


class Alu(wiring.Component):
    """`result` (stage 9) of the operands `a` and `b` (stage 3) under `control`; see isa.Op for the operations.

    Every operation is y = (x * factor >> shift) + addend + carry + out_zp with x = a - a_zp + bias, where a factor, an
    addend, or both are 0:

    - factor: the multiplier (RESCALE), the low 32 bits of b (MUL), 2**b (LSL), 1 (ADD, SUB, ASR, LSR).
    - addend: b (RESCALE, ADD), ~b with a carry (SUB), what make_addend makes of x and b, the table's entry.
    - carry: the rounding. Double rounding adds or subtracts 2**30 before the shift; that reaches the result only where
      all bits from 30 on to the last but one that is shifted out are ones, or zeros: then the carry is certain.

    `bias` (stage 1), `multiplier` and `shift` (stage 2) are the lane's parameters. `table_entry` asks for the entry in
    stage 4; `table_low` and `table_high` bring it in stage 5.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "a": In(signed(config.vector_bits)),
                "b": In(signed(config.vector_bits)),
                "bias": In(signed(32)),
                "multiplier": In(signed(32)),
                "shift": In(6),
                "table_entry": Out(9),
                "table_low": In(signed(16)),
                "table_high": In(signed(16)),
                "result": Out(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control, bits = self.control, self.config.vector_bits

        def register(shape: object, name: str) -> Signal:
            return Signal(shape, name=name, reset_less=True)

        # Stage 1 and 2: parameters.
        bias = register(signed(32), "s2_bias")
        offset = register(signed(33), "s3_offset")
        multiplier = register(signed(32), "s3_multiplier")
        s3_shift = register(6, "s3_shift")
        m.d.sync += bias.eq(Mux(control.s1_bias, self.bias, 0))
        m.d.sync += offset.eq(bias - control.s2_a_zp)
        m.d.sync += s3_shift.eq(Mux(control.s2_per_channel, self.shift, control.s2_shift))
        with m.If(control.s2_rescale):
            m.d.sync += multiplier.eq(Mux(control.s2_per_channel, self.multiplier, control.s2_multiplier))
        with m.Else():
            m.d.sync += multiplier.eq(0)

        # Stage 3: x, and what to multiply it with and to shift it by.
        x = register(signed(bits), "s4_x")
        s4_b = register(signed(bits), "s4_b")
        factor = register(signed(FACTOR_BITS), "s4_factor")
        s4_amount = register(6, "s4_amount")
        # 2**b in two digits: one of four, one of eight.
        lows, highs = Signal(4), Signal(8)
        with m.If(control.s3_factor_power & ~self.b[5]):
            m.d.comb += lows.eq(C(1, 4) << self.b[:2])
        m.d.comb += highs.eq(C(1, 8) << self.b[2:5])
        power = Cat(high & low for high in highs for low in lows)
        m.d.sync += [
            x.eq(self.a + offset),
            factor.eq(
                Cat(
                    multiplier.as_unsigned() | power | (self.b[:32] & control.s3_factor_b.replicate(32)),
                    multiplier[-1] | (self.b[31] & control.s3_factor_b),
                ).as_signed()
            ),
            s4_b.eq(self.b),
            s4_amount.eq(Mux(control.s3_shift_b, self.b[:6], s3_shift)),
        ]
        with m.If(control.s3_factor_one):
            m.d.sync += factor.eq(1)
        with m.If(control.s3_unsigned32):
            m.d.sync += x[32:].eq(0)
        with m.If(control.s3_b_ones):
            m.d.sync += s4_b.eq(-1)

        # Stage 4: product, table entry, addend.
        parts = partial_sums(x, factor)
        s5_low, *s5_parts = (register(part.shape(), f"s5_part_{i}") for i, part in enumerate(parts))
        s5_addend = register(bits, "s5_addend")
        s5_amount = register(6, "s5_amount")
        s5_fraction = register(7, "s5_fraction")
        s5_negative = register(1, "s5_negative")
        m.d.comb += self.table_entry.eq(
            Mux(control.s4_table8, Cat(x[:7], ~x[7], C(0, 1)), Cat(x[7:15], ~x[15]))
        )
        m.d.sync += [register.eq(part) for register, part in zip((s5_low, *s5_parts), parts, strict=True)]
        m.d.sync += [s5_amount.eq(s4_amount), s5_fraction.eq(x[:7]), s5_negative.eq(x[-1])]
        make_addend(m, s5_addend, control, x, s4_b)

        # Stage 5: p; the addend, inverted or a table's entry.
        p = register(signed(PRODUCT_BITS), "s6_p")
        s6_addend = register(signed(bits), "s6_addend")
        s6_amount = register(6, "s6_amount")
        negative = register(1, "s6_negative")
        fraction = register(7, "s6_fraction")
        slope = register(signed(17), "s6_slope")
        entry = Signal(signed(24))
        with m.If(control.s5_table16):
            m.d.comb += entry.eq(Cat(C(0, 7), self.table_low).as_signed())
        with m.Elif(control.s5_table8):
            m.d.comb += entry.eq(self.table_low)
        m.d.sync += [
            p.eq(Cat(s5_low, (s5_parts[0] + s5_parts[1])[: PRODUCT_BITS - CHUNK_BITS])),
            s6_addend.eq((s5_addend ^ control.s5_invert.replicate(bits)) | sign_extend(entry, bits)),
            s6_amount.eq(s5_amount),
            negative.eq(s5_negative),
            fraction.eq(s5_fraction),
            slope.eq(Mux(control.s5_table16, self.table_high - self.table_low, 0)),
        ]

        # Stage 6: the shift; between two entries of the table; the addend with the zero point.
        q = register(bits, "s7_q")
        addend = register(signed(bits), "s7_addend")
        carry = register(1, "s7_carry")
        shifted, guard, filled = shift_right(m, p, s6_amount, bits, ~negative)
        nudged = control.s6_double_round & s6_amount[5] & filled
        m.d.sync += [
            q.eq(shifted | sign_extend(slope * fraction, bits)),
            addend.eq(s6_addend + control.s6_out_zp),
            carry.eq(
                (control.s6_round & Mux(nudged, ~negative, guard))
                | control.s6_one
                | (control.s6_abs & negative)
            ),
        ]

        # Stage 7: y. The lowest place makes the carry.
        y = register(signed(bits), "s8_y")
        m.d.sync += y.eq((Cat(C(1, 1), q) + Cat(carry, addend))[1 : bits + 1])

        # Stage 8: clamp, wrap. What does not fit in 32 bits is beyond the limit of its sign.
        result = register(signed(bits), "s9_result")
        low, high = y[:32].as_signed() < control.s8_low, y[:32].as_signed() > control.s8_high
        wide = Signal()
        below, above = Signal(), Signal()
        m.d.comb += [
            wide.eq(y[31:] != y[31].replicate(bits - 31)),
            below.eq(control.s8_clamp & Mux(wide, y[-1], low)),
            above.eq(control.s8_clamp & Mux(wide, ~y[-1], high)),
        ]
        limited = Mux(below, control.s8_low[:32], Mux(above, control.s8_high[:32], y[:32]))
        m.d.sync += result.eq(
            Cat(
                limited,
                Mux(
                    below | above | control.s8_wrap32,
                    limited[-1].replicate(bits - 32),
                    y[32:],
                ),
            )
        )
        m.d.comb += self.result.eq(result)
        return m


__all__ = ["Alu"]
