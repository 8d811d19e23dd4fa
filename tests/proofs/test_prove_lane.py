"""A lane's arithmetic, for all operands: every operation of isa.Op, through the real decoder of operations, in lanes of
every legal width.

The lane is cut in three, and each part is proved for anything that the part before it could give: what is multiplied
(`test_factors`), the result before its limits (the tests by operation), and the limits. The product is cut out of them:
`test_the_parts_make_the_product` proves that the products of the factors' parts are added up in the right places, the
others hold for any product. So no solver has to multiply.
"""

import dataclasses

import pytest
from amaranth.hdl import Assert, Assume, C, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import connect
from proving import implies, prove_at_once, prove_steady

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Op
from tosaic.hw.legal import VECTOR_BITS
from tosaic.hw.vector import alu as alu_module
from tosaic.hw.vector import multiplier as multiplier_module
from tosaic.hw.vector.alu import Alu
from tosaic.hw.vector.multiplier import CHUNK_BITS, FACTOR_BITS, PRODUCT_BITS
from tosaic.hw.vector.pipeline import Pipeline

pytestmark = [pytest.mark.nightly, pytest.mark.parametrize("bits", VECTOR_BITS)]


class CutAlu(Alu):
    """Shows what its parts give each other, and gives free numbers instead where `any_x` or `any_y` is one."""

    def __init__(self, config, any_x=None, any_y=None):
        super().__init__(config)
        self.any_x, self.any_y = any_x, any_y

    def _factors(self, m):
        self.factors = super()._factors(m)
        return self.factors if self.any_x is None else dataclasses.replace(self.factors, x=self.any_x)

    def _limit(self, m, y):
        self.y = y
        super()._limit(m, y if self.any_y is None else self.any_y)


class LaneUnderProof:
    """The decoder before a lane's arithmetic, with `op` issued in every cycle; all else is free and stays."""

    def __init__(self, op: Op, bits: int, any_x=None, any_y=None):
        self.op, self.bits, self.module = op, bits, Module()
        m, config = self.module, get_config(f"base,vector_bits={bits}")
        m.submodules.pipeline = pipeline = Pipeline(config)
        self.alu = alu = CutAlu(config, any_x, any_y)
        m.submodules.alu = alu.elaborate(None)  # now, for its parts' signals
        alu._MustUse__used = True
        connect(m, pipeline.control, alu.control)
        self.adds_bias = pipeline.issued.fields.bias
        self.uop, self.finish = Signal(pipeline.arithmetic.data.shape()), pipeline.finish.data
        self.out_zp, self.limits = pipeline.out_zp.data, pipeline.limits.data
        m.d.comb += [
            pipeline.issue.eq(1),
            pipeline.arithmetic.data.eq(self.uop),
            pipeline.arithmetic.data.op.eq(op),
        ]
        self.per_channel = self.uop.per_channel & (op is Op.RESCALE)
        self.shift = Mux(self.per_channel, alu.shift, self.uop.shift)
        self.ports = [
            *(alu.a, alu.b, alu.bias, alu.multiplier, alu.shift, alu.table_low, alu.table_high),
            *(data.as_value() for data in (pipeline.issued, self.uop, self.finish, self.limits)),
            *(self.out_zp, *(free for free in (any_x, any_y) if free is not None)),
        ]

    def prove(self, folder, *assertions, cases=None):
        self.module.d.comb += [Assert(assertion) for assertion in assertions]
        prove_steady(self.module, folder, self.ports, cases)

    def each(self, value):
        """Returns a signal that is this value, for `prove(cases=...)`."""
        case = Signal.like(value, name="case")
        self.module.d.comb += Assume(value == case)
        self.ports.append(case)
        return case

    def value(self, value):
        """`value` in the bits of a lane."""
        held = Signal(signed(self.bits), name="value")
        self.module.d.comb += held.eq(value)
        return held


def free_lane(op, bits):
    return LaneUnderProof(op, bits, any_x=Signal(signed(bits), name="any_x"))


@pytest.mark.parametrize("op", [Op.RESCALE, Op.MUL, Op.LSL, Op.LSR, Op.ADD], ids=lambda op: op.name)
def test_factors(op, bits, tmp_path):
    """x, and what it is multiplied with. The operations without a case of their own are as ADD."""
    lane = LaneUnderProof(op, bits)
    alu, b = lane.alu, lane.alu.b
    x = lane.value(alu.a + (Mux(lane.adds_bias, alu.bias, 0) - lane.uop.a_zp))
    factor = {
        Op.RESCALE: Mux(lane.per_channel, alu.multiplier, lane.uop.multiplier),
        Op.MUL: b[:32].as_signed(),
        Op.LSL: Mux(b[:6] < 32, C(1, 1) << b[:5], 0),
        Op.LSR: C(1),
        Op.ADD: C(1),
    }
    amount = {Op.LSR: b[:6], Op.RESCALE: lane.shift, Op.MUL: lane.uop.shift}
    lane.prove(
        tmp_path,
        alu.factors.x == (x[:32] if op is Op.LSR else x),
        alu.factors.factor == factor[op],
        alu.factors.b == b,
        alu.factors.amount == amount.get(op, 0),
    )


