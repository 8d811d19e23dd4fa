"""The axioms of `sim/terms/axioms.py` are laws of integers.

MIN and MAX see nothing but the order of numbers, so that n of them have all cases that there are among 0..n-1. Laws of
16 bits are shown for all of these, those of wider numbers by SAT with a free number in the place of a product, so that
no multiplier is in the way.
"""

import dataclasses
import itertools
import re
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import Assert, Const, Module, Mux, Signal, signed
from layer_graphs import LayerBuilder
from proving import claim, prove_at_once

from tosaic.compiler.ir import DType, Graph
from tosaic.sim.golden import evaluate as golden
from tosaic.sim.terms import AXIOMS, Algebra, Terms, evaluate
from tosaic.sim.terms.division import SLOPE, START, STEPS, divided, reciprocal_of
from tosaic.sim.terms.functions import multiplied, named
from tosaic.sim.terms.indexed import origin_of

INT16 = np.arange(-(1 << 15), 1 << 15)
PROVED = {
    "intervals": "test_a_clamp_within_its_limits_changes_nothing",
    "scales": "test_a_scale_of_powers_of_two_is_reduced",
    "clamps": "test_a_clamp_of_a_clamp",
    "sets": "test_maxima_are_sets",
    "products": "test_a_shifted_product_is_a_scaled_number",
    "bytes": "test_an_integer_is_the_sum_of_its_bytes",
    "planes": "test_the_low_plane_of_16_bits",
    "booleans": "test_of_0_and_1_bits_are_polynomials",
    "wraps": "test_the_low_bits_of_the_low_bits",
    "ring": "test_low_bits_of_sums",
    "choice": "test_a_choice_is_one_of_two",
    "keys": "test_the_smallest_key_has_the_index",
    "largest": "test_none_is_more_than_the_largest",
    "lookups": "test_a_chain_is_its_table",
    "division": "test_a_division_is_two_products_with_a_reciprocal",
}
"""The test that proves each axiom."""


def grid(low: int, high: int, count: int) -> list[np.ndarray]:
    """All `count`-tuples of low..high-1."""
    return list(np.array(list(itertools.product(range(low, high), repeat=count))).T)


def test_every_axiom_is_proved() -> None:
    assert PROVED.keys() == AXIOMS.keys()
    assert all(name in globals() and re.match(r"test_\w+$", name) for name in PROVED.values())


def test_a_clamp_within_its_limits_changes_nothing(tmp_path) -> None:
    """low <= x <= high: 3 numbers. Comparisons of numbers from intervals. And x within 0..2^k-1, or
    -2^(k-1)..2^(k-1)-1, has the low k bits of x."""
    x, low, high = grid(0, 3, 3)
    inside = (low <= x) & (x <= high)
    assert (np.minimum(np.maximum(x, low), high) == x)[inside].all()
    algebra = Algebra(entropy=1)
    for a_low, a_more, b_low, b_more in itertools.product(range(4), range(3), range(4), range(3)):
        a, b = (
            each.ravel() for each in np.meshgrid(a_low + np.arange(a_more + 1), b_low + np.arange(b_more + 1))
        )
        terms = [algebra.fresh((1,), each.min(), each.max()) for each in (a, b)]
        for name, results in (("EQ", a == b), ("GT", a > b), ("GE", a >= b)):
            known = named(algebra, name, *terms)
            assert known.low[0] <= results.min() and results.max() <= known.high[0]
            assert known.high[0] - known.low[0] == results.max() ^ results.min() or name == "EQ"
    m = Module()
    wide, bits = Signal(signed(48)), 32
    m.d.comb += claim((wide >= -(1 << 31)) & (wide < 1 << 31), wide[:bits].as_signed() == wide)
    prove_at_once(m, tmp_path, [wide])


@pytest.mark.parametrize("k", [1, 2, 5, 17])
def test_a_scale_of_powers_of_two_is_reduced(k: int, tmp_path) -> None:
    """p = x * m: (p * 2^k + 2^(s+k-1)) >> (s + k) is (p + 2^(s-1)) >> s, and p for s = 0. By SAT for p of 40 bits and
    shifts of 0..15; for all p of 12 bits and shifts of 0..29 by enumeration."""
    m, p, s = Module(), Signal(signed(40)), Signal(4)
    left = ((p << k) + (Const(1, 40) << (s + k - 1)[:6])).as_signed() >> (s + k)
    right = Mux(s == 0, p, (p + ((Const(1, 40) << s) >> 1)).as_signed() >> s)
    m.d.comb += Assert(left == right)
    prove_at_once(m, tmp_path, [p, s])
    product = np.arange(-(1 << 12), 1 << 12)
    for shift in range(30):
        half = (1 << shift) >> 1
        whole = ((product << k) + (1 << (shift + k - 1))) >> (shift + k)
        assert (whole == (product + half) >> shift).all()


