"""Programs for the activation memory's banks: who waits for whom at each border of two banks, and near it."""

from collections.abc import Iterator

import numpy as np
from directed_fields import SET_UP, emit_fields, take
from directed_programs import go, stream

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

MEMORY_BYTES, PROGRAM_AT, RESULTS_AT = 1 << 15, 1 << 14, 1 << 13
ROWS, VECTORS = 24, 90
NEAR_BYTES = 64
"""What is loaded around each border, and stored in the end."""


def placed(assembler: Assembler) -> Stimulus:
    memory = np.random.default_rng(3).integers(0, 256, MEMORY_BYTES).astype(np.uint8)
    return Stimulus(memory, PROGRAM_AT, assembler.place(memory, PROGRAM_AT))


def fill(assembler: Assembler) -> None:
    """Bytes around all borders, and in the middle of each bank; few others are read. A few weights."""
    config = assembler.config
    half = config.am_bank_bytes // 2
    assembler.emit(Opcode.LOAD_PITCH, memory_pitch=3 * NEAR_BYTES, local_pitch=half)
    rows = {"row_bytes": NEAR_BYTES, "rows": 2 * config.am_banks}
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=5, **rows)
    before = {"local_address": half - NEAR_BYTES, "memory_address": 1005, "row_bytes": NEAR_BYTES}
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, **before, rows=2 * config.am_banks)
    assembler.emit(Opcode.LOAD_GO, space=Space.WM, row_bytes=8 * config.columns, rows=1)
    assembler.fence()


def vector_moves(assembler: Assembler, reads: int, writes: int, vectors: int = VECTORS) -> None:
    """VECTOR reads and writes one word each, again and again."""
    assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
    stream(assembler, 0, reads, [(vectors, 0)])
    stream(assembler, STORE_STREAM, writes, [(vectors, 0)])
    go(assembler, vectors, 1)


def array_reads(assembler: Assembler, address: int, steps: int) -> None:
    """The array reads one word again and again, and keeps the sums."""
    fields = {"address": address, "row_bytes": 4 * assembler.config.columns, "height": 1, "width": 1}
    fields |= {"ky_count": steps, "run_count": 1, "chunks": 1, "pixels": 1, "drain": 1}
    emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)


def kept(assembler: Assembler, results: int) -> None:
    """The results, and what is around all borders, go to external memory."""
    config = assembler.config
    assembler.fence()
    half = config.am_bank_bytes // 2
    assembler.emit(Opcode.STORE_PITCH, memory_pitch=2 * NEAR_BYTES, local_pitch=half)
    rows = {"row_bytes": 2 * NEAR_BYTES, "rows": 2 * config.am_banks - 1}
    near = {"local_address": half - NEAR_BYTES, "memory_address": RESULTS_AT}
    assembler.emit(Opcode.STORE_GO, **near, **rows)
    assembler.emit(
        Opcode.STORE_GO, local_address=results, memory_address=RESULTS_AT + 2048, row_bytes=64, rows=1
    )


def border(config: Config, number: int, other: int, offset: int) -> Stimulus:
    """LOAD, STORE and the array take words that lie across border `number`, or end there, while VECTOR reads and writes
    in bank `other`; then VECTOR does, while STORE and the array read there."""
    a, bank = Assembler(config), config.am_bank_bytes
    edge, inside = number % config.am_banks * bank - config.columns + offset, other * bank + bank // 2 + 8
    across = edge % config.am_bytes
    results = 3 * bank // 4
    fill(a)
    rows = {"row_bytes": min(config.columns, config.am_bytes - across), "rows": ROWS}
    a.emit(Opcode.STORE_PITCH, memory_pitch=config.columns)
    a.emit(Opcode.STORE_GO, local_address=across, memory_address=RESULTS_AT + 3072, **rows)
    a.emit(Opcode.LOAD_PITCH, memory_pitch=config.columns + 1)
    vector_moves(a, inside, inside + 32)
    array_reads(a, across, 6)
    take(a, 1, results)
    a.fence()
    a.emit(Opcode.LOAD_GO, space=Space.AM, local_address=across, memory_address=777, **rows)
    vector_moves(a, inside, inside + 32)
    a.fence()
    a.emit(
        Opcode.STORE_GO, local_address=inside, memory_address=RESULTS_AT + 4096, row_bytes=32, rows=ROWS // 4
    )
    array_reads(a, inside, 6)
    vector_moves(a, across, inside + 32)
    take(a, 1, results + 32)
    a.fence()
    a.emit(Opcode.LOAD_GO, space=Space.AM, local_address=inside - 40, memory_address=99, row_bytes=32, rows=9)
    vector_moves(a, inside, across)
    kept(a, results)
    return placed(a)


