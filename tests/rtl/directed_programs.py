"""Programs for what random ones seldom do: every operation of operands from everywhere, every shift by every amount,
every stream indexed, small numbers, a memory that is busy."""

from collections.abc import Callable, Iterator

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

INPUT_BYTES = 1 << 13
OUTPUT_AT = 1 << 13
OUTPUT_BYTES = 1 << 13
PROGRAM_AT = 1 << 15
MEMORY_BYTES = 1 << 16
AMOUNTS = (0, 1, 2, 7, 15, 30, 31, 32, 33, 40, 47, 62, 63, -1, -32)
"""Amounts of shifts, of which the low 6 bits count."""


def program(config: Config, emit: Callable[[Assembler], None], stored: int = 1) -> Stimulus:
    """Random bytes are loaded, VECTOR does what `emit` says, and its output is stored. `stored`: STORE's semaphore."""
    memory = np.random.default_rng(1).integers(0, 256, MEMORY_BYTES).astype(np.uint8)
    assembler = Assembler(config)
    size = INPUT_BYTES + OUTPUT_BYTES
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=size, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 0)
    emit(assembler)
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, stored)
    assembler.emit(
        Opcode.STORE_GO, memory_address=OUTPUT_AT, local_address=OUTPUT_AT, row_bytes=OUTPUT_BYTES, rows=1
    )
    return Stimulus(memory, PROGRAM_AT, assembler.place(memory, PROGRAM_AT))


def stream(
    assembler: Assembler, number: int, address: int, dims: list[tuple[int, int]], **fields: int
) -> None:
    """VECTOR_STREAM and its dimensions, (turns, stride) each."""
    assembler.emit(Opcode.VECTOR_STREAM, stream=number, address=address, **fields)
    assembler.vector_dims(number, dims)


def go(assembler: Assembler, vectors: int, uops: int, **fields: int) -> None:
    columns = assembler.config.columns
    usual = {"slots": assembler.config.vector_slots, "repeats": 1, "lanes": columns, "tail_lanes": columns}
    assembler.emit(Opcode.VECTOR_GO, **usual | fields, vectors=vectors, uops=uops)


def shifts(config: Config, op: Op, rounds: int) -> Stimulus:
    """int32 values shifted by each of AMOUNTS; the results' low and high halves."""
    vectors = 8

    def emit(assembler: Assembler) -> None:
        row = vectors * 4 * config.columns
        for number, amount in enumerate(AMOUNTS):
            stream(assembler, 0, 64 * number, [(vectors, 4 * config.columns)], element=Element.INT32)
            stream(
                assembler,
                STORE_STREAM,
                OUTPUT_AT + row * number,
                [(vectors, 4 * config.columns)],
                element=Element.INT32,
            )
            operands = {"a_source": Source.LOAD, "b_source": Source.IMMEDIATE}
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=op, to_memory=1, round=rounds, **operands)
            assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=amount)
            go(assembler, vectors, 1)

    return program(config, emit)


