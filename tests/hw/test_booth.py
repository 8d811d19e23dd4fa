"""Products of a chip, which are made of gates: against Python's, and in a lane and a processing element against those
that an FPGA's blocks make."""

import itertools
import random

import pytest
from amaranth.hdl import Cat, Module, Shape, Signal, signed, unsigned
from amaranth.sim import Simulator

from tosaic.hw.array.processing_element import ProcessingElement
from tosaic.hw.booth import booth_rows, carry_save, multiply
from tosaic.hw.config_text import get_config
from tosaic.hw.memory.macros import MacroPlatform
from tosaic.hw.vector.alu import Alu
from tosaic.hw.vector.multiplier import FACTOR_BITS, PRODUCT_BITS


def numbers(shape: Shape) -> range:
    return range(-(1 << shape.width - 1), 1 << shape.width - 1) if shape.signed else range(1 << shape.width)


def run(m: Module, bench) -> None:
    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def check(x: Signal, factor: Signal, pairs) -> None:
    """A chip's product of each pair is exact."""
    m, product = Module(), Signal(signed(len(x) + len(factor)))
    m.d.comb += product.eq(multiply(m, x, factor, MacroPlatform()))

    async def bench(ctx) -> None:
        for a, b in pairs:
            ctx.set(Cat(x, factor), (a % (1 << len(x))) | (b % (1 << len(factor))) << len(x))
            assert ctx.get(product) == a * b, (a, b)

    run(m, bench)


@pytest.mark.parametrize(
    ("x", "factor"),
    [
        (signed(4), signed(4)),
        (signed(5), signed(5)),
        (signed(5), signed(3)),
        (signed(5), unsigned(4)),
        (signed(6), unsigned(3)),
    ],
)
def test_all_products_of_few_bits(x, factor):
    check(Signal(x), Signal(factor), list(itertools.product(numbers(x), numbers(factor))))


@pytest.mark.parametrize(("x", "factor"), [(signed(9), signed(9)), (signed(17), unsigned(7))])
def test_ends_and_random_products_of_an_element_and_a_slope(x, factor):
    dice = random.Random(1)
    a, b = (
        [*numbers(shape)[:2], *numbers(shape)[-2:], -shape.signed, 0, 1, *dice.choices(numbers(shape), k=10)]
        for shape in (x, factor)
    )
    check(Signal(x), Signal(factor), list(itertools.product(a, b)))


@pytest.mark.parametrize("bits", [34, 51])
def test_each_digit_of_a_wide_factor(bits):
    """A row depends on three bits of the factor, so all that it can be is tried; and factors of many digits."""
    x, factor, dice = Signal(signed(bits)), Signal(signed(FACTOR_BITS)), random.Random(bits)
    m, total = Module(), Signal(PRODUCT_BITS)
    first, second = carry_save(m, booth_rows(m, x, factor, PRODUCT_BITS))
    m.d.comb += total.eq(first + second)
    factors = [pattern << 2 * k >> 1 for k in range(FACTOR_BITS // 2 + 1) for pattern in range(8)]
    factors += [dice.getrandbits(FACTOR_BITS) for _ in range(40)]
    some = [0, 1, -1, -(1 << bits - 1), (1 << bits - 1) - 1]

    async def bench(ctx) -> None:
        for word in factors:
            number = (word + (1 << FACTOR_BITS - 1)) % (1 << FACTOR_BITS) - (1 << FACTOR_BITS - 1)
            ctx.set(factor, number)
            for a in (*some, dice.randrange(-(1 << bits - 1), 1 << bits - 1)):
                ctx.set(x, a)
                assert ctx.get(total) == a * number % (1 << PRODUCT_BITS), (a, number)

    run(m, bench)


def twins(m: Module, plain, chip):
    """The second one is built for a chip; both are submodules."""
    m.submodules.plain, m.submodules.chip = plain, chip.elaborate(MacroPlatform())
    chip._MustUse__used = True
    return plain, chip


def test_an_element_of_a_chip_is_an_element():
    m, dice = Module(), random.Random(2)
    plain, chip = twins(m, ProcessingElement(), ProcessingElement())
    inputs = [name for name, port in plain.signature.members.items() if port.flow.name == "In"]

    async def bench(ctx) -> None:
        for cycle in range(300):
            for name in inputs:
                shape = getattr(plain, name).shape()
                value = dice.choice([*numbers(shape)[:1], *numbers(shape)[-1:], dice.choice(numbers(shape))])
                value = int(cycle == 2) if cycle < 3 and name == "add" else value
                for element in (plain, chip):
                    ctx.set(getattr(element, name), value)
            await ctx.tick()
            assert ctx.get(plain.sum) == ctx.get(chip.sum)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("bits", [34, 48])
def test_a_lane_of_a_chip_is_a_lane(bits):
    """Any flags in any cycle, also such as no operation has."""
    config, m, dice = get_config(f"nano,vector_bits={bits}"), Module(), random.Random(bits)
    plain, chip = twins(m, Alu(config), Alu(config))
    inputs = []
    for (_, member, one), (_, _, other) in zip(
        plain.signature.flatten(plain), chip.signature.flatten(chip), strict=True
    ):
        if member.flow.name == "In":
            inputs.append((one.as_value() if hasattr(one, "as_value") else one, other))

    async def bench(ctx) -> None:
        for cycle in range(200):
            for one, other in inputs:
                value = dice.choice([0, (1 << len(one)) - 1, dice.getrandbits(len(one))])
                for port in (one, other):
                    word = port.as_value() if hasattr(port, "as_value") else port
                    ctx.set(word.as_unsigned() if word.shape().signed else word, value)
            await ctx.tick()
            if cycle > 10:
                assert ctx.get(plain.result) == ctx.get(chip.result), cycle

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
