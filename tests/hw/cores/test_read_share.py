"""Shared reads: every core gets the words of its bursts, in order, whatever the memory and the others do."""

import collections

import pytest
from share_bench import MEMORY_BYTES, machine, random_burst, seeded, simulate

from tosaic.hw.cores import ReadShare

BURSTS, FETCH_BEATS = 25, 8


class Requester:
    """Asks for bursts of LOAD (ID 0) and of the program (ID 1), and checks what comes."""

    def __init__(self, port, config, rng, go, takes=True):
        self.port, self.config, self.rng, self.go, self.takes = port, config, rng, go, takes
        self.bursts = [
            (number, *random_burst(config, rng, FETCH_BEATS if number else 32))
            for number in (rng.randrange(2) for _ in range(BURSTS))
        ]
        self.wanted = [collections.deque(), collections.deque()]
        self.under_way = [0, 0]
        self.offered = None

    def drive(self, ctx, memory):
        """One cycle; whether all came."""
        port = self.port
        if self.offered is None and self.bursts and self.go():
            number, address, beats = self.bursts[0]
            # LOAD has at most 256 beats and 32 bursts under way, the program 512 bytes in 6.
            bursts = sum(last for _, last in self.wanted[number])
            if self.under_way[number] + beats <= (256, 128)[number] and bursts < (32, 6)[number]:
                self.offered = self.bursts.pop(0)
        ctx.set(port.arvalid, self.offered is not None)
        if self.offered is not None:
            number, address, beats = self.offered
            ctx.set(port.arid, number)
            ctx.set(port.araddr, address)
            ctx.set(port.arlen, beats - 1)
        ready = self.takes and self.go()
        ctx.set(port.rready, ready)
        return ready

    def sample(self, ctx, ready, memory):
        port, word = self.port, self.config.word_bytes
        if self.offered is not None and ctx.get(port.arready):
            number, address, beats = self.offered
            for beat in range(beats):
                place = address + beat * word
                self.wanted[number].append((memory[place : place + word], beat == beats - 1))
            self.under_way[number] += beats
            self.offered = None
        if ready and ctx.get(port.rvalid):
            number = ctx.get(port.rid)
            data, last = self.wanted[number].popleft()
            assert ctx.get(port.rdata).to_bytes(word, "little") == data
            assert ctx.get(port.rlast) == last
            self.under_way[number] -= 1
        return not (self.bursts or self.offered or any(self.wanted))


class Memory:
    """Answers wide bursts; the beats of different IDs come mixed."""

    def __init__(self, bus, config, rng, go):
        self.bus, self.config, self.rng, self.go = bus, config, rng, go
        self.bytes = rng.randbytes(MEMORY_BYTES)
        self.queues = collections.defaultdict(collections.deque)
        self.offered = None
        self.asked = collections.Counter()

    def drive(self, ctx):
        bus, width = self.bus, self.config.bus_bytes
        self.ready = self.go()
        ctx.set(bus.arready, self.ready)
        waiting = [number for number, queue in self.queues.items() if queue]
        if self.offered is None and waiting and self.go():
            number = self.rng.choice(waiting)
            self.offered = (number, *self.queues[number].popleft())
        ctx.set(bus.rvalid, self.offered is not None)
        if self.offered is not None:
            number, address, last = self.offered
            ctx.set(bus.rid, number)
            ctx.set(bus.rdata, int.from_bytes(self.bytes[address : address + width], "little"))
            ctx.set(bus.rlast, last)

    def sample(self, ctx):
        bus, width = self.bus, self.config.bus_bytes
        if self.offered is not None:
            assert ctx.get(bus.rready), "what was asked for is always taken"
            self.offered = None
        if ctx.get(bus.arvalid) and self.ready:
            address, beats, number = ctx.get(bus.araddr), ctx.get(bus.arlen) + 1, ctx.get(bus.arid)
            assert address % width == 0
            assert 1 << ctx.get(bus.arsize) == width
            assert address // 4096 == (address + beats * width - 1) // 4096
            self.asked[number >> 1] += 1
            for beat in range(beats):
                self.queues[number].append((address + beat * width, beat == beats - 1))


def run(cores, words, stall, takes=lambda core: True, until=all):
    config = machine(cores, words)
    dut = ReadShare(config)
    rng, go = seeded(cores * 10 + words, stall)
    memory = Memory(dut.bus, config, rng, go)
    requesters = [Requester(port, config, rng, go, takes(core)) for core, port in enumerate(dut.cores)]

    def process(ctx):
        memory.drive(ctx)
        ready = [core.drive(ctx, memory.bytes) for core in requesters]
        memory.sample(ctx)
        return until([core.sample(ctx, r, memory.bytes) for core, r in zip(requesters, ready, strict=True)])

    simulate(dut, process, 20_000)


@pytest.mark.parametrize(("cores", "words"), ((2, 1), (2, 2), (4, 4)))
@pytest.mark.parametrize("stall", (0.0, 0.4))
def test_every_core_gets_its_words(cores, words, stall):
    run(cores, words, stall)


def test_a_core_that_takes_nothing_holds_up_no_other_one():
    run(2, 2, 0.2, takes=lambda core: core == 1, until=lambda ended: ended[1])
