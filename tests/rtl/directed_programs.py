"""Programs for what random ones seldom do: every shift by every amount, every stream indexed, a memory that is busy."""

from collections.abc import Callable, Iterator

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Element, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

INPUT_BYTES = 1 << 13
OUTPUT_AT = 1 << 13
OUTPUT_BYTES = 1 << 13
PROGRAM_AT = 1 << 15
MEMORY_BYTES = 1 << 16
AMOUNTS = (0, 1, 2, 7, 15, 30, 31, 32, 33, 40, 47, 62, 63, -1, -32)
"""Of shifts: the low 6 bits count."""


def program(config: Config, emit: Callable[[Assembler], None]) -> Stimulus:
    """Random bytes are loaded, VECTOR does what `emit` says, and its output is stored."""
    memory = np.random.default_rng(1).integers(0, 256, MEMORY_BYTES).astype(np.uint8)
    assembler = Assembler(config)
    size = INPUT_BYTES + OUTPUT_BYTES
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=size, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 0)
    emit(assembler)
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 1)
    assembler.emit(
        Opcode.STORE_GO, memory_address=OUTPUT_AT, local_address=OUTPUT_AT, row_bytes=OUTPUT_BYTES, rows=1
    )
    return Stimulus(memory, PROGRAM_AT, assembler.place(memory, PROGRAM_AT))


def stream(
    assembler: Assembler, number: int, address: int, dims: list[tuple[int, int]], **fields: int
) -> None:
    """VECTOR_STREAM and its dimensions, (turns, stride) each."""
    assembler.emit(Opcode.VECTOR_STREAM, stream=number, address=address, **fields)
    dims = dims + [(1, 0)] * (STREAM_DIMS - len(dims))
    for pair in range(STREAM_DIMS // 2):
        (count_low, stride_low), (count_high, stride_high) = dims[2 * pair : 2 * pair + 2]
        assembler.emit(
            Opcode.VECTOR_DIMS,
            stream=number,
            pair=pair,
            count_low=count_low,
            stride_low=stride_low,
            count_high=count_high,
            stride_high=stride_high,
        )


def go(assembler: Assembler, vectors: int, uops: int, **fields: int) -> None:
    columns = assembler.config.columns
    fields = {"slots": assembler.config.vector_slots, "repeats": 1, "lanes": columns, **fields}
    assembler.emit(Opcode.VECTOR_GO, vectors=vectors, uops=uops, tail_lanes=columns, **fields)


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


def directed_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them, by name."""
    for op in (Op.LSL, Op.LSR, Op.ASR):
        for rounds in (0, 1):
            yield f"{op.name}, round {rounds}", shifts(config, op, rounds)
    for number in (*range(STORE_STREAM), STORE_STREAM):
        yield f"stream {number} indexed", indexed(config, number)
    for bank in range(4):
        yield f"busy memory from bank {bank}", busy_memory(config, bank)