def near_border(config: Config, number: int, word: int) -> Stimulus:
    """Returns a program with accesses that differ in one bit of the word's number from those at the end of a bank:
    LOAD and STORE do not wait for VECTOR in the next bank, nor does the array."""
    a, bank = Assembler(config), config.am_bank_bytes
    last = bank // config.columns - 1
    place = number * bank + (last ^ word) * config.columns + 1
    there, results = (number + 1) % config.am_banks * bank + bank // 2, 3 * bank // 4
    fill(a)
    # Rows begin at each byte of the bus's words: LOAD's writes do so, too.
    a.emit(Opcode.LOAD_PITCH, memory_pitch=config.columns + 1)
    a.emit(Opcode.STORE_PITCH, memory_pitch=config.columns)
    rows = {"local_address": place, "row_bytes": config.columns - 1 + word % 2, "rows": ROWS}
    a.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=777, **rows)
    # What follows LOAD takes longer than what VECTOR does.
    a.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 3)
    a.emit(Opcode.STORE_GO, memory_address=RESULTS_AT + 5000, row_bytes=900, rows=1)
    vector_moves(a, there, there + 32, 2 * VECTORS)
    a.fence()
    a.emit(Opcode.STORE_GO, memory_address=RESULTS_AT + 3072, **rows)
    array_reads(a, place, 6)
    vector_moves(a, there, there + 32)
    take(a, 1, results)
    a.fence()
    array_reads(a, there, 8)
    a.emit(Opcode.STORE_GO, memory_address=RESULTS_AT + 4096, **rows)
    vector_moves(a, place, there + 32, 20)
    take(a, 1, results + 16)
    kept(a, results)
    return placed(a)


def masks(config: Config, bank: int) -> Stimulus:
    """VECTOR and LOAD write from one lane up to all, at each byte of an even and of an odd word of the bank."""
    a, columns = Assembler(config), config.columns
    step, first = 4 * columns, bank * config.am_bank_bytes + 8 * columns
    rows = {"local_address": first, "row_bytes": 4 * columns * columns * step, "rows": 1}
    assert rows["row_bytes"] <= config.am_bank_bytes - 8 * columns
    a.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=PROGRAM_AT, **rows)
    a.fence()
    reads = ((bank + 1) % config.am_banks) * config.am_bank_bytes
    a.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=40, local_address=reads, row_bytes=64, rows=1)
    a.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 3)
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
    place = first
    for number in range(2 * columns * columns):
        offset, lanes = number % (2 * columns), 1 + number // (2 * columns)
        stream(a, 0, reads + number, [(1, 0)])
        stream(a, STORE_STREAM, place + offset, [(1, 0)])
        a.emit(Opcode.VECTOR_GO, vectors=1, slots=1, repeats=1, uops=1, lanes=lanes, tail_lanes=lanes)
        row = {"local_address": place + step + offset, "memory_address": 100 + number, "row_bytes": lanes}
        a.emit(Opcode.LOAD_GO, space=Space.AM, **row, rows=1)
        place += 2 * step
    a.fence()
    a.emit(Opcode.STORE_GO, memory_address=RESULTS_AT, **rows)
    return placed(a)


def memory_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Each border and bank, and each bit of a word's number, by name."""
    for number in range(config.am_banks):
        for other in range(config.am_banks):
            yield f"border {number}, bank {other}", border(config, number, other, 1 + (number + other) % 3)
        yield f"masks in bank {number}", masks(config, number)
    words = config.am_bank_bytes // config.columns
    for bit in range(words.bit_length() - 1):
        yield f"near border, bit {bit}", near_border(config, bit % config.am_banks, 1 << bit)