def test_a_scale_near_a_whole_number_is_a_product() -> None:
    """(x * (q * 2^s + e) + 2^(s-1)) >> s is q * x where |e * x| < 2^(s-1): all q of 1..3, e of -9..9, x of 12 bits; and
    the second reader takes no other one for a product."""
    x, algebra = np.arange(-(1 << 11), 1 << 11), Algebra(entropy=1)
    for q, e, s in itertools.product((1, 2, 3), range(-9, 10), range(1, 18)):
        near = np.abs(e * x) < 1 << (s - 1)
        assert (((x * (q * (1 << s) + e) + (1 << (s - 1))) >> s) == q * x)[near].all()
    for most, same in ((1 << 29) - 1, True), (1 << 29, False):
        term = algebra.fresh((1,), 0, most)
        scaled = algebra.rescale(term, np.array([(1 << 30) + 1]), np.array([30]), double=False)
        assert (scaled.field == term.field).all() == same


def test_a_clamp_of_a_clamp() -> None:
    """All orders of 5 numbers are tried; a clamp is min(max(x, low), high)."""
    x, low, high, low2, high2 = grid(0, 5, 5)
    legal = (low <= high) & (low2 <= high2)
    inner = np.minimum(np.maximum(x, low), high)
    twice = np.minimum(np.maximum(inner, low2), high2)
    ends = [np.minimum(np.maximum(end, low2), high2) for end in (low, high)]
    assert (twice == np.minimum(np.maximum(x, ends[0]), ends[1]))[legal].all()
    # The ends may be those that the inner clamp's result reaches, of x in an interval a..b.
    x, a, b, low, high = grid(0, 5, 5)
    inside = (low <= high) & (a <= x) & (x <= b)
    inner = np.minimum(np.maximum(x, low), high)
    reached = [np.minimum(np.maximum(end, low), high) for end in (a, b)]
    assert (inner == np.minimum(np.maximum(x, reached[0]), reached[1]))[inside].all()


@pytest.mark.parametrize("pick", [np.maximum, np.minimum])
def test_maxima_are_sets(pick: np.ufunc) -> None:
    """All orders of 3 numbers are tried."""
    x, y, z = grid(0, 3, 3)
    assert (pick(pick(x, y), z) == pick(x, pick(y, z))).all()
    assert (pick(x, y) == pick(y, x)).all() and (pick(x, x) == x).all()


def test_a_shifted_product_is_a_scaled_number(tmp_path) -> None:
    """MUL's (p + 2^(s-1)) >> s and RESCALE's are one formula of the product p: with the last bit shifted out instead of
    the half, by SAT for p of 48 bits."""
    m, p, s = Module(), Signal(signed(48)), Signal(6)
    half = (p + ((Const(1, 64) << s) >> 1)).as_signed() >> s
    last = (p >> s) + Mux(s == 0, 0, (p >> (s - 1)[:6])[0])
    m.d.comb += claim(s < 48, half == last)
    prove_at_once(m, tmp_path, [p, s])


def test_an_integer_is_the_sum_of_its_bytes(tmp_path) -> None:
    """SAT proves it for 64 bits, with the highest byte signed; the bytes of 16 bits are x ASR 8 and the rest."""
    m, x = Module(), Signal(signed(64))
    parts = [x[8 * k : 8 * k + 8] for k in range(7)]
    total = x[56:].as_signed() << 56
    for k, part in enumerate(parts):
        total = total + (part << 8 * k)
    m.d.comb += Assert(total[:64].as_signed() == x)
    prove_at_once(m, tmp_path, [x])
    raw = INT16.astype("<i2").view(np.uint8).reshape(-1, 2)
    assert (raw[:, 1].view(np.int8) == INT16 >> 8).all()
    assert (raw[:, 0] == INT16 - 256 * (INT16 >> 8)).all()
    assert (raw[:, 0].view(np.int8) == ((INT16 & 255) ^ 128) - 128).all()


def test_the_low_plane_of_16_bits() -> None:
    """All of them."""
    low = (INT16 ^ 128).astype(np.uint8).view(np.int8)
    assert (low == INT16 - 256 * (INT16 >> 8) - 128).all()


