"""The bridge: operations, error answers, sequence numbers, garbage on the line."""

import random

import pytest
from bridge_bench import BAD_REGISTER, IDENTITY, BridgeBench, encode_frame, encode_request
from rest_nightly import first_of

from tosaic.hw.bridge.bridge import Bridge
from tosaic.hw.bridge.protocol import REQUEST_HEADER, Operation, RequestStatus

BASE = IDENTITY.memory_base
SPECIAL = bytes([0x7E, 0x7D, 0x5E, 0x5D, 0x20, 0x00, 0xFF, 0x7D, 0x7E, 0x7E])


def test_constructor():
    with pytest.raises(TypeError, match=r"^identity must be an Identity, not 3$"):
        Bridge(3)


def test_registers_and_memory():
    bench = BridgeBench()

    async def process(ctx):
        await bench.hello(ctx, 254)
        assert await bench.ask(ctx, 255, Operation.READ_REGISTERS, 4, 12) == (
            255,
            bytes([4] * 4 + [8] * 4 + [12] * 4),
            RequestStatus.OK,
        )
        data = (0x7E7D7E7D).to_bytes(4, "little") + (5).to_bytes(4, "little")
        assert await bench.ask(ctx, 0, Operation.WRITE_REGISTERS, 8, 8, data) == (0, b"", RequestStatus.OK)
        assert await bench.ask(ctx, 1, Operation.READ_REGISTERS, 8, 8) == (1, data, RequestStatus.OK)
        assert await bench.ask(ctx, 2, Operation.WRITE_MEMORY, BASE + 3, len(SPECIAL), SPECIAL) == (
            2,
            b"",
            RequestStatus.OK,
        )
        assert await bench.ask(ctx, 3, Operation.READ_MEMORY, BASE + 2, len(SPECIAL) + 2) == (
            3,
            b"\0" + SPECIAL + b"\0",
            RequestStatus.OK,
        )
        full = random.Random(1).randbytes(IDENTITY.data_bytes)
        assert await bench.ask(ctx, 4, Operation.WRITE_MEMORY, BASE + 64, len(full), full) == (
            4,
            b"",
            RequestStatus.OK,
        )
        assert await bench.ask(ctx, 5, Operation.READ_MEMORY, BASE + 64, len(full)) == (
            5,
            full,
            RequestStatus.OK,
        )
        assert await bench.ask(ctx, 6, Operation.READ_MEMORY, BASE, 0) == (6, b"", RequestStatus.OK)
        assert await bench.ask(ctx, 7, Operation.RESET) == (7, b"", RequestStatus.OK)

    bench.run(process)
    assert bench.resets == 1
    assert bench.writes[:2] == [("register", 8, 0x7E7D7E7D), ("register", 12, 5)]


def test_errors_are_answered_and_nothing_more_is_touched():
    bench = BridgeBench(1)

    async def process(ctx):
        await bench.hello(ctx)
        refused = [
            (encode_request(1, Operation.READ_REGISTERS, 2, 4), RequestStatus.BAD_REQUEST),
            (encode_request(2, Operation.READ_REGISTERS, 0, 6), RequestStatus.BAD_REQUEST),
            (encode_request(3, Operation.READ_MEMORY, BASE, 65), RequestStatus.BAD_REQUEST),
            (encode_request(4, Operation.WRITE_MEMORY, BASE, 5, b"1234"), RequestStatus.BAD_REQUEST),
            (encode_request(5, Operation.WRITE_REGISTERS, 0, 2, b"12"), RequestStatus.BAD_REQUEST),
            (encode_frame(REQUEST_HEADER.pack(6, 9, 0, 0)), RequestStatus.BAD_REQUEST),
            (encode_request(7, Operation.WRITE_REGISTERS, 0x1000, 4, b"1234"), RequestStatus.REGISTER_ERROR),
            (encode_request(8, Operation.READ_REGISTERS, 0x10000, 4), RequestStatus.REGISTER_ERROR),
            (encode_request(9, Operation.WRITE_MEMORY, BASE - 1, 2, b"12"), RequestStatus.MEMORY_ERROR),
        ]
        for sequence, (raw, status) in enumerate(refused, 1):
            await bench.send(ctx, raw)
            assert bench.split(await bench.receive(ctx)) == (sequence, b"", status)
        assert bench.writes == []
        answer = await bench.ask(ctx, 10, Operation.READ_REGISTERS, BAD_REGISTER - 4, 12)
        assert answer == (10, bytes([BAD_REGISTER - 4] * 4), RequestStatus.REGISTER_ERROR)
        end = BASE + IDENTITY.memory_bytes
        assert await bench.ask(ctx, 11, Operation.READ_MEMORY, end - 2, 4) == (
            11,
            b"\0\0",
            RequestStatus.MEMORY_ERROR,
        )
        assert await bench.ask(ctx, 12, Operation.WRITE_MEMORY, end - 1, 3, b"abc") == (
            12,
            b"",
            RequestStatus.MEMORY_ERROR,
        )
        assert bench.writes == [("memory", end - 1, ord("a"))]

    bench.run(process)