def operations(config: Config, op: Op) -> Stimulus:
    """An operation of operands from everywhere, with all types of elements and all flags in turn. The body of each
    micro-program runs twice, so that the number of the repetition is 0 and 1."""
    elements = [element for element in Element if element.bytes <= config.columns]
    vectors, repeats = 2, 2
    pairs = [(a, b) for a in Source for b in Source if b is not Source.ARRAY and not (a is b is Source.LOAD)]

    def emit(assembler: Assembler) -> None:
        assembler.emit(Opcode.LOAD_GO, space=Space.WM, row_bytes=1024, rows=1)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 3)
        assembler.emit(Opcode.VECTOR_PARAM, address=64, bias=1, scale=1)
        assembler.emit(Opcode.VECTOR_TABLE, address=1, entries=512)
        assembler.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.LOAD, destination=1)
        row = vectors * repeats * max(element.bytes for element in elements) * config.columns
        for number, (a, b) in enumerate(pairs):
            loaded, stored = (
                elements[number % len(elements)],
                elements[(number + number // 6) % len(elements)],
            )
            flags = {flag: number >> bit & 1 for bit, flag in enumerate(("bias", "per_channel", "round"))}
            flags |= {"clamp": number >> 1 & 1, "wrap32": (number >> 2 ^ number) & 1}
            if a is Source.ARRAY:
                _feed(assembler, vectors * repeats)
            assembler.emit(
                Opcode.VECTOR_UOP,
                index=1,
                op=op,
                a_source=a,
                b_source=b,
                a_index=1 + (a is Source.LOAD),
                b_index=1 + (b is Source.LOAD),
                to_memory=1,
                shift=2 + number % 60 if op is Op.RESCALE else number % 41,
                multiplier=(1 << 30) + number,
                a_zp=number % 3,
                out_zp=number % 5,
                **flags,
            )
            assembler.emit(Opcode.VECTOR_BOUNDS, index=1, low=-100, high=number, immediate=number - 5)
            # A register keeps what the operation makes, too.
            assembler.emit(
                Opcode.VECTOR_UOP,
                index=2,
                op=op,
                a_source=Source.REGISTER,
                b_source=Source.REGISTER,
                a_index=1,
                b_index=1,
                destination=2,
                shift=2,
                **{flag: 1 - value for flag, value in flags.items() if flag != "clamp"},
            )
            stream(assembler, 0, 128 + number, [(vectors, 4 * config.columns)], element=Element.INT32)
            stream(assembler, 2, 999 + number, [(3, loaded.bytes * config.columns)], element=loaded)
            dims = [(vectors * repeats, stored.bytes * config.columns)]
            stream(assembler, STORE_STREAM, OUTPUT_AT + row * number, dims, element=stored)
            go(assembler, vectors, 3, repeats=repeats, body_start=1, body_end=3)

    return program(config, emit)


def _feed(assembler: Assembler, vectors: int) -> None:
    """The array sends this number of vectors to VECTOR."""
    columns = assembler.config.columns
    assembler.emit(Opcode.ARRAY_INPUT, row_bytes=8 * columns, height=4)
    assembler.emit(Opcode.ARRAY_WINDOW, x_step=columns, width=8)
    assembler.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    assembler.emit(Opcode.ARRAY_GO, weights=1, pixels=vectors, drain=1)


def small_numbers(config: Config) -> Stimulus:
    """Transfers of one byte, at byte 1 and 2, with pitches of 0, 1 and 2; the last semaphore, by many tokens."""

    def emit(assembler: Assembler) -> None:
        last = config.semaphores - 1
        for pitch in (0, 1, 2):
            assembler.emit(Opcode.LOAD_PITCH, memory_pitch=pitch, local_pitch=pitch)
            assembler.emit(Opcode.STORE_PITCH, memory_pitch=pitch, local_pitch=pitch)
            for place in (1, 2):
                assembler.emit(
                    Opcode.LOAD_GO,
                    space=Space.AM,
                    memory_address=place,
                    local_address=place,
                    row_bytes=1,
                    rows=1 + pitch,
                )
                assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 2)
                assembler.emit(
                    Opcode.STORE_GO,
                    memory_address=3 + 4 * place,
                    local_address=place,
                    row_bytes=1,
                    rows=1 + pitch,
                )
                assembler.pass_token(Opcode.STORE_SIGNAL, Opcode.LOAD_WAIT, 3)
        units = ("LOAD", "ARRAY", "VECTOR", "STORE")
        for count in (0, 3, 200):
            for signals, waits in zip(units, (*units[1:], units[0]), strict=True):
                assembler.emit(Opcode[f"{signals}_SIGNAL"], semaphore=last, count=count)
                assembler.emit(Opcode[f"{waits}_WAIT"], semaphore=last, count=count)
                assembler.fence()

    return program(config, emit)


def indexed(config: Config, number: int) -> Stimulus:
    """Rows at offsets, of each stream: loads by A or by B, or the store."""
    rows, words = 13, 3

    def emit(assembler: Assembler) -> None:
        # Any bytes make offsets within +-1024.
        offsets = OUTPUT_AT + OUTPUT_BYTES - 512
        count = -(-rows // config.columns)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.ASR, a_source=Source.LOAD, b_source=Source.IMMEDIATE)
        assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=21)
        assembler.emit(Opcode.VECTOR_UOP, index=1, a_source=Source.REGISTER, to_memory=1)
        for each, address in ((0, 64), (STORE_STREAM, offsets)):
            stream(assembler, each, address, [(count, 4 * config.columns)], element=Element.INT32)
        go(assembler, count, 2)
        assembler.emit(Opcode.VECTOR_OFFSETS, address=offsets, count=rows)
        dims = [(words, config.columns), (rows, 0), (2, 7)]
        plain = [(words, config.columns), (rows, words * config.columns), (2, 999)]
        loads = number if number != STORE_STREAM else 1
        side = "a" if number == 1 else "b"
        fields = {f"{side}_source": Source.LOAD, f"{side}_index": loads}
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.ADD, to_memory=1, **fields)
        where = {loads: 2048, STORE_STREAM: OUTPUT_AT + 2048}
        stream(assembler, 0, 0, [(1, 0)])
        for each, address in where.items():
            stream(
                assembler,
                each,
                address,
                dims if each == number else plain,
                indexed=int(each == number),
            )
        go(assembler, 2 * rows * words, 1)

    return program(config, emit)


