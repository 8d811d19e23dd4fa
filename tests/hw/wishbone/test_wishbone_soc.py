"""An example SoC in simulation: a CPU's bus cycles, the accelerator and a RAM on Wishbone."""

import random

import numpy as np
import pytest
from kept_simulator import kept_simulator
from rest_nightly import first_of

from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import ISA_HASH, Error, Opcode, Space, Unit
from tosaic.hw.wishbone import WishboneAccelerator
from tosaic.sim.assembler import Assembler

BASE, BYTES, CODE = 0x4000, 8192, 4096
COLUMNS = 4
CONFIG = Config(
    "test",
    rows=1,
    columns=COLUMNS,
    am_bytes=4096,
    am_banks=4,
    wm_bytes=1024,
    line_pixels=8,
    line_groups=1,
)


class Soc:
    """The RAM answers after some cycles, or with `err` at `bad_address`; the CPU is the test."""

    def __init__(self, seed):
        self.dut, _, self._simulator = kept_simulator(WishboneAccelerator, CONFIG)
        self.rng = random.Random(seed)
        self.ram = bytearray(self.rng.randbytes(BYTES))
        self.bad_address = None
        self.bursts = []
        """(write, beats) of each."""

    def run(self, process):
        self._simulator.run(process, self._serve)

    async def _serve(self, ctx):
        """Also checks that what is asked for does not change until it is answered."""
        bus = self.dut.memory
        beats = 0
        while True:
            _, _, cyc, stb, we, adr = await ctx.tick().sample(bus.cyc, bus.stb, bus.we, bus.adr)
            if not (cyc and stb):
                continue
            for _ in range(self.rng.choice([0, 0, 1, 4])):
                asked = await ctx.tick().sample(bus.cyc, bus.stb, bus.we, bus.adr)
                assert asked[2:] == (1, 1, we, adr)
            place = adr * COLUMNS - BASE
            good = 0 <= place < BYTES and adr * COLUMNS != self.bad_address
            ctx.set(bus.ack if good else bus.err, 1)
            if good:
                ctx.set(bus.dat_r, int.from_bytes(self.ram[place : place + COLUMNS], "little"))
            _, _, data, sel, cti, bte = await ctx.tick().sample(bus.dat_w, bus.sel, bus.cti, bus.bte)
            ctx.set(bus.ack, 0)
            ctx.set(bus.err, 0)
            assert bte == 0 and cti in (2, 7)
            if we and good:
                for lane in range(COLUMNS):
                    if sel >> lane & 1:
                        self.ram[place + lane] = data >> 8 * lane & 255
            beats += 1
            if cti == 7:
                self.bursts.append((we, beats))
                beats = 0

    async def cycle(self, ctx, offset, value=None, sel=15):
        """(data, error) of one CPU access."""
        bus = self.dut.control
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        ctx.set(bus.we, value is not None)
        ctx.set(bus.adr, offset // 4)
        ctx.set(bus.dat_w, value or 0)
        ctx.set(bus.sel, sel)
        while True:
            _, _, ack, err, data = await ctx.tick().sample(bus.ack, bus.err, bus.dat_r)
            if ack or err:
                break
        ctx.set(bus.cyc, 0)
        ctx.set(bus.stb, 0)
        return data, err

    async def read(self, ctx, name):
        data, error = await self.cycle(ctx, REGISTER[name].offset)
        assert not error
        return data

    async def write(self, ctx, name, value):
        _, error = await self.cycle(ctx, REGISTER[name].offset, value)
        assert not error

    async def start(self, ctx, size):
        values = {
            "MEM_BASE": BASE,
            "MEM_SIZE": BYTES,
            "PROGRAM_ADDRESS": CODE,
            "PROGRAM_BYTES": size,
            "CONTROL": 5,
        }
        for name, value in values.items():
            await self.write(ctx, name, value)
        await ctx.tick().until(self.dut.irq)


def copy_program(ram, rows=6, row_bytes=37):
    """Rows from one place of the RAM to another, nothing aligned."""
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.LOAD_PITCH, memory_pitch=101, local_pitch=41)
    assembler.emit(
        Opcode.LOAD_GO, memory_address=131, space=Space.AM, local_address=3, row_bytes=row_bytes, rows=rows
    )
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.emit(Opcode.STORE_PITCH, memory_pitch=43, local_pitch=41)
    assembler.emit(Opcode.STORE_GO, memory_address=2053, local_address=3, row_bytes=row_bytes, rows=rows)
    size = assembler.place(np.frombuffer(ram, np.uint8), CODE)
    expected = bytearray(ram)
    for row in range(rows):
        start = 131 + 101 * row
        expected[2053 + 43 * row : 2053 + 43 * row + row_bytes] = ram[start : start + row_bytes]
    return size, expected


@pytest.mark.parametrize("seed", first_of([1, 2], 1))
def test_a_program_runs(seed):
    soc = Soc(seed)

    async def process(ctx):
        assert await soc.read(ctx, "ISA_HASH") == ISA_HASH
        assert await soc.read(ctx, "CONFIG_HASH") == CONFIG.hash
        size, expected = copy_program(soc.ram)
        await soc.start(ctx, size)
        assert await soc.read(ctx, "STATUS") == 0b101
        assert soc.ram == expected
        beats = await soc.read(ctx, "STORE_BEATS")
        assert sum(count for write, count in soc.bursts if write) == beats
        reads = await soc.read(ctx, "LOAD_BEATS") + await soc.read(ctx, "FETCH_BEATS")
        assert sum(count for write, count in soc.bursts if not write) == reads

    soc.run(process)
    assert max(count for _, count in soc.bursts) > 4


@pytest.mark.parametrize("address, code", [(131, Error.BUS_READ), (2053 + 43, Error.BUS_WRITE)])
def test_bus_errors(address, code):
    """`err` ends the run in words; after a soft reset the same program runs."""
    soc = Soc(3)

    async def process(ctx):
        size, expected = copy_program(soc.ram)
        soc.bad_address = (BASE + address) // COLUMNS * COLUMNS
        await soc.start(ctx, size)
        error = await soc.read(ctx, "ERROR")
        unit = Unit.LOAD if code == Error.BUS_READ else Unit.STORE
        assert (error & 15, error >> 8 & 7) == (code, unit)
        soc.bad_address = None
        await soc.write(ctx, "CONTROL", 2)
        while not await soc.read(ctx, "STATUS") & 1:
            pass
        await soc.start(ctx, size)
        assert soc.ram == expected

    soc.run(process)


def test_registers():
    """Byte enables, an address without a register, a cycle that is given up."""
    soc = Soc(4)

    async def process(ctx):
        await soc.write(ctx, "WATCHDOG", 0x11223344)
        assert (await soc.cycle(ctx, REGISTER["WATCHDOG"].offset, 0xAABBCCDD, sel=0b0100))[1] == 0
        assert await soc.read(ctx, "WATCHDOG") == 0x11BB3344
        assert (await soc.cycle(ctx, 0xFFC))[1] == 1
        assert (await soc.cycle(ctx, 0xFFC, 1))[1] == 1
        bus = soc.dut.control
        ctx.set(bus.cyc, 1)
        ctx.set(bus.stb, 1)
        await ctx.tick()
        ctx.set(bus.cyc, 0)
        ctx.set(bus.stb, 0)
        await ctx.tick()
        assert await soc.read(ctx, "WATCHDOG") == 0x11BB3344

    soc.run(process)
