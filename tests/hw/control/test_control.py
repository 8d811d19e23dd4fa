"""The control port: map, strobes, error answers, counters, marks, interrupt."""

import random

import pytest
from control_bench import LiteManager, simulate
from kept_simulator import kept_simulator

from tosaic.hw.config import CONFIGS
from tosaic.hw.control import Control
from tosaic.hw.control.axi_lite import AxiLiteSubordinate
from tosaic.hw.control.registers import RegisterBank
from tosaic.hw.csr_map import COUNTERS, MARKS, REGISTER, REGISTERS, FieldAccess, Register, RegisterField
from tosaic.hw.isa import ISA_HASH

CONFIG = CONFIGS["nano"]


def test_the_map_is_consistent():
    offsets = [register.offset for register in REGISTERS]
    assert offsets == sorted(set(offsets)) and all(offset % 4 == 0 and offset < 4096 for offset in offsets)
    for register in REGISTERS:
        masks = [field.mask for field in register.fields]
        assert (
            sum(masks).bit_length() <= 32
            and sum(mask.bit_count() for mask in masks) == sum(masks).bit_count()
        )
        assert register.reset is None or register.reset < 1 << 32
    assert REGISTER["ERROR"].field("unit").extract(0x307) == 3
    with pytest.raises(KeyError, match="STATUS has no field nothing"):
        REGISTER["STATUS"].field("nothing")


def test_bank_constructor():
    one = RegisterField("value", 0, 32, FieldAccess.RW, "")
    with pytest.raises(ValueError, match=r"^A's offset must be a multiple of 4 below 4096, not 0x1002$"):
        RegisterBank([Register("A", 0x1002, 0, "", (one,))])
    with pytest.raises(ValueError, match=r"^two registers have the same offset$"):
        RegisterBank([Register("A", 4, 0, "", (one,)), Register("B", 4, 0, "", (one,))])


@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_reset_values_and_identity(stall):
    dut, _, simulator = kept_simulator(Control, CONFIG)
    manager = LiteManager(dut.axi, stall)

    async def script(ctx):
        for register in REGISTERS:
            data = await manager.read(ctx, register.name)
            if register.reset is not None:
                assert data == register.reset, register.name
        assert await manager.read(ctx, "ID") == int.from_bytes(b"TOSA", "little")
        assert await manager.read(ctx, "ISA_HASH") == ISA_HASH
        assert await manager.read(ctx, "CONFIG_HASH") == CONFIG.hash

    simulator.run(script)


@pytest.mark.parametrize("name", ["MEM_BASE", "MEM_SIZE"])
def test_locked_registers_ignore_writes_until_the_reset(name):
    control, reset, simulator = kept_simulator(Control, CONFIG)
    manager = LiteManager(control.axi, 0.3)

    async def script(ctx):
        await manager.write(ctx, "LOCK", 0)
        await manager.write(ctx, name, 0x12345678)
        await manager.write(ctx, "LOCK", 0xFFFFFFFF)
        assert await manager.read(ctx, "LOCK") == 1
        for value in (0xFFFFFFFF, 0, 0x1000):
            await manager.write(ctx, name, value)
            assert await manager.read(ctx, name) == 0x12345678
        # Neither a write of 0 nor a soft reset unlocks; other registers go on.
        await manager.write(ctx, "LOCK", 0)
        await manager.write(ctx, "CONTROL", REGISTER["CONTROL"].field("soft_reset").mask)
        await manager.write(ctx, name, 0)
        assert await manager.read(ctx, "LOCK") == 1 and await manager.read(ctx, name) == 0x12345678
        await manager.write(ctx, "PROGRAM_ADDRESS", 64)
        assert await manager.read(ctx, "PROGRAM_ADDRESS") == 64
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        await manager.write(ctx, name, 0x20)
        assert await manager.read(ctx, "LOCK") == 0 and await manager.read(ctx, name) == 0x20

    simulator.run(script)


