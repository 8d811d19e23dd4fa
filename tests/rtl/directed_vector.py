"""VECTOR: every dimension of every stream with many turns, elements of all sizes loaded and stored at once, parameters
that follow each other, the number of a repetition, parts of a micro-program that are missing, and numbers that are
rounded at their ties."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from directed_programs import OUTPUT_AT, go, program, stream
from directed_wide import FLAGS, RUNS_AT, between, wide, written
from one_machine import Conditions, assembled

from tosaic.hw.config import Config
from tosaic.hw.isa import OFFSETS_MAX, STORE_STREAM, STREAM_DIMS, Element, Op, Opcode, Source, width
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

TURNS = 256
MORE = 6
"""Vectors behind a stream's last one, with which it begins again."""
SIZES = (Element.INT8, Element.INT16, Element.INT32)
QUICK = Conditions(latency_cycles=5)
REPEATS = 777
TURN_BITS = width(Opcode.VECTOR_DIMS, "count_high")


def copies(assembler: Assembler, number: int) -> None:
    """The micro-program that stores what a load stream brings."""
    fields = {"op": Op.MOV, "a_source": Source.LOAD, "a_index": number, "to_memory": 1}
    assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)


def turns(config: Config, number: int) -> Stimulus:
    """A stream each of whose dimensions in turn has many turns, and another one two."""

    def emit(assembler: Assembler) -> None:
        copies(assembler, number % STORE_STREAM)
        for dim in range(STREAM_DIMS):
            place = OUTPUT_AT + 4 * TURNS * dim
            dims = [(1, 0)] * STREAM_DIMS
            own, other = (3, 1001) if number != STORE_STREAM else (2, 2 * TURNS)
            dims[dim], dims[(dim + 3) % STREAM_DIMS] = (TURNS, own), (2, other)
            straight = [(2 * TURNS + MORE, 2)]
            stream(assembler, number % STORE_STREAM, 64, straight if number == STORE_STREAM else dims)
            stream(assembler, STORE_STREAM, place, dims if number == STORE_STREAM else straight)
            go(assembler, 2 * TURNS + MORE, 1)

    return program(config, emit)


def few_turns(config: Config) -> Stimulus:
    """Each dimension of each stream with few turns, alone or behind a faster one, and more vectors than turns."""

    def emit(assembler: Assembler) -> None:
        place = OUTPUT_AT
        for number in range(STORE_STREAM + 1):
            copies(assembler, number % STORE_STREAM)
            for dim in range(STREAM_DIMS):
                for faster in (1, 3):
                    dims = [(1, 0)] * STREAM_DIMS
                    dims[0], dims[dim] = (faster, 5), (4, config.columns)
                    vectors = 6 * faster
                    straight = [(vectors, config.columns)]
                    loaded, stored = (straight, dims) if number == STORE_STREAM else (dims, straight)
                    stream(assembler, number % STORE_STREAM, 64, loaded)
                    stream(assembler, STORE_STREAM, place, stored)
                    go(assembler, vectors, 1)
                    place += vectors * config.columns

    return program(config, emit)


def sizes(config: Config) -> Stimulus:
    """Elements of each size, by each load stream, alone or for all lanes, become elements of each size."""
    loads = [element for element in SIZES if element.bytes <= config.columns]

    def emit(assembler: Assembler) -> None:
        address, vectors = OUTPUT_AT, 3
        for number in range(STORE_STREAM):
            copies(assembler, number)
            for loaded in loads:
                for stored in loads:
                    for splat in (0, 1):
                        dims = [(vectors, loaded.bytes * config.columns)]
                        stream(assembler, number, 129, dims, element=loaded, splat=splat)
                        size = stored.bytes * config.columns
                        stream(assembler, STORE_STREAM, address, [(vectors, size)], element=stored)
                        go(assembler, vectors, 1)
                        address += vectors * size

    return program(config, emit)


