"""Boot from SPI flash: the block against a model of the chip, good images and damaged ones; none of them hangs it."""

import random
import struct

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator
from rest_nightly import first_of

from tosaic.boards.soc.boot_ports import BootPorts
from tosaic.boards.soc.flash_boot import BootLamp, FlashBoot
from tosaic.boards.soc.spi_reader import SpiPins, SpiReader
from tosaic.boards.spi_flash import SpiFlash
from tosaic.hw.bridge.boot_image import (
    BOOT_CODE,
    BOOT_CRC,
    MAGIC,
    MAX_BYTES,
    BootCode,
    BootRecord,
    RecordKind,
    boot_image,
    image_crc32,
)
from tosaic.hw.bridge.byte_port import BytePort
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.interfaces import AxiLite

OFFSET = 0x123456
CLOCK_HZ = 1e6
"""Slow, so that the chip's wake-up takes 50 cycles."""
MEMORY_BYTES = 64
BAD_REGISTER = 0x20
GOOD = (
    BootRecord(RecordKind.MEMORY, 0x1000, bytes(range(40))),
    BootRecord(RecordKind.REGISTERS, 0x40, struct.pack("<2I", 0xDEADBEEF, 7)),
    BootRecord(RecordKind.RUN),
    BootRecord(RecordKind.MEMORY, 0x1001, b"x"),
    BootRecord(RecordKind.MEMORY, 0x1000),
)


