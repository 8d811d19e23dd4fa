"""VectorUnit: illegal commands, tokens and marks, exact values of small programs."""

import dataclasses

import pytest
from vector_bench import run_unit
from vector_programs import TINY, bounds, dims, go, offsets, stream, uop

from tosaic.hw.constants import VECTOR_NEXT_EARLY_CYCLES, VECTOR_SIGNAL_EARLY_CYCLES
from tosaic.hw.isa import Element, Error, Instruction, Op, Opcode, Source, make

LOAD, ARRAY = (Source.LOAD, 0), (Source.ARRAY, 0)


SMALLER = dataclasses.replace(TINY, vector_uops=8, vector_registers=4)
R4, R0 = (Source.REGISTER, 4), (Source.REGISTER, 0)
TABLE = {"address": 0, "entries": 257}
DIMS = {"stream": 0, "pair": 0, "count_low": 1, "stride_low": 0, "count_high": 1, "stride_high": 0}

ILLEGAL = {
    "opcode of another unit": Instruction(Opcode.LOAD_WAIT, {"semaphore": 0, "count": 0}),
    "op": uop(0, op=20),
    "uop index": uop(8),
    "a source": uop(0, a=(6, 0)),
    "b source": uop(0, b=(7, 0)),
    "b from the array": uop(0, b=ARRAY),
    "two loads": uop(0, a=LOAD, b=LOAD),
    "store stream loaded": uop(0, a=(Source.LOAD, 3)),
    "a register": uop(0, a=R4),
    "b register": uop(0, b=R4),
    "destination": uop(0, destination=4),
    "bounds index": bounds(8),
    "element": stream(0, 0, 5),
    "dims pair": make(Opcode.VECTOR_DIMS, **{**DIMS, "pair": 3}),
    "no turns, low": make(Opcode.VECTOR_DIMS, **{**DIMS, "count_low": 0}),
    "no turns, high": make(Opcode.VECTOR_DIMS, **{**DIMS, "count_high": 0}),
    "entries": make(Opcode.VECTOR_TABLE, **TABLE),
    "no offsets": offsets(0, 0),
    "too many offsets": offsets(0, 513),
    "no vectors": go(0),
    "no slots": go(1, slots=0),
    "slots": go(1, slots=17),
    "no uops": go(1, uops=0),
    "uops": go(1, uops=9),
    "no repeats": go(1, repeats=0),
    "body before it starts": go(1, uops=4, body_start=3, body_end=2),
    "body beyond the program": go(1, uops=4, body_end=5),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_commands(name):
    """The unit reports the fault once and takes nothing more."""
    commands = [make(Opcode.VECTOR_MARK, layer=1), ILLEGAL[name], make(Opcode.VECTOR_MARK, layer=2)]
    run = run_unit(SMALLER, commands, bytearray(TINY.am_bytes), after_error=5)
    assert run.events == [("mark", 1), ("error", Error.ILLEGAL)]


ILLEGAL_STREAMS = {
    "offsets never loaded": [stream(1, 0, indexed=1)],
    "one turn too many": [stream(3, 0, indexed=1), offsets(0, 7), *dims(3, (2, 1), (8, 0))],
    "two indexed streams": [stream(0, 0, indexed=1), stream(3, 0, indexed=1), offsets(0, 7)],
}


@pytest.mark.parametrize("name", ILLEGAL_STREAMS)
def test_illegal_indexed_streams(name):
    commands = [uop(0), bounds(0), *ILLEGAL_STREAMS[name], go(1), make(Opcode.VECTOR_MARK, layer=2)]
    run = run_unit(SMALLER, commands, bytearray(TINY.am_bytes), after_error=5)
    assert run.events == [("error", Error.ILLEGAL)]


def test_as_many_turns_as_offsets():
    streams = [stream(3, 0, indexed=1), offsets(0, 8), *dims(3, (2, 1), (8, 0), (3, 9))]
    run = run_unit(SMALLER, [uop(0, to_memory=1), bounds(0), *streams, go(1)], bytearray(TINY.am_bytes))
    assert run.events == []


def test_rows_by_offsets():
    """Rows 3, 0, 3, 2 of six bytes are gathered, then scattered to places 1, 3, 0, 2 of rows of seven."""
    memory = bytearray(i + 1 for i in range(24)) + bytearray(TINY.am_bytes - 24)
    for i, row in enumerate((3, 0, 3, 2)):
        memory[100 + 4 * i : 104 + 4 * i] = (6 * row).to_bytes(4, "little")
    for i, row in enumerate((1, 3, 0, 2)):
        memory[120 + 4 * i : 124 + 4 * i] = (7 * row - 14).to_bytes(4, "little", signed=True)
    commands = [
        uop(0, Op.MOV, LOAD, to_memory=1),
        bounds(0),
        offsets(100, 4),
        stream(0, 0, indexed=1),
        *dims(0, (2, 4), (4, 0)),
        stream(3, 200),
        *dims(3, (2, 4), (4, 6)),
        go(8, tail_lanes=2),
        offsets(120, 4),
        stream(0, 200),
        *dims(0, (2, 4), (4, 6)),
        stream(3, 300 + 14, indexed=1),
        *dims(3, (2, 4), (4, 0)),
        go(8, tail_lanes=2),
    ]
    run_unit(TINY, commands, memory)
    rows = [list(range(6 * row + 1, 6 * row + 7)) for row in (3, 0, 3, 2)]
    assert list(memory[200:224]) == sum(rows, [])
    placed = [rows[2], rows[0], rows[3], rows[1]]
    assert list(memory[300:328]) == sum((row + [0] for row in placed), [])


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_byte_is_tested_when_everything_before_is_complete(seed):
    """The first test reads what was there, the second what was stored just before it; neither holds up what follows."""
    memory = bytearray(TINY.am_bytes)
    memory[101] = 7
    commands = [
        *(make(Opcode.VECTOR_TEST, address=address) for address in (101, 100, 102)),
        uop(0, Op.MOV, (Source.IMMEDIATE, 0), to_memory=1),
        bounds(0, immediate=77),
        stream(3, 100),
        *dims(3, (9, 4)),
        go(9),
        make(Opcode.VECTOR_TEST, address=100),
        make(Opcode.VECTOR_MARK, layer=2),
    ]
    run = run_unit(TINY, commands, memory, seed=seed)
    assert run.events == [("test", 1), ("test", 0), ("test", 0), ("test", 1), ("mark", 2)]


def test_a_register_that_is_not_written_may_be_any():
    run = run_unit(SMALLER, [uop(0, to_memory=1, destination=7)], bytearray(TINY.am_bytes))
    assert run.events == []


def test_tokens_wait_and_come_just_before_the_last_store():
    memory = bytearray(TINY.am_bytes)
    commands = [
        make(Opcode.VECTOR_WAIT, semaphore=3, count=7),
        uop(0, Op.MOV, (Source.IMMEDIATE, 0), to_memory=1),
        bounds(0, immediate=77),
        stream(3, 100),
        *dims(3, (9, 4)),
        go(9),
        make(Opcode.VECTOR_SIGNAL, semaphore=15, count=255),
        make(Opcode.VECTOR_MARK, layer=65535),
    ]
    run = run_unit(TINY, commands, memory)
    assert run.events == [("wait", 3, 7), ("signal", 15, 255), ("mark", 65535)]
    assert [run.last_write - cycle for cycle in run.event_cycles[1:]] == [
        VECTOR_SIGNAL_EARLY_CYCLES,
        VECTOR_NEXT_EARLY_CYCLES,
    ]
    assert memory[96:140] == bytes(4) + bytes([77] * 36) + bytes(4)


def test_convolution_epilogue():
    """Accumulators plus bias, scaled per channel, plus a residual, clamped: the program of a fused layer."""
    memory = bytearray(TINY.am_bytes)
    for i in range(4):
        memory[512 + 4 * i : 516 + 4 * i] = (100 * i).to_bytes(4, "little")
        memory[528 + 4 * i : 532 + 4 * i] = (1 << 30).to_bytes(4, "little")
        memory[544 + i] = 31 + i
    memory[0:8] = bytes([1, 2, 3, 4, 5, 6, 7, 0x80])
    commands = [
        make(Opcode.VECTOR_PARAM, address=512, bias=1, scale=1),
        uop(0, Op.RESCALE, ARRAY, LOAD, to_memory=1, bias=1, per_channel=1, out_zp=-3, clamp=1),
        bounds(0, -128, 127),
        stream(0, 0),
        *dims(0, (2, 4)),
        stream(3, 64),
        *dims(3, (2, 4)),
        go(2),
    ]
    run_unit(TINY, commands, memory, [[1000, 20, -30, 0], [-1, -2, -3, -1000]])
    # x/2, x/4, x/8, x/16 with halves rounded up, + residual - 3.
    first = [127, 30 + 2 - 3, 21 + 3 - 3, 19 + 4 - 3]
    second = [0 + 5 - 3, 25 + 6 - 3, 25 + 7 - 3, -128]
    assert list(memory[64:72]) == [y & 255 for y in first + second]


def test_int16_with_tail_lanes():
    """Three lanes of int16 in two vectors: 2 and then 1, so that nothing is written behind the last."""
    memory = bytearray(range(64)) + bytearray(TINY.am_bytes - 64)
    memory[200:216] = bytes([0xEE] * 16)
    commands = [
        uop(0, Op.MOV, LOAD, to_memory=1),
        bounds(0),
        stream(0, 1, Element.INT16),
        *dims(0, (2, 4), (2, 32)),
        stream(3, 201, Element.INT16),
        *dims(3, (2, 4), (2, 6)),
        go(4, lanes=2, tail_lanes=1),
    ]
    run_unit(TINY, commands, memory)
    rows = [1, 2, 3, 4, 5, 6, 33, 34, 35, 36, 37, 38]
    assert list(memory[200:216]) == [0xEE, *rows, 0xEE, 0xEE, 0xEE]
