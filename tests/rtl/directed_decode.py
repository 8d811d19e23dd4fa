"""Blocks of compressed weights, and rows of packed ones, for a machine with a decoder and an unpacker: settings of all
kinds between work of the other units, and streams that are damaged in every way."""

from collections.abc import Iterator

import numpy as np
from directed_fields import SET_UP, WEIGHT_BYTES, emit_fields, load_weights, take
from directed_programs import OUTPUT_AT, OUTPUT_BYTES, go, program, stream

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Op, Opcode, Source, Space
from tosaic.hw.packed_weights import WeightCoding, pack
from tosaic.nnr import levels, quantize_dependent
from tosaic.sim.assembler import Assembler
from tosaic.sim.coded_block import StreamBlock, emit_decode
from tosaic.sim.stimulus import Stimulus

BLOCKS_AT = 1 << 12
"""Where streams begin in external memory; where outputs are, in front of the program, are more."""
WEIGHTS_AT = 1 << 12
"""Address of the weights in the activation memory, after what the others use."""
LARGE = 1 << 31


def noise(seed: int, count: int, largest: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-largest, largest + 1, count)


def blocks() -> Iterator[tuple[np.ndarray, bytes, dict[str, int]]]:
    """Weights, their stream, and how it is coded."""
    dependent = quantize_dependent(np.random.default_rng(2).normal(0, 4, 150), 0).reshape(-1)
    yield dependent, levels.encode(dependent, 1, dq_flag=True), {"unary_length": 1, "tensor": 1}
    uncoded = levels.encode(dependent, 3, dq_flag=True)
    yield dependent, uncoded, {"unary_length": 3, "tensor": 7}
    # The flag is not in the stream, so it is the instruction's.
    plain = levels.encode_behind(dependent.astype(np.int64), 2, True, [])
    yield dependent, plain, {"unary_length": 2, "dq_coded": 0, "dq": 1}
    small = noise(3, 99, 7)
    yield small, levels.encode(small, 2), {"unary_length": 2, "int4": 1}
    for bits in (1, 5, 13):
        yield small, levels.encode(small, 10, qp=-3, qp_bits=bits), {"unary_length": 10, "header_bins": bits}
    for unary_length in (0, 16):
        wide = noise(4, 60, 127)
        yield wide, levels.encode(wide, unary_length), {"unary_length": unary_length}
    yield small[:1], levels.encode(small[:1], 10), {"unary_length": 10}


def damaged() -> Iterator[tuple[str, bytes, int, dict[str, int]]]:
    """A name, a stream, how many weights it is said to have, and how it is said to be coded."""
    some = noise(5, 20, 9)
    good, long = levels.encode(some, 3), {"unary_length": 3}
    starts = {"start": b"\xff\x80\0\0", "short": b"\x10", "truncated": b"\x7f\x11", "prefix": bytes(64)}
    for name, payload in starts.items():
        yield name, payload, 20, long
    yield "unary length", good, 20, {"unary_length": 17}
    yield "trailing", good + b"\x55", 20, long
    yield "cut", good[:-2], 20, long
    for bit in (0, 1, 3, 7):
        yield f"last bit {bit}", good[:-1] + bytes([good[-1] ^ 1 << bit]), 20, long
    large = np.array([1, LARGE, 2])
    yield "level", levels.encode_any(large, 3, False), 3, long
    for value in (2**31 - 1, -(2**31), 300, -129):
        values = np.array([value] * 9)
        yield f"saturated by {value}", levels.encode(values, 3), 9, long
    yield "saturated int4", levels.encode(np.array([9, -9]), 3), 2, long | {"int4": 1}
    yield "large and truncated", b"\xa6\0\0\0\x7f\xff", 1, {"unary_length": 0}


def padded(payload: bytes, config: Config) -> bytes:
    return payload + bytes(-len(payload) % config.word_bytes)