def test_random_accesses_against_a_dictionary():
    dut, _, simulator = kept_simulator(Control, CONFIG)
    rng = random.Random(5)
    manager = LiteManager(dut.axi, 0.4)
    stored = {r.offset: r.reset & r.mask(FieldAccess.RW) for r in REGISTERS if r.mask(FieldAccess.RW)}
    known = {register.offset: register for register in REGISTERS}
    writable = {
        r.offset
        for r in REGISTERS
        if r.mask(FieldAccess.RW, FieldAccess.PULSE, FieldAccess.W1C, FieldAccess.SET)
    }
    # LOCK is in a test of its own.
    known.pop(REGISTER["LOCK"].offset)

    async def script(ctx):
        for _ in range(400):
            offset = rng.choice([*stored, *known, rng.randrange(0, 4096, 4)])
            if rng.random() < 0.5:
                data, strobe = rng.getrandbits(32), rng.getrandbits(4)
                resp = await manager.write_response(ctx, offset | rng.getrandbits(2), data, strobe)
                assert resp == (0 if offset in writable else 2), hex(offset)
                if offset in stored:
                    bits = sum(0xFF << 8 * i for i in range(4) if strobe >> i & 1)
                    stored[offset] = (stored[offset] & ~bits | data & bits) & known[offset].mask(
                        FieldAccess.RW
                    )
            else:
                data, resp = await manager.read_response(ctx, offset)
                assert resp == (0 if offset in known else 2), hex(offset)
                if offset in stored:
                    assert data == stored[offset], known[offset].name
                elif offset not in known:
                    assert data == 0

    simulator.run(script)


def test_read_and_write_at_once():
    """Neither channel waits for the other; a write answers 2 cycles after it was accepted, a read 3."""
    dut = AxiLiteSubordinate()

    async def script(ctx):
        axi = dut.axi
        ctx.set(dut.bus.read_data, 7)
        for valid in (axi.awvalid, axi.wvalid, axi.arvalid, axi.bready, axi.rready):
            ctx.set(valid, 1)
        reads, writes = [], []
        for _ in range(12):
            reads.append(ctx.get(axi.rvalid))
            writes.append(ctx.get(axi.bvalid))
            await ctx.tick()
        assert reads == [0, 0, 0, 1] * 3
        assert writes == [0, 0] + [1, 0] * 5

    simulate(dut, script)


def test_start_and_soft_reset_are_single_pulses():
    dut, _, simulator = kept_simulator(Control, CONFIG)
    starts, resets = [], []

    async def each_cycle(ctx):
        starts.append(ctx.get(dut.run.start))
        resets.append(ctx.get(dut.run.soft_reset))
        await ctx.tick()

    manager = LiteManager(dut.axi, each_cycle=each_cycle)

    async def script(ctx):
        await manager.write(ctx, "CONTROL", 1)
        assert (sum(starts), sum(resets)) == (1, 0)
        await manager.write(ctx, "CONTROL", 1, strobe=14)
        await manager.write(ctx, "CONTROL", 4)
        assert (sum(starts), sum(resets)) == (1, 0)
        assert await manager.read(ctx, "CONTROL") == 4
        for level in ("running", "error", "resetting"):
            ctx.set(dut.run.report[level], 1)
            await manager.write(ctx, "CONTROL", 1)
            ctx.set(dut.run.report[level], 0)
        assert (sum(starts), sum(resets)) == (1, 0)
        await manager.write(ctx, "CONTROL", 2)
        assert (sum(starts), sum(resets)) == (1, 1)

    simulator.run(script)


