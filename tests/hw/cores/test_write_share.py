"""Shared writes: all bytes with a strobe arrive, whole bursts at a time, and everyone gets the answers."""

import collections

import pytest
from share_bench import MEMORY_BYTES, machine, random_burst, seeded, simulate

from tosaic.hw.cores import WriteShare

BURSTS = 20


class Requester:
    """Writes bursts into its own part of the memory, the data no earlier than its address."""

    def __init__(self, core, cores, port, config, rng, go, delivers=True):
        self.port, self.config, self.rng, self.go, self.delivers = port, config, rng, go, delivers
        self.addresses, self.beats, self.answers, self.answered = (
            collections.deque(),
            collections.deque(),
            0,
            0,
        )
        self.expected = {}
        part = MEMORY_BYTES // cores
        for _ in range(BURSTS):
            address, count = random_burst(config, rng)
            address = core * part + address % (part - 32 * config.word_bytes)
            count = min(count, 32 - address // config.word_bytes % 32)
            self.addresses.append((address, count))
            for beat in range(count):
                data, strobe = rng.randbytes(config.word_bytes), rng.randrange(1 << config.word_bytes)
                self.beats.append((data, strobe, beat == count - 1))
                for lane in range(config.word_bytes):
                    if strobe >> lane & 1:
                        self.expected[address + beat * config.word_bytes + lane] = data[lane]
        self.offered = self.data = None
        self.begun = 0  # bursts whose address was offered

    def drive(self, ctx):
        port = self.port
        if self.offered is None and self.addresses and self.go():
            self.offered, self.begun = self.addresses.popleft(), self.begun + 1
        ctx.set(port.awvalid, self.offered is not None)
        if self.offered is not None:
            ctx.set(port.awaddr, self.offered[0])
            ctx.set(port.awlen, self.offered[1] - 1)
        if self.data is None and self.begun and self.beats and self.delivers and self.go():
            self.data = self.beats.popleft()
        ctx.set(port.wvalid, self.data is not None)
        if self.data is not None:
            ctx.set(port.wdata, int.from_bytes(self.data[0], "little"))
            ctx.set(port.wstrb, self.data[1])
            ctx.set(port.wlast, self.data[2])
        ctx.set(port.bready, 1)

    def sample(self, ctx):
        port = self.port
        if self.offered is not None and ctx.get(port.awready):
            self.offered = None
        if self.data is not None and ctx.get(port.wready):
            self.begun -= self.data[2]
            self.data = None
        self.answered += ctx.get(port.bvalid)
        return self.answered == BURSTS


class Memory:
    """Takes wide bursts; data may not come before its address, nor stop in the middle of a burst."""

    def __init__(self, bus, config, rng, go):
        self.bus, self.config, self.rng, self.go = bus, config, rng, go
        self.bytes, self.addresses, self.answers = {}, collections.deque(), collections.deque()
        self.inside = False

    def drive(self, ctx):
        self.ready = self.go(), bool(self.addresses) and self.go()
        ctx.set(self.bus.awready, self.ready[0])
        ctx.set(self.bus.wready, self.ready[1])
        answers = bool(self.answers) and self.go()
        ctx.set(self.bus.bvalid, answers)
        if answers:
            ctx.set(self.bus.bid, self.answers.popleft())

    def sample(self, ctx):
        bus, width = self.bus, self.config.bus_bytes
        if ctx.get(bus.wvalid):
            pending = len(self.addresses) or ctx.get(bus.awvalid)
            assert pending, "data before its address"
        else:
            assert not self.inside, "a burst that has begun stops"
        if ctx.get(bus.awvalid) and self.ready[0]:
            address, beats = ctx.get(bus.awaddr), ctx.get(bus.awlen) + 1
            assert address % width == 0
            assert address // 4096 == (address + beats * width - 1) // 4096
            self.addresses.append([address, beats, ctx.get(bus.awid)])
        if ctx.get(bus.wvalid) and self.ready[1] and self.addresses:
            burst = self.addresses[0]
            data, strobe = ctx.get(bus.wdata).to_bytes(width, "little"), ctx.get(bus.wstrb)
            for lane in range(width):
                if strobe >> lane & 1:
                    self.bytes[burst[0] + lane] = data[lane]
            burst[0], burst[1] = burst[0] + width, burst[1] - 1
            self.inside = burst[1] > 0
            assert ctx.get(bus.wlast) == (not self.inside)
            if not self.inside:
                self.answers.append(self.addresses.popleft()[2])


def run(cores, words, stall, delivers=lambda core: True, until=all):
    config = machine(cores, words)
    dut = WriteShare(config)
    rng, go = seeded(cores * 10 + words, stall)
    memory = Memory(dut.bus, config, rng, go)
    writers = [
        Requester(core, cores, port, config, rng, go, delivers(core)) for core, port in enumerate(dut.cores)
    ]

    def process(ctx):
        memory.drive(ctx)
        for writer in writers:
            writer.drive(ctx)
        # The address is looked at first: it may come in the same cycle as its data.
        memory.sample(ctx)
        return until([writer.sample(ctx) for writer in writers])

    simulate(dut, process, 20_000)
    for writer in writers:
        if writer.answered == BURSTS:
            assert {place: memory.bytes.get(place) for place in writer.expected} == writer.expected
    assert set(memory.bytes) <= set().union(*(writer.expected for writer in writers))


@pytest.mark.parametrize(("cores", "words"), ((2, 1), (2, 2), (4, 4)))
@pytest.mark.parametrize("stall", (0.0, 0.4))
def test_all_bytes_arrive(cores, words, stall):
    run(cores, words, stall)


def test_a_core_that_does_not_deliver_holds_up_no_other_one():
    run(2, 2, 0.2, delivers=lambda core: core == 1, until=lambda ended: ended[1])