def test_repeated_and_lost_requests():
    bench = BridgeBench(2)

    async def process(ctx):
        assert await bench.ask(ctx, 0, Operation.READ_REGISTERS, 0, 4) == (
            0,
            b"",
            RequestStatus.OUT_OF_SEQUENCE,
        )
        await bench.hello(ctx, 10)
        write = (11, Operation.WRITE_MEMORY, BASE, 1, b"a")
        for _ in range(3):
            assert await bench.ask(ctx, *write) == (11, b"", RequestStatus.OK)
        assert bench.writes == [("memory", BASE, ord("a"))]
        # A repeated write is answered as it ended the first time.
        for _ in range(2):
            assert await bench.ask(ctx, 12, Operation.WRITE_MEMORY, 0, 1, b"a") == (
                12,
                b"",
                RequestStatus.MEMORY_ERROR,
            )
        # Number 13 was lost, 14 must not be executed; nor one from the past.
        for lost in (14, 11, 200):
            assert await bench.ask(ctx, lost, Operation.WRITE_MEMORY, BASE, 1, b"b") == (
                lost,
                b"",
                RequestStatus.OUT_OF_SEQUENCE,
            )
        bench.memory[0] = 77
        for _ in range(2):
            assert await bench.ask(ctx, 13, Operation.READ_MEMORY, BASE, 1) == (13, b"M", RequestStatus.OK)
        # HELLO is always taken.
        await bench.hello(ctx, 3)
        await bench.hello(ctx, 3)
        assert await bench.ask(ctx, 4, Operation.WRITE_MEMORY, BASE, 1, b"c") == (4, b"", RequestStatus.OK)
        assert len(bench.writes) == 2

    bench.run(process)


@pytest.mark.parametrize("seed", first_of(range(4), 2))
def test_garbage_between_and_inside_frames(seed):
    """Damaged frames are not answered, and never executed; the next whole one is."""
    bench, rng = BridgeBench(seed), random.Random(seed)

    async def process(ctx):
        await bench.hello(ctx)
        sequence, written = 0, {}
        for _ in range(8):
            sequence = (sequence + 1) % 256
            data = rng.randbytes(rng.randint(1, 40))
            address = BASE + rng.randint(0, 200)
            raw = bytearray(encode_request(sequence, Operation.WRITE_MEMORY, address, len(data), data))
            for _ in range(rng.choice([0, 1, 1, 4])):
                match rng.randint(0, 3):
                    case 0:
                        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
                    case 1:
                        del raw[rng.randrange(len(raw))]
                    case 2:
                        raw.insert(rng.randrange(len(raw)), rng.choice([0x7E, 0x7D, rng.randrange(256)]))
                    case 3:
                        raw = bytearray(rng.randbytes(rng.randint(1, 120))) + raw
            before = len(bench.writes)
            await bench.send(ctx, raw)
            answer = bench.split(await bench.receive(ctx, 1500))
            if answer is None:
                assert len(bench.writes) == before
                await bench.send(ctx, b"\x7e")
                answer = await bench.ask(ctx, sequence, Operation.WRITE_MEMORY, address, len(data), data)
            assert answer == (sequence, b"", RequestStatus.OK)
            assert bench.writes[before:] == [("memory", address + i, byte) for i, byte in enumerate(data)]
            written |= dict(zip(range(address, address + len(data)), data, strict=True))
        for address, value in written.items():
            assert bench.memory[address - BASE] == value

    bench.run(process)


def test_a_request_that_arrives_during_an_answer_is_not_executed():
    bench = BridgeBench(3)

    async def process(ctx):
        await bench.hello(ctx)
        await bench.send(ctx, encode_request(1, Operation.READ_MEMORY, BASE, 32))
        await bench.send(ctx, encode_request(2, Operation.WRITE_MEMORY, BASE, 1, b"x"))
        assert bench.split(await bench.receive(ctx)) == (1, bytes(32), RequestStatus.OK)
        assert await bench.receive(ctx, 500) is None
        assert await bench.ask(ctx, 2, Operation.WRITE_MEMORY, BASE, 1, b"y") == (2, b"", RequestStatus.OK)

    bench.run(process)
    assert bench.writes == [("memory", BASE, ord("y"))]
