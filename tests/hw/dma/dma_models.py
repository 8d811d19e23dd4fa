"""Models around the DMA units, one method call per cycle each: AXI subordinates, AM, WM, semaphores, and a
naive executor."""

import dataclasses
import random

from kept_simulator import kept_simulator

from tosaic.hw.config import Config
from tosaic.hw.interfaces import AM_READ_LATENCY
from tosaic.hw.isa import Instruction, Opcode, Space, encode, make

AM_BYTES = 1 << 16
WM_BYTES = 1 << 14


def config_of(columns):
    return Config(
        "test", rows=1, columns=columns, am_bytes=AM_BYTES, am_banks=4, wm_bytes=WM_BYTES, line_pixels=8
    )


def load_go(memory, local, row_bytes, rows=1, space=Space.AM, streamed=0, packed=0, checked=0):
    return make(
        Opcode.LOAD_GO,
        memory_address=memory,
        space=space,
        local_address=local,
        row_bytes=row_bytes,
        rows=rows,
        streamed=streamed,
        packed=packed,
        checked=checked,
    )


def store_go(memory, local, row_bytes, rows=1):
    return make(Opcode.STORE_GO, memory_address=memory, local_address=local, row_bytes=row_bytes, rows=rows)


def pitch(unit, memory, local):
    return make(Opcode[f"{unit}_PITCH"], memory_pitch=memory, local_pitch=local)


def wait(unit, semaphore, count):
    return make(Opcode[f"{unit}_WAIT"], semaphore=semaphore, count=count)


def signal(unit, semaphore, count):
    return make(Opcode[f"{unit}_SIGNAL"], semaphore=semaphore, count=count)


@dataclasses.dataclass
class Stalls:
    """Probability of a stall per cycle and channel, drawn from `rng`."""

    probability: float = 0.0
    rng: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))

    def go(self):
        return self.probability == 0 or self.rng.random() >= self.probability


class Memory:
    """External memory: bytes at `base`, everything else faults the test. `errors` are byte addresses that
    answer SLVERR."""

    def __init__(self, base, content, errors=()):
        self.base, self.bytes, self.errors = base, bytearray(content), set(errors)

    def index(self, address):
        assert self.base <= address < self.base + len(self.bytes), hex(address)
        return address - self.base


def check_burst(config, address, length, size, burst):
    """AXI4's rules for a burst and our own: aligned, full width, INCR, at most 32 beats, within 4 KiB."""
    assert address % config.columns == 0 and 1 << size == config.columns and burst == 1 and length < 32
    assert address // 4096 == (address + (length + 1) * config.columns - 1) // 4096


class Stable:
    """Asserts that a channel keeps valid and payload until ready."""

    def __init__(self):
        self.held = None

    def check(self, valid, ready, payload):
        if self.held is not None:
            assert valid and payload == self.held
        self.held = payload if valid and not ready else None


class AxiReadModel:
    """Answers bursts in order: the first beat is valid `latency` cycles after the address was taken, one beat
    per cycle."""

    def __init__(self, config, memory, latency=1, address_stalls=None, data_stalls=None):
        self.config, self.memory, self.latency = config, memory, latency
        self.address_stalls, self.data_stalls = address_stalls or Stalls(), data_stalls or Stalls()
        self.queue, self.stable, self.offered = [], Stable(), False
        self.beat_cycles, self.address_cycles, self.bursts = [], [], []

    def drive(self, ctx, axi, cycle):
        ctx.set(axi.arready, self.address_stalls.go())
        # A beat once offered stays.
        self.offered = (
            bool(self.queue) and self.queue[0][0] <= cycle and (self.offered or self.data_stalls.go())
        )
        ctx.set(axi.rvalid, self.offered)
        width = self.config.columns
        if self.offered:
            _, address, last = self.queue[0]
            # Beats are whole, also where the window ends within one.
            data = bytes(
                self.memory.bytes[a - self.memory.base]
                if 0 <= a - self.memory.base < len(self.memory.bytes)
                else 0xEE
                for a in range(address, address + width)
            )
            ctx.set(axi.rdata, int.from_bytes(data, "little"))
            ctx.set(axi.rlast, last)
            ctx.set(axi.rresp, 2 if self.memory.errors & set(range(address, address + width)) else 0)
        else:
            ctx.set(axi.rdata, int.from_bytes(b"\xbb" * width, "little"))
            ctx.set(axi.rresp, 3)

    def sample(self, ctx, axi, cycle):
        valid, ready, address, length = (
            ctx.get(axi.arvalid),
            ctx.get(axi.arready),
            ctx.get(axi.araddr),
            ctx.get(axi.arlen),
        )
        self.stable.check(valid, ready, (address, length))
        if self.offered and ctx.get(axi.rready):
            self.queue.pop(0)
            self.offered = False
            self.beat_cycles.append(cycle)
        if valid and ready:
            check_burst(self.config, address, length, ctx.get(axi.arsize), ctx.get(axi.arburst))
            assert ctx.get(axi.arid) == 0
            self.address_cycles.append(cycle)
            self.bursts.append((address, length + 1))
            for i in range(length + 1):
                self.queue.append((cycle + self.latency, address + i * self.config.columns, i == length))