def decoded(config: Config, space: Space) -> Stimulus:
    """All blocks, one behind the other, to weight or to activation memory, while the array and VECTOR work."""
    word, columns = config.word_bytes, config.columns
    coded = list(blocks())
    places = np.cumsum([0, *(len(padded(payload, config)) for _, payload, _ in coded)])
    first = BLOCKS_AT - places[-1] // 2 // word * word

    def emit(assembler: Assembler) -> None:
        load_weights(assembler, 3)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 4)
        busy = {"address": 64, "row_bytes": 8 * columns, "height": 4, "x_step": columns, "width": 8}
        busy |= {"ky_count": 4, "chunks": 2, "pixels": 5 * config.rows, "drain": 1}
        # All weights that are loaded, and none behind them.
        busy["run_count"] = WEIGHT_BYTES // (4 * 2 * columns * word)
        emit_fields(assembler, busy, *SET_UP, Opcode.ARRAY_GO)
        local = WEIGHT_BYTES if space == Space.WM else WEIGHTS_AT
        for (weights, payload, settings), place in zip(coded, places, strict=False):
            block, where = padded(payload, config), int(first + place)
            coded_block = StreamBlock(block, [len(payload)], weights.size)
            emit_decode(assembler, coded_block, where, local, space=space, **settings)
            local += -(-weights.size // word) * word
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        # VECTOR writes where LOAD does, in the same banks: weights wait for it.
        stream(assembler, 0, 64, [(900, 0)])
        stream(assembler, STORE_STREAM, WEIGHTS_AT - 64, [(900, 0)])
        go(assembler, 900, 1)
        behind = take(assembler, busy["pixels"], OUTPUT_AT)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 5)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 6)
        emit_fields(assembler, busy | {"weights": WEIGHT_BYTES // word, "pixels": 9}, Opcode.ARRAY_GO)
        take(assembler, 9, behind)
        store = {
            "memory_address": OUTPUT_AT + 6000,
            "local_address": WEIGHTS_AT,
            "row_bytes": 1000,
            "rows": 1,
        }
        assembler.emit(Opcode.STORE_GO, **store)

    made = program(config, emit)
    for (_, payload, _), place in zip(coded, places, strict=False):
        block = np.frombuffer(padded(payload, config), np.uint8)
        made.memory[first + place :][: len(block)] = block
    return made


def one_block(
    config: Config, payload: bytes, weights: int, settings: dict[str, int], words: tuple[int, int] = (0, 0)
) -> Stimulus:
    """A block at local address 0. `words`: where it is in external memory, and how many it has more than its stream."""
    place, more = (number * config.word_bytes for number in words)
    block = padded(payload, config) + bytes(more)

    def emit(assembler: Assembler) -> None:
        emit_decode(assembler, StreamBlock(block, [len(payload)], weights), place, 0, **settings)

    made = program(config, emit)
    made.memory[place:][: len(block)] = np.frombuffer(block, np.uint8)
    return made


def packed_rows(config: Config, wrong: str = "") -> Stimulus:
    """Rows of packed weights of each kind, behind words that wait for VECTOR, which writes to their bank in each cycle;
    one that is `wrong` in this way. The first burst of some ends before weights are made."""
    word = config.word_bytes
    weights = np.where(np.arange(90 * word) % 3, 0, 5).astype(np.int8)
    kinds = (
        (WeightCoding.PALETTE_4, 90),
        (WeightCoding.PALETTE_16, 90),
        (WeightCoding.MASK, 90),
        (WeightCoding.PALETTE_4, 90),
    )
    rows = [pack(weights[: words * word] % 4, mode, word) for mode, words in kinds]
    if wrong:
        row = bytearray(rows[2])
        rows.append(
            {"short": row[: -2 * word], "long": row + bytes(word), "header": bytes(word) + row[word:]}[wrong]
        )
    places = np.cumsum([0, *map(len, rows)])

    def emit(assembler: Assembler) -> None:
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, to_memory=1)
        stream(assembler, 0, 64, [(900, 0)])
        stream(assembler, STORE_STREAM, OUTPUT_AT, [(900, 0)])
        go(assembler, 900, 1)
        waiting = {"local_address": OUTPUT_AT + OUTPUT_BYTES, "row_bytes": word, "rows": 1}
        for place, row in zip(places, rows, strict=False):
            assembler.emit(Opcode.LOAD_GO, space=Space.AM, **waiting)
            fields = {"memory_address": BLOCKS_AT + int(place), "row_bytes": len(row), "rows": 1, "packed": 1}
            assembler.emit(Opcode.LOAD_GO, space=Space.WM, local_address=0, **fields)

    made = program(config, emit)
    everything = np.frombuffer(b"".join(map(bytes, rows)), np.uint8)
    made.memory[BLOCKS_AT:][: len(everything)] = everything
    return made


def decode_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """All of them, by name; none where there is no decoder."""
    if not (config.cabac_engines and config.unpackers):
        return
    for space in Space:
        yield f"blocks to {space.name}", decoded(config, space)
    weights, payload, settings = next(iter(blocks()))
    for place in (0, 1):
        yield f"a block at word {place}", one_block(config, payload, weights.size, settings, (place, 0))
    yield "a word too many", one_block(config, payload, weights.size, settings, (0, 1))
    for name, stream_bytes, count, coding in damaged():
        yield f"damaged, {name}", one_block(config, stream_bytes, count, coding)
    for wrong in ("", "short", "long", "header"):
        yield f"packed rows, {wrong}", packed_rows(config, wrong)


__all__ = ["decode_programs"]
