"""The operations that need neither multiplier nor table."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed

from ..isa import Op
from .extend import sign_extend


def simple_result(m: Module, target: Signal, op: Value, x: Value, b: Value, unshifted: Value) -> None:
    """Loads `target` with op(x, b), doubled except for shifts by more than 0 (`unshifted` is low), which the shifter
    completes. Ops made elsewhere leave `target` alone."""
    bits = len(x)

    def doubled(value: Value) -> Value:
        return Cat(C(0, 1), value[:bits] if len(value) > bits else value).as_signed()

    # One adder for sum, difference and comparison.
    subtract, total = Signal(), Signal(signed(bits + 1))
    m.d.comb += [
        subtract.eq(op != Op.ADD.value),
        total.eq(x + (b ^ subtract.replicate(bits).as_signed()) + subtract),
    ]
    less, equal = total[-1], x == b
    results = {
        Op.MOV: x,
        Op.ADD: total,
        Op.SUB: total,
        Op.MAX: Mux(less, b, x),
        Op.MIN: Mux(less, x, b),
        Op.AND: x & b,
        Op.OR: x | b,
        Op.XOR: x ^ b,
        Op.ABS: Mux(x[-1], -x, x),
    }
    flags = {Op.EQ: equal, Op.GT: ~less & ~equal, Op.GE: ~less}
    with m.Switch(op):
        for member, value in results.items():
            with m.Case(member):
                m.d.sync += target.eq(doubled(value))
        for member, flag in flags.items():
            with m.Case(member):
                m.d.sync += target.eq(Cat(C(0, 1), flag))
        with m.Case(Op.ASR):
            m.d.sync += target.eq(Mux(unshifted, doubled(x), sign_extend(x, bits + 1)))
        with m.Case(Op.LSR):
            m.d.sync += target.eq(Mux(unshifted, Cat(C(0, 1), x[:32]), x[:32]))
        with m.Case(Op.CLZ), m.Switch(x[:32]):
            for zeros in range(32):
                with m.Case("0" * zeros + "1" + "-" * (31 - zeros)):
                    m.d.sync += target.eq(2 * zeros)
            with m.Default():
                m.d.sync += target.eq(64)


__all__ = ["simple_result"]
