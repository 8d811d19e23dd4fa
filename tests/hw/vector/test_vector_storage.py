"""What VECTOR keeps: registers, parameters, table, offsets, micro-program; what it makes of loaded bytes."""

import random

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator
from job_bench import JobBench
from vector_programs import TINY, bounds, uop

from tosaic.hw.config import Config
from tosaic.hw.isa import OFFSETS_MAX, Op, Source, encode
from tosaic.hw.vector.element import Elements
from tosaic.hw.vector.layouts import TABLE_ENTRIES, Select, table_words
from tosaic.hw.vector.offsets import OFFSET_BITS, Offsets
from tosaic.hw.vector.params import Parameters
from tosaic.hw.vector.program import FINISH_CYCLES, OUT_ZP_CYCLES, MicroOpStore
from tosaic.hw.vector.registers import RegisterFile
from tosaic.hw.vector.table import Table

WIDE = Config("wide", rows=2, columns=8, am_bytes=1 << 13, am_banks=4, wm_bytes=1 << 10, line_pixels=16)


def signed(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@pytest.mark.parametrize(
    ("config", "size"), [(TINY, 1), (TINY, 2), (TINY, 4), (WIDE, 1), (WIDE, 4), (WIDE, 8)]
)
@pytest.mark.parametrize("is_signed", [0, 1])
def test_elements_are_extended_from_their_size(config, size, is_signed):
    """Lane i gets element i of its beat, which begins at each multiple of the elements that a word holds."""
    lanes, bits = config.columns, config.vector_bits
    dut, dice = Elements(config, lanes), random.Random(size)

    async def job(ctx):
        for other in (1, 2, 4, 8):
            ctx.set(dut.format[f"bytes{other}"], other == size)
        ctx.set(dut.format.signed, is_signed)
        for _ in range(30):
            word = dice.choice([0, (1 << 8 * lanes) - 1, dice.randrange(1 << 8 * lanes)])
            ctx.set(dut.word, word)
            ctx.set(dut.bytes, word)
            ctx.set(dut.pairs, word)
            for lane in range(lanes):
                value = word >> 8 * size * (lane % (lanes // size)) & ((1 << 8 * size) - 1)
                expected = signed(value, 8 * size) if is_signed else value
                assert ctx.get(dut.elements[lane]) == expected % (1 << bits)

    simulator = Simulator(dut)
    simulator.add_testbench(job)
    simulator.run()


def test_every_lane_gets_the_splat_value_where_the_format_has_no_size():
    dut = Elements(WIDE, WIDE.columns)
    value = 0x8123456789AB

    async def job(ctx):
        ctx.set(dut.word, (1 << 64) - 1)
        ctx.set(dut.bytes, (1 << 64) - 1)
        ctx.set(dut.pairs, (1 << 64) - 1)
        ctx.set(dut.splat, value)
        assert [ctx.get(dut.elements[lane]) for lane in range(WIDE.columns)] == [value] * WIDE.columns

    simulator = Simulator(dut)
    simulator.add_testbench(job)
    simulator.run()


def test_registers_hold_what_was_read_until_the_next_read():
    dut, dice = RegisterFile(TINY), random.Random(2)
    places = TINY.vector_registers * TINY.vector_slots

    async def job(ctx):
        stored: dict[int, int] = {}
        expected = {"a": None, "b": None}
        for _ in range(600):
            address, value = dice.randrange(places), signed(dice.randrange(1 << 48), 48)
            ctx.set(dut.write, 1)
            ctx.set(dut.address, address)
            ctx.set(dut.value, value)
            reads = {port: (dice.random() < 0.5, dice.choice([*stored, 0])) for port in ("a", "b")}
            ctx.set(dut.a_enable, reads["a"][0])
            ctx.set(dut.a_address, reads["a"][1])
            ctx.set(dut.b_enable, reads["b"][0])
            ctx.set(dut.b_address, reads["b"][1])
            await ctx.tick()
            for port, (enable, read) in reads.items():
                # A read that meets a write of its address may return anything.
                if enable:
                    expected[port] = stored.get(read) if read != address else None
            stored[address] = value
            for port, got in (("a", dut.a), ("b", dut.b)):
                if expected[port] is not None:
                    assert ctx.get(got) == expected[port]

    JobBench(dut).run(job)


def test_parameters_are_written_one_by_one():
    dut = Parameters()

    async def job(ctx):
        ctx.set(dut.write.word, 0x80000001)
        ctx.set(dut.write.byte, 0xC7)
        for flag in (dut.write.bias, dut.write.multiplier, dut.write.shift):
            ctx.set(flag, 1)
        await ctx.tick()
        for flag in (dut.write.bias, dut.write.multiplier, dut.write.shift):
            ctx.set(flag, 0)
        ctx.set(dut.write.word, 5)
        await ctx.tick()
        return ctx.get(dut.bias), ctx.get(dut.multiplier), ctx.get(dut.shift)

    assert JobBench(dut).run(job) == (-0x7FFFFFFF, -0x7FFFFFFF, 7)


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
def test_table(config):
    """Every entry comes back in its two signed halves, and stays while nothing is read."""
    dut, dice = Table(config), random.Random(3)
    per_word = config.columns // 4
    entries = [dice.randrange(1 << 32) for _ in range(TABLE_ENTRIES)]

    async def job(ctx):
        ctx.set(dut.write.enable, 1)
        for word in range(table_words(config)):
            ctx.set(dut.write.address, word)
            group = entries[word * per_word :][:per_word]
            ctx.set(dut.write.word, sum(entry << 32 * i for i, entry in enumerate(group)))
            await ctx.tick()
        ctx.set(dut.write.enable, 0)
        for entry in dice.sample(range(TABLE_ENTRIES), 100):
            ctx.set(dut.read, 1)
            ctx.set(dut.entry, entry)
            await ctx.tick()
            ctx.set(dut.read, 0)
            ctx.set(dut.entry, 0)
            for _ in range(2):
                assert ctx.get(dut.low) == signed(entries[entry], 16)
                assert ctx.get(dut.high) == signed(entries[entry] >> 16, 16)
                await ctx.tick()

    JobBench(dut).run(job)


@pytest.mark.parametrize("config", [TINY, WIDE], ids=lambda config: config.name)
@pytest.mark.parametrize("last_turn", [0, 1, 6])
def test_offsets_come_in_order_and_round_again(config, last_turn):
    dut, dice = Offsets(config), random.Random(last_turn)
    per_word = config.columns // 4
    values = [dice.randrange(1 << 32) for _ in range(8)]

    async def job(ctx):
        ctx.set(dut.last_turn, last_turn)
        ctx.set(dut.write, 1)
        for word in range(8 // per_word):
            ctx.set(dut.word_address, word)
            group = values[word * per_word :][:per_word]
            ctx.set(dut.word, sum(value << 32 * i for i, value in enumerate(group)))
            await ctx.tick()
        ctx.set(dut.write, 0)
        for _ in range(2):
            ctx.set(dut.idle, 1)
            await ctx.tick().repeat(2)
            ctx.set(dut.idle, 0)
            number = 0
            for _ in range(40):
                assert ctx.get(dut.offset) == values[number] % (1 << OFFSET_BITS)
                step = dice.random() < 0.7
                ctx.set(dut.step, step)
                await ctx.tick()
                number = (number + step) % (last_turn + 1)

    assert OFFSETS_MAX >= len(values)
    JobBench(dut).run(job)


def word(instruction) -> int:
    return int.from_bytes(encode(instruction), "little")


class Chip:
    """What the micro-ops' memory looks at."""

    has_small_memories = False


@pytest.mark.parametrize("platform", [None, Chip()], ids=["fpga", "chip"])
def test_program_gives_each_stage_what_it_needs(platform):
    dut = MicroOpStore(TINY)
    load, register = (Source.LOAD, 2), (Source.REGISTER, 5)
    micro_op = uop(3, Op.SUB, load, register, bias=1, shift=9, a_zp=-7, out_zp=11, clamp=1, destination=6)
    limits = bounds(3, low=-100, high=200, immediate=-3)

    async def job(ctx):
        ctx.set(dut.uop.as_value(), word(micro_op))
        ctx.set(dut.write_uop, 1)
        ctx.set(dut.bounds.as_value(), word(limits))
        await ctx.tick()
        ctx.set(dut.write_uop, 0)
        ctx.set(dut.write_bounds, 1)
        await ctx.tick()
        ctx.set(dut.write_bounds, 0)
        for table in (dut.issue, dut.arithmetic):
            ctx.set(table.enable, 1)
            ctx.set(table.index, 3)
        await ctx.tick()
        for table in (dut.issue, dut.arithmetic):
            ctx.set(table.enable, 0)
            ctx.set(table.index, 0)
        issue, arithmetic, finish = dut.issue.data, dut.arithmetic.data, dut.finish.data
        assert ctx.get(issue.a.select) == Select.LOAD
        assert ctx.get(issue.b.select) == Select.REGISTER
        flags = {"loads": 0b100, "array": 0, "registers": 1, "bias": 1, "store": 0}
        assert {name: ctx.get(issue[name]) for name in flags} == flags
        assert ctx.get(issue.b.register) == 5
        assert [ctx.get(arithmetic[name]) for name in ("op", "shift", "a_zp")] == [Op.SUB, 9, -7]
        assert ctx.get(dut.immediate.data) == -3
        await ctx.tick().repeat(OUT_ZP_CYCLES)
        assert ctx.get(dut.out_zp.data) == 11
        await ctx.tick().repeat(FINISH_CYCLES - OUT_ZP_CYCLES)
        assert [ctx.get(finish[name]) for name in ("clamp", "wrap32", "to_memory", "destination")] == [
            1,
            0,
            0,
            6,
        ]
        assert (ctx.get(dut.limits.data.low), ctx.get(dut.limits.data.high)) == (-100, 200)

    JobBench(Fragment.get(dut, platform)).run(job)
