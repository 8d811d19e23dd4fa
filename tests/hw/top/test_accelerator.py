"""The whole accelerator in Amaranth's simulator: a copying program, errors, soft reset on a busy bus."""

import random

import pytest
from kept_simulator import kept_simulator

from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import ISA_HASH, Error, Opcode, Unit, encode, make
from tosaic.hw.top import Accelerator, VerilogTop

BASE, MEMORY_BYTES, PROGRAM = 0x1000, 1 << 13, 0x400


def config_of(columns):
    return Config(
        "test",
        rows=1,
        columns=columns,
        am_bytes=4096,
        am_banks=4,
        wm_bytes=2048,
        line_pixels=8,
        line_groups=1,
    )


class World:
    """External memory on both AXI channels with stalls, and registers over AXI4-Lite."""

    def __init__(self, config, seed=1, stall=0.2, latency_cycles=10):
        self.config = config
        self.dut, _, self._simulator = kept_simulator(Accelerator, config)
        self.rng, self.stall, self.latency_cycles = random.Random(seed), stall, latency_cycles
        self.bytes = bytearray(self.rng.randbytes(MEMORY_BYTES))
        self.reads, self.addresses, self.beats, self.answers = [], [], [], 0
        self.read_offered = self.answer_offered = False
        self.cycle = 0
        self.write_response_code = 0

    def _go(self):
        return self.rng.random() >= self.stall

    async def step(self, ctx):
        read, write, width = self.dut.read, self.dut.write, self.config.columns
        ctx.set(read.arready, self._go())
        ready_reads = bool(self.reads) and self.reads[0][0] <= self.cycle
        self.read_offered = ready_reads and (self.read_offered or self._go())
        ctx.set(read.rvalid, self.read_offered)
        if self.read_offered:
            _, number, address, last = self.reads[0]
            ctx.set(read.rid, number)
            ctx.set(read.rlast, last)
            ctx.set(read.rdata, int.from_bytes(self.bytes[address - BASE : address - BASE + width], "little"))
        ctx.set(write.awready, self._go())
        ctx.set(write.wready, self._go())
        self.answer_offered = self.answers > 0 and (self.answer_offered or self._go())
        ctx.set(write.bvalid, self.answer_offered)
        ctx.set(write.bresp, self.write_response_code)

        if ctx.get(self.dut.idle):
            assert self.bus_is_clean
            assert not any(ctx.get(valid) for valid in (read.arvalid, write.awvalid, write.wvalid))
        if self.read_offered and ctx.get(read.rready):
            self.reads.pop(0)
            self.read_offered = False
        if ctx.get(read.arvalid) and ctx.get(read.arready):
            address, length = ctx.get(read.araddr), ctx.get(read.arlen)
            assert BASE <= address and address + (length + 1) * width <= BASE + MEMORY_BYTES
            for beat in range(length + 1):
                due = self.cycle + self.latency_cycles
                self.reads.append((due, ctx.get(read.arid), address + beat * width, beat == length))
        if self.answer_offered and ctx.get(write.bready):
            self.answers -= 1
            self.answer_offered = False
        if ctx.get(write.awvalid) and ctx.get(write.awready):
            self.addresses.append((ctx.get(write.awaddr), ctx.get(write.awlen)))
        if ctx.get(write.wvalid) and ctx.get(write.wready):
            self.beats.append((ctx.get(write.wdata), ctx.get(write.wstrb), ctx.get(write.wlast)))
        while self.addresses and len(self.beats) > self.addresses[0][1]:
            address, length = self.addresses.pop(0)
            for beat in range(length + 1):
                data, strobe, last = self.beats.pop(0)
                assert last == (beat == length)
                for lane in range(width):
                    if strobe >> lane & 1:
                        self.bytes[address - BASE + beat * width + lane] = data >> 8 * lane & 255
            self.answers += 1
        await ctx.tick()
        self.cycle += 1

    @property
    def bus_is_clean(self):
        return not (self.reads or self.addresses or self.beats or self.answers)

    async def read(self, ctx, register):
        axi = self.dut.control
        ctx.set(axi.araddr, REGISTER[register].offset)
        ctx.set(axi.arvalid, 1)
        await self.step(ctx)
        ctx.set(axi.arvalid, 0)
        ctx.set(axi.rready, 1)
        while not ctx.get(axi.rvalid):
            await self.step(ctx)
        data = ctx.get(axi.rdata)
        assert ctx.get(axi.rresp) == 0
        await self.step(ctx)
        return data

    async def write(self, ctx, register, value):
        axi = self.dut.control
        ctx.set(axi.awaddr, REGISTER[register].offset)
        ctx.set(axi.wdata, value)
        ctx.set(axi.wstrb, 15)
        ctx.set(axi.awvalid, 1)
        ctx.set(axi.wvalid, 1)
        await self.step(ctx)
        ctx.set(axi.awvalid, 0)
        ctx.set(axi.wvalid, 0)
        ctx.set(axi.bready, 1)
        while not ctx.get(axi.bvalid):
            await self.step(ctx)
        assert ctx.get(axi.bresp) == 0
        await self.step(ctx)

    async def start(self, ctx, instructions):
        program = b"".join(encode(i) for i in instructions)
        self.bytes[PROGRAM : PROGRAM + len(program)] = program
        for register, value in {
            "MEM_BASE": BASE,
            "MEM_SIZE": MEMORY_BYTES,
            "PROGRAM_ADDRESS": PROGRAM,
            "PROGRAM_BYTES": len(program),
            "WATCHDOG": 400,
            "CONTROL": 5,
        }.items():
            await self.write(ctx, register, value)

    async def finish(self, ctx, limit_cycles=5000):
        """(STATUS, code, unit, PC) when the interrupt comes."""
        for _ in range(limit_cycles):
            if ctx.get(self.dut.irq):
                error = REGISTER["ERROR"]
                value = await self.read(ctx, "ERROR")
                code, unit = (error.field(name).extract(value) for name in ("code", "unit"))
                result = await self.read(ctx, "STATUS"), code, unit, await self.read(ctx, "PC")
                await self.write(ctx, "IRQ", 3)
                return result
            await self.step(ctx)
        raise AssertionError("no interrupt")

    async def soft_reset(self, ctx):
        await self.write(ctx, "CONTROL", 2)
        while (await self.read(ctx, "STATUS")) & REGISTER["STATUS"].field("resetting").mask:
            await self.step(ctx)
        assert await self.read(ctx, "STATUS") == REGISTER["STATUS"].field("idle").mask

    def simulate(self, script):
        self._simulator.run(script)


