"""A scripted world around the sequencer: program memory behind AXI with stalls, and stub units that log."""

import random

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from kept_simulator import kept_simulator

from tosaic.hw.check_byte import check_byte
from tosaic.hw.config import Config
from tosaic.hw.isa import ISA_HASH, Opcode, Unit, decode, encode, make
from tosaic.hw.sequencer import UNITS, Sequencer

BASE = 0x40000000
MEMORY_BYTES = 1 << 16


def config_of(columns, **sizes):
    return Config(
        "test",
        rows=1,
        columns=columns,
        am_bytes=1 << 14,
        am_banks=4,
        wm_bytes=1 << 12,
        line_pixels=8,
        **sizes,
    )


def begin(config):
    return make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=config.hash)


def wait(unit, semaphore, count):
    return make(Opcode[f"{unit}_WAIT"], semaphore=semaphore, count=count)


def signal(unit, semaphore, count):
    return make(Opcode[f"{unit}_SIGNAL"], semaphore=semaphore, count=count)


def pitch(unit, number):
    return make(Opcode[f"{unit}_PITCH"], memory_pitch=number, local_pitch=0)


END = make(Opcode.END)
NOP = make(Opcode.NOP)


def assemble(instructions):
    return b"".join(encode(i) for i in instructions)


class Resettable(wiring.Component):
    """A Sequencer with a reset input."""

    def __init__(self, config):
        self.inner = Sequencer(config)
        self.reset = Signal()
        super().__init__(self.inner.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = ResetInserter(self.reset)(self.inner)
        wiring.connect(m, wiring.flipped(self), self.inner)
        return m


class StubUnit:
    """Takes a command per cycle, unless stalled; executes WAIT and SIGNAL. `slow_cycles`: busy after each."""

    def __init__(self, port, rng, stall, slow_cycles=0):
        self.port, self.rng, self.stall, self.slow_cycles = port, rng, stall, slow_cycles
        self.log, self.busy, self.fault_at, self.code = [], 0, None, 0

    def drive(self, ctx):
        port = self.port
        raw = ctx.get(port.commands.payload).to_bytes(16, "little")
        valid = bool(ctx.get(port.commands.valid)) and not self.busy
        opcode = raw[0] & 15 if valid else None
        ctx.set(port.tokens.wait, opcode == 0)
        ctx.set(port.tokens.semaphore, raw[2] & 15)
        ctx.set(port.tokens.count, int.from_bytes(raw[2:4], "little") >> 4 & 255)
        ready = bool(ctx.get(port.tokens.ok)) if opcode == 0 else valid and self.rng.random() >= self.stall
        ctx.set(port.tokens.signal, opcode == 1 and ready)
        ctx.set(port.tokens.signal_semaphore, raw[2] & 15)
        ctx.set(port.tokens.signal_count, int.from_bytes(raw[2:4], "little") >> 4 & 255)
        ctx.set(port.commands.ready, ready)
        ctx.set(port.status.busy, self.busy > 0)
        ctx.set(port.status.progress, valid and ready)
        fault = valid and ready and self.fault_at == len(self.log)
        ctx.set(port.status.error, 0)
        if self.code and self.fault_at is not None and len(self.log) > self.fault_at:
            ctx.set(port.status.error, 1)
            ctx.set(port.status.code, self.code)
            self.fault_at = None
        if valid and ready:
            self.log.append(raw)
            self.busy = self.slow_cycles if not fault else self.slow_cycles + 2
        elif self.busy:
            self.busy -= 1


class ProgramMemory:
    """Answers read bursts in order with random stalls; `errors` are byte addresses that answer SLVERR."""

    def __init__(self, columns, rng, stall=0.0, latency_cycles=3, answers=True):
        self.columns, self.rng, self.stall, self.latency_cycles = columns, rng, stall, latency_cycles
        self.bytes, self.errors, self.queue, self.offered, self.answers = (
            bytearray(MEMORY_BYTES),
            set(),
            [],
            False,
            answers,
        )
        self.held, self.bursts = None, 0

    def drive(self, ctx, axi, cycle):
        ctx.set(axi.arready, self.rng.random() >= self.stall)
        self.offered = (
            self.answers
            and bool(self.queue)
            and self.queue[0][0] <= cycle
            and (self.offered or self.rng.random() >= self.stall)
        )
        ctx.set(axi.rvalid, self.offered)
        ctx.set(axi.rid, 1)
        if self.offered:
            _, address, last = self.queue[0]
            data = self.bytes[address - BASE : address - BASE + self.columns]
            ctx.set(axi.rdata, int.from_bytes(data, "little"))
            ctx.set(axi.rlast, last)
            ctx.set(axi.rresp, 2 if self.errors & set(range(address, address + self.columns)) else 0)
        else:
            ctx.set(axi.rlast, 1)
            ctx.set(axi.rresp, 3)

    def sample(self, ctx, axi, cycle):
        if self.offered:
            assert ctx.get(axi.rready)
            self.queue.pop(0)
            self.offered = False
        valid, ready = ctx.get(axi.arvalid), ctx.get(axi.arready)
        address, length = ctx.get(axi.araddr), ctx.get(axi.arlen)
        if self.held is not None:
            assert valid and (address, length) == self.held
        self.held = (address, length) if valid and not ready else None
        if valid and ready:
            assert (
                ctx.get(axi.arid) == 1
                and ctx.get(axi.arburst) == 1
                and 1 << ctx.get(axi.arsize) == self.columns
            )
            assert address % self.columns == 0
            assert address // 4096 == (address + (length + 1) * self.columns - 1) // 4096
            assert BASE <= address and address + (length + 1) * self.columns <= BASE + MEMORY_BYTES
            self.bursts += 1
            for beat in range(length + 1):
                self.queue.append(
                    (cycle + self.latency_cycles, address + beat * self.columns, beat == length)
                )


class SequencerBench:
    """Runs programs on a sequencer; one object per simulation."""

    def __init__(self, config, seed=1, bus_stall=0.0, unit_stall=0.0, slow_cycles=0, answers=True):
        self.config = config
        self.dut, _, self._simulator = kept_simulator(Resettable, config)
        self.rng = random.Random(seed)
        self.memory = ProgramMemory(config.columns, self.rng, bus_stall, answers=answers)
        self.units = {
            name: StubUnit(getattr(self.dut, name), self.rng, unit_stall, slow_cycles) for name in UNITS
        }
        self.cycle = 0
        self.flags = []
        """What the VECTOR_TESTs to come will find; 0 when there are no more."""

    def simulate(self, script):
        """Runs `async script(ctx, bench)`."""

        async def testbench(ctx):
            ctx.set(self.dut.mem_base, BASE)
            ctx.set(self.dut.mem_size, MEMORY_BYTES)
            ctx.set(self.dut.watchdog_cycles, 300)
            await script(ctx, self)

        self._simulator.run(testbench)

    async def step(self, ctx):
        self.memory.drive(ctx, self.dut.axi, self.cycle)
        vector = self.units["vector"]
        before = len(vector.log)
        for unit in self.units.values():
            unit.drive(ctx)
        tested = any(raw[0] == Opcode.VECTOR_TEST for raw in vector.log[before:])
        ctx.set(self.dut.tested, tested)
        ctx.set(self.dut.test_value, tested and bool(self.flags) and self.flags.pop(0))
        self.memory.sample(ctx, self.dut.axi, self.cycle)
        await ctx.tick()
        self.cycle += 1

    async def soft_reset(self, ctx):
        """Resets the sequencer as the top does: halt, drain, reset."""
        ctx.set(self.dut.halt, 1)
        for _ in range(2):
            await self.step(ctx)
        while not ctx.get(self.dut.fetch_idle):
            await self.step(ctx)
        ctx.set(self.dut.reset, 1)
        await self.step(ctx)
        ctx.set(self.dut.reset, 0)
        ctx.set(self.dut.halt, 0)
        assert not self.memory.queue
        for unit in self.units.values():
            unit.busy = 0

    async def start(self, ctx, program, offset=0):
        self.memory.bytes[offset : offset + len(program)] = program
        for unit in self.units.values():
            unit.log.clear()
        ctx.set(self.dut.program_address, offset)
        ctx.set(self.dut.program_bytes, len(program))
        await self.step(ctx)
        ctx.set(self.dut.start, 1)
        await self.step(ctx)
        ctx.set(self.dut.start, 0)

    async def run(self, ctx, program, offset=0, limit_cycles=5000):
        """Runs a program to its end or error and returns (done, code, unit, pc)."""
        await self.start(ctx, program, offset)
        for _ in range(limit_cycles):
            report = self.dut.report
            if not ctx.get(report.running):
                assert ctx.get(report.done) != ctx.get(report.error)
                return tuple(ctx.get(report[name]) for name in ("done", "code", "unit", "pc"))
            await self.step(ctx)
        raise AssertionError(f"the program did not end in {limit_cycles} cycles")

    def logs(self):
        """What each unit received, decoded (the check byte arrives as zero)."""
        return {name: [_restore(raw) for raw in unit.log] for name, unit in self.units.items()}


def _restore(raw):
    assert raw[1] == 0
    return decode(raw[:1] + bytes([check_byte(raw)]) + raw[2:])


def by_unit(instructions):
    """The instructions that each unit should receive."""
    return {name: [i for i in instructions if i.opcode.unit == Unit[name.upper()]] for name in UNITS}
