"""Numbers that the lanes look at bit by bit: pairs that differ in one bit, as they are and beyond 32 bits, and numbers
with each number of leading zeros."""

from collections.abc import Callable, Iterator

import numpy as np
from directed_programs import OUTPUT_AT, PROGRAM_AT, go, program, stream

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Element, Op, Opcode, Source
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

BITS = 32
COMPARES = (Op.GT, Op.GE, Op.EQ)
CHOICES = (Op.MAX, Op.MIN, Op.SUB)
FACTORS = (1, 1 << 15, -(1 << 15))
"""What both numbers are multiplied with: the pairs then differ in a bit from 0, or from 15, on."""
REPEATS = 2500
FIRST_AT, LEAST_BYTES = 64, 4 * 512
"""Where the first numbers are, and how far behind them, at least, the second ones."""


def second_at(config: Config, vectors: int) -> int:
    return FIRST_AT + max(LEAST_BYTES, vectors * 4 * config.columns)


def _words(config: Config, kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of pairs that differ in bit 0, in bit 1, ...; or numbers with 0 to 32 leading zeros, and what they are
    compared with. Each vector twice, for both orders of the pairs."""
    columns = config.columns
    if kind == "pairs":
        first = rng.integers(0, 1 << BITS, (BITS, columns), dtype=np.uint64)
        second = first ^ (1 << np.arange(BITS, dtype=np.uint64))[:, None]
        both = np.concatenate([first, second]), np.concatenate([second, first])
    else:
        ones = (1 << np.arange(BITS + 1, dtype=np.uint64)) - 1
        below = rng.integers(0, 1 << BITS, (2, BITS + 1, columns), dtype=np.uint64)
        below[0] = 0  # one bit alone
        lead = ones - (ones >> 1)
        numbers = (below & (ones >> 1)[:, None] | lead[:, None]).reshape(-1, columns)
        both = numbers, numbers[::-1]
    return tuple(each.astype(np.uint32) for each in both)


def _numbers(config: Config, kind: str, seed: int, emit: Callable[[Assembler, int], None]) -> Stimulus:
    """`emit` gets the number of vectors, which lie at FIRST_AT and at `second_at`."""
    first, second = _words(config, kind, np.random.default_rng(seed))
    whole = program(config, lambda assembler: emit(assembler, len(first)))
    places = (FIRST_AT, second_at(config, len(first)))
    assert places[1] + second.nbytes <= PROGRAM_AT
    for place, numbers in zip(places, (first, second), strict=True):
        whole.memory[place : place + numbers.nbytes] = numbers.reshape(-1).view(np.uint8)
    return whole


def _emit_streams(assembler: Assembler, vectors: int, output: int, stored: Element) -> int:
    columns = assembler.config.columns
    for number, place in enumerate((FIRST_AT, second_at(assembler.config, vectors))):
        stream(assembler, number, place, [(vectors, 4 * columns)], element=Element.INT32)
    stream(assembler, STORE_STREAM, output, [(vectors, stored.bytes * columns)], element=stored)
    return output + vectors * stored.bytes * columns


def compared(config: Config, op: Op, seed: int) -> Stimulus:
    """Pairs that differ in one bit, as they are and as products beyond 32 bits."""
    stored = Element.INT8 if op in COMPARES else Element.INT32

    def emit(assembler: Assembler, vectors: int) -> None:
        output = OUTPUT_AT
        for factor in FACTORS:
            for index in (0, 1):
                fields = {"a_source": Source.LOAD, "a_index": index, "b_source": Source.IMMEDIATE}
                assembler.emit(Opcode.VECTOR_UOP, index=index, op=Op.MUL, destination=1 + index, **fields)
                assembler.emit(Opcode.VECTOR_BOUNDS, index=index, immediate=factor)
            fields = {"a_source": Source.REGISTER, "a_index": 1, "b_source": Source.REGISTER, "b_index": 2}
            assembler.emit(Opcode.VECTOR_UOP, index=2, op=op, to_memory=1, **fields)
            output = _emit_streams(assembler, vectors, output, stored)
            go(assembler, vectors, 3)

    return _numbers(config, "pairs", seed, emit)


def counted(config: Config, seed: int) -> Stimulus:
    """Leading zeros, and the size of such numbers."""

    def emit(assembler: Assembler, vectors: int) -> None:
        output = OUTPUT_AT
        for op, element in ((Op.CLZ, Element.INT8), (Op.ABS, Element.INT32)):
            fields = {"a_source": Source.LOAD, "a_index": 0}
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=op, to_memory=1, **fields)
            output = _emit_streams(assembler, vectors, output, element)
            go(assembler, vectors, 1)

    return _numbers(config, "leading zeros", seed, emit)


def scalars(config: Config, side: str) -> Stimulus:
    """Immediates of one bit, of all bits but one, and of any, and the number of the repetition, as operand a or b of
    all lanes."""
    rng, columns = np.random.default_rng(1), config.columns
    values = [sign * (1 << bit) for bit in range(BITS - 1) for sign in (1, -1)]
    values += [~value for value in values] + [int(each) for each in rng.integers(-(1 << 31), 1 << 31, 32)]
    batch, size = config.vector_uops, 4 * columns

    def emit(assembler: Assembler) -> None:
        output = OUTPUT_AT
        for first in range(0, len(values), batch):
            some = values[first : first + batch]
            for index, value in enumerate(some):
                fields = {f"{side}_source": Source.IMMEDIATE, "op": Op.ADD, "to_memory": 1}
                assembler.emit(Opcode.VECTOR_UOP, index=index, **fields)
                assembler.emit(Opcode.VECTOR_BOUNDS, index=index, immediate=value)
            stream(assembler, STORE_STREAM, output, [(len(some), size)], element=Element.INT32)
            go(assembler, 1, len(some))
            output += len(some) * size
        fields = {f"{side}_source": Source.ITERATION, "op": Op.ADD, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        # Of many repetitions the last one remains in memory.
        stream(assembler, STORE_STREAM, output, [(REPEATS, 0)], element=Element.INT32)
        go(assembler, 1, 1, repeats=REPEATS, body_end=1)

    return program(config, emit)


def number_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them, by name; they end well."""
    for op in (*COMPARES, *CHOICES):
        yield f"{op.name} of pairs that differ in a bit", compared(config, op, 1)
    for seed in (1, 2):
        yield f"leading zeros {seed}", counted(config, seed)
    for side in ("a", "b"):
        yield f"scalars as operand {side}", scalars(config, side)


__all__ = ["number_programs"]
