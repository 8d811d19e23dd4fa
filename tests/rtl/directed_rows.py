"""Rows of LOAD and STORE at the ends of the numbers: pitches that lead downwards, around the end of all addresses; odd
fields of all magnitudes, most of which end in an error; and a program far from the window's beginning."""

from collections.abc import Iterator

import numpy as np
from directed_wide import PROGRAM_AT, between, wide
from one_machine import assembled

from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, INSTRUCTION_BYTES, Condition, Opcode, Space, encode
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

FAR_BYTES = 1 << 28
KINDS = ("LOAD", "STORE")
BITS = {field.name: field.bits for opcode in (Opcode.LOAD_GO, Opcode.LOAD_PITCH) for field in FIELDS[opcode]}
"""Bits of the fields of LOAD's instructions; STORE's are as wide."""
ROWS_OF = {"memory": 1 << 14, "local": 1 << 11}
"""Bytes of the part of each memory in which a transfer's rows begin."""


def downwards(config: Config, seed: int) -> Stimulus:
    """Each row before the one before it, in one memory or in both; some begin at the first byte."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, PROGRAM_AT + (1 << 14)).astype(np.uint8)
    assembler = Assembler(config)
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, row_bytes=config.am_bytes, rows=1)
    for number in range(24):
        kind, rows, row_bytes = KINDS[number % 2], between(rng, 2, 9), 1 + wide(rng, 7)
        fields = {}
        for side, room in ROWS_OF.items():
            step = between(rng, row_bytes, room // rows)
            down = rng.random() < 0.7
            first = (rows - 1) * step if down else 0
            fields[f"{side}_pitch"] = -step % (1 << BITS[f"{side}_pitch"]) if down else step
            fields[f"{side}_address"] = first + (0 if rng.random() < 0.3 else between(rng, 0, room))
        # STORE writes apart from what LOAD reads.
        fields["memory_address"] += PROGRAM_AT // 2 * (kind == "STORE")
        pitches = {name: fields.pop(name) for name in ("memory_pitch", "local_pitch")}
        assembler.emit(Opcode[f"{kind}_PITCH"], **pitches)
        assembler.emit(Opcode[f"{kind}_GO"], rows=rows, row_bytes=row_bytes, **fields)
        assembler.fence()
    return Stimulus(memory, PROGRAM_AT, assembler.place(memory, PROGRAM_AT))


def odd_rows(config: Config, seed: int) -> Stimulus:
    """A transfer all of whose fields have a random number of bits, behind a short one: most leave a memory."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 2]
    fields = {
        name: wide(rng, BITS[name]) for name in ("memory_address", "local_address", "row_bytes", "rows")
    }
    # One or two of them are within the memories, so that the others count.
    near = {"memory_address": 9, "local_address": 9, "row_bytes": 6, "rows": 3}
    fields |= {
        name: 1 + wide(rng, bits) for name, bits in near.items() if rng.random() < 0.6 or name == "rows"
    }
    pitches = {name: wide(rng, BITS[name]) for name in ("memory_pitch", "local_pitch")}
    space = {"space": Space.WM if rng.random() < 0.3 else Space.AM} if kind == "LOAD" else {}
    if space.get("space") == Space.WM and rng.random() < 0.8:
        fields = {
            name: value // config.word_bytes * config.word_bytes if name != "rows" else value
            for name, value in fields.items()
        }
    return assembled(
        config,
        (Opcode[f"{kind}_PITCH"], pitches),
        (Opcode[f"{kind}_GO"], fields | space),
    )


def far_program(config: Config) -> Stimulus:
    """Program and rows at the end of a large window."""
    memory = np.zeros(FAR_BYTES, np.uint8)
    memory[-1 << 14 :] = np.arange(1 << 14).astype(np.uint8)
    assembler = Assembler(config)
    row = {"row_bytes": 300, "rows": 3, "local_address": 16}
    for opcode, pitch in ((Opcode.LOAD_PITCH, 301), (Opcode.STORE_PITCH, 305)):
        assembler.emit(opcode, memory_pitch=pitch, local_pitch=300)
    assembler.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=FAR_BYTES - (1 << 14) + 3, **row)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.emit(Opcode.STORE_GO, memory_address=FAR_BYTES - (1 << 13) + 1, **row)
    assembler.fence()
    place = FAR_BYTES - (1 << 12)
    return Stimulus(memory, place, assembler.place(memory, place))


def far_jumps(
    config: Config, size: int, *last: tuple[Opcode, dict[str, int]], flipped: bool = False
) -> Stimulus:
    """A window that is one program: branches lead through it, from each power of two of its offsets to the next one,
    and the last instructions are near its end. `flipped`: where they lead has the other bits below the first one."""
    rng, memory, assembler = np.random.default_rng(size), np.zeros(size, np.uint8), Assembler(config)
    place = 0
    for bit in range(9, size.bit_length() - 1):
        most = (1 << bit - 5) - 1
        beyond = between(rng, 0, most)
        target = (1 << bit) + (most - beyond if flipped else beyond) * INSTRUCTION_BYTES
        assembler.emit(Opcode.BRANCH, target=target, condition=Condition.ALWAYS)
        code = b"".join(map(encode, assembler.instructions))
        memory[place : place + len(code)] = np.frombuffer(code, np.uint8)
        place, assembler.instructions = target, []
        assembler.emit(Opcode.VECTOR_MARK, layer=bit)
    for opcode, fields in last:
        assembler.emit(opcode, **fields)
    return Stimulus(memory, 0, place + assembler.place(memory, place))


def jump_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """One that ends, and one for each unit that ends in its error, far in the program."""
    yield "far jumps", far_jumps(config, FAR_BYTES)
    outside = {"memory_address": 1 << 31, "row_bytes": 8, "rows": 1}
    for opcode, fields in (
        (Opcode.LOAD_GO, outside),
        (Opcode.ARRAY_GO, {"pixels": 1}),
        (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1}),
        (Opcode.STORE_GO, outside),
    ):
        for number, flipped in enumerate((False, True)):
            name = f"far jumps, {opcode.name} {number}"
            yield name, far_jumps(config, 1 << 24, (opcode, fields), flipped=flipped)


def row_programs(config: Config, amount: int) -> Iterator[tuple[str, Stimulus]]:
    """`amount` of those that end, many times as many of those that may not, and the far one."""
    for seed in range(2 * amount):
        yield f"rows downwards {seed}", downwards(config, seed)
    for seed in range(80 * amount):
        yield f"odd rows {seed}", odd_rows(config, seed)
    yield "far program", far_program(config)
    yield from jump_programs(config)


__all__ = ["row_programs"]