def test_report_is_readable():
    dut, _, simulator = kept_simulator(Control, CONFIG)
    manager = LiteManager(dut.axi)

    async def script(ctx):
        report = dut.run.report
        for name, value in {"code": 8, "unit": 3, "pc": 0xABC0, "busy": 5, "waiting": 2, "queued": 8}.items():
            ctx.set(report[name], value)
        for unit in range(4):
            ctx.set(report.unit_pcs[unit], 0x1000 * unit + 0x10)
        ctx.set(report.error, 1)
        assert await manager.read(ctx, "STATUS") == REGISTER["STATUS"].field("error").mask
        ctx.set(report.error, 0)
        ctx.set(report.done, 1)
        assert await manager.read(ctx, "STATUS") == 0b00101
        ctx.set(report.running, 1)
        ctx.set(report.done, 0)
        assert await manager.read(ctx, "STATUS") == 0b00010
        ctx.set(report.resetting, 1)
        assert await manager.read(ctx, "STATUS") == 0b10010
        assert await manager.read(ctx, "ERROR") == 0x308
        assert await manager.read(ctx, "PC") == 0xABC0
        assert await manager.read(ctx, "UNITS") == 0x80205
        pcs = [await manager.read(ctx, f"{unit}_PC") for unit in ("LOAD", "ARRAY", "VECTOR", "STORE")]
        assert pcs == [0x10, 0x1010, 0x2010, 0x3010]

    simulator.run(script)


def test_counters_count_only_while_running():
    dut, _, simulator = kept_simulator(Control, CONFIG)
    manager = LiteManager(dut.axi)

    async def script(ctx):
        for index, (name, _) in enumerate(COUNTERS):
            ctx.set(dut.events, {n.lower(): n == name for n, _ in COUNTERS})
            await ctx.tick()
            ctx.set(dut.run.report.running, 1)
            for _ in range(index + 2):
                await ctx.tick()
            ctx.set(dut.run.report.running, 0)
        counts = [await manager.read(ctx, name) for name, _ in COUNTERS]
        assert counts == [index + 2 for index in range(len(COUNTERS))]
        assert await manager.read(ctx, "CYCLES") == sum(counts)
        assert await manager.read(ctx, "CYCLES_HIGH") == 0
        await manager.write(ctx, "CONTROL", 1)
        assert [await manager.read(ctx, name) for name in ("CYCLES", "FETCH_BEATS", "ARRAY_ACTIVE")] == [
            0,
            0,
            0,
        ]

    simulator.run(script)


def test_marks_keep_layer_and_cycle_and_stop_when_full():
    dut, _, simulator = kept_simulator(Control, CONFIG)
    manager = LiteManager(dut.axi)

    async def script(ctx):
        ctx.set(dut.run.report.running, 1)
        for number in range(MARKS + 5):
            ctx.set(dut.mark, 1)
            ctx.set(dut.mark_layer, number * 7 & 0xFFFF)
            await ctx.tick()
            ctx.set(dut.mark, 0)
            await ctx.tick()
        ctx.set(dut.run.report.running, 0)
        assert await manager.read(ctx, "MARK_COUNT") == MARKS
        for number in (0, 1, 511, MARKS - 1):
            await manager.write(ctx, "MARK_INDEX", number)
            assert await manager.read(ctx, "MARK_LAYER") == number * 7
            assert await manager.read(ctx, "MARK_CYCLE") == number * 2
        await manager.write(ctx, "CONTROL", 1)
        assert await manager.read(ctx, "MARK_COUNT") == 0

    simulator.run(script)


def test_interrupt():
    dut, _, simulator = kept_simulator(Control, CONFIG)
    manager = LiteManager(dut.axi)

    async def script(ctx):
        report = dut.run.report
        await ctx.tick()
        ctx.set(report.done, 1)
        await ctx.tick().repeat(2)
        assert await manager.read(ctx, "IRQ") == 1 and not ctx.get(dut.irq)
        await manager.write(ctx, "CONTROL", 4)
        assert ctx.get(dut.irq)
        await manager.write(ctx, "IRQ", 2)
        assert ctx.get(dut.irq)
        await manager.write(ctx, "IRQ", 1)
        assert await manager.read(ctx, "IRQ") == 0 and not ctx.get(dut.irq)
        ctx.set(report.done, 0)
        ctx.set(report.error, 1)
        await ctx.tick().repeat(2)
        assert await manager.read(ctx, "IRQ") == 2 and ctx.get(dut.irq)
        await manager.write(ctx, "CONTROL", 6)
        assert await manager.read(ctx, "IRQ") == 0 and not ctx.get(dut.irq)

    simulator.run(script)
