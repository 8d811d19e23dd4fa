"""What lies around the core: register file, doorbells, memory of the host; the core is played by the test."""

import random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import memory
from amaranth.sim import Simulator

from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTER, REGISTERS, RESP_OKAY, RESP_SLVERR, FieldAccess
from tosaic.hw.micro.accelerator import MicroSystem
from tosaic.hw.micro.memory_map import (
    EVENT_COLD,
    EVENT_RUN,
    PORT_BASE,
    PORT_CYCLES,
    PORT_EVENTS,
    RAM_BYTES,
    REGISTERS_BYTES,
    ROM_BYTES,
    SIGNAL_DONE,
    SIGNAL_FAILED,
    SIGNAL_READY,
    MemoryMap,
)
from tosaic.hw.micro.status import HELD, POWER_UP_CYCLES

CONFIG = CONFIGS["nano"]
MAP = MemoryMap(CONFIG)
IDLE, RUNNING, DONE, ERROR, RESETTING = 1, 2, 4, 8, 16


class Bench:
    """The system with a RAM, a core and a host in one process."""

    def __init__(self, firmware: bytes = b""):
        self.dut = MicroSystem(CONFIG, firmware)
        self.module = Module()
        self.reset = Signal()
        self.module.submodules.dut = ResetInserter(self.reset)(self.dut)
        self.module.submodules.ram = ram = memory.Memory(shape=32, depth=RAM_BYTES // 4, init=[])
        self.words = ram.data
        port, read, write = self.dut.ram, ram.read_port(), ram.write_port(granularity=8)
        self.module.d.comb += [
            read.addr.eq(port.address),
            read.en.eq(port.enable & ~port.write),
            write.addr.eq(port.address),
            write.data.eq(port.write_data),
            write.en.eq(port.mask & (port.enable & port.write).replicate(4)),
            port.data.eq(read.data),
        ]

    def run(self, host, core=None):
        async def testbench(ctx):
            self.ctx = ctx
            await host(self)

        simulator = Simulator(self.module)
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        if core is not None:
            simulator.add_testbench(core, background=True)
        simulator.run()

    async def tick(self, count=1):
        for _ in range(count):
            await self.ctx.tick()

    # The core.

    async def load(self, address):
        bus = self.dut.bus
        self.ctx.set(bus.address, address)
        self.ctx.set(bus.read, 1)
        await self.tick()
        self.ctx.set(bus.read, 0)
        return self.ctx.get(bus.read_data)

    async def store(self, address, value, mask=15):
        bus = self.dut.bus
        for signal, to in ((bus.address, address), (bus.write_data, value), (bus.mask, mask), (bus.write, 1)):
            self.ctx.set(signal, to)
        await self.tick()
        self.ctx.set(bus.write, 0)

    async def signal(self, bits):
        await self.store(PORT_BASE + PORT_EVENTS, bits)

    async def events(self):
        return await self.load(PORT_BASE + PORT_EVENTS)

    # The host.

    async def _until(self, signal, limit=50):
        for _ in range(limit):
            if self.ctx.get(signal):
                return
            await self.tick()
        raise TimeoutError

    async def read(self, offset):
        axi = self.dut.registers
        self.ctx.set(axi.araddr, offset)
        self.ctx.set(axi.arvalid, 1)
        await self._until(axi.arready)
        await self.tick()
        self.ctx.set(axi.arvalid, 0)
        self.ctx.set(axi.araddr, 0xFFC)
        await self._until(axi.rvalid)
        result = self.ctx.get(axi.rdata), self.ctx.get(axi.rresp)
        await self.tick(2)
        assert self.ctx.get(axi.rvalid) and (self.ctx.get(axi.rdata), self.ctx.get(axi.rresp)) == result
        self.ctx.set(axi.rready, 1)
        await self.tick()
        self.ctx.set(axi.rready, 0)
        assert not self.ctx.get(axi.rvalid)
        return result

    async def value(self, name):
        value, response = await self.read(REGISTER[name].offset)
        assert response == RESP_OKAY
        return value

    async def write(self, offset, value, strobe=15):
        axi = self.dut.registers
        for signal, to in (
            (axi.awaddr, offset),
            (axi.wdata, value),
            (axi.wstrb, strobe),
            (axi.awvalid, 1),
            (axi.wvalid, 1),
        ):
            self.ctx.set(signal, to)
        await self._until(axi.awready)
        assert self.ctx.get(axi.wready)
        await self.tick()
        self.ctx.set(axi.awvalid, 0)
        self.ctx.set(axi.wvalid, 0)
        await self._until(axi.bvalid)
        response = self.ctx.get(axi.bresp)
        self.ctx.set(axi.bready, 1)
        await self.tick()
        self.ctx.set(axi.bready, 0)
        return response

    async def put(self, name, value):
        assert await self.write(REGISTER[name].offset, value) == RESP_OKAY

    async def byte(self, address, value=None):
        """The byte read, or the error."""
        port = self.dut.memory
        self.ctx.set(port.address, address)
        self.ctx.set(port.write, value is not None)
        self.ctx.set(port.write_data, value or 0)
        self.ctx.set(port.request, 1)
        await self._until(port.done)
        result = self.ctx.get(port.read_data), self.ctx.get(port.error)
        self.ctx.set(port.request, 0)
        await self.tick()
        return result


def with_firmware_up(host):
    async def wrapped(bench):
        await bench.signal(SIGNAL_READY)
        await host(bench)

    return wrapped


def test_the_core_is_held_in_reset_after_power_up_and_every_reset():
    bench = Bench()

    async def low(expected):
        count = 0
        while not bench.ctx.get(bench.dut.core_runs):
            await bench.tick()
            count += 1
        assert count == expected

    async def host(bench):
        await low(POWER_UP_CYCLES - 1)
        await bench.signal(SIGNAL_READY)
        bench.ctx.set(bench.reset, 1)
        await bench.tick()
        bench.ctx.set(bench.reset, 0)
        await low(POWER_UP_CYCLES - 1)
        assert await bench.events() == EVENT_COLD
        await bench.signal(SIGNAL_READY)
        await bench.put("CONTROL", 2)
        assert not bench.ctx.get(bench.dut.core_runs)
        await bench.tick(5)
        assert bench.ctx.get(bench.dut.core_runs)
        assert await bench.events() == 0

    bench.run(host)


def test_the_host_waits_for_the_firmware():
    bench = Bench()

    async def host(bench):
        with pytest.raises(TimeoutError):
            await bench.read(REGISTER["ID"].offset)
        # Memory is there at once.
        assert (await bench.byte(MAP.window_base + 5, 77))[1] == 0
        assert await bench.byte(MAP.window_base + 5) == (77, 0)
        await bench.store(MAP.registers_base, 0x12345678)
        await bench.signal(SIGNAL_READY)
        assert await bench.value("ID") == 0x12345678

    bench.run(host)


def test_registers_are_words_of_the_ram():
    bench = Bench()

    @with_firmware_up
    async def host(bench):
        rng = random.Random(1)
        for register in REGISTERS:
            if register.name in HELD:
                continue
            value, other = rng.getrandbits(32), rng.getrandbits(32)
            await bench.store(MAP.registers_base + register.offset, value)
            assert await bench.value(register.name) == value
            written = register.mask(FieldAccess.RW)
            response = await bench.write(register.offset, other)
            assert response == (RESP_OKAY if written else RESP_SLVERR)
            expected = other & written if written else value
            assert await bench.load(MAP.registers_base + register.offset) == expected
        # Strobes.
        await bench.put("MEM_SIZE", 0x11223344)
        assert await bench.write(REGISTER["MEM_SIZE"].offset, 0xAABBCCDD, 0b0101) == RESP_OKAY
        assert await bench.value("MEM_SIZE") == 0x11BB33DD

    bench.run(host)


def test_the_window_can_be_locked():
    bench = Bench()

    @with_firmware_up
    async def host(bench):
        names = [register.name for register in REGISTERS if register.lock == "memory"]
        assert names == ["MEM_BASE", "MEM_SIZE"]
        for name in names:
            await bench.put(name, 0x11223344)
        await bench.put("LOCK", 0xFF)
        assert await bench.value("LOCK") == 1
        await bench.put("LOCK", 0)
        assert await bench.value("LOCK") == 1
        for name in names:
            assert await bench.write(REGISTER[name].offset, 0) == RESP_OKAY
            assert await bench.value(name) == 0x11223344
        await bench.put("CONTROL", REGISTER["CONTROL"].field("soft_reset").mask)
        await bench.tick(POWER_UP_CYCLES)
        await bench.signal(SIGNAL_READY)
        assert await bench.value("LOCK") == 1
        bench.ctx.set(bench.reset, 1)
        await bench.tick()
        bench.ctx.set(bench.reset, 0)
        await bench.tick(POWER_UP_CYCLES)
        await bench.signal(SIGNAL_READY)
        assert await bench.value("LOCK") == 0
        await bench.put("MEM_BASE", 0x55)
        assert await bench.value("MEM_BASE") == 0x55

    bench.run(host)


def test_offsets_of_no_register():
    bench = Bench()
    there = {register.offset for register in REGISTERS}

    @with_firmware_up
    async def host(bench):
        last = MAP.registers_base + REGISTERS_BYTES - 4
        await bench.store(last, 0x5A5A5A5A)
        for offset in (*(o for o in range(0, 0x200, 4) if o not in there), REGISTERS_BYTES - 4, 0x800, 0xFFC):
            assert (await bench.read(offset))[1] == RESP_SLVERR
            assert await bench.write(offset, 1) == RESP_SLVERR
        assert await bench.load(last) == 0x5A5A5A5A
        for name in ("STATUS", "CYCLES", "CYCLES_HIGH"):
            assert await bench.write(REGISTER[name].offset, 1) == RESP_SLVERR

    bench.run(host)


def test_a_run_to_its_end():
    bench = Bench()

    @with_firmware_up
    async def host(bench):
        assert await bench.value("STATUS") == IDLE
        await bench.put("CONTROL", 4 | 1)
        assert bench.ctx.get(bench.dut.running)
        assert await bench.value("STATUS") == RUNNING
        assert await bench.events() == EVENT_RUN | EVENT_COLD
        assert await bench.value("CONTROL") == 4
        # A second start does nothing; the counter goes on.
        first = await bench.value("CYCLES")
        await bench.put("CONTROL", 4 | 1)
        assert 0 < first < await bench.value("CYCLES") < 100
        assert await bench.load(PORT_BASE + PORT_CYCLES) > first
        assert not bench.ctx.get(bench.dut.irq)
        await bench.signal(SIGNAL_DONE)
        assert bench.ctx.get(bench.dut.irq)
        assert await bench.value("STATUS") == IDLE | DONE
        assert await bench.value("IRQ") == 1
        end = await bench.value("CYCLES")
        await bench.tick(10)
        assert await bench.value("CYCLES") == end and await bench.value("CYCLES_HIGH") == 0
        await bench.put("IRQ", 2)
        assert await bench.value("IRQ") == 1
        await bench.put("IRQ", 1)
        assert await bench.value("IRQ") == 0 and not bench.ctx.get(bench.dut.irq)
        await bench.put("CONTROL", 1)
        assert await bench.value("STATUS") == RUNNING
        assert await bench.value("CYCLES") < end
        await bench.signal(SIGNAL_DONE)
        assert not bench.ctx.get(bench.dut.irq)  # It is switched off.

    bench.run(host)


def test_only_a_reset_ends_an_error():
    bench = Bench()

    @with_firmware_up
    async def host(bench):
        await bench.put("CONTROL", 4 | 1)
        await bench.signal(SIGNAL_FAILED)
        assert await bench.value("STATUS") == ERROR
        assert await bench.value("IRQ") == 2 and bench.ctx.get(bench.dut.irq)
        await bench.put("CONTROL", 4 | 1)
        assert await bench.value("STATUS") == ERROR
        await bench.put("CONTROL", 4 | 2)
        await bench.tick(8)
        await bench.signal(SIGNAL_READY)
        assert await bench.value("STATUS") == IDLE
        assert await bench.value("IRQ") == 0
        assert await bench.value("CONTROL") == 4

    bench.run(host)


def test_a_reset_in_mid_run():
    bench = Bench()

    @with_firmware_up
    async def host(bench):
        await bench.put("CONTROL", 1)
        await bench.put("CONTROL", 2)
        assert not bench.ctx.get(bench.dut.running)
        await bench.tick(8)
        assert await bench.events() == 0
        # What the firmware of before would have said comes too late.
        await bench.signal(SIGNAL_DONE | SIGNAL_READY)
        assert await bench.value("STATUS") == IDLE
        assert await bench.value("CYCLES") == 0

    bench.run(host)


def test_memory_ends_where_the_window_ends():
    bench = Bench()

    async def host(bench):
        last = MAP.window_base + MAP.window_bytes - 1
        assert (await bench.byte(last, 9))[1] == 0
        assert await bench.byte(last) == (9, 0)
        await bench.store(MAP.am_base, 0x01020304)
        for outside in (last + 1, MAP.registers_base, 0, MAP.window_base - 1, MAP.window_base | 1 << 31):
            assert (await bench.byte(outside, 1))[1] == 1
            assert (await bench.byte(outside))[1] == 1
        assert await bench.load(MAP.am_base) == 0x01020304

    bench.run(host)


def test_core_and_host_at_once():
    """The core accesses RAM in most cycles; neither loses or disturbs an access of the other."""
    bench = Bench()
    rng = random.Random(2)
    core_rng = random.Random(3)
    core_words: dict[int, int] = {}

    async def core(ctx):
        bus = bench.dut.bus
        while True:
            busy = core_rng.random() < 0.6
            address = MAP.am_base + 4 * core_rng.randrange(16)
            write, value = core_rng.random() < 0.5, core_rng.getrandbits(32)
            ctx.set(bus.address, address)
            ctx.set(bus.read, busy and not write)
            ctx.set(bus.write, busy and write)
            ctx.set(bus.write_data, value)
            ctx.set(bus.mask, 15)
            await ctx.tick()
            if busy and write:
                core_words[address] = value
            elif busy:
                assert ctx.get(bus.read_data) == core_words.get(address, 0)

    async def host(bench):
        mine: dict[int, int] = {}
        for _ in range(200):
            address = MAP.window_base + rng.randrange(64)
            if rng.random() < 0.5:
                mine[address] = rng.randrange(256)
                assert (await bench.byte(address, mine[address]))[1] == 0
            else:
                assert await bench.byte(address) == (mine.get(address, 0), 0)

    bench.run(host, core)
    assert len(core_words) == 16


def test_firmware_is_found_at_address_0():
    code = bytes(range(1, 11))
    bench = Bench(code)

    async def host(bench):
        assert await bench.load(0) == 0x04030201
        assert await bench.load(8) == 0x0A09
        assert await bench.load(ROM_BYTES - 4) == 0

    bench.run(host)


def test_constructor():
    with pytest.raises(ValueError, match="firmware must have at most 12288 bytes, not 12289"):
        MicroSystem(CONFIG, bytes(12289))
