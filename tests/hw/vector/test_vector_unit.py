"""VectorUnit against the reference model: random programs, random stalls."""

import itertools
import random

import pytest
from rest_nightly import first_of
from vector_bench import run_unit
from vector_programs import TINY, bounds, dims, go, random_go, set_up, stream, uop
from vector_reference import Reference

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import OFFSETS_MAX, STORE_STREAM, Element, Op, Opcode, Source, make


def random_offsets(dice: random.Random, config) -> bytes:
    """Small steps to either side; what is beyond the memory's size makes no difference."""
    values = (dice.randint(-99, 99) + dice.randint(-9, 9) * config.am_bytes for _ in range(OFFSETS_MAX))
    return b"".join(value.to_bytes(4, "little", signed=True) for value in values)


def compare(config, seed: int, programs: int, stalls: bool, indexed: int | None = None) -> None:
    dice = random.Random(seed)
    memory = bytearray(dice.randbytes(config.am_bytes))
    if indexed is not None:
        memory[: 4 * OFFSETS_MAX] = random_offsets(dice, config)
    commands, vectors = set_up(config.vector_uops), 0
    # Registers have no defined content at the start: all zero here, as the reference has them.
    for number in range(programs):
        program, taken = random_go(dice, config, indexed)
        commands += [make(Opcode.VECTOR_WAIT, semaphore=dice.randrange(16), count=number), *program]
        commands.append(make(Opcode.VECTOR_SIGNAL, semaphore=dice.randrange(16), count=dice.randrange(256)))
        commands.append(make(Opcode.VECTOR_MARK, layer=dice.randrange(1 << 16)))
        vectors += taken
    array = [[dice.randint(-(1 << 31), (1 << 31) - 1) for _ in range(config.columns)] for _ in range(vectors)]
    reference = Reference(config, bytearray(memory), array)
    for command in commands:
        reference.execute(command)
    run = run_unit(config, commands, memory, array, seed=seed if stalls else None)
    assert run.events == reference.events
    differing = [i for i in range(config.am_bytes) if memory[i] != reference.memory[i]]
    assert not differing, f"{len(differing)} bytes differ, first at {differing[0]:#x}"


@pytest.mark.parametrize("seed", first_of(range(12), 2))
def test_random_programs_with_stalls(seed):
    compare(TINY, seed, 3, stalls=True)


@pytest.mark.parametrize("seed", first_of(range(300, 312), 1))
@pytest.mark.parametrize(
    "name",
    first_of(
        [
            "small,lane_columns=2",
            "nano,lane_columns=4",
            "nano,lane_columns=2",
            "small,lane_columns=4",
            "base,lane_columns=4",
        ],
        2,
    ),
)
def test_random_programs_on_lanes_of_several_columns(name, seed):
    compare(get_config(name), seed, 2, stalls=seed % 2 == 0)


@pytest.mark.parametrize("seed", first_of(range(100, 104), 1))
def test_random_programs_at_full_speed(seed):
    compare(TINY, seed, 3, stalls=False)


def test_random_programs_small():
    compare(get_config("small"), 7, 3, stalls=True)


def test_int48_elements():
    """Every bit of 48 goes through memory: x + 1 of eight-byte elements, whose upper two bytes do not count."""
    config = get_config("small")
    memory = bytearray(config.am_bytes)
    values = [(1 << 47) - 1, -(1 << 47), -1, 0x7FFF_1234_5678, 1 << 31, -(1 << 31) - 1]
    for i, value in enumerate(values):
        memory[8 * i : 8 * i + 8] = ((value & ((1 << 48) - 1)) | 0xABCD << 48).to_bytes(8, "little")
    commands = [
        uop(0, Op.ADD, (Source.LOAD, 0), (Source.IMMEDIATE, 0), to_memory=1),
        bounds(0, immediate=1),
        stream(0, 0, Element.INT48),
        *dims(0, (len(values), 8)),
        stream(3, 1024, Element.INT48),
        *dims(3, (len(values), 8)),
        go(len(values), lanes=1, tail_lanes=1),
    ]
    run_unit(config, commands, memory, [])
    for i, value in enumerate(values):
        wrapped = (value + 1 + (1 << 47)) % (1 << 48) - (1 << 47)
        assert int.from_bytes(memory[1024 + 8 * i :][:8], "little", signed=True) == wrapped


def indexed_streams() -> list:
    """(stream, stalls, seed): for every change the first and the last stream, with stalls or without."""
    cases = itertools.product(range(STORE_STREAM + 1), (False, True), range(300, 303))
    return [
        pytest.param(
            *case, marks=[] if case in ((0, False, 300), (STORE_STREAM, True, 300)) else pytest.mark.nightly
        )
        for case in cases
    ]


@pytest.mark.parametrize(("indexed", "stalls", "seed"), indexed_streams())
def test_random_programs_with_an_indexed_stream(indexed, stalls, seed):
    compare(TINY, seed + 10 * indexed, 3, stalls, indexed)


@pytest.mark.nightly
def test_random_programs_with_an_indexed_stream_small():
    compare(get_config("small"), 8, 3, stalls=True, indexed=0)
    compare(get_config("small"), 9, 3, stalls=True, indexed=STORE_STREAM)
