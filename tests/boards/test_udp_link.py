"""The bridge behind datagrams, without LiteEth's core: which are taken, which are dropped, who is answered."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from tosaic.boards.ethernet import Ethernet, Phy
from tosaic.boards.soc.udp_link import BUFFER_BYTES, UdpLink
from tosaic.hw.bridge.bridge import Bridge
from tosaic.hw.bridge.byte_port import BytePort
from tosaic.hw.bridge.datagrams import COUNT_BITS, UDP_PORT
from tosaic.hw.bridge.frames import FrameDecoder, encode_request
from tosaic.hw.bridge.protocol import Identity, Operation, RequestStatus
from tosaic.hw.interfaces import AxiLite

IDENTITY = Identity("bench", 0x1000, 256, 50_000_000, 512)
HOST = (0x0A000001, 40_000)
FIRST, SECOND = 1 << COUNT_BITS, 2 << COUNT_BITS
"""What the numbers of two sessions begin with."""
QUIET_CYCLES = 1_200


class PinlessLink(UdpLink):
    def _core(self):
        return Module()


class Asked(wiring.Component):
    """Link and bridge, as BoardTop has them."""

    def __init__(self):
        self.link, self.bridge = PinlessLink(Ethernet(Phy.MII, "")), Bridge(IDENTITY)
        super().__init__({"registers": Out(AxiLite()), "memory": Out(BytePort())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.link, m.submodules.bridge = link, bridge = self.link, self.bridge
        wiring.connect(m, bridge.line, link.line)
        wiring.connect(m, bridge.memory, wiring.flipped(self.memory))
        wiring.connect(m, bridge.registers, wiring.flipped(self.registers))
        with m.If(bridge.deframer.frame):
            m.d.sync += link.asked.eq(1)
        m.d.comb += [
            link.listening.eq(bridge.deframer.listen),
            bridge.received.eq(link.received),
            bridge.received_byte.eq(link.received_byte),
        ]
        return m


class Bench:
    """Its memory counts the writes that were executed."""

    def __init__(self):
        self.dut, self.memory, self.writes, self.decoder = Asked(), bytearray(256), 0, FrameDecoder()

    def run(self, process):
        simulator = Simulator(self.dut)
        simulator.add_clock(2e-8)
        simulator.add_testbench(process)
        simulator.add_testbench(self._serve, background=True)
        simulator.run()

    async def _serve(self, ctx):
        port = self.dut.memory
        while True:
            _, _, request, write, address, value = await ctx.tick().sample(
                port.request, port.write, port.address, port.write_data
            )
            ctx.set(port.done, 0)
            if request and not ctx.get(port.done):
                if write:
                    self.memory[address - 0x1000] = value
                    self.writes += 1
                ctx.set(port.read_data, self.memory[address - 0x1000])
                ctx.set(port.done, 1)
                await ctx.tick()
                ctx.set(port.done, 0)

    async def send(self, ctx, number, payload, *, host=HOST, error=False, length=None):
        raw = number.to_bytes(4, "little") + payload
        source = self.dut.link.source
        ctx.set(source["length"], len(raw) if length is None else length)
        ctx.set(source["ip_address"], host[0])
        ctx.set(source["src_port"], host[1])
        for start in range(0, len(raw), 4):
            ctx.set(source["valid"], 1)
            ctx.set(source["data"], int.from_bytes(raw[start : start + 4], "little"))
            ctx.set(source["last"], start + 4 >= len(raw))
            ctx.set(source["error"], error and start + 4 >= len(raw))
            await ctx.tick()
        ctx.set(source["valid"], 0)

    async def receive(self, ctx):
        """(number, content, (ip, port)) of the next datagram; None when none comes. Its words come one per cycle."""
        link, raw = self.dut.link, b""
        ctx.set(link.sink_ready, 1)
        for _ in range(QUIET_CYCLES):
            state = await ctx.tick().sample(
                link.sink_valid, link.sink_last, link.read.data, link.length, link.host_ip, link.host_port
            )
            _, _, valid, last, data, length, ip, port = state
            if valid:
                raw += data.to_bytes(4, "little")
            assert valid or not raw, "a gap, which the PHY would send as damage"
            if valid and last:
                assert len(raw) - 4 < length <= len(raw)
                (content,) = self.decoder.feed(raw[4:length])
                return int.from_bytes(raw[:4], "little"), content, (ip, port)
        return None

    async def ask(self, ctx, number, *request, host=HOST, **options):
        await self.send(ctx, number, encode_request(*request, **options), host=host)
        return await self.receive(ctx)


def run(process):
    bench = Bench()

    async def wrapped(ctx):
        await process(bench, ctx)

    bench.run(wrapped)


def test_an_answer_goes_where_the_question_came_from():
    async def process(bench, ctx):
        hello = await bench.ask(ctx, FIRST, 7, Operation.HELLO)
        assert hello == (FIRST, bytes([7]) + IDENTITY.to_bytes() + bytes([RequestStatus.OK]), HOST)
        other = (0xC0A80133, 1234)
        # Bytes that are escaped, and every number of bytes in the last word.
        for step, count in enumerate((1, 2, 3, 4, 60), 1):
            data = bytes([0x7E, 0x7D, 1, 2] * 15)[:count]
            begin = FIRST + 3 * step
            written = await bench.ask(ctx, begin, 8, Operation.HELLO, host=other)
            assert written[0] == begin and written[2] == other
            await bench.ask(ctx, begin + 1, 9, Operation.WRITE_MEMORY, 0x1000, count, data)
            read = await bench.ask(ctx, begin + 2, 10, Operation.READ_MEMORY, 0x1000, count)
            assert read == (begin + 2, bytes([10]) + data + bytes([RequestStatus.OK]), HOST)

    run(process)
    assert UDP_PORT == 7626


def test_a_late_copy_is_dropped_however_late():
    """A copy that comes 256 requests late has the sequence number of the next one."""

    async def process(bench, ctx):
        await bench.ask(ctx, FIRST, 0, Operation.HELLO)
        request = (1, Operation.WRITE_MEMORY, 0x1000, 1, b"a")
        assert (await bench.ask(ctx, FIRST + 1, *request))[1] == bytes([1, RequestStatus.OK])
        assert bench.writes == 1
        # The same datagram, the next one, which repeats the request, and again the first one.
        assert await bench.ask(ctx, FIRST + 1, *request) is None
        assert (await bench.ask(ctx, FIRST + 2, *request))[1] == bytes([1, RequestStatus.OK])
        assert await bench.ask(ctx, FIRST + 1, *request) is None
        # As after 255 more requests.
        await bench.ask(ctx, FIRST + 257, 0, Operation.HELLO)
        assert await bench.ask(ctx, FIRST + 1, *request) is None
        assert bench.writes == 1
        assert (await bench.ask(ctx, FIRST + 300, *request))[1] == bytes([1, RequestStatus.OK])
        assert bench.writes == 2

    run(process)


def test_sessions():
    """One begins with a count of 0, and ends the one before."""

    async def process(bench, ctx):
        await bench.ask(ctx, FIRST, 0, Operation.HELLO)
        write = (1, Operation.WRITE_MEMORY, 0x1000, 1, b"a")
        assert await bench.ask(ctx, SECOND + 1, *write) is None
        assert (await bench.ask(ctx, SECOND, 0, Operation.HELLO))[0] == SECOND
        assert await bench.ask(ctx, SECOND, 0, Operation.HELLO) is None
        assert await bench.ask(ctx, FIRST + 1, *write) is None
        assert bench.writes == 0
        assert (await bench.ask(ctx, SECOND + 1, *write))[0] == SECOND + 1
        assert bench.writes == 1

    run(process)


@pytest.mark.parametrize("damage", ["error", "long", "huge", "cut", "no frame", "crc", "empty"])
def test_what_is_damaged_is_dropped_and_the_next_is_taken(damage):
    async def process(bench, ctx):
        await bench.ask(ctx, FIRST, 0, Operation.HELLO)
        frame = encode_request(1, Operation.WRITE_MEMORY, 0x1000, 1, b"b")
        sent = {
            "error": (frame, {"error": True}),
            "long": (frame, {"length": len(frame) + 9}),
            "huge": (frame + bytes(BUFFER_BYTES), {}),
            "cut": (frame[:9], {}),
            "no frame": (b"hello", {}),
            "crc": (frame[:5] + b"x" + frame[6:], {}),
            "empty": (b"", {}),
        }[damage]
        await bench.send(ctx, FIRST + 1, sent[0], **sent[1])
        assert await bench.receive(ctx) is None
        assert (await bench.ask(ctx, FIRST + 2, 1, Operation.WRITE_MEMORY, 0x1000, 1, b"c"))[1] == bytes(
            [1, RequestStatus.OK]
        )
        assert (bench.writes, bench.memory[0]) == (1, ord("c"))

    run(process)


def test_one_question_at_a_time():
    """What comes while the bridge works is lost, and does not change where its answer goes."""

    async def process(bench, ctx):
        await bench.ask(ctx, FIRST, 0, Operation.HELLO)
        await bench.send(ctx, FIRST + 1, encode_request(1, Operation.WRITE_MEMORY, 0x1000, 60, bytes(60)))
        await ctx.tick().repeat(300)
        await bench.send(ctx, FIRST + 2, encode_request(1, Operation.HELLO), host=(1, 2))
        assert await bench.receive(ctx) == (FIRST + 1, bytes([1, RequestStatus.OK]), HOST)
        assert await bench.receive(ctx) is None

    run(process)


def test_an_address_must_be_one():
    with pytest.raises(ValueError, match="Octet 300"):
        Ethernet(Phy.MII, "", ip="10.0.0.300")
    with pytest.raises(ValueError, match="^mac must be the address of one station, not 0x1"):
        Ethernet(Phy.MII, "", mac=0x01_00_00_00_00_00)