def busy_memory(config: Config, first_bank: int) -> Stimulus:
    """VECTOR reads and writes words across banks in every cycle, while LOAD brings rows to the same ones: its beats
    wait for one another. Nobody touches what another one writes."""
    vectors = 500

    def emit(assembler: Assembler) -> None:
        address = 1 + first_bank * config.columns
        assembler.emit(
            Opcode.LOAD_GO,
            local_address=2 * OUTPUT_AT,
            memory_address=3,
            row_bytes=4000,
            rows=1,
            space=Space.AM,
        )
        operands = {"a_source": Source.LOAD, "b_source": Source.NONE}
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, to_memory=1, **operands)
        stream(assembler, 0, address, [(vectors, config.columns)])
        stream(assembler, STORE_STREAM, OUTPUT_AT + address, [(vectors, config.columns)])
        go(assembler, vectors, 1)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 2)
        assembler.emit(
            Opcode.STORE_GO, memory_address=2 * OUTPUT_AT, local_address=2 * OUTPUT_AT, row_bytes=4000, rows=1
        )

    return program(config, emit)


def busy_bank(config: Config) -> Stimulus:
    """VECTOR writes one word, again and again, in the bank that LOAD fills: also beats that come late wait for it."""
    vectors, there = 3000, 2 * OUTPUT_AT
    own = there + 4096

    def emit(assembler: Assembler) -> None:
        load = {"local_address": there, "memory_address": 3, "row_bytes": 4000, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, space=Space.AM, **load)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        stream(assembler, 0, 1, [(vectors, 0)])
        stream(assembler, STORE_STREAM, own, [(vectors, 0)])
        go(assembler, vectors, 1)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 2)
        store = {"memory_address": there, "local_address": there, "row_bytes": 4000, "rows": 1}
        assembler.emit(Opcode.STORE_GO, **store)

    return program(config, emit)


def directed_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them, by name."""
    for op in (Op.LSL, Op.LSR, Op.ASR):
        for rounds in (0, 1):
            yield f"{op.name}, round {rounds}", shifts(config, op, rounds)
    for op in Op:
        yield f"{op.name} of everything", operations(config, op)
    yield "small numbers", small_numbers(config)
    for number in (*range(STORE_STREAM), STORE_STREAM):
        yield f"stream {number} indexed", indexed(config, number)
    for bank in range(4):
        yield f"busy memory from bank {bank}", busy_memory(config, bank)
    yield "busy bank", busy_bank(config)