class AxiWriteModel:
    """Takes addresses and data, answers `latency` cycles after the last beat; the bytes change when the
    answer is taken."""

    def __init__(self, config, memory, latency=1, address_stalls=None, data_stalls=None, answer_stalls=None):
        self.config, self.memory, self.latency = config, memory, latency
        self.address_stalls, self.data_stalls = address_stalls or Stalls(), data_stalls or Stalls()
        self.answer_stalls = answer_stalls or Stalls()
        self.addresses, self.data, self.answers = [], [], []
        self.address_stable, self.data_stable, self.offered = Stable(), Stable(), False
        self.beat_cycles, self.address_cycles, self.answer_cycles, self.bursts = [], [], [], []
        self.bursts_presented = self.bursts_of_data = 0

    def drive(self, ctx, axi, cycle):
        ctx.set(axi.awready, self.address_stalls.go())
        ctx.set(axi.wready, self.data_stalls.go())
        self.offered = (
            bool(self.answers) and self.answers[0][0] <= cycle and (self.offered or self.answer_stalls.go())
        )
        ctx.set(axi.bvalid, self.offered)
        ctx.set(axi.bresp, self.answers[0][2] if self.offered else 3)

    def sample(self, ctx, axi, cycle):
        if self.offered:
            assert ctx.get(axi.bready)
            _, writes, response = self.answers.pop(0)
            self.offered = False
            self.answer_cycles.append(cycle)
            if response == 0:
                for address, value in writes:
                    self.memory.bytes[self.memory.index(address)] = value
        valid, ready, address, length = (
            ctx.get(axi.awvalid),
            ctx.get(axi.awready),
            ctx.get(axi.awaddr),
            ctx.get(axi.awlen),
        )
        self.bursts_presented = max(self.bursts_presented, len(self.bursts) + valid)
        self.address_stable.check(valid, ready, (address, length))
        if valid and ready:
            check_burst(self.config, address, length, ctx.get(axi.awsize), ctx.get(axi.awburst))
            self.addresses.append((address, length + 1))
            self.bursts.append((address, length + 1))
            self.address_cycles.append(cycle)
        valid, ready = ctx.get(axi.wvalid), ctx.get(axi.wready)
        beat = (ctx.get(axi.wdata), ctx.get(axi.wstrb), ctx.get(axi.wlast))
        self.data_stable.check(valid, ready, beat)
        if valid:
            assert self.bursts_of_data < self.bursts_presented, "data came before its address was offered"
        if valid and ready:
            self.data.append(beat)
            self.beat_cycles.append(cycle)
            self.bursts_of_data += beat[2]
        if self.addresses and len(self.data) >= self.addresses[0][1]:
            self._complete(cycle)

    def _complete(self, cycle):
        address, beats = self.addresses.pop(0)
        writes, width = [], self.config.columns
        for i in range(beats):
            data, strobe, last = self.data.pop(0)
            assert last == (i == beats - 1)
            start = address + i * width
            writes += [(start + k, data >> 8 * k & 255) for k in range(width) if strobe >> k & 1]
        bad = self.memory.errors & {a for a, _ in writes}
        self.answers.append((cycle + self.latency, writes, 2 if bad else 0))


class LocalMemories:
    """AM and WM behind the units' ports, the AM with random refusals."""

    def __init__(self, config, stalls=None, am=b"", wm=b""):
        self.config, self.stalls = config, stalls or Stalls()
        self.am, self.wm = bytearray(am or AM_BYTES), bytearray(wm or WM_BYTES)
        self.due = {}
        self.prepared = ()

    def prepare(self, ctx, dut, *signals):
        """Notes the access that is prepared, after the one before is done."""
        if ctx.get(dut.am.prepare):
            self.prepared = tuple(ctx.get(signal) for signal in signals)

    def drive_write(self, ctx, dut):
        ctx.set(dut.am.grant, self.stalls.go())

    def sample_write(self, ctx, dut):
        width = self.config.columns
        if ctx.get(dut.am.request) and ctx.get(dut.am.grant):
            address, data, mask = self.prepared
            for i in range(width):
                if mask >> i & 1:
                    self.am[(address + i) % AM_BYTES] = data >> 8 * i & 255
        self.prepare(ctx, dut, dut.am.address, dut.am.data, dut.am.mask)
        if ctx.get(dut.wm.enable):
            start = ctx.get(dut.wm.address) * width % WM_BYTES
            self.wm[start : start + width] = ctx.get(dut.wm.data).to_bytes(width, "little")

    def drive_read(self, ctx, dut, cycle):
        ctx.set(dut.am.grant, self.stalls.go())
        # Nothing but the granted data, and that for one cycle only.
        ctx.set(dut.am.data, self.due.pop(cycle, int.from_bytes(b"\xdd" * self.config.columns, "little")))

    def sample_read(self, ctx, dut, cycle):
        if ctx.get(dut.am.request) and ctx.get(dut.am.grant):
            (address,) = self.prepared
            data = bytes(self.am[(address + i) % AM_BYTES] for i in range(self.config.columns))
            self.due[cycle + AM_READ_LATENCY] = int.from_bytes(data, "little")
        self.prepare(ctx, dut, dut.am.address)


