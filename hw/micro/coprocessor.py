"""The core's coprocessor: products, and sums of products of bytes."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .instructions import COLUMNS, FUNCT7_MULDIV, OPCODE_CUSTOM_0, OPCODE_OP, Multiply, Sums

HALF_BITS = 16
"""Operands of a multiplier block."""


class CoprocessorPort(wiring.Signature):
    """picorv32's PCPI, from the core's side, for instructions that take no more than their own cycle.

    `valid` lasts until the cycle with `ready`, in which `write` and `result` are valid.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "instruction": Out(32),
                "rs1": Out(32),
                "rs2": Out(32),
                "ready": In(1),
                "write": In(1),
                "result": In(32),
            }
        )


class Coprocessor(wiring.Component):
    """Executes `instructions` in the cycle in which they come, in eight multipliers of 16 x 16."""

    port: In(CoprocessorPort())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        port = self.port
        opcode, funct3, funct7 = port.instruction[:7], port.instruction[12:15], port.instruction[25:]
        is_product, is_sums = Signal(), Signal()
        m.d.comb += [
            is_product.eq((opcode == OPCODE_OP) & (funct7 == FUNCT7_MULDIV) & ~funct3[2]),
            is_sums.eq(opcode == OPCODE_CUSTOM_0),
            port.ready.eq(port.valid & (is_product | is_sums)),
            port.write.eq(is_product | (funct3 == Sums.TAKE)),
        ]

        # Unsigned products of halves; the high word of signed operands is mended: -2**32 * b for a negative a.
        products = [
            Signal(2 * HALF_BITS, name=f"product_{a}_{b}") for a in ("low", "high") for b in ("low", "high")
        ]
        a_halves = [port.rs1[:HALF_BITS], port.rs1[HALF_BITS:]]
        b_halves = [port.rs2[:HALF_BITS], port.rs2[HALF_BITS:]]
        m.d.comb += [
            product.eq(a * b)
            for product, (a, b) in zip(products, ((a, b) for a in a_halves for b in b_halves), strict=True)
        ]
        low_low, low_high, high_low, high_high = products
        middle, product = Signal(2 * HALF_BITS + 1), Signal(64)
        m.d.comb += [
            middle.eq(low_high + high_low),
            product.eq(Cat(low_low, high_high) + (middle << HALF_BITS)),
        ]
        signed_a = port.rs1[-1] & ((funct3 == Multiply.MULH) | (funct3 == Multiply.MULHSU))
        signed_b = port.rs2[-1] & (funct3 == Multiply.MULH)
        mend, high = Signal(32), Signal(32)
        m.d.comb += [
            mend.eq(Mux(signed_a, port.rs2, 0) + Mux(signed_b, port.rs1, 0)),
            high.eq(product[32:] - mend),
        ]

        input_zp, weight_zp = Signal(signed(9)), Signal(signed(9))
        unsigned_input = Signal()
        number = funct7[:2]
        byte, value = Signal(8), Signal(signed(10))
        m.d.comb += [
            byte.eq(port.rs2.word_select(number, 8)),
            value.eq(Cat(byte, byte[-1] & ~unsigned_input).as_signed() - input_zp),
        ]
        execute = Signal(unsigned(8))
        with m.If(port.valid & is_sums):
            m.d.comb += execute.eq(1 << funct3)
        with m.If(execute[Sums.SETUP]):
            m.d.sync += [
                input_zp.eq(port.rs1[:9]),
                unsigned_input.eq(port.rs1[9]),
                weight_zp.eq(port.rs2[:9]),
            ]
        taken = Signal(32)
        for column in range(COLUMNS):
            total, weight = Signal(32, name=f"sum_{column}"), Signal(signed(10), name=f"weight_{column}")
            m.d.comb += weight.eq(port.rs1.word_select(column, 8).as_signed() - weight_zp)
            with m.If(execute[Sums.SETUP] | (execute[Sums.TAKE] & (number == column))):
                m.d.sync += total.eq(0)
            with m.Elif(execute[Sums.ADD]):
                m.d.sync += total.eq(total + value * weight)
            with m.If(number == column):
                m.d.comb += taken.eq(total)

        with m.If(is_sums):
            m.d.comb += port.result.eq(taken)
        with m.Elif(funct3 == Multiply.MUL):
            m.d.comb += port.result.eq(product[:32])
        with m.Else():
            m.d.comb += port.result.eq(high)
        return m