def stored_lanes(config: Config) -> Stimulus:
    """Vectors of which some lanes are stored, and of the last one other ones, as elements of each size."""
    columns, vectors = config.columns, 3
    amounts = sorted({1, 2, 3, columns // 2, columns - 1, columns})

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        copies(assembler, 0)
        for stored in (element for element in SIZES if element.bytes <= columns):
            size = stored.bytes * columns
            for lanes in amounts:
                for tail in amounts:
                    stream(assembler, 0, 65 + lanes, [(vectors, 4 * columns)], element=Element.INT32)
                    stream(assembler, STORE_STREAM, address, [(vectors, size)], element=stored)
                    go(assembler, vectors, 1, lanes=lanes, tail_lanes=tail)
                    address += vectors * size

    return program(config, emit)


def following_params(config: Config) -> Stimulus:
    """Batches that each have the parameters behind those of the batch before, of all kinds."""
    vectors, slots = 11, 3

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        size = 4 * config.columns
        for bias, scale, narrow in ((1, 1, 0), (1, 1, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1)):
            assembler.emit(Opcode.VECTOR_PARAM, address=203, bias=bias, scale=scale, narrow=narrow)
            fields = {"op": Op.RESCALE if scale else Op.MOV, "a_source": Source.LOAD, "per_channel": scale}
            assembler.emit(Opcode.VECTOR_UOP, index=0, to_memory=1, bias=bias, shift=2, **fields)
            stream(assembler, 0, 64, [(vectors, size)], element=Element.INT32)
            stream(assembler, STORE_STREAM, address, [(vectors, size)], element=Element.INT32)
            go(assembler, vectors, 1, slots=slots, next_params=1)
            address += vectors * size

    return program(config, emit)


def repetitions(config: Config) -> Stimulus:
    """A sum of the numbers of many repetitions."""

    def emit(assembler: Assembler) -> None:
        size = 4 * config.columns
        assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.LOAD, destination=1)
        adds = {"op": Op.ADD, "a_source": Source.REGISTER, "a_index": 1, "destination": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=1, b_source=Source.ITERATION, **adds)
        last = {"op": Op.MOV, "a_source": Source.REGISTER, "a_index": 1, "to_memory": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=2, **last)
        stream(assembler, 0, 64, [(1, size)], element=Element.INT32)
        stream(assembler, STORE_STREAM, OUTPUT_AT, [(1, size)], element=Element.INT32)
        go(assembler, 1, 3, repeats=REPEATS, body_start=1, body_end=2)

    return program(config, emit)


def words_anywhere(
    assembler: Assembler, rng: np.random.Generator, columns: int, vectors: int, output: int
) -> None:
    """The micro-program on vectors of INT32 from a random place, to `output`."""
    place, dims = RUNS_AT + 4 * between(rng, 0, 500 - columns * vectors), [(vectors, 4 * columns)]
    stream(assembler, 0, place, dims, element=Element.INT32)
    stream(assembler, STORE_STREAM, output, dims, element=Element.INT32)
    go(assembler, vectors, 1)


def ties(config: Config, seed: int) -> Stimulus:
    """Numbers near powers of two, times such numbers, shifted by every amount: what is dropped is all ones, all zeros
    or a half."""
    rng, columns, vectors = np.random.default_rng(seed), config.columns, 8

    def near_power(bits: int) -> int:
        return (1 << between(rng, 0, bits)) * int(rng.choice((-1, 1))) + int(rng.choice((0, 0, 0, -1, 1)))

    def emit(assembler: Assembler) -> None:
        row = 4 * columns * vectors
        for number in range(24):
            op = (Op.RESCALE, Op.RESCALE, Op.MUL, Op.ASR)[between(rng, 0, 3)]
            flags = {
                flag: between(rng, 0, 1) for flag in FLAGS if flag not in ("bias", "per_channel", "clamp")
            }
            shift = between(rng, 2, 62) if op is Op.RESCALE else between(rng, 0, 62)
            flags |= {"shift": shift, "multiplier": max(near_power(30), -(1 << 31)), "a_zp": near_power(3)}
            factor = between(rng, 0, 62) if op is Op.ASR else near_power(30)
            loaded = {"a_source": Source.LOAD, "b_source": Source.IMMEDIATE}
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=op, to_memory=1, **loaded, **flags)
            assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=factor)
            words_anywhere(assembler, rng, columns, vectors, OUTPUT_AT + row * number)

    return written(config, rng, emit)


