"""Programs at the edges: accesses across banks while others use the next one, and a small program that uses every unit,
with one field of one instruction at a time 0, 1, its least or its most value."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from directed_fields import SET_UP, emit_fields, take
from directed_programs import OUTPUT_AT, go, program, stream

from tosaic.hw.config import Config
from tosaic.hw.isa import (
    FIELDS,
    INSTRUCTION_BYTES,
    STORE_STREAM,
    Condition,
    Element,
    Field,
    Instruction,
    Op,
    Opcode,
    Source,
    Space,
    encode,
)
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

SMALL_BYTES, SMALL_PROGRAM_AT = 1 << 13, 1 << 12


def across_banks(config: Config, offset: int) -> Stimulus:
    """VECTOR writes, and then reads, words at the end of a bank, by `offset` bytes in the next one, while STORE reads
    the next one, or LOAD fills it; then the array reads there."""
    vectors, columns, bank = 400, config.columns, config.am_bank_bytes
    there = 3 * bank - columns + offset

    def emit(assembler: Assembler) -> None:
        near = {"memory_address": 3, "local_address": bank - 64, "row_bytes": 2000, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, space=Space.AM, **near)
        weights = {"memory_address": 64, "space": Space.WM, "row_bytes": 64 * columns, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, **weights)
        for waits, semaphore in ((Opcode.VECTOR_WAIT, 3), (Opcode.STORE_WAIT, 4), (Opcode.ARRAY_WAIT, 5)):
            assembler.pass_token(Opcode.LOAD_SIGNAL, waits, semaphore)
        assembler.emit(Opcode.STORE_PITCH, memory_pitch=2000)
        assembler.emit(Opcode.STORE_GO, memory_address=40001, local_address=bank, row_bytes=1900, rows=2)
        far = {"memory_address": 9, "local_address": 3 * bank + 64, "row_bytes": 1600, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, space=Space.AM, **far)
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        for reads, writes in ((64, there), (bank - columns + offset, OUTPUT_AT + 4096)):
            stream(assembler, 0, reads, [(vectors, 0)])
            stream(assembler, STORE_STREAM, writes, [(vectors, 0)])
            go(assembler, vectors, 1)
        fields = {"address": bank - columns + offset, "row_bytes": 0, "height": 1, "width": 1, "ky_count": 1}
        fields |= {"run_count": 1, "chunks": 1, "weights": 1, "pixels": 40, "drain": 1}
        emit_fields(assembler, fields, *SET_UP, Opcode.ARRAY_GO)
        take(assembler, 40, OUTPUT_AT + 4200)
        for semaphore, signals in ((6, "LOAD"), (7, "VECTOR")):
            assembler.pass_token(Opcode[f"{signals}_SIGNAL"], Opcode.STORE_WAIT, semaphore)
        assembler.emit(
            Opcode.STORE_GO, memory_address=44001, local_address=there - 64, row_bytes=1800, rows=1
        )

    return program(config, emit)


def every_unit(config: Config) -> list[Instruction]:
    """A short program in which each unit does something."""
    a, columns = Assembler(config), config.columns
    row = 4 * columns
    a.emit(Opcode.LOAD_PITCH, memory_pitch=64, local_pitch=64)
    a.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=5, row_bytes=62, rows=8)
    a.emit(Opcode.LOAD_GO, space=Space.WM, row_bytes=16 * columns, rows=1)
    a.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
    a.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 1)
    fields = {"address": 1, "row_bytes": row, "height": 4, "x_step": columns, "width": 4, "y_step": 1}
    fields |= {"y_step_bytes": row, "ky_count": 1, "ky_step": 1, "ky_step_bytes": row, "run_count": 2}
    fields |= {"run_step": columns, "chunks": 2, "weights": 1, "pixels": 3, "drain": 1, "weight_zp": 2}
    emit_fields(a, fields, *SET_UP, Opcode.ARRAY_GO)
    address = take(a, 3, 1024)
    fields |= {"line": 4, "out_width": 2, "out_height": 2, "x_stride": 1, "y_stride": 1, "group_rows": 2}
    fields |= {"delay": 6, "skip": 0, "advances": config.rows + 8, "weights": 4}
    emit_fields(a, fields, *SET_UP[:2], Opcode.ARRAY_DEPTHWISE, Opcode.ARRAY_DEPTHWISE_GO)
    address = take(a, 4, address)
    a.emit(Opcode.VECTOR_PARAM, address=8, bias=1)
    a.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=77)
    a.emit(Opcode.VECTOR_BOUNDS, index=1, low=-99, high=99, immediate=3)
    a.emit(Opcode.VECTOR_UOP, index=0, op=Op.ADD, a_source=Source.LOAD, b_source=Source.IMMEDIATE)
    last = {"op": Op.ASR, "a_source": Source.REGISTER, "b_source": Source.IMMEDIATE, "round": 1, "clamp": 1}
    a.emit(Opcode.VECTOR_UOP, index=1, to_memory=1, **last)
    stream(a, 0, 3, [(3, row), (2, columns)], element=Element.INT16)
    stream(a, STORE_STREAM, address, [(6, columns)])
    go(a, 6, 2, slots=3, lanes=2)
    a.emit(Opcode.VECTOR_TABLE, address=8, entries=256)
    a.emit(Opcode.VECTOR_TEST, address=1024)
    a.emit(Opcode.VECTOR_MARK, layer=5)
    a.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 2)
    a.emit(Opcode.STORE_PITCH, memory_pitch=70, local_pitch=66)
    a.emit(Opcode.STORE_GO, memory_address=2049, local_address=1024, row_bytes=61, rows=5)
    a.emit(Opcode.BRANCH, condition=Condition.NEVER)
    a.emit(Opcode.END)
    return a.instructions


def placed(instructions: list[Instruction]) -> Stimulus:
    memory = np.random.default_rng(2).integers(0, 256, SMALL_BYTES).astype(np.uint8)
    code = b"".join(map(encode, instructions))
    memory[SMALL_PROGRAM_AT : SMALL_PROGRAM_AT + len(code)] = np.frombuffer(code, np.uint8)
    return Stimulus(memory, SMALL_PROGRAM_AT, len(code))


def edges(field: Field, value: int) -> set[int]:
    """0, 1, and the ends of the field's range, but for what it is."""
    least = -(1 << field.bits - 1) if field.signed else 0
    return {0, 1, least, least + (1 << field.bits) - 1} - {value}


def field_edges(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """The short program, and it with each field of each kind of instruction at each edge."""
    instructions = every_unit(config)
    yield "every unit", placed(instructions)
    seen = set[Opcode]()
    for number, instruction in enumerate(instructions):
        if instruction.opcode in seen:
            continue
        seen.add(instruction.opcode)
        for field in FIELDS[instruction.opcode]:
            for value in sorted(edges(field, instruction.fields[field.name])):
                changed = Instruction(instruction.opcode, instruction.fields | {field.name: value})
                name = f"{instruction.opcode.name}, {field.name} {value}"
                yield name, placed([*instructions[:number], changed, *instructions[number + 1 :]])


def without_begin(config: Config) -> Stimulus:
    """The first instruction is another one, and BEGIN comes later."""
    first, *others = every_unit(config)
    return placed([others[0], first, *others[1:]])


def cut(config: Config, instructions: int) -> Stimulus:
    """The program's length ends it before END."""
    whole = placed(every_unit(config))
    return dataclasses.replace(whole, program_bytes=instructions * INSTRUCTION_BYTES)
