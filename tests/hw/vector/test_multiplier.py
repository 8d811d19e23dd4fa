"""The wide product is right for every width of a lane."""

import random

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

from tosaic.hw.legal import VECTOR_BITS
from tosaic.hw.vector.multiplier import CHUNK_BITS, FACTOR_BITS, PRODUCT_BITS, part_products, partial_sums


def ends(bits: int) -> list[int]:
    """Numbers at the ends of parts of signed ones, of both signs."""
    places = (0, 1, CHUNK_BITS, 2 * CHUNK_BITS, bits - 1)
    near = {sign * (1 << place) + step for place in places for sign in (-1, 1) for step in (-1, 0, 1)}
    return sorted(number for number in near if -(1 << bits - 1) <= number < 1 << bits - 1)


@pytest.mark.parametrize("bits", VECTOR_BITS)
def test_products_modulo_2_to_the_64(bits: int) -> None:
    x, factor, product = Signal(signed(bits)), Signal(signed(FACTOR_BITS)), Signal(PRODUCT_BITS)
    m, dice = Module(), random.Random(bits)
    low, first, second = partial_sums(part_products(x, factor))
    m.d.comb += product.eq(low + ((first + second) << CHUNK_BITS))
    pairs = [(a, b) for a in ends(bits) for b in (-(1 << 32), -(1 << 16), -1, 0, 1, 11687, (1 << 31) - 1)]
    for _ in range(40):
        pairs.append((dice.randrange(-(1 << bits - 1), 1 << bits - 1), dice.randrange(-(1 << 32), 1 << 32)))

    async def bench(context) -> None:
        for a, b in pairs:
            context.set(x, a)
            context.set(factor, b)
            assert context.get(product) == a * b % (1 << PRODUCT_BITS), (a, b)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