DONE, ERROR = 0b00101, 0b01000


def _begin(config):
    return make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=config.hash)


def _copy(config, source, target, row_bytes, rows):
    """Rows from `source`, 3 bytes apart, to the activation memory and from there, densely, to `target`."""
    return [
        _begin(config),
        make(Opcode.LOAD_PITCH, memory_pitch=row_bytes + 3, local_pitch=row_bytes),
        make(Opcode.LOAD_GO, memory_address=source, space=0, local_address=5, row_bytes=row_bytes, rows=rows),
        make(Opcode.LOAD_SIGNAL, semaphore=2, count=1),
        make(Opcode.STORE_PITCH, memory_pitch=row_bytes, local_pitch=row_bytes),
        make(Opcode.STORE_WAIT, semaphore=2, count=1),
        make(Opcode.STORE_GO, memory_address=target, local_address=5, row_bytes=row_bytes, rows=rows),
        make(Opcode.STORE_SIGNAL, semaphore=3, count=1),
        make(Opcode.VECTOR_WAIT, semaphore=3, count=1),
        make(Opcode.VECTOR_MARK, layer=77),
        make(Opcode.END),
    ]


def _expected(world, source, target, row_bytes, rows):
    after = bytearray(world.bytes)
    for row in range(rows):
        at = source + row * (row_bytes + 3)
        after[target + row * row_bytes : target + (row + 1) * row_bytes] = world.bytes[at : at + row_bytes]
    return after


