"""The boards' external memory: bursts of both directions with stalls, the host between them, the edges."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.boards.soc import OnChipMemory
from tosaic.hw.config import CONFIGS

BASE, BYTES = 0x1000_0000, 12 << 10
DECERR = 3


class Agents:
    """Three requesters at once, each on bytes of its own, against one image of the memory."""

    def __init__(self, config, seed):
        self.rng = random.Random(seed)
        self.width = config.word_bytes
        self.dut = OnChipMemory(config, memory_bytes=BYTES, base=BASE)
        self.image = bytearray(BYTES)

    def run(self, *processes):
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-8)
        for process in processes:
            simulator.add_testbench(process)
        simulator.run()

    async def host(self, ctx, address, value=None):
        """(byte, error) of one access."""
        port = self.dut.host
        ctx.set(port.request, 1)
        ctx.set(port.address, address)
        ctx.set(port.write, value is not None)
        ctx.set(port.write_data, value or 0)
        done = 0
        while not done:
            _, _, done, data, error = await ctx.tick().sample(port.done, port.read_data, port.error)
        ctx.set(port.request, 0)
        return data, error

    async def read(self, ctx, address, beats, number):
        """The bytes of a burst and its answers."""
        axi, found, answers = self.dut.read, b"", []
        ctx.set(axi.araddr, address)
        ctx.set(axi.arlen, beats - 1)
        ctx.set(axi.arid, number)
        ctx.set(axi.arvalid, 1)
        await ctx.tick().until(axi.arready)
        ctx.set(axi.arvalid, 0)
        while len(answers) < beats:
            ready = self.rng.random() < 0.7
            ctx.set(axi.rready, ready)
            _, _, valid, data, last, answer, identifier = await ctx.tick().sample(
                axi.rvalid, axi.rdata, axi.rlast, axi.rresp, axi.rid
            )
            if valid and ready:
                found += data.to_bytes(self.width, "little")
                answers.append(answer)
                assert last == (len(answers) == beats) and identifier == number
        ctx.set(axi.rready, 0)
        return found, answers

    async def write(self, ctx, address, words, strobes, number):
        axi = self.dut.write
        ctx.set(axi.awaddr, address)
        ctx.set(axi.awlen, len(words) - 1)
        ctx.set(axi.awid, number)
        ctx.set(axi.awvalid, 1)
        await ctx.tick().until(axi.awready)
        ctx.set(axi.awvalid, 0)
        for index, (word, strobe) in enumerate(zip(words, strobes, strict=True)):
            if self.rng.random() < 0.3:
                await ctx.tick().repeat(self.rng.randint(1, 3))
            ctx.set(axi.wdata, int.from_bytes(word, "little"))
            ctx.set(axi.wstrb, strobe)
            ctx.set(axi.wlast, index == len(words) - 1)
            ctx.set(axi.wvalid, 1)
            await ctx.tick().until(axi.wready)
            ctx.set(axi.wvalid, 0)
        ctx.set(axi.bready, 1)
        answer, identifier = await ctx.tick().sample(axi.bresp, axi.bid).until(axi.bvalid)
        ctx.set(axi.bready, 0)
        assert identifier == number
        return answer

    def apply(self, address, words, strobes):
        for index, (word, strobe) in enumerate(zip(words, strobes, strict=True)):
            for lane in range(self.width):
                if strobe >> lane & 1:
                    self.image[address - BASE + index * self.width + lane] = word[lane]


def test_constructor():
    config = CONFIGS["nano"]
    with pytest.raises(ValueError, match=r"^memory_bytes must be a multiple of 4096, not 5000$"):
        OnChipMemory(config, memory_bytes=5000)
    with pytest.raises(ValueError, match=r"^base must be a multiple of 0x4000 below 2\*\*32, not 0x2000$"):
        OnChipMemory(config, memory_bytes=BYTES, base=0x2000)


@pytest.mark.parametrize("name, seed", [("nano", 2), ("small", 3)])
def test_three_requesters(name, seed):
    agents = Agents(CONFIGS[name], seed)
    rng, width = random.Random(seed), agents.width
    third = BYTES // 3

    async def host(ctx):
        for _ in range(60):
            place = rng.randrange(third)
            if rng.random() < 0.5:
                agents.image[place] = value = rng.randrange(256)
                assert (await agents.host(ctx, BASE + place, value))[1] == 0
            else:
                assert await agents.host(ctx, BASE + place) == (agents.image[place], 0)

    async def writer(ctx):
        """Writes the second third, which the reader does not read before its end."""
        for number in range(12):
            beats = rng.choice([1, 2, 7, 16])
            address = BASE + third + rng.randrange((third - beats * width) // width) * width
            words = [rng.randbytes(width) for _ in range(beats)]
            strobes = [rng.choice([(1 << width) - 1, rng.randrange(1 << width)]) for _ in range(beats)]
            agents.apply(address, words, strobes)
            assert await agents.write(ctx, address, words, strobes, number % 4) == 0

    async def reader(ctx):
        """Reads the last third, zero, while the others write theirs."""
        for number in range(12):
            beats = rng.choice([1, 2, 7, 16])
            address = BASE + 2 * third + rng.randrange((third - beats * width) // width) * width
            assert await agents.read(ctx, address, beats, number % 4) == (bytes(beats * width), [0] * beats)

    finished = []

    def ending(process):
        async def wrapped(ctx):
            await process(ctx)
            finished.append(process)

        return wrapped

    async def check(ctx):
        while len(finished) < 3:
            await ctx.tick()
        for start in range(0, 2 * third, 64 * width):
            beats = min(64 * width, 2 * third - start) // width
            found, _ = await agents.read(ctx, BASE + start, beats, 0)
            assert found == agents.image[start : start + beats * width]

    agents.run(ending(host), ending(writer), ending(reader), check)


def test_outside_is_answered_decerr():
    agents = Agents(CONFIGS["nano"], 0)
    end = BASE + BYTES

    async def process(ctx):
        for address in (BASE - 1, end, 0, 0xFFFF_FFFF):
            assert (await agents.host(ctx, address))[1] == 1
            assert (await agents.host(ctx, address, 1))[1] == 1
        _, answers = await agents.read(ctx, end - 8, 4, 1)
        assert answers == [0, 0, DECERR, DECERR]
        words = [b"abcd", b"efgh"]
        assert await agents.write(ctx, end - 4, words, [15, 15], 2) == DECERR
        assert await agents.write(ctx, end, words, [15, 15], 2) == DECERR
        assert await agents.write(ctx, end - 8, words, [15, 15], 2) == 0
        assert (await agents.read(ctx, end - 8, 2, 3))[0] == b"abcdefgh"
        assert (await agents.read(ctx, BASE, 2, 3))[0] == bytes(8)

    agents.run(process)
