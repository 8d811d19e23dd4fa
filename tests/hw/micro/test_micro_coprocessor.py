"""The coprocessor's instructions against Python's integers."""

from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.hw.micro.coprocessor import Coprocessor
from tosaic.hw.micro.instructions import (
    COLUMNS,
    FUNCT7_MULDIV,
    OPCODE_CUSTOM_0,
    OPCODE_OP,
    Multiply,
    Sums,
)

WORDS = st.one_of(
    st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0xFFFF, 0x10000])
)


def encode(opcode: int, funct3: int, funct7: int = 0) -> int:
    return funct7 << 25 | funct3 << 12 | opcode


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def execute(instructions: list[tuple[int, int, int]]) -> list[int | None]:
    """What each (instruction, rs1, rs2) writes."""
    dut = Coprocessor()
    results: list[int | None] = []

    async def core(ctx):
        for instruction, rs1, rs2 in instructions:
            ctx.set(dut.port.instruction, instruction)
            ctx.set(dut.port.rs1, rs1)
            ctx.set(dut.port.rs2, rs2)
            ctx.set(dut.port.valid, 1)
            assert ctx.get(dut.port.ready)
            results.append(ctx.get(dut.port.result) if ctx.get(dut.port.write) else None)
            await ctx.tick()
            # What the core shows between two instructions means nothing.
            ctx.set(dut.port.valid, 0)
            ctx.set(dut.port.instruction, encode(OPCODE_CUSTOM_0, Sums.ADD))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(core)
    simulator.run()
    return results


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_products(operands):
    instructions, wanted = [], []
    for a, b in operands:
        for operation, left, right in (
            (Multiply.MUL, a, b),
            (Multiply.MULH, signed(a, 32), signed(b, 32)),
            (Multiply.MULHSU, signed(a, 32), b),
            (Multiply.MULHU, a, b),
        ):
            instructions.append((encode(OPCODE_OP, operation, FUNCT7_MULDIV), a, b))
            product = left * right >> (0 if operation == Multiply.MUL else 32)
            wanted.append(product & 0xFFFF_FFFF)
    assert execute(instructions) == wanted


@settings(max_examples=40, deadline=None)
@given(
    st.integers(-128, 255),
    st.booleans(),
    st.integers(-128, 128),
    st.lists(st.tuples(WORDS, WORDS, st.integers(0, 3)), max_size=40),
)
def test_sums(input_zp, unsigned_input, weight_zp, steps):
    setup = input_zp & 0x1FF | unsigned_input << 9
    instructions = [(encode(OPCODE_CUSTOM_0, Sums.SETUP), setup, weight_zp & 0xFFFF_FFFF)]
    sums = [0] * COLUMNS
    for weights, inputs, lane in steps:
        instructions.append((encode(OPCODE_CUSTOM_0, Sums.ADD, lane), weights, inputs))
        byte = inputs >> 8 * lane & 0xFF
        value = (byte if unsigned_input else signed(byte, 8)) - input_zp
        for column in range(COLUMNS):
            sums[column] += value * (signed(weights >> 8 * column, 8) - weight_zp)
    wanted: list[int | None] = [None] * len(instructions)
    for twice in (sums, [0] * COLUMNS):
        for column in range(COLUMNS):
            instructions.append((encode(OPCODE_CUSTOM_0, Sums.TAKE, column), 0, 0))
            wanted.append(twice[column] & 0xFFFF_FFFF)
    assert execute(instructions) == wanted


def test_an_instruction_of_nobody_is_not_answered():
    dut = Coprocessor()

    async def core(ctx):
        ctx.set(dut.port.valid, 1)
        for instruction in (encode(OPCODE_OP, 4, FUNCT7_MULDIV), encode(OPCODE_OP, 0), 0xFFFF_FFFF):
            ctx.set(dut.port.instruction, instruction)
            assert not ctx.get(dut.port.ready)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(core)
    simulator.run()