def test_of_0_and_1_bits_are_polynomials() -> None:
    """All four."""
    a, b = grid(0, 2, 2)
    assert (
        ((a & b) == a * b).all() and ((a | b) == a + b - a * b).all() and ((a ^ b) == a + b - 2 * a * b).all()
    )


def test_the_low_bits_of_the_low_bits(tmp_path) -> None:
    """SAT proves it for 32 of 48 of 64 bits, and that the low 32 bits of x * 2^k, ASR k, are the low 32 - k bits of
    x."""
    m, x, k = Module(), Signal(signed(64)), Signal(5)
    m.d.comb += Assert(x[:48].as_signed()[:32].as_signed() == x[:32].as_signed())
    low = x[:32]
    left = ((low << k)[:32]).as_signed() >> k
    # The low 32 - k bits, signed: bit 31 - k counts for all above it.
    sign = (low >> ~k)[0]
    mask = ((Const((1 << 32) - 1, 32) << ~k) << 1)[:32]
    right = Mux(sign, low | mask, low & ~mask).as_signed()
    m.d.comb += Assert(left == right)
    prove_at_once(m, tmp_path, [x, k])


def test_low_bits_of_sums(tmp_path) -> None:
    """SAT proves it for sums and differences of 48 bits, and for their low 32 and fewer bits; and for products with
    some numbers, which are sums."""
    m, x, y = Module(), Signal(signed(48)), Signal(signed(48))
    low = x[:32].as_signed()
    for bits in (8, 16, 32):
        m.d.comb += Assert((low + y)[:bits] == (x + y)[:bits])
        m.d.comb += Assert((y - low)[:bits] == (y - x)[:bits])
        m.d.comb += Assert((low - y)[:bits] == (x - y)[:bits])
        for number in (-1, 3, 255):
            m.d.comb += Assert((low * number)[:bits] == (x * number)[:bits])
    # What fits 32 bits, and is equal to y modulo 2^32, is the low 32 bits of y.
    fits = (x >= -(1 << 31)) & (x < 1 << 31)
    m.d.comb += claim(fits & (x[:32] == y[:32]), y[:32].as_signed() == x)
    prove_at_once(m, tmp_path, [x, y])


def test_a_choice_is_one_of_two() -> None:
    """For c in 0..1, b + c * (a - b) is a or b, and the interval that the algebra gives it holds both of theirs."""
    a, b = grid(-3, 4, 2)
    for condition in range(2):
        assert (b + condition * (a - b) == (a if condition else b)).all()
    for a_low, a_more, b_low, b_more in itertools.product(range(-3, 4), range(4), range(-3, 4), range(4)):
        a_high, b_high = a_low + a_more, b_low + b_more
        part = min(0, a_low - b_high), max(0, a_high - b_low)
        assert min(b_low, part[0] + b_high) == min(a_low, b_low)
        assert max(b_high, part[1] + b_low) == max(a_high, b_high)


def test_none_is_more_than_the_largest() -> None:
    """All orders of 4 numbers."""
    numbers = np.stack(grid(0, 4, 4))
    assert (numbers - numbers.max(axis=0) <= 0).all()


def test_the_smallest_key_has_the_index() -> None:
    """All orders of 4 numbers, with all ties; and products with positive numbers do not change an order."""
    numbers = np.stack(grid(-2, 2, 4))
    first = np.argmax(numbers, axis=0)
    for bits in (2, 3, 5):
        keys = np.arange(4)[:, None] - numbers * (1 << bits)
        assert ((keys.min(axis=0) & ((1 << bits) - 1)) == first).all()
    for factor, number in itertools.product((1, 2, 7), (-3, 0, 5)):
        assert ((numbers * factor + number).min(axis=0) == numbers.min(axis=0) * factor + number).all()


def test_the_bits_of_both_are_no_more_than_a_number_from_0_on() -> None:
    """The interval of AND."""
    a, b = grid(-16, 16, 2)
    assert ((a & b >= 0) & (a & b <= b))[b >= 0].all()


