"""The activation memory against a byte array with the documented arbitration."""

import random

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator

from tosaic.hw.config import Config
from tosaic.hw.interfaces import AM_READ_LATENCY
from tosaic.hw.memory import ActivationMemory

READS, WRITES = ("vector_read", "array_read", "store_read"), ("vector_write", "load_write")


def tiny(columns=4, am_bytes=256, am_banks=4, **sizes):
    return Config(
        "tiny",
        rows=1,
        columns=columns,
        am_bytes=am_bytes,
        am_banks=am_banks,
        wm_bytes=2 * columns**2,
        line_pixels=8,
        **sizes,
    )


def banks_of(config, address):
    """Banks that hold the W bytes at `address`."""
    return {(address + i) % config.am_bytes // config.am_bank_bytes for i in range(config.columns)}


class Reference:
    """A byte array; grants by priority; reads see the writes of earlier cycles only."""

    def __init__(self, config):
        self.config, self.bytes = config, bytearray(config.am_bytes)

    def word(self, address):
        return bytes(self.bytes[(address + i) % self.config.am_bytes] for i in range(self.config.columns))

    def cycle(self, reads, writes, second=None):
        """reads: {port: address}, writes: {port: (address, data, mask)}, second: the other address of a paired
        `array_read`. Returns grants and the data read."""
        grants, data, taken = {}, {}, set()
        for port in READS:
            if port in reads:
                needs = banks_of(self.config, reads[port])
                data[port] = [self.word(reads[port])]
                if port == "array_read" and second is not None:
                    needs |= banks_of(self.config, second)
                    data[port].append(self.word(second))
                grants[port] = port == "vector_read" or not needs & taken
                taken |= needs
        taken = set()
        for port in WRITES:
            if port in writes:
                address, value, mask = writes[port]
                needs = banks_of(self.config, address)
                grants[port] = port == "vector_write" or not needs & taken
                taken |= needs
                if grants[port]:
                    for i in range(self.config.columns):
                        if mask >> i & 1:
                            self.bytes[(address + i) % self.config.am_bytes] = value[i]
        return grants, {port: value for port, value in data.items() if grants[port]}


def run(dut, testbench, platform=None):
    simulator = Simulator(Fragment.get(dut, platform))
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


class Fpga:
    """A platform on which all memories are read in every cycle."""

    family = "ecp5"


@pytest.mark.parametrize(
    "columns, am_bytes, am_banks, platform",
    [
        (4, 64, 1, None),
        (4, 256, 4, None),
        (4, 256, 4, Fpga()),
        (8, 256, 2, None),
        pytest.param(16, 1024, 4, None, marks=pytest.mark.nightly),
        pytest.param(32, 512, 4, None, marks=pytest.mark.nightly),
    ],
)
def test_matches_a_byte_array_under_random_traffic(columns, am_bytes, am_banks, platform):
    random_traffic(columns, am_bytes, am_banks, platform)


@pytest.mark.parametrize("columns, am_banks, platform", [(4, 2, None), (8, 4, Fpga())])
def test_with_parity_nothing_is_wrong_under_random_traffic(columns, am_banks, platform):
    random_traffic(columns, 256, am_banks, platform, parity=1)


def random_traffic(columns, am_bytes, am_banks, platform, parity=0):
    config = tiny(columns, am_bytes, am_banks, memory_parity=parity)
    dut, reference, random_ = ActivationMemory(config), Reference(config), random.Random(columns * am_banks)

    def any_address():
        # Any of the 24 address bits may be set: addresses wrap.
        return random_.randrange(1 << 24) if random_.random() < 0.3 else random_.randrange(am_bytes)

    async def testbench(ctx):
        due = {}
        prepared = {}  # accesses that are asked for from the next cycle on: (address, data, mask)
        second = None  # of array_read
        for cycle in range(600):
            for port, expected in due.pop(cycle, {}).items():
                interface = getattr(dut, port)
                assert ctx.get(interface.data).to_bytes(columns, "little") == expected[0], (cycle, port)
                assert not parity or ctx.get(dut.wrong) == 0, cycle
                if len(expected) > 1:
                    assert ctx.get(interface.second_data).to_bytes(columns, "little") == expected[1], cycle
            asked = {port: access for port, access in prepared.items() if random_.random() < 0.9}
            for port in READS + WRITES:
                ctx.set(getattr(dut, port).request, port in asked)
            grants, data = reference.cycle(
                {p: v[0] for p, v in asked.items() if p in READS},
                {p: v for p, v in asked.items() if p in WRITES},
                second,
            )
            for port in READS + WRITES:
                interface = getattr(dut, port)
                assert ctx.get(interface.grant) == grants.get(port, False), (cycle, port)
                if grants.get(port):
                    del prepared[port]
                prepares = port not in prepared and random_.random() < 0.7
                access = any_address(), random_.randbytes(columns), random_.getrandbits(columns)
                if port == "array_read":
                    other, paired = any_address(), int(random_.random() < 0.5)
                    if paired:
                        # Aligned words, one even and one odd.
                        first, other = (random_.randrange(am_bytes) // columns * columns for _ in range(2))
                        other += ((first + other) // columns + 1) % 2 * columns
                        access = (first, b"", 0)
                    if prepares:
                        second = other if paired else None
                    ctx.set(interface.paired, paired)
                    ctx.set(interface.second, other)
                if prepares:
                    prepared[port] = access
                ctx.set(interface.prepare, prepares)
                ctx.set(interface.address, access[0])
                if port in WRITES:
                    ctx.set(interface.data, int.from_bytes(access[1], "little"))
                    ctx.set(interface.mask, access[2])
            due[cycle + AM_READ_LATENCY] = data
            await ctx.tick()

    run(dut, testbench, platform)


def test_every_address_is_written_and_read_unaligned():
    """Walks all addresses, bank boundaries and the wrap included, with guard bytes on both sides."""
    config = tiny(columns=4, am_bytes=64, am_banks=2)
    dut = ActivationMemory(config)

    async def read(ctx, address):
        ctx.set(dut.array_read.prepare, 1)
        ctx.set(dut.array_read.address, address)
        await ctx.tick()
        ctx.set(dut.array_read.prepare, 0)
        ctx.set(dut.array_read.request, 1)
        assert ctx.get(dut.array_read.grant) == 1
        await ctx.tick()
        ctx.set(dut.array_read.request, 0)
        await ctx.tick()
        return ctx.get(dut.array_read.data)

    async def write(ctx, address, value):
        ctx.set(dut.load_write.prepare, 1)
        ctx.set(dut.load_write.address, address)
        ctx.set(dut.load_write.data, value)
        ctx.set(dut.load_write.mask, 0xF)
        await ctx.tick()
        ctx.set(dut.load_write.prepare, 0)
        ctx.set(dut.load_write.request, 1)
        await ctx.tick()
        ctx.set(dut.load_write.request, 0)

    async def testbench(ctx):
        for address in range(64):
            await write(ctx, address, 0x44332211)
            assert await read(ctx, address - 4 & 0xFFFFFF) == 0
            assert await read(ctx, address + 2) == 0x00004433
            assert await read(ctx, address) == 0x44332211
            await write(ctx, address, 0)

    run(dut, testbench)


def test_an_aligned_access_of_the_last_word_takes_one_bank():
    config = tiny(columns=4, am_bytes=256, am_banks=4)  # banks of 64 bytes
    dut = ActivationMemory(config)

    async def testbench(ctx):
        ctx.set(dut.vector_read.prepare, 1)
        ctx.set(dut.vector_read.request, 1)
        ctx.set(dut.store_read.prepare, 1)
        ctx.set(dut.store_read.request, 1)
        ctx.set(dut.store_read.address, 64)
        for vector_address, granted in [(60, 1), (61, 0), (63, 0), (64, 0), (124, 0), (128, 1), (255, 1)]:
            ctx.set(dut.vector_read.address, vector_address)
            await ctx.tick()
            assert ctx.get(dut.store_read.grant) == granted, vector_address

    run(dut, testbench)


def test_a_read_sees_the_write_of_the_cycle_before_and_not_of_its_own():
    dut = ActivationMemory(tiny())

    async def testbench(ctx):
        ctx.set(dut.vector_write.prepare, 1)
        ctx.set(dut.vector_write.address, 61)  # across banks
        ctx.set(dut.vector_write.data, 0x04030201)
        ctx.set(dut.vector_write.mask, 0xF)
        ctx.set(dut.vector_read.prepare, 1)
        ctx.set(dut.vector_read.address, 62)
        await ctx.tick()
        ctx.set(dut.vector_write.request, 1)
        ctx.set(dut.vector_read.request, 1)
        await ctx.tick()
        ctx.set(dut.vector_write.request, 0)
        await ctx.tick()
        assert ctx.get(dut.vector_read.data) == 0
        await ctx.tick()
        assert ctx.get(dut.vector_read.data) == 0x00040302

    run(dut, testbench)


class Watching:
    """A platform that keeps the read ports of all memories."""

    def __init__(self):
        self.ports = []

    def get_memory(self, target):
        self.ports += target.read_ports
        return target.elaborate(None)


@pytest.mark.parametrize(
    "port, address, second, halves",
    [
        ("vector_read", 8, None, 1),
        ("vector_read", 12, None, 1),
        ("store_read", 9, None, 2),
        ("vector_read", 63, None, 2),
        ("array_read", 64, None, 1),
        ("array_read", 64, 132, 2),
        ("array_read", 68, 128, 2),
    ],
)
def test_a_read_takes_no_more_memories_than_it_needs(port, address, second, halves):
    dut, platform = ActivationMemory(tiny()), Watching()
    fragment = Fragment.get(dut, platform)
    counts = []

    async def script(ctx):
        reader = getattr(dut, port)
        ctx.set(reader.address, address)
        if second is not None:
            ctx.set(reader.second, second)
            ctx.set(reader.paired, 1)
        for prepare, request in ((0, 0), (1, 0), (0, 0), (0, 1), (0, 0)):
            ctx.set(reader.prepare, prepare)
            ctx.set(reader.request, request)
            counts.append(sum(ctx.get(each.en) for each in platform.ports))
            await ctx.tick()

    simulator = Simulator(fragment)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    assert len(platform.ports) == 8 and counts == [0, 0, 0, halves, 0]


class Kept:
    """A platform that keeps the memories, in their order."""

    def __init__(self):
        self.memories = []

    def get_memory(self, target):
        self.memories.append(target)
        return target.elaborate(None)


PARITY = tiny(memory_parity=1)
CELL_BITS = 9


def place_of(byte):
    """Of a byte of the activation memory: the number of its memory, its row and its first bit."""
    word, lane = divmod(byte, PARITY.columns)
    bank, word = divmod(word, PARITY.am_bank_bytes // PARITY.columns)
    return 2 * bank + word % 2, word // 2, CELL_BITS * lane


@pytest.mark.parametrize(
    "port, address, second",
    [("vector_read", 8, None), ("store_read", 61, None), ("array_read", 30, None), ("array_read", 64, 132)],
)
def test_a_flipped_bit_is_wrong_where_it_is_read(port, address, second):
    """Each bit of each byte around what is read, its parity too, alone and with another of the same byte."""
    dut, platform = ActivationMemory(PARITY), Kept()
    fragment, columns = Fragment.get(dut, platform), PARITY.columns
    reads = [*range(address, address + columns), *range(second or 0, second + columns if second else 0)]
    found = {}

    async def script(ctx):
        async def write(at, value):
            ctx.set(dut.vector_write.address, at)
            ctx.set(dut.vector_write.data, value)
            for prepare, request in ((1, 0), (0, 1), (0, 0)):
                ctx.set(dut.vector_write.prepare, prepare)
                ctx.set(dut.vector_write.request, request)
                await ctx.tick()

        async def wrong():
            """What is said to be wrong in the cycles behind a read."""
            seen = []
            for prepare, request in ((1, 0), (0, 1), (0, 0), (0, 0), (0, 0), (0, 0)):
                ctx.set(reader.prepare, prepare)
                ctx.set(reader.request, request)
                seen.append(ctx.get(dut.wrong))
                await ctx.tick()
            return seen

        reader = getattr(dut, port)
        ctx.set(dut.vector_write.mask, (1 << columns) - 1)
        for at in range(0, PARITY.am_bytes, columns):
            await write(at, 0x01020304 * (at + 1) & 0xFFFFFFFF)
        ctx.set(reader.address, address)
        if second is not None:
            ctx.set(reader.second, second)
            ctx.set(reader.paired, 1)
        assert await wrong() == [0] * 6
        for byte in sorted({each + near for each in reads for near in (-1, 0, 1)}):
            number, row, first = place_of(byte)
            cells = platform.memories[number].data[row]
            for bit in range(CELL_BITS):
                before = ctx.get(cells)
                ctx.set(cells, before ^ 1 << first + bit)
                found[byte, bit] = await wrong()
                ctx.set(cells, before ^ 1 << first + bit ^ 1 << first + (bit + 1) % CELL_BITS)
                assert await wrong() == [0] * 6
                ctx.set(cells, before)

    simulator = Simulator(fragment)
    simulator.add_clock(1e-6)
    simulator.add_testbench(script)
    simulator.run()
    of_port = 1 << READS.index(port)
    for (byte, bit), seen in found.items():
        assert seen == [0, 0, 0, 0, of_port * (byte in reads), 0], (byte, bit)


def test_a_byte_that_is_written_in_the_cycle_of_its_read_is_not_wrong():
    """In an FPGA it may be anything; the bytes beside it are as they were."""
    for mask, wrong in ((0b0010, 0), (0b1101, 1)):
        dut, platform = ActivationMemory(PARITY), Kept()
        fragment, seen = Fragment.get(dut, platform), []

        async def script(ctx, dut=dut, platform=platform, mask=mask, seen=seen):
            number, row, first = place_of(9)
            ctx.set(platform.memories[number].data[row], 1 << first)
            for port in (dut.vector_read, dut.vector_write):
                ctx.set(port.address, 8)
            ctx.set(dut.vector_write.mask, mask)
            for prepare, request in ((1, 0), (0, 1), (0, 0), (0, 0), (0, 0)):
                for port in (dut.vector_read, dut.vector_write):
                    ctx.set(port.prepare, prepare)
                    ctx.set(port.request, request)
                seen.append(ctx.get(dut.wrong))
                await ctx.tick()

        simulator = Simulator(fragment)
        simulator.add_clock(1e-6)
        simulator.add_testbench(script)
        simulator.run()
        assert seen == [0, 0, 0, 0, wrong], mask