def test_shift_of_a_rounding_shift(bits, tmp_path):
    lane = LaneUnderProof(Op.ASR, bits)
    lane.prove(tmp_path, lane.alu.factors.amount == lane.alu.b[:6], lane.alu.factors.factor == 1)


def test_ones_for_an_absolute_value(bits, tmp_path):
    """ABS needs no b: its complement of x is x ^ -1."""
    lane = LaneUnderProof(Op.ABS, bits)
    lane.prove(tmp_path, lane.alu.factors.b == -1)


# x, b and the output's zero point, in the order in which the lane adds, which spares the solver the associative law.
OPERATIONS = {
    Op.MOV: lambda x, b, zp: x + zp,
    Op.ADD: lambda x, b, zp: x + (b + zp),
    Op.SUB: lambda x, b, zp: x + (zp - b),
    Op.MAX: lambda x, b, zp: Mux(x > b, x, b) + zp,
    Op.MIN: lambda x, b, zp: Mux(x < b, x, b) + zp,
    Op.AND: lambda x, b, zp: (x & b) + zp,
    Op.OR: lambda x, b, zp: (x | b) + zp,
    Op.XOR: lambda x, b, zp: (x ^ b) + zp,
    Op.EQ: lambda x, b, zp: (x == b) + zp,
    Op.GT: lambda x, b, zp: (x > b) + zp,
    Op.GE: lambda x, b, zp: (x >= b) + zp,
    Op.LSR: lambda x, b, zp: Mux(b[:6] < 32, x >> b[:5], 0) + zp,
}


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_operation(op, bits, tmp_path):
    lane = free_lane(op, bits)
    x, b = lane.alu.any_x, lane.alu.b
    if op is Op.LSR:
        lane.module.d.comb += Assume(x[32:] == 0)
    lane.prove(tmp_path, lane.alu.y == lane.value(OPERATIONS[op](x, b, lane.out_zp)))


def test_absolute_value(bits, tmp_path):
    lane = free_lane(Op.ABS, bits)
    x = lane.alu.any_x
    lane.module.d.comb += Assume(lane.alu.b == -1)
    lane.prove(tmp_path, lane.alu.y == lane.value(Mux(x < 0, -x, x) + lane.out_zp))


def test_leading_zeros(bits, tmp_path):
    """CLZ by its definition: shifted by that many zeros less, what is left of the number is 1."""
    lane = free_lane(Op.CLZ, bits)
    x, y = lane.alu.any_x[:32], lane.alu.y
    lane.module.d.comb += Assume(lane.out_zp == 0)
    cases = [implies((x >> (31 - zeros)) == 1, y == zeros) for zeros in range(32)]
    lane.prove(tmp_path, *cases, implies(x == 0, y == 32))


def test_rounding_shift(bits, tmp_path):
    """ASR: `round` adds the last bit that is shifted out."""
    lane = free_lane(Op.ASR, bits)
    x, amount = lane.alu.any_x, lane.alu.b[:6]
    last_out = (x >> (amount - 1)[:6])[0] & (amount != 0) & lane.uop.round
    lane.prove(tmp_path, lane.alu.y == lane.value((x >> amount) + lane.out_zp + last_out))


@pytest.mark.parametrize("op", [Op.TABLE8, Op.TABLE16], ids=lambda op: op.name)
def test_table(op, bits, tmp_path):
    """TOSA's TABLE: for 8 bits the entry, for 16 bits between two entries by the low 7 bits."""
    lane = free_lane(op, bits)
    x, low, high = lane.alu.any_x, lane.alu.table_low, lane.alu.table_high
    if op is Op.TABLE8:
        entry, value = (x + 128)[:8], low + lane.out_zp
    else:
        entry, value = ((x + 32768) >> 7)[:9], (high - low) * x[:7] + ((low << 7) + lane.out_zp)
    lane.prove(tmp_path, lane.alu.table_entry == entry, lane.alu.y == lane.value(value))


def with_any_product(monkeypatch, op, bits):
    """A lane with a free x whose multiplier gives a free number of 64 bits, and this number."""
    product = Signal(signed(PRODUCT_BITS), name="product")
    rest = product[CHUNK_BITS:]
    monkeypatch.setattr(
        alu_module, "partial_sums", lambda products: (product[:CHUNK_BITS], rest, Const(0, len(rest)))
    )
    lane = free_lane(op, bits)
    lane.ports.append(product)
    return lane, product


def rounded_shift(lane, product, shift, nudge):
    """(product + nudge + (1 << (shift - 1))) >> shift, in as many bits as it needs; for a shift of 0 not rounded."""
    half = Signal(64, name="half")
    lane.module.d.comb += half.eq(Mux(shift == 0, 0, C(1, 64) << (shift - 1)[:6]))
    return (product + half + nudge) >> shift


