"""A bridge in Amaranth's simulator with bytes at its line, a register file and a memory behind it."""

import random

from kept_simulator import kept_simulator

from tosaic.hw.bridge.bridge import Bridge
from tosaic.hw.bridge.frames import FrameDecoder, encode_frame, encode_request
from tosaic.hw.bridge.protocol import Identity, Operation, RequestStatus

IDENTITY = Identity("bench", 0x1000, 256, 25_000_000, 64)
BAD_REGISTER = 0x20
"""The register that answers SLVERR."""


class BridgeBench:
    """Feeds bytes with random gaps, takes answers with random stalls; counts what reached registers and memory."""

    def __init__(self, seed=0, stall=0.3):
        self.dut, _, self._simulator = kept_simulator(Bridge, IDENTITY)
        self.rng, self.stall = random.Random(seed), stall
        self.memory = bytearray(IDENTITY.memory_bytes)
        self.registers = {offset: 0x01010101 * offset & 0xFFFFFFFF for offset in range(0, 64, 4)}
        self.writes = []
        """(what, address, value) of every write that was executed."""
        self.resets = 0
        self.decoder = FrameDecoder()
        self.sent_during_answer = b""

    def run(self, process):
        """Simulates until `process(ctx)` is through."""
        self._simulator.run(process, self._serve_registers, self._serve_memory, self._watch_reset)

    async def send(self, ctx, raw):
        for byte in raw:
            ctx.set(self.dut.received, 1)
            ctx.set(self.dut.received_byte, byte)
            await ctx.tick()
            ctx.set(self.dut.received, 0)
            await ctx.tick().repeat(self.rng.randint(1, 3))

    async def receive(self, ctx, cycles=3000):
        """The next answer's content, None when none comes."""
        line = self.dut.line
        for _ in range(cycles):
            ready = self.rng.random() >= self.stall
            ctx.set(line.ready, ready)
            _, _, valid, byte = await ctx.tick().sample(line.valid, line.payload)
            if valid and ready:
                for content in self.decoder.feed([byte]):
                    ctx.set(line.ready, 0)
                    return content
        return None

    async def ask(self, ctx, *request, **options):
        """(sequence, data, status) of the answer to a request; None when there is none."""
        await self.send(ctx, encode_request(*request, **options))
        return self.split(await self.receive(ctx))

    @staticmethod
    def split(content):
        return content and (content[0], content[1:-1], RequestStatus(content[-1]))

    async def hello(self, ctx, sequence=0):
        answer = await self.ask(ctx, sequence, Operation.HELLO)
        assert answer == (sequence, IDENTITY.to_bytes(), RequestStatus.OK)

    async def _serve_registers(self, ctx):
        axi = self.dut.registers
        address = data = None
        while True:
            ctx.set(axi.arready, self.rng.random() < 0.5)
            ctx.set(axi.awready, address is None and self.rng.random() < 0.5)
            ctx.set(axi.wready, data is None and self.rng.random() < 0.5)
            sampled = await ctx.tick().sample(
                axi.arvalid & axi.arready,
                axi.araddr,
                axi.awvalid & axi.awready,
                axi.awaddr,
                axi.wvalid & axi.wready,
                axi.wdata,
                axi.rready & axi.rvalid,
                axi.bready & axi.bvalid,
            )
            read, read_address, wrote_address, write_address, wrote_data, value, read_end, write_end = (
                sampled[2:]
            )
            if read_end:
                ctx.set(axi.rvalid, 0)
            if write_end:
                ctx.set(axi.bvalid, 0)
            if read:
                ctx.set(axi.rvalid, 1)
                ctx.set(axi.rdata, self.registers.get(read_address, 0))
                ctx.set(
                    axi.rresp, 2 if read_address == BAD_REGISTER or read_address not in self.registers else 0
                )
            if wrote_address:
                address = write_address
            if wrote_data:
                data = value
            if address is not None and data is not None:
                good = address != BAD_REGISTER and address in self.registers
                ctx.set(axi.bvalid, 1)
                ctx.set(axi.bresp, 0 if good else 2)
                if good:
                    self.registers[address] = data
                    self.writes.append(("register", address, data))
                address = data = None

    async def _serve_memory(self, ctx):
        port = self.dut.memory
        while True:
            _, _, request, write, address, value = await ctx.tick().sample(
                port.request, port.write, port.address, port.write_data
            )
            if not request:
                continue
            await ctx.tick().repeat(self.rng.randint(1, 3))
            place = address - IDENTITY.memory_base
            inside = 0 <= place < IDENTITY.memory_bytes
            ctx.set(port.done, 1)
            ctx.set(port.error, not inside)
            ctx.set(port.read_data, self.memory[place] if inside else 0)
            if write and inside:
                self.memory[place] = value
                self.writes.append(("memory", address, value))
            await ctx.tick()
            ctx.set(port.done, 0)

    async def _watch_reset(self, ctx):
        before = 0
        while True:
            _, _, reset = await ctx.tick().sample(self.dut.reset)
            self.resets += reset and not before
            before = reset


__all__ = ["BAD_REGISTER", "IDENTITY", "BridgeBench", "encode_frame", "encode_request"]