@pytest.mark.parametrize(
    "columns", [4, *(pytest.param(columns, marks=pytest.mark.nightly) for columns in (16, 32))]
)
def test_copy(columns):
    config = config_of(columns)
    world = World(config)
    copy = (0x803, 0x1001, 37, 5)

    async def script(ctx):
        for _ in range(20):
            await world.step(ctx)
        assert ctx.get(world.dut.idle)
        await world.start(ctx, _copy(config, *copy))
        # The write that starts the program has been answered.
        assert not ctx.get(world.dut.idle)
        expected = _expected(world, *copy)
        assert await world.finish(ctx) == (DONE, 0, 0, 160)
        for _ in range(20):
            await world.step(ctx)
        assert ctx.get(world.dut.idle)
        assert world.bytes == expected and world.bus_is_clean
        cycles = await world.read(ctx, "CYCLES")
        assert await world.read(ctx, "MARK_COUNT") == 1
        assert await world.read(ctx, "MARK_LAYER") == 77
        assert 50 < await world.read(ctx, "MARK_CYCLE") < cycles < world.cycle
        beats = [sum(1 for _ in _beats(at, columns, copy)) for at in (0, 1)]
        assert [await world.read(ctx, name) for name in ("LOAD_BEATS", "STORE_BEATS")] == beats
        assert await world.read(ctx, "FETCH_BEATS") == -(-11 * 16 // columns)
        assert await world.read(ctx, "STORE_WAIT") > 20
        assert await world.read(ctx, "ARRAY_ACTIVE") == 0

    world.simulate(script)


def _beats(to_target, columns, copy):
    source, target, row_bytes, rows = copy
    for row in range(rows):
        first = target + row * row_bytes if to_target else source + row * (row_bytes + 3)
        yield from range(first // columns, (first + row_bytes - 1) // columns + 1)


def test_errors_and_recovery():
    config = config_of(4)
    world = World(config, stall=0.0)
    go = make(Opcode.STORE_GO, memory_address=0x1000, local_address=0, row_bytes=8, rows=1)
    outside = make(
        Opcode.LOAD_GO, memory_address=MEMORY_BYTES - 8, space=0, local_address=0, row_bytes=9, rows=1
    )
    bad_stream = make(Opcode.VECTOR_STREAM, stream=0, address=0, element=7, splat=0, indexed=0)
    wait = make(Opcode.ARRAY_WAIT, semaphore=1, count=1)
    mark, nop, end = make(Opcode.VECTOR_MARK, layer=1), make(Opcode.NOP), make(Opcode.END)
    begin = _begin(config)
    cases = [
        ([begin, nop, outside, end], Error.MEMORY_RANGE, Unit.LOAD, 32),
        ([begin, mark, bad_stream, mark, end], Error.ILLEGAL, Unit.VECTOR, 32),
        ([begin, nop, nop, wait, end], Error.WATCHDOG, Unit.ARRAY, 48),
        ([begin, nop, nop, go], Error.PROGRAM_END, Unit.SEQUENCER, 64),
    ]

    async def script(ctx):
        for program, code, unit, pc in cases:
            await world.start(ctx, program)
            assert await world.finish(ctx) == (ERROR, code, unit, pc), code
            await world.soft_reset(ctx)
            assert world.bus_is_clean
        world.write_response_code = 2
        await world.start(ctx, [begin, nop, go, end])
        assert await world.finish(ctx) == (ERROR, Error.BUS_WRITE, Unit.STORE, 32)
        await world.soft_reset(ctx)
        world.write_response_code = 0
        copy = (0x801, 0x1002, 9, 2)
        await world.start(ctx, _copy(config, *copy))
        expected = _expected(world, *copy)
        assert await world.finish(ctx) == (DONE, 0, 0, 160)
        assert world.bytes == expected

    world.simulate(script)


@pytest.mark.parametrize("columns", [4, pytest.param(16, marks=pytest.mark.nightly)])
def test_soft_reset_while_the_bus_is_busy(columns):
    config = config_of(columns)
    world = World(config, stall=0.3, latency_cycles=25)
    copy = (0x803, 0x1001, 150, 6)
    begin, end = _begin(config), make(Opcode.END)
    both_ways = [
        begin,
        make(Opcode.LOAD_PITCH, memory_pitch=0, local_pitch=0),
        make(Opcode.STORE_PITCH, memory_pitch=0, local_pitch=0),
        make(Opcode.LOAD_GO, memory_address=0x803, space=0, local_address=5, row_bytes=512, rows=1000),
        make(Opcode.STORE_GO, memory_address=0x1001, local_address=700, row_bytes=300, rows=1000),
        end,
    ]

    async def script(ctx):
        for after_cycles in (0, 26, 83, 160):
            await world.start(ctx, both_ways)
            for _ in range(after_cycles):
                await world.step(ctx)
            assert await world.read(ctx, "STATUS") == 0b00010
            requested = world.cycle
            await world.soft_reset(ctx)
            # LOAD may have 256 beats under way.
            assert world.bus_is_clean and world.cycle < requested + 450
            for _ in range(40):
                await world.step(ctx)
            assert world.bus_is_clean
        await world.start(ctx, _copy(config, *copy))
        expected = _expected(world, *copy)
        assert await world.finish(ctx) == (DONE, 0, 0, 160)
        assert world.bytes == expected

    world.simulate(script)


@pytest.mark.parametrize(
    ("sizes", "address_bits", "attributes"),
    [("", 32, set()), (",address_bits=40,axi_cache=15,axi_prot=2", 40, {"cache": 4, "prot": 3}.items())],
)
def test_the_memory_port_is_the_configurations(sizes, address_bits, attributes):
    """Only a machine that gives AxCACHE or AxPROT has them."""
    ports = VerilogTop(get_config(f"nano{sizes}")).signature.members
    for channel in ("ar", "aw"):
        assert ports[f"m_axi_{channel}addr"].shape == address_bits
        names = {name: f"m_axi_{channel}{name}" for name in ("cache", "prot")}
        assert {(name, ports[port].shape) for name, port in names.items() if port in ports} == set(attributes)
