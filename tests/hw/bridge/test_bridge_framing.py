"""The gateware's framer and deframer against frames.py."""

import random

import pytest
from amaranth.sim import Simulator

from tosaic.hw.bridge.deframer import Deframer
from tosaic.hw.bridge.framer import Framer
from tosaic.hw.bridge.frames import encode_frame, encode_request
from tosaic.hw.bridge.protocol import ESCAPE, FLAG, Operation


def run(component, process) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


def test_framer_sends_what_encode_frame_makes():
    """Flags and escapes in the content, pauses on both sides, frames that follow each other."""
    dut, dice = Framer(), random.Random(1)
    contents = [bytes([FLAG, ESCAPE, 0]), dice.randbytes(40), bytes([ESCAPE] * 5), b"\0"]
    expected = b"".join(encode_frame(content) for content in contents)

    async def process(ctx):
        sent = bytearray()
        left = [(byte, i == len(content) - 1) for content in contents for i, byte in enumerate(content)]
        for _ in range(1000):
            if len(sent) == len(expected):
                break
            ctx.set(dut.content.valid, bool(left) and dice.random() < 0.8)
            if left:
                ctx.set(dut.content.payload, left[0][0])
                ctx.set(dut.last, left[0][1])
            ctx.set(dut.line.ready, dice.random() < 0.7)
            if ctx.get(dut.line.valid) and ctx.get(dut.line.ready):
                sent.append(ctx.get(dut.line.payload))
            if ctx.get(dut.content.valid) and ctx.get(dut.content.ready):
                left.pop(0)
            await ctx.tick()
        assert bytes(sent) == expected

    run(dut, process)


async def receive(ctx, dut: Deframer, line: bytes) -> int:
    """Puts bytes on the line; how many whole frames there were."""
    frames = 0
    for byte in line:
        ctx.set(dut.valid, 1)
        ctx.set(dut.byte, byte)
        frames += ctx.get(dut.frame)
        await ctx.tick()
    ctx.set(dut.valid, 0)
    return frames


def test_deframer_keeps_the_last_whole_request():
    dut, data = Deframer(16), bytes([FLAG, ESCAPE, 3, 4, 250])
    request = encode_request(7, Operation.WRITE_MEMORY, 0x12345678, len(data), data)

    async def process(ctx):
        ctx.set(dut.listen, 1)
        assert await receive(ctx, dut, b"noise" + request) == 1
        ctx.set(dut.listen, 0)
        header = dut.header
        assert ctx.get(header.sequence) == 7
        assert ctx.get(header.operation) == Operation.WRITE_MEMORY
        assert (ctx.get(header.address), ctx.get(header.count)) == (0x12345678, len(data))
        assert ctx.get(dut.data_length) == len(data)
        got = []
        for index in range(len(data)):
            ctx.set(dut.index, index)
            await ctx.tick()
            got.append(ctx.get(dut.value))
        assert bytes(got) == data

    run(dut, process)


@pytest.mark.parametrize(
    "damage", ["a byte", "too long", "too short", "not listening", "escape before the flag"]
)
def test_deframer_drops_what_is_damaged(damage):
    dut = Deframer(16)
    request = encode_request(1, Operation.HELLO)
    damaged = {
        "a byte": bytes([*request[:3], request[3] ^ 1, *request[4:]]),
        "too long": encode_request(1, Operation.WRITE_MEMORY, 0, 17, bytes(17)),
        "too short": encode_frame(b"\1"),
        "not listening": request,
        "escape before the flag": request[:-1] + bytes([ESCAPE, FLAG]),
    }[damage]

    async def process(ctx):
        ctx.set(dut.listen, damage != "not listening")
        assert await receive(ctx, dut, damaged) == 0
        ctx.set(dut.listen, 1)
        assert await receive(ctx, dut, request) == 1

    run(dut, process)


@pytest.mark.parametrize("data_bytes", [0, 2, 24])
def test_constructor(data_bytes):
    with pytest.raises(
        ValueError, match=f"^data_bytes must be a power of two of at least 4, not {data_bytes}$"
    ):
        Deframer(data_bytes)