class Booting(wiring.Component):
    def __init__(self):
        self.reader, self.boot, self.lamp = SpiReader(OFFSET, CLOCK_HZ), FlashBoot(), BootLamp(2)
        super().__init__({"spi": Out(SpiPins()), "memory": Out(BytePort()), "registers": Out(AxiLite())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader, m.submodules.boot, m.submodules.lamp = self.reader, self.boot, self.lamp
        wiring.connect(m, self.reader.pins, wiring.flipped(self.spi))
        wiring.connect(m, self.reader.data, self.boot.data)
        wiring.connect(m, self.boot.memory, wiring.flipped(self.memory))
        wiring.connect(m, self.boot.registers, wiring.flipped(self.registers))
        m.d.comb += [self.reader.start.eq(self.boot.start), self.lamp.code.eq(self.boot.code)]
        return m


class Bench:
    """A chip that holds `image` at OFFSET, a slow memory of MEMORY_BYTES at 0x1000, and registers: STATUS shows a
    program that runs for three looks and ends with `error`."""

    def __init__(self, image, *, error=False, answers=True, seed=0):
        self.dut, self.image, self.error, self.answers = Booting(), image, error, answers
        self.rng = random.Random(seed)
        self.memory, self.written, self.looks = bytearray(MEMORY_BYTES), [], 0
        self.ended = None
        self.lamp = ""

    def run(self, cycles=60_000):
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(self._wait(cycles))
        for process in (self._chip, self._serve_memory, self._serve_registers):
            simulator.add_testbench(process, background=True)
        simulator.run()
        return self.ended

    def _wait(self, cycles):
        async def process(ctx):
            for _ in range(cycles):
                await ctx.tick()
                if not ctx.get(self.dut.boot.busy):
                    break
            self.ended = ctx.get(self.dut.boot.code)
            for _ in range(64):
                self.lamp += str(ctx.get(self.dut.lamp.lit))
                await ctx.tick().repeat(2)

        return process

    async def _chip(self, ctx):
        """Awake after 0xAB only; its data change at falling edges."""
        pins, bits, clk, awake = self.dut.spi, "", 0, False
        while True:
            await ctx.tick()
            now = ctx.get(pins.clk)
            if ctx.get(pins.cs_n):
                awake = awake or bits == f"{0xAB:08b}"
                bits = ""
            elif now and not clk:
                bits += str(ctx.get(pins.copi))
            elif clk and not now and len(bits) >= 32 and awake and self.answers:
                assert bits[:8] == f"{3:08b}" and len(bits) < 32 + 8 * (len(self.image) + 200), (
                    "it reads for ever"
                )
                place = int(bits[8:32], 2) - OFFSET + (len(bits) - 32) // 8
                byte = self.image[place] if place < len(self.image) else 0xFF
                ctx.set(pins.cipo, byte >> 7 - (len(bits) - 32) % 8 & 1)
            clk = now

    async def _serve_memory(self, ctx):
        port = self.dut.memory
        while True:
            await ctx.tick()
            ctx.set(port.done, 0)
            if ctx.get(port.request):
                await ctx.tick().repeat(self.rng.randint(1, 40))
                assert ctx.get(port.request) and ctx.get(port.write)
                place = ctx.get(port.address) - 0x1000
                inside = 0 <= place < MEMORY_BYTES
                if inside:
                    self.memory[place] = ctx.get(port.write_data)
                ctx.set(port.error, not inside)
                ctx.set(port.done, 1)

    async def _serve_registers(self, ctx):
        axi = self.dut.registers
        while True:
            await ctx.tick()
            if ctx.get(axi.arvalid):
                self.looks += 1
                assert ctx.get(axi.araddr) == REGISTER["STATUS"].offset
                running, status = REGISTER["STATUS"].field("running").mask, REGISTER["STATUS"]
                ended = status.field("error" if self.error else "done").mask
                await self._answer(ctx, axi.arready, axi.rvalid, rdata=running if self.looks % 3 else ended)
            elif ctx.get(axi.awvalid) and ctx.get(axi.wvalid):
                offset = ctx.get(axi.awaddr)
                self.written.append((offset, ctx.get(axi.wdata)))
                ctx.set(axi.wready, 1)
                bad = 2 if offset == BAD_REGISTER else 0
                await self._answer(ctx, axi.awready, axi.bvalid, bresp=bad)

    async def _answer(self, ctx, ready, valid, **values):
        ctx.set(ready, 1)
        await ctx.tick()
        ctx.set(ready, 0)
        ctx.set(self.dut.registers.wready, 0)
        for name, value in values.items():
            ctx.set(getattr(self.dut.registers, name), value)
        ctx.set(valid, 1)
        await ctx.tick()
        ctx.set(valid, 0)


def test_a_good_image():
    image = boot_image(GOOD)
    bench = Bench(image)
    assert bench.run() == BootCode.DONE
    assert bench.memory[:40] == bytes([0, ord("x"), *range(2, 40)])
    assert bench.written == [(0x40, 0xDEADBEEF), (0x44, 7)] and bench.looks == 3
    assert "1" not in bench.lamp
    assert image_crc32(image) == int.from_bytes(image[-4:], "little")


@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_a_damaged_byte_and_nothing_is_used(seed):
    image = bytearray(boot_image(GOOD))
    rng = random.Random(seed)
    image[rng.randrange(8, len(image))] ^= 1 << rng.randrange(8)
    bench = Bench(bytes(image), seed=seed)
    assert bench.run() == BootCode.DAMAGED
    assert (bench.memory, bench.written) == (bytearray(MEMORY_BYTES), [])


@pytest.mark.parametrize(
    ("image", "code"),
    [
        pytest.param(b"", BootCode.NO_IMAGE, id="erased"),
        pytest.param(bytes(100), BootCode.NO_IMAGE, id="zeros"),
        pytest.param(boot_image(GOOD)[:50], BootCode.DAMAGED, id="cut"),
        pytest.param(struct.pack("<II", MAGIC, MAX_BYTES), BootCode.DAMAGED, id="long"),
        pytest.param(
            boot_image([BootRecord(RecordKind.MEMORY, 0xFFF, b"a")]), BootCode.NO_MEMORY, id="below"
        ),
        pytest.param(
            boot_image([BootRecord(RecordKind.MEMORY, 0x103F, b"ab")]), BootCode.NO_MEMORY, id="above"
        ),
        pytest.param(
            boot_image([BootRecord(RecordKind.REGISTERS, BAD_REGISTER, bytes(4))]),
            BootCode.NO_REGISTER,
            id="read only",
        ),
        pytest.param(
            boot_image([BootRecord(RecordKind.REGISTERS, 0x1040, bytes(4))]),
            BootCode.NO_REGISTER,
            id="off the map",
        ),
        pytest.param(
            boot_image([BootRecord(RecordKind.REGISTERS, 0x40, bytes(3))]), BootCode.BAD_RECORD, id="no word"
        ),
    ],
)
def test_an_image_that_is_none(image, code):
    bench = Bench(image)
    assert bench.run() == code
    if code.is_fault:
        # The lamp blinks as often as the code says, and pauses for at least six steps.
        period = bench.lamp[:32]
        assert bench.lamp.startswith(period) and period.count("1") == code and "000000" in bench.lamp


def test_records_that_cannot_be():
    def image(*words):
        class Raw:
            def to_bytes(self):
                return struct.pack(f"<{len(words)}I", *words)

        return boot_image([Raw()])

    for words in ((9, 0, 0), (0, 0, 0), (1, 0x1000, 1), (1, 0x1000), (1,), (1, 0x1000, 0xFFFFFFFF)):
        assert Bench(image(*words)).run() == BootCode.BAD_RECORD


def test_a_chip_that_is_not_there_and_a_program_that_fails():
    assert Bench(boot_image(GOOD), answers=False).run() == BootCode.NO_IMAGE
    assert Bench(boot_image(GOOD), error=True).run() == BootCode.PROGRAM_FAILED


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="^the records take 16777216 bytes"):
        boot_image([BootRecord(RecordKind.MEMORY, 0, bytes(MAX_BYTES - 12))])
    with pytest.raises(ValueError, match="^offset must be an address of 24 bits, not 0x1000000$"):
        SpiFlash("", 1 << 24)


def test_the_bridge_waits_but_may_ask_how_far_it_is():
    dut = BootPorts()

    async def process(ctx):
        bridge = dut.bridge_registers

        async def read(offset):
            ctx.set(bridge.araddr, offset)
            ctx.set(bridge.arvalid, 1)
            ctx.set(bridge.rready, 1)
            for _ in range(10):
                taken, answered = ctx.get(bridge.arready), ctx.get(bridge.rvalid)
                value = ctx.get(bridge.rdata)
                await ctx.tick()
                if taken:
                    ctx.set(bridge.arvalid, 0)
                if answered:
                    return value
            ctx.set(bridge.arvalid, 0)
            return None

        ctx.set(dut.busy, 1)
        ctx.set(dut.crc32, 0x12345678)
        ctx.set(dut.registers.arready, 1)
        ctx.set(dut.bridge_memory.request, 1)
        assert ctx.get(dut.memory.request) == 0
        assert [await read(offset) for offset in (BOOT_CODE, BOOT_CRC, 0x14)] == [0, 0x12345678, None]
        ctx.set(dut.busy, 0)
        ctx.set(dut.code, BootCode.DONE)
        assert ctx.get(dut.memory.request) == 1
        ctx.set(dut.registers.rvalid, 1)
        ctx.set(dut.registers.rdata, 5)
        assert await read(0x14) == 5
        ctx.set(dut.registers.rvalid, 0)
        assert await read(BOOT_CODE) == BootCode.DONE
        ctx.set(bridge.awaddr, BOOT_CODE)
        for signal in (bridge.awvalid, bridge.wvalid, bridge.bready):
            ctx.set(signal, 1)
        left = []
        for _ in range(3):
            left.append((ctx.get(dut.leave), ctx.get(bridge.bvalid), ctx.get(dut.registers.awvalid)))
            await ctx.tick()
            ctx.set(bridge.awvalid, 0)
            ctx.set(bridge.wvalid, 0)
        assert left == [(0, 0, 0), (1, 1, 0), (0, 0, 0)]

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