def powers(config: Config, rounds: int) -> Stimulus:
    """Powers of two, shifted to the left by each amount; and rescaled by most of them, rounded as `rounds` says."""
    columns, vectors = config.columns, 60
    signed = [sign << bit for bit in range(1, 1 + vectors // 2) for sign in (1, -1)]

    def emit(assembler: Assembler) -> None:
        operands = {"a_source": Source.LOAD, "b_source": Source.IMMEDIATE, "to_memory": 1}
        address = OUTPUT_AT
        for amount in range(34):
            assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.LSL, **operands)
            assembler.emit(Opcode.VECTOR_BOUNDS, index=0, immediate=amount)
            stream(assembler, 0, RUNS_AT, [(1, 0)], element=Element.INT32, splat=1)
            stream(assembler, STORE_STREAM, address, [(1, 0)], element=Element.INT32)
            go(assembler, 1, 1)
            address += 4 * columns
        for shift in range(32, 63):
            multiplier = (1 << 31) - 1 if shift % 2 else -(1 << 31) + 1
            fields = {"op": Op.RESCALE, "round": rounds, "multiplier": multiplier, "shift": shift}
            assembler.emit(Opcode.VECTOR_UOP, index=0, **operands | {"b_source": Source.REGISTER} | fields)
            stream(assembler, 0, RUNS_AT, [(vectors, 4)], element=Element.INT32, splat=1)
            stream(assembler, STORE_STREAM, address, [(vectors, columns)], element=Element.INT8)
            go(assembler, vectors, 1)
            address += vectors * columns

    whole = program(config, emit)
    whole.memory[RUNS_AT : RUNS_AT + 4 * vectors] = np.array(signed, np.int32).view(np.uint8)
    return whole


def per_channel(config: Config, seed: int) -> Stimulus:
    """Wide numbers rescaled by multipliers and shifts of each lane."""
    rng, columns, vectors = np.random.default_rng(seed), config.columns, 8

    def emit(assembler: Assembler) -> None:
        row = 4 * columns * vectors
        for number in range(24):
            place = between(rng, 64, 4000) if rng.random() < 0.5 else RUNS_AT + 4 * between(rng, 0, 400)
            assembler.emit(Opcode.VECTOR_PARAM, address=place, bias=1, scale=1)
            flags = {
                "bias": between(rng, 0, 1),
                "round": between(rng, 0, 1),
                "a_zp": wide(rng, 17, signed=True),
            }
            fields = {"op": Op.RESCALE, "a_source": Source.LOAD, "per_channel": 1, "to_memory": 1, "shift": 2}
            assembler.emit(Opcode.VECTOR_UOP, index=0, **fields, **flags)
            words_anywhere(assembler, rng, columns, vectors, OUTPUT_AT + row * number)

    return written(config, rng, emit)


def near_bounds(config: Config) -> Stimulus:
    """Numbers next to a bound of each kind, whose bits are all set in some."""
    rng, columns = np.random.default_rng(12), config.columns
    bounds = [int(each) for each in rng.integers(-(1 << 30), 1 << 30, 10)]
    values = [bound + more for bound in bounds for more in (-1, 0, 1, 2)]

    def emit(assembler: Assembler) -> None:
        fields = {"op": Op.MOV, "a_source": Source.LOAD, "to_memory": 1, "clamp": 1}
        assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
        address = OUTPUT_AT
        for number, bound in enumerate(bounds):
            for low, high in ((bound, (1 << 31) - 1), (-(1 << 31), bound)):
                assembler.emit(Opcode.VECTOR_BOUNDS, index=0, low=low, high=high)
                # Each lane has each of the four.
                dims = [(columns, 4)]
                stream(assembler, 0, RUNS_AT + 16 * number, dims, element=Element.INT32, splat=1)
                stream(assembler, STORE_STREAM, address, [(columns, 4 * columns)], element=Element.INT32)
                go(assembler, columns, 1)
                address += 4 * columns * columns

    whole = program(config, emit)
    whole.memory[RUNS_AT : RUNS_AT + 4 * len(values)] = np.array(values, np.int32).view(np.uint8)
    return whole


def high_parameters(config: Config) -> Stimulus:
    """Parameters, tables, offsets and what is tested, from each power of two on and from its neighbours."""
    rng, columns, vectors = np.random.default_rng(13), config.columns, 6
    uses = {
        "op": Op.RESCALE,
        "a_source": Source.LOAD,
        "per_channel": 1,
        "bias": 1,
        "to_memory": 1,
        "shift": 2,
    }
    looks_up = {"op": Op.TABLE8, "a_source": Source.LOAD, "to_memory": 1}

    def emit(assembler: Assembler) -> None:
        address = OUTPUT_AT
        for bit in range(10, (config.am_bytes - 1).bit_length()):
            for more in (0, 700, 3 << bit - 2):
                place = (1 << bit) + more + 4
                assembler.emit(Opcode.VECTOR_PARAM, address=place, bias=1, scale=1)
                assembler.emit(Opcode.VECTOR_TABLE, address=place, entries=256)
                for fields in (uses, looks_up):
                    assembler.emit(Opcode.VECTOR_UOP, index=0, **fields)
                    words_anywhere(assembler, rng, columns, vectors, address)
                    address += 4 * columns * vectors

    return written(config, rng, emit)


def parts_in_turn(config: Config) -> Iterator[tuple[Stimulus, Conditions]]:
    """Yields `missing_parts` of instructions that VECTOR takes one in each cycle, because they wait in its queue;
    some cycles later each time, in order and in the opposite one."""
    last = config.vector_uops
    run = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": last, "repeats": 1, "body_end": last})
    holds = [(Opcode.LOAD_GO, {"row_bytes": 900, "rows": 1}), (Opcode.LOAD_SIGNAL, {"count": 1})]
    holds.append((Opcode.VECTOR_WAIT, {"count": 1}))
    for missing, kind, more, turn in itertools.product(range(last), (0, 1), (0, 1), (1, -1)):
        uops = [(Opcode.VECTOR_UOP, {"index": index, "op": Op.MOV, "clamp": 1}) for index in range(last)]
        bounds = [(Opcode.VECTOR_BOUNDS, {"index": index}) for index in range(last)]
        del (uops, bounds)[kind][missing]
        first = [(Opcode.VECTOR_MARK, {"layer": 1})] * more
        yield assembled(config, *holds, *first, *uops[::turn], *bounds[::turn], run), QUICK


def missing_parts(config: Config) -> Iterator[tuple[Stimulus, Conditions]]:
    """GOs of a whole micro-program of which one micro-op is missing, or its bounds; tables that are too short."""
    last = config.vector_uops
    run = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": last, "repeats": 1, "body_end": last})
    for missing in range(last):
        others = [index for index in range(last) if index != missing]
        uops = [(Opcode.VECTOR_UOP, {"index": index, "op": Op.MOV, "clamp": 1}) for index in range(last)]
        bounds = [(Opcode.VECTOR_BOUNDS, {"index": index}) for index in range(last)]
        yield assembled(config, *(uops[index] for index in others), *bounds, run), QUICK
        yield assembled(config, *uops, *(bounds[index] for index in others), run), QUICK
    for entries in (64, 128, 255, 257, 511, 768):
        looks_up = (Opcode.VECTOR_UOP, {"op": Op.TABLE8, "a_source": Source.LOAD})
        yield assembled(config, (Opcode.VECTOR_TABLE, {"entries": entries}), looks_up, run), QUICK


def lengths(config: Config) -> Iterator[tuple[Stimulus, Conditions]]:
    """GOs of as many micro-ops as there may be, or fewer: all is there that they use, in each order, and nothing more;
    the last micro-op is missing, or what it needs; or the one behind it is."""
    last = config.vector_uops
    for count, clamp in itertools.product(range(1, last + 1), (0, 1)):
        run = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": count, "repeats": 1, "body_end": count})
        uops = [(Opcode.VECTOR_UOP, {"index": index, "op": Op.MOV, "clamp": clamp}) for index in range(last)]
        bounds = [(Opcode.VECTOR_BOUNDS, {"index": index}) for index in range(last * clamp)]
        for parts in (uops, bounds) if clamp else (uops,):
            for missing in (count - 1, count):
                left = [
                    parts[:missing] + parts[missing + 1 :] if each is parts else each
                    for each in (uops, bounds)
                ]
                yield assembled(config, *left[0], *left[1], run), QUICK
    for first, then in ((uops, bounds), (bounds, uops), (bounds[::-1], uops[::-1])):
        yield assembled(config, *first, *then, run), QUICK


def too_many_turns(config: Config) -> Iterator[tuple[Stimulus, Conditions]]:
    """Indexed streams of which the highest dimension with an offset has as many turns as there are offsets, or one turn
    more: numbers of turns of exactly one bit."""
    once = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1, "repeats": 1, "body_end": 1})
    for number, bit in itertools.product(range(STORE_STREAM + 1), range(TURN_BITS)):
        turns = 1 << bit
        for more in (0, 1) if turns <= OFFSETS_MAX else (1,):
            commands = [
                (Opcode.VECTOR_OFFSETS, {"address": 64, "count": min(turns, OFFSETS_MAX)}),
                (Opcode.VECTOR_STREAM, {"stream": number, "indexed": 1}),
                (
                    Opcode.VECTOR_DIMS,
                    {"stream": number, "count_low": 1, "count_high": min(turns + more, (1 << TURN_BITS) - 1)},
                ),
                (Opcode.VECTOR_UOP, {"op": Op.MOV}),
            ]
            yield assembled(config, *commands, once), QUICK


