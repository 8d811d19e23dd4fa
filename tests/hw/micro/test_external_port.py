"""The way to the memory outside: the core's reads and writes, the host's bytes, and a cache that nobody notices."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.hw.config import CONFIGS
from tosaic.hw.micro.external_port import CACHE_WORDS, ExternalPort
from tosaic.hw.micro.memory_map import EXTERNAL_BASE, MemoryMap

BYTES = 16 << 10
LATENCY = 3
LONG = 100
"""No access takes as many cycles."""
REGIONS = MemoryMap(CONFIGS["nano"], BYTES)


class Bench:
    """The port, and memory behind it that answers LATENCY cycles after a request; `log`: what it was asked for."""

    def __init__(self) -> None:
        self.dut = ExternalPort(REGIONS)
        self.content = bytearray(range(256)) * (BYTES // 256)
        self.log: list[tuple[str, int]] = []

    def run(self, *testbenches) -> None:
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        for testbench in testbenches:
            simulator.add_testbench(testbench)
        simulator.add_testbench(self.memory, background=True)
        simulator.run()

    async def memory(self, ctx) -> None:
        port = self.dut.memory
        while True:
            _, _, asked = await ctx.tick().sample(port.request)
            if not asked:
                continue
            for _ in range(LATENCY - 1):
                await ctx.tick()
            place = 4 * ctx.get(port.address)
            self.log.append(("write" if ctx.get(port.write) else "read", place))
            if ctx.get(port.write):
                for lane in range(4):
                    if ctx.get(port.mask) >> lane & 1:
                        self.content[place + lane] = ctx.get(port.write_data) >> 8 * lane & 0xFF
            ctx.set(port.read_data, int.from_bytes(self.content[place : place + 4], "little"))
            ctx.set(port.done, 1)
            await ctx.tick()
            ctx.set(port.done, 0)

    async def core(self, ctx, place: int, data: int | None = None, mask: int = 15) -> tuple[int, int]:
        """An access of the core: the word read, and its cycles."""
        bus = self.dut.core
        ctx.set(bus.address, EXTERNAL_BASE + place)
        ctx.set(bus.write if data is not None else bus.read, 1)
        ctx.set(bus.write_data, data or 0)
        ctx.set(bus.mask, mask)
        await ctx.tick()
        for signal in (bus.read, bus.write, bus.address, bus.write_data, bus.mask):
            ctx.set(signal, 0)
        assert ctx.get(self.dut.waiting)
        ready, word, cycles = 0, 0, 0
        while not ready:
            _, _, ready, word = await ctx.tick().sample(bus.ready, bus.read_data)
            cycles += 1
            assert cycles < LONG
        return word, cycles

    async def host(self, ctx, address: int, data: int | None = None) -> int | None:
        """An access of the host: the byte, None where there is none."""
        port = self.dut.host
        ctx.set(port.address, address)
        ctx.set(port.write, data is not None)
        ctx.set(port.write_data, data or 0)
        ctx.set(port.request, 1)
        done, byte, error, cycles = 0, 0, 0, 0
        while not done:
            _, _, done, byte, error = await ctx.tick().sample(port.done, port.read_data, port.error)
            cycles += 1
            assert cycles < LONG
        ctx.set(port.request, 0)
        return None if error else byte


def test_a_word_is_fetched_once():
    bench = Bench()

    async def testbench(ctx) -> None:
        ctx.set(bench.dut.core_runs, 1)
        assert (await bench.core(ctx, 0x14))[0] == 0x17161514
        assert await bench.core(ctx, 0x14) == (0x17161514, 1)
        # Another word in the same line of the cache.
        assert (await bench.core(ctx, 0x14 + 4 * CACHE_WORDS))[0] == 0x17161514
        assert (await bench.core(ctx, 0x14))[1] > LATENCY
        await bench.core(ctx, 0x14, 0xAABBCCDD, 0b0110)
        assert (await bench.core(ctx, 0x14))[0] == 0x17BBCC14
        assert await bench.host(ctx, EXTERNAL_BASE + 0x16, 0x33) is not None
        assert (await bench.core(ctx, 0x14))[0] == 0x1733CC14
        assert await bench.host(ctx, EXTERNAL_BASE + 0x15) == 0xCC
        # The host's byte came with its word.
        assert (await bench.core(ctx, 0x14))[1] == 1

    bench.run(testbench)
    other = 0x14 + 4 * CACHE_WORDS
    assert bench.log == [
        *(("read", place) for place in (0x14, other, 0x14)),
        *(("write", 0x14), ("read", 0x14), ("write", 0x14), ("read", 0x14), ("read", 0x14)),
    ]


def test_bytes_outside_are_refused():
    bench = Bench()

    async def testbench(ctx) -> None:
        ctx.set(bench.dut.core_runs, 1)
        for address in (0, EXTERNAL_BASE - 1, EXTERNAL_BASE + BYTES, 0xFFFF_FFFF):
            assert await bench.host(ctx, address) is None
        assert await bench.host(ctx, EXTERNAL_BASE + BYTES - 1) == 0xFF

    bench.run(testbench)
    assert bench.log == [("read", BYTES - 4)]


@pytest.mark.parametrize("seed", range(3))
def test_core_and_host_at_once(seed):
    """Each has words of its own in the same lines of the cache; both see what they wrote."""
    bench = Bench()
    ends = []

    async def core(ctx) -> None:
        ctx.set(bench.dut.core_runs, 1)
        choose, model = random.Random(seed), {}
        for _ in range(150):
            place = 4 * choose.randrange(8) + 4 * CACHE_WORDS * choose.randrange(2)
            for _ in range(choose.randrange(4)):
                await ctx.tick()
            if choose.randrange(3):
                word, _ = await bench.core(ctx, place)
                assert word == model.get(
                    place, int.from_bytes(bytes(range(place % 256, place % 256 + 4)), "little")
                )
            else:
                model[place] = choose.getrandbits(32)
                await bench.core(ctx, place, model[place])
        ends.append("core")

    async def host(ctx) -> None:
        choose, model = random.Random(~seed), {}
        for _ in range(150):
            place = choose.randrange(32) + 8 * CACHE_WORDS
            if choose.randrange(2):
                byte = await bench.host(ctx, EXTERNAL_BASE + place)
                assert byte == model.get(place, place % 256)
            else:
                model[place] = choose.getrandbits(8)
                await bench.host(ctx, EXTERNAL_BASE + place, model[place])
        ends.append("host")

    bench.run(core, host)
    assert sorted(ends) == ["core", "host"]


def test_a_reset_of_the_core_forgets_its_access():
    """The memory's answer is nobody's; the access after it gets its own."""
    bench = Bench()

    async def testbench(ctx) -> None:
        dut = bench.dut
        ctx.set(dut.core_runs, 1)
        ctx.set(dut.core.address, EXTERNAL_BASE + 0x20)
        ctx.set(dut.core.read, 1)
        await ctx.tick()
        ctx.set(dut.core.read, 0)
        await ctx.tick().repeat(2)
        ctx.set(dut.core_runs, 0)
        await ctx.tick()
        assert not ctx.get(dut.waiting)
        ctx.set(dut.core_runs, 1)
        assert (await bench.core(ctx, 0x40))[0] == 0x43424140

    bench.run(testbench)
    assert bench.log == [("read", 0x20), ("read", 0x40)]