def test_a_chain_is_its_table() -> None:
    """Of chains of golden's operators on int8: the table of what the second reader makes of the values from the least
    one on, at (offset - least offset) / step, is what golden computes, for all values and some steps."""
    low, high = -100, 90
    x = np.arange(low, high + 1)
    build = LayerBuilder(1)
    wide = build.rescale(build.input("x", x.shape, DType.INT8), DType.INT16, shift=24)
    entries = build.constant(np.random.default_rng(1).integers(-2000, 2000, 513), DType.INT16)
    shift = build.constant(np.array([3]), DType.INT32)
    build.output(
        build.add("ARITHMETIC_RIGHT_SHIFT", [build.add("TABLE", [wide, entries]), shift], round=True)
    )
    graph = build.finish()
    algebra, (output,) = Algebra(entropy=1), graph.outputs
    wanted = golden(graph, {"x": x.astype(np.int8)})[output]
    terms = algebra.fresh((3,), low, high)
    results = evaluate(graph_of(graph, 3), {"x": terms}, algebra).outputs[output]
    for step in (1, 4, 32):
        offsets = algebra.plus(algebra.scaled(algebra.plus(terms, -low), step), 7)
        found, _, names = origin_of(algebra, offsets) or (0, None, [])
        assert found == step and ((7 + (x - low) * step - 7) // step == np.arange(len(x))).all()
        for number, name in enumerate(names):
            one = algebra.lookups.find(name, wanted.astype(np.int64))
            assert one is not None and (one.field[:, 0] == results.field[:, number]).all()
            assert algebra.lookups.find(name, wanted.astype(np.int64) + 1) is None
    narrower = algebra.fresh((3,), low, high - 1)
    assert origin_of(algebra, narrower) is None


def test_a_division_is_two_products_with_a_reciprocal() -> None:
    """For all n and d that REQUIRE allows. |d| * 2^k = S in 2^30..2^31, places = 30 - k, so that |d| <= 2^(places + 1).

    S * R / 2^60 = 1 + e, of which `error` bounds |e|: at first it is a parabola in S, largest at an end or at its top;
    a step of Newton's makes -e^2 of it, and two roundings by half a unit. A quotient that is rounded twice then lies
    within Q * e + 2^-places / 2 + 1 / 2 of Q, and what is left after two of them is less than |d|, but for |d| of 1 and
    2 (places = 0), of which R is known."""
    half, low, high = Fraction(1, 2), 1 << 30, 1 << 31
    tops = [low, high, Fraction(START, 2 * SLOPE) * (1 << 31)]
    ends = [
        s * (START - s * Fraction(SLOPE, 1 << 31) + d) / (1 << 60) - 1 for s in tops for d in (-half, half)
    ]
    error = max(abs(each) for each in ends)
    for _ in range(STEPS):
        # The wrapped sum 2^30 * (1 - e) and R fit 32 bits.
        assert (1 << 30) * (1 + error) + 1 < high and Fraction(1 << 60, low) * (1 + error) + 1 < high
        error = error**2 + (1 + error) * half / (1 << 30) + half * Fraction(high, 1 << 60)
    # R <= 2^30, so that n * R / 2^30 fits: only for these S it could be more.
    near = [s for s in range(low, low + 9) if Fraction(1 << 60, s) * (1 + error) > low + half]
    assert near == list(range(low, low + len(near))) and len(near) < 9
    assert [reciprocals([s])[0] <= low for s in near] == [True] * len(near)
    assert reciprocals([low, high]) == [1 << 30, 1 << 29]
    for places in range(1, 31):
        # What is left after the first quotient, in units of |d|, and after the second.
        first = Fraction(1, 2 << places) + half
        largest = min(high, 2 << places)
        assert first * largest + high * error < high
        second = (first + high * error) * error + first
        assert second < 1
    # |d| = 1 leaves nothing; |d| = 2 leaves 0 or -1, of which the second quotient is 0.
    edges = np.unique([s * (1 << k) + d for s in (-1, 1) for k in range(32) for d in range(-3, 4)])
    edges = edges[(edges >= -high) & (edges < high)]
    n, d = (each.ravel() for each in np.meshgrid(edges, edges[edges != 0]))
    legal = ~((n == -high) & (d == -1))
    algebra = Algebra(entropy=1)
    found = divided(algebra, algebra.constant(n[legal]), algebra.constant(d[legal]))
    exact = np.sign(n) * np.sign(d) * (np.abs(n) // np.abs(d))
    assert (found.low == exact[legal]).all()


def reciprocals(scaled: list[int]) -> list[int]:
    """R of each S."""
    algebra = Algebra(entropy=1)

    def product(a: Terms, b: Terms, shift: int) -> Terms:
        return multiplied(algebra, a, b, shift)

    return reciprocal_of(algebra, algebra.constant(-np.array(scaled)), product).low.tolist()


def graph_of(graph: Graph, elements: int) -> Graph:
    """Returns the graph on as many elements."""
    tensors = {
        name: each if each.data is not None else dataclasses.replace(each, shape=(elements,))
        for name, each in graph.tensors.items()
    }
    return dataclasses.replace(graph, tensors=tensors)