def missing_parameters(config: Config) -> Iterator[tuple[Stimulus, Conditions]]:
    """Micro-ops that use biases, scales or a table while these are there, while all others are, and while none is."""
    once = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1, "repeats": 1, "body_end": 1})
    everything = [(Opcode.VECTOR_PARAM, {"bias": 1}), (Opcode.VECTOR_PARAM, {"scale": 1})]
    everything.append((Opcode.VECTOR_TABLE, {"entries": 512}))
    for number, uses in enumerate(({"bias": 1}, {"op": Op.RESCALE, "per_channel": 1}, {"op": Op.TABLE16})):
        others = [each for index, each in enumerate(everything) if index != number]
        for there in ([], everything, others):
            yield assembled(config, *there, (Opcode.VECTOR_UOP, uses), once), QUICK


def missing_tables(config: Config) -> Iterator[tuple[Stimulus, Conditions]]:
    """A table of each size is looked up where there is none, but biases or scales."""
    once = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1, "repeats": 1, "body_end": 1})
    for op, there in itertools.product((Op.TABLE8, Op.TABLE16), ("bias", "scale")):
        yield (
            assembled(config, (Opcode.VECTOR_PARAM, {there: 1}), (Opcode.VECTOR_UOP, {"op": op}), once),
            QUICK,
        )


TIES, SCALES = (2000, 2001, 2004, 2006), (3007,)
"""Seeds of programs that show what others do not."""
SEEDED: dict[str, tuple[Callable[[Config, int], Stimulus], Sequence[int]]] = {
    "turns of stream": (turns, range(STORE_STREAM + 1)),
    "ties": (ties, TIES),
    "per channel": (per_channel, SCALES),
}


def vector_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Yields programs that end well, by name."""
    yield "elements of all sizes", sizes(config)
    yield "lanes that are stored", stored_lanes(config)
    yield "few turns", few_turns(config)
    yield "parameters that follow", following_params(config)
    yield "numbers of repetitions", repetitions(config)
    yield "numbers near bounds", near_bounds(config)
    yield "parameters from high places", high_parameters(config)
    for rounds in (0, 1):
        yield f"powers of two {rounds}", powers(config, rounds)
    for name, (make, seeds) in SEEDED.items():
        for seed in seeds:
            yield f"{name} {seed}", make(config, seed)


__all__ = [
    *("lengths", "missing_parameters", "missing_parts", "missing_tables", "parts_in_turn", "too_many_turns"),
    "vector_programs",
]