def test_scaled_product(bits, monkeypatch, tmp_path):
    """MUL: TOSA's rounding shift of the product."""
    lane, product = with_any_product(monkeypatch, Op.MUL, bits)
    shift = lane.each(lane.uop.shift)
    value = lane.value(rounded_shift(lane, product, shift, 0))
    lane.prove(tmp_path, lane.alu.y == lane.value(value + lane.out_zp), cases=shift)


@pytest.mark.parametrize("double", [0, 1], ids=["single", "double"])
def test_rescale(double, bits, monkeypatch, tmp_path):
    """apply_scale_32 and apply_scale_16: `nudge` is the double rounding's 2**30 by the sign of the value."""
    lane, product = with_any_product(monkeypatch, Op.RESCALE, bits)
    x, b, shift = lane.alu.any_x, lane.alu.b, lane.each(lane.shift)
    nudge = Mux(shift > 31, Mux(x < 0, C(-(1 << 30)), C(1 << 30)), 0) if double else 0
    lane.module.d.comb += Assume(lane.uop.round == double)
    # |x| <= 2**31 and a multiplier of 32 bits, or |x| <= 2**47 and one of 16.
    lane.module.d.comb += Assume((product >= -(1 << 62)) & (product <= 1 << 62))
    # The sign of the product is that of x or of nothing: multipliers are not negative.
    lane.module.d.comb += Assume(implies(x < 0, product <= 0) & implies(x >= 0, product >= 0))
    value = lane.value(rounded_shift(lane, product, shift, nudge))
    lane.prove(tmp_path, lane.alu.y == lane.value(value + (b + lane.out_zp)), cases=shift)


def test_left_shift(bits, monkeypatch, tmp_path):
    """LSL takes the product as it is."""
    lane, product = with_any_product(monkeypatch, Op.LSL, bits)
    lane.prove(tmp_path, lane.alu.y == lane.value(product + lane.out_zp))


def test_limits(bits, tmp_path):
    """The clamp in all bits of the lane, then the wrap to 32 bits."""
    y = Signal(signed(bits), name="any_y")
    lane = LaneUnderProof(Op.MOV, bits, any_y=y)
    limits, finish = lane.limits, lane.finish
    lane.module.d.comb += Assume(limits.low <= limits.high)
    clamped = lane.value(Mux(y < limits.low, limits.low, Mux(y > limits.high, limits.high, y)))
    limited = lane.value(Mux(finish.clamp, clamped, y))
    lane.prove(tmp_path, lane.alu.result == lane.value(Mux(finish.wrap32, limited[:32].as_signed(), limited)))


class Number:
    """A number of which only the parts are known: each pair's product is a free number in the range of its factors."""

    def __init__(self, bits):
        self.bits, self.part, self.products = bits, None, {}

    def __getitem__(self, places):
        first, last = places.start or 0, min(places.stop or self.bits, self.bits)
        part = Number(last - first)
        part.products, part.part, part.signed = self.products, first // CHUNK_BITS, last == self.bits
        return part

    def as_signed(self):
        return self

    def __len__(self):
        return self.bits

    def range(self):
        return (-(1 << (self.bits - 1)), 1 << (self.bits - 1)) if self.signed else (0, (1 << self.bits) - 1)

    def __mul__(self, other):
        ends = [x * y for x in self.range() for y in other.range()]
        name = f"product_{self.part}_{other.part}"
        # As wide as Amaranth makes it: `_signed` gives a part without a sign one more bit.
        width = sum(part.bits + (not part.signed) for part in (self, other))
        product = Signal(signed(width), name=name)
        self.products[self.part, other.part] = product, min(ends), max(ends)
        return product


def test_the_parts_make_the_product(bits, monkeypatch, tmp_path):
    """x * factor is the sum of the products of their parts, each at the place of its parts (the distributive law).
    Lanes of 34 bits multiply in fewer parts."""
    m, x, factor = Module(), Number(bits), Number(FACTOR_BITS)
    monkeypatch.setattr(multiplier_module, "_signed", lambda value: value)
    low, first, second = multiplier_module.partial_sums(multiplier_module.part_products(x, factor))
    assert set(x.products) == {(i, k) for i in range(-(-bits // CHUNK_BITS)) for k in range(2)}
    sums = [Signal(PRODUCT_BITS, name=f"sum{place}") for place in range(4)]
    for place, total in enumerate(sums):
        here = [product for (i, k), (product, _, _) in x.products.items() if i + k == place]
        m.d.comb += total.eq(sum(here) << (CHUNK_BITS * place))
    got = Signal(PRODUCT_BITS, name="got")
    m.d.comb += got.eq(low + ((first + second) << CHUNK_BITS))
    for product, least, most in x.products.values():
        m.d.comb += Assume((product >= least) & (product <= most))
    m.d.comb += Assert(got == (sums[0] + sums[2] + (sums[1] + sums[3]))[:PRODUCT_BITS])
    prove_at_once(m, tmp_path, [product for product, _, _ in x.products.values()])
