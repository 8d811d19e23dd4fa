"""One lane's arithmetic, stages 3 to 8: from the operands to the result."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Op
from .extend import sign_extend
from .lane_control import LaneControl
from .multiplier import CHUNK_BITS, PRODUCT_BITS, multiply_chunks, sum_chunks
from .simple_ops import simple_result

FACTOR_BITS = 34
NUDGE_BIT = 30
"""Double rounding adds or subtracts 2**30."""


class Alu(wiring.Component):
    """`result` (stage 9) of the operands `a` and `b` (stage 3) under `control`; see isa.Op for the operations.

    The shift is made one place short and its last place together with the rounding: y = (q >> 1) + (q & 1 if rounding)
    with q = p >> (shift - 1). Where the shift is 0, or there is none, p is doubled instead: its last bit is 0. Hence
    `p + round` does not overflow, and a sum of exactly 2**63 (no legal RESCALE has it) stays positive.
    The factor of MUL is the low 32 bits of B, signed.

    `bias`, `multiplier` and `shift` are the lane's parameters. `table_entry` asks for the entry in stage 4;
    `table_low` and `table_high` bring it in stage 5.
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

        # Stage 3: x, and what to multiply it with and to shift it by.
        x = register(signed(bits), "s4_x")
        s4_b = register(signed(bits), "s4_b")
        factor = register(signed(FACTOR_BITS), "s4_factor")
        s4_amount = register(6, "s4_amount")
        s4_unshifted = register(1, "s4_unshifted")
        shift = Signal(6)
        operand = Signal(signed(32))
        with m.If(control.s3_enable):
            with m.Switch(control.s3_op):
                with m.Case(Op.RESCALE):
                    m.d.comb += shift.eq(Mux(control.s3_per_channel, self.shift, control.s3_shift))
                    m.d.comb += operand.eq(
                        Mux(control.s3_per_channel, self.multiplier, control.s3_multiplier)
                    )
                with m.Case(Op.MUL):
                    m.d.comb += [shift.eq(control.s3_shift), operand.eq(self.b[:32].as_signed())]
                with m.Case(Op.ASR, Op.LSR):
                    m.d.comb += shift.eq(self.b[:6])
            m.d.sync += [
                x.eq(self.a - control.s3_a_zp + Mux(control.s3_bias, self.bias, C(0, signed(32)))),
                s4_b.eq(self.b),
                s4_amount.eq(Mux(shift == 0, 0, shift - 1)),
                s4_unshifted.eq(shift == 0),
            ]
            with m.If(control.s3_op == Op.LSL):
                power = C(2, 2) << self.b[:5]
                m.d.sync += factor.eq(Mux(self.b[5], 0, power))
            with m.Else():
                m.d.sync += factor.eq(
                    sign_extend(
                        Mux(shift == 0, Cat(C(0, 1), operand).as_signed(), sign_extend(operand, 33)),
                        FACTOR_BITS,
                    )
                )

        # Stage 4: products, table, everything else.
        chunks = multiply_chunks(x, factor)
        products = [register(chunk.shape(), f"s5_product_{i}") for i, chunk in enumerate(chunks)]
        simple = register(signed(bits + 1), "s5_simple")
        s5_b = register(signed(bits), "s5_b")
        s5_amount = register(6, "s5_amount")
        s5_fraction = register(7, "s5_fraction")
        nudge = register(signed(NUDGE_BIT - CHUNK_BITS + 2), "s5_nudge")
        with m.If(control.s4_op == Op.TABLE8):
            m.d.comb += self.table_entry.eq(Cat(x[:7], ~x[7]))
        with m.Else():
            m.d.comb += self.table_entry.eq(Cat(x[7:15], ~x[15]))
        with m.If(control.s4_product):
            m.d.sync += [product.eq(chunk) for product, chunk in zip(products, chunks, strict=True)]
            one = 1 << (NUDGE_BIT - CHUNK_BITS)
            m.d.sync += nudge.eq(
                Mux(control.s4_double_round & (s4_amount >= 31), Mux(x[-1], C(-one, nudge.shape()), one), 0)
            )
        with m.If(control.s4_rescale):
            m.d.sync += s5_b.eq(s4_b)
        with m.If(control.s4_table):
            m.d.sync += s5_fraction.eq(x[:7])
        with m.If(control.s4_simple):
            simple_result(m, simple, control.s4_op, x, s4_b, s4_unshifted)
        with m.If(control.s4_product | control.s4_simple):
            m.d.sync += s5_amount.eq(s4_amount)

        # Stage 5: p.
        p = register(signed(PRODUCT_BITS), "s6_p")
        s6_b = register(signed(bits), "s6_b")
        s6_amount = register(6, "s6_amount")
        fraction = register(7, "s6_fraction")
        slope = register(signed(17), "s6_slope")
        with m.If(control.s5_enable):
            m.d.sync += s6_amount.eq(s5_amount)
            with m.If(control.s5_product):
                m.d.sync += p.eq(sum_chunks(products, nudge))
            with m.Elif(control.s5_table8):
                m.d.sync += [p.eq(sign_extend(Cat(C(0, 1), self.table_low), PRODUCT_BITS)), s6_amount.eq(0)]
            with m.Elif(control.s5_table16):
                m.d.sync += [
                    p.eq(sign_extend(Cat(C(0, 8), self.table_low), PRODUCT_BITS)),
                    s6_amount.eq(0),
                    slope.eq(self.table_high - self.table_low),
                    fraction.eq(s5_fraction),
                ]
            with m.Else():
                m.d.sync += p.eq(sign_extend(simple, PRODUCT_BITS))
            with m.If(control.s5_rescale):
                m.d.sync += s6_b.eq(s5_b)

        # Stage 6: the shift but for its last place; what is added to it.
        q = register(signed(bits + 1), "s7_q")
        addend = register(signed(bits), "s7_addend")
        with m.If(control.s6_enable):
            m.d.sync += q.eq((p >> s6_amount)[: bits + 1])
            with m.If(control.s6_rescale):
                m.d.sync += addend.eq(s6_b)
            with m.Elif(control.s6_table16):
                m.d.sync += addend.eq(sign_extend(slope * fraction, bits))
            with m.Else():
                m.d.sync += addend.eq(0)

        # Stage 7: y.
        y = register(signed(bits), "s8_y")
        with m.If(control.s7_enable):
            m.d.sync += y.eq((q >> 1) + addend + control.s7_out_zp + (q[0] & control.s7_round))

        # Stage 8: clamp, wrap.
        result = register(signed(bits), "s9_result")

        def limit(value: Value) -> object:
            return result.eq(Mux(control.s8_wrap32, sign_extend(value[:32], bits), value))

        with m.If(control.s8_enable):
            with m.If(control.s8_clamp & (y < control.s8_low)):
                m.d.sync += result.eq(sign_extend(control.s8_low, bits))
            with m.Elif(control.s8_clamp & (y > control.s8_high)):
                m.d.sync += result.eq(sign_extend(control.s8_high, bits))
            with m.Else():
                m.d.sync += limit(y)
        m.d.comb += self.result.eq(result)
        return m


__all__ = ["Alu"]