class Bench:
    """Runs a program on a LOAD or STORE unit, one `step` per cycle, until all is taken and the unit is
    idle."""

    def __init__(self, unit, axi, local, program, mem_base=0, mem_size=1 << 20, command_stalls=None):
        self.dut, self.reset, self._simulator = kept_simulator(unit, axi.config)
        self.axi, self.local, self.program = axi, local, list(program)
        self.mem_base, self.mem_size = mem_base, mem_size
        self.command_stalls = command_stalls or Stalls()
        self.is_load = hasattr(self.dut, "wm")
        self.semaphores = [0] * 16
        self.command_cycles, self.signals, self.errors, self.beats = [], [], [], 0
        self.on_signal = self.before_cycle = lambda *_: None
        self.cycle = 0

    async def step(self, ctx):
        dut, cycle = self.dut, self.cycle
        offered = bool(self.program) and self.command_stalls.go()
        ctx.set(dut.commands.valid, offered)
        if offered:
            word = self.program[0]
            raw = encode(word) if isinstance(word, Instruction) else word
            ctx.set(dut.commands.payload, int.from_bytes(raw, "little"))
        self.axi.drive(ctx, dut.axi, cycle)
        if self.is_load:
            self.local.drive_write(ctx, dut)
        else:
            self.local.drive_read(ctx, dut, cycle)
        semaphore, count = ctx.get(dut.tokens.semaphore), ctx.get(dut.tokens.count)
        waits = ctx.get(dut.tokens.wait)
        ctx.set(dut.tokens.ok, waits and self.semaphores[semaphore] >= count)
        self.before_cycle(ctx, self)

        if ctx.get(dut.tokens.wait) and ctx.get(dut.tokens.ok):
            self.semaphores[semaphore] -= count
        if ctx.get(dut.tokens.signal):
            fired = (ctx.get(dut.tokens.signal_semaphore), ctx.get(dut.tokens.signal_count))
            self.semaphores[fired[0]] += fired[1]
            self.signals.append((cycle, *fired))
            self.on_signal(self)
        if ctx.get(dut.status.error):
            self.errors.append((cycle, ctx.get(dut.status.code)))
        self.beats += ctx.get(dut.beat)
        if offered and ctx.get(dut.commands.ready):
            self.program.pop(0)
            self.command_cycles.append(cycle)
        self.axi.sample(ctx, dut.axi, cycle)
        if self.is_load:
            self.local.sample_write(ctx, dut)
        else:
            self.local.sample_read(ctx, dut, cycle)
        await ctx.tick()
        self.cycle += 1

    def run(self, limit=20000, stop_when=None):
        """Runs until `stop_when` (default: the program is taken and the unit idle); fails after `limit` cycles."""

        async def testbench(ctx):
            ctx.set(self.dut.mem_base, self.mem_base)
            ctx.set(self.dut.mem_size, self.mem_size)
            while True:
                await self.step(ctx)
                if (
                    stop_when(self, ctx)
                    if stop_when
                    else not self.program and not ctx.get(self.dut.status.busy)
                ):
                    break
                assert self.cycle < limit, f"not done after {limit} cycles; {len(self.program)} commands left"

        self._simulator.run(testbench)
        return self


def assert_same(actual, expected):
    """`actual == expected` for long byte strings; names the first difference (pytest's diff is slow)."""
    if actual != expected:
        at = next((i for i, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b), None)
        raise AssertionError(f"{len(actual)} and {len(expected)} bytes, first difference at {at}")


def execute(program, memory, local, offset=0):
    """The naive executor: row by row, byte by byte, on `memory` and `local`; `offset` is MEM_BASE's place in
    the memory."""
    memory_pitch = local_pitch = 0
    for command in program:
        name = command.opcode.name.split("_")[1]
        if name == "PITCH":
            memory_pitch, local_pitch = command.memory_pitch, command.local_pitch
        elif name == "GO":
            for row in range(command.rows):
                outer = (command.memory_address + row * memory_pitch) % (1 << 32) + offset
                inner = (command.local_address + row * local_pitch) % (1 << 24)
                for i in range(command.row_bytes):
                    if command.opcode == Opcode.STORE_GO:
                        memory[outer + i] = local.am[(inner + i) % AM_BYTES]
                    elif command.space == Space.AM:
                        local.am[(inner + i) % AM_BYTES] = memory[outer + i]
                    else:
                        local.wm[(inner + i) % WM_BYTES] = memory[outer + i]
