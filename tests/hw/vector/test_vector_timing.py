"""The vector unit's exact cycles: what the cycle model counts on."""

import dataclasses

import pytest
from vector_bench import run_unit
from vector_programs import TINY, bounds, dims, go, offsets, stream, uop

from tosaic.hw.constants import (
    VECTOR_END_CYCLES,
    VECTOR_LATENCY_CYCLES,
    VECTOR_NEXT_EARLY_CYCLES,
    VECTOR_SETUP_EARLY_CYCLES,
    VECTOR_SIGNAL_EARLY_CYCLES,
)
from tosaic.hw.isa import Element, Op, Opcode, Source, make

LOAD, ARRAY, R1 = (Source.LOAD, 0), (Source.ARRAY, 0), (Source.REGISTER, 1)
FIRST_ISSUE_CYCLES = 2
LATENCY = TINY.vector_latency_cycles
HALF = dataclasses.replace(TINY, lane_columns=2)


def signal() -> list:
    return make(Opcode.VECTOR_SIGNAL, semaphore=1, count=1)


def mark() -> list:
    """Waits for the GO before it."""
    return make(Opcode.VECTOR_MARK, layer=0)


def streams() -> list:
    return [stream(0, 0), *dims(0, (500, 4)), stream(3, 4096, Element.INT8), *dims(3, (500, 4))]


def run_go(program: list, command, array=()):
    """(cycles of the issues, cycle in which the next command is taken), counted from the taking of the GO."""
    run = run_unit(TINY, [*program, *streams(), command, mark()], bytearray(TINY.am_bytes), array)
    start = run.taken[-2]
    return [cycle - start for cycle in run.issues], run.taken[-1] - start


@pytest.mark.parametrize("vectors", [1, 16, 53])
@pytest.mark.parametrize("slots", [1, 3, 16])
@pytest.mark.parametrize("source", [LOAD, ARRAY])
def test_one_vector_per_cycle(vectors, slots, source):
    program = [uop(0, Op.RESCALE, source, to_memory=1, multiplier=1 << 30, shift=31), bounds(0)]
    issues, end = run_go(program, go(vectors, slots=slots), [[1, 2, 3, 4]] * vectors)
    assert issues == list(range(FIRST_ISSUE_CYCLES, FIRST_ISSUE_CYCLES + vectors))
    assert end == issues[-1] + VECTOR_END_CYCLES - VECTOR_NEXT_EARLY_CYCLES


@pytest.mark.parametrize(
    ("following", "early"),
    [
        (signal(), VECTOR_SIGNAL_EARLY_CYCLES),
        (uop(1), VECTOR_SETUP_EARLY_CYCLES),
        (bounds(1), VECTOR_SETUP_EARLY_CYCLES),
    ],
)
def test_what_nobody_can_see_too_early_comes_before_the_last_write(following, early):
    program = [uop(0, Op.MOV, LOAD, to_memory=1), bounds(0)]
    commands = [*program, *streams(), go(5), following, mark()]
    run = run_unit(TINY, commands, bytearray(TINY.am_bytes))
    complete = run.issues[-1] + VECTOR_END_CYCLES
    assert run.taken[-2:] == [complete - early, complete - VECTOR_NEXT_EARLY_CYCLES]
    assert run.last_write == complete


@pytest.mark.parametrize("slots", [1, 5, 12, 16])
def test_dependent_micro_ops(slots):
    """A micro-op that reads a register starts max(n, latency) cycles after the one before, any other after n cycles."""
    program = [
        uop(0, Op.MOV, LOAD, destination=1),
        bounds(0),
        uop(1, Op.ADD, R1, LOAD, destination=1),
        bounds(1),
        uop(2, Op.MOV, R1, to_memory=1),
        bounds(2),
    ]
    issues, end = run_go(program, go(2 * slots, 3, slots, repeats=3, body_start=1, body_end=2))
    starts, clock = [], FIRST_ISSUE_CYCLES
    for _ in range(2):
        for reads_register in (False, True, True, True, True):
            if reads_register:
                clock = starts[-1] + max(slots, LATENCY)
            starts.append(clock)
            clock += slots
    assert issues == [start + slot for start in starts for slot in range(slots)]
    assert end == issues[-1] + VECTOR_END_CYCLES - VECTOR_NEXT_EARLY_CYCLES


@pytest.mark.parametrize("slots", [1, 2, 5, 16])
@pytest.mark.parametrize("beats", [(4, 1), (1, 4), (4, 2), (2, 2)])
def test_wide_elements_take_a_beat_per_word(slots, beats):
    """A slot takes as many cycles as beats; one that reads a register waits for the last beat of what it depends on."""
    elements = {1: Element.INT8, 2: Element.INT16, 4: Element.INT32}
    program = [uop(0, Op.MOV, LOAD, destination=1), bounds(0), uop(1, Op.MOV, R1, to_memory=1), bounds(1)]
    wide = [stream(0, 0, elements[beats[0]]), stream(3, 4096, elements[beats[1]])]
    commands = [*program, *streams(), *wide, go(slots, 2, slots), signal()]
    run = run_unit(TINY, commands, bytearray(TINY.am_bytes))
    issues, clock, ready = [], run.taken[-2] + FIRST_ISSUE_CYCLES, []
    for count, last_beats in zip(beats, ([], ready), strict=True):
        for slot in range(slots):
            clock = max(clock, last_beats[slot] + LATENCY) if last_beats else clock
            issues += range(clock, clock + count)
            clock += count
            if last_beats is not ready:
                ready.append(clock - 1)
    assert run.issues == issues


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("element", [Element.INT8, Element.INT16])
def test_a_lane_of_two_columns_takes_a_beat_for_each(lanes, element):
    program = [
        uop(0, Op.MOV, ARRAY, destination=1),
        bounds(0),
        uop(1, Op.ADD, R1, LOAD, to_memory=1),
        bounds(1),
    ]
    wide = [stream(0, 0, element), stream(3, 4096, element)]
    commands = [*program, *streams(), *wide, go(7, 2, 7, lanes=lanes, tail_lanes=lanes), signal()]
    run = run_unit(HALF, commands, bytearray(HALF.am_bytes), [[1, 2, 3, 4]] * 7)
    first, beats = run.taken[-2] + FIRST_ISSUE_CYCLES, 2 if lanes > 2 else 1
    second = first + max(7 * beats, beats - 1 + LATENCY)
    expected = [start + i for start in (first, second) for i in range(7 * beats)]
    assert run.issues == expected


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
def test_beats_end_with_the_lanes(lanes):
    program = [uop(0, Op.MOV, ARRAY, to_memory=1), bounds(0), *streams(), stream(3, 4096, Element.INT32)]
    commands = [*program, go(5, lanes=lanes, tail_lanes=lanes), signal()]
    run = run_unit(TINY, commands, bytearray(TINY.am_bytes), [[1, 2, 3, 4]] * 5)
    first = run.taken[-2] + FIRST_ISSUE_CYCLES
    assert run.issues == list(range(first, first + 5 * lanes))


def test_stalls_do_not_shorten_the_distance():
    """Whatever the stalls, slot s of a micro-op comes `latency` cycles after slot s of the one it depends on."""
    slots = 10
    program = [uop(0, Op.MOV, ARRAY, destination=1), bounds(0), uop(1, Op.MOV, R1, to_memory=1), bounds(1)]
    for seed in range(3):
        array = [[1, 2, 3, 4]] * (2 * slots)
        commands = [*program, *streams(), go(2 * slots, 2, slots), signal()]
        run = run_unit(TINY, commands, bytearray(TINY.am_bytes), array, seed=seed)
        batches = [run.issues[2 * slots * i :][: 2 * slots] for i in range(2)]
        for batch in batches:
            distances = [batch[slots + s] - batch[s] for s in range(slots)]
            assert min(distances) >= LATENCY
    assert LATENCY >= VECTOR_LATENCY_CYCLES


@pytest.mark.parametrize("slots", [1, 4, 8, 9, 10])
def test_the_distance_is_enough(slots):
    """Every micro-op doubles what the one before it wrote."""
    program = [uop(0, Op.MOV, LOAD, destination=1), bounds(0)]
    for i in range(1, 5):
        program += [uop(i, Op.ADD, R1, R1, destination=1), bounds(i)]
    program += [uop(5, Op.MOV, R1, to_memory=1), bounds(5)]
    memory = bytearray(i % 15 for i in range(TINY.am_bytes))
    run_unit(TINY, [*program, *streams(), go(2 * slots, 6, slots)], memory)
    assert list(memory[4096:][: 8 * slots]) == [16 * (i % 15) for i in range(8 * slots)]


@pytest.mark.parametrize(("bias", "scale", "words"), [(1, 0, 4), (0, 1, 5), (1, 1, 9), (0, 0, 0)])
@pytest.mark.parametrize("narrow", [0, 1])
def test_parameters_take_a_cycle_per_word(bias, scale, words, narrow):
    commands = [make(Opcode.VECTOR_PARAM, address=3, bias=bias, scale=scale, narrow=narrow), signal()]
    run = run_unit(TINY, commands, bytearray(TINY.am_bytes))
    assert run.taken[1] - run.taken[0] == words - 2 * (bias & narrow) + 1


@pytest.mark.parametrize("entries", [256, 512])
def test_table_takes_a_cycle_per_word(entries):
    commands = [make(Opcode.VECTOR_TABLE, address=3, entries=entries), signal()]
    run = run_unit(TINY, commands, bytearray(TINY.am_bytes))
    assert run.taken[1] - run.taken[0] == 4 * entries // TINY.columns + 1


@pytest.mark.parametrize("count", [1, 2, 100, 512])
def test_offsets_take_a_cycle_per_word_and_three(count):
    run = run_unit(TINY, [offsets(3, count), signal()], bytearray(TINY.am_bytes))
    assert run.taken[1] - run.taken[0] == -(-4 * count // TINY.columns) + 4


@pytest.mark.parametrize("number", [0, 3])
def test_an_indexed_stream_is_as_fast_as_any(number):
    program = [uop(0, Op.MOV, LOAD, to_memory=1), bounds(0), *streams(), offsets(0, 53)]
    program += [stream(number, 99, indexed=1), *dims(number, (1, 0), (53, 0))]
    run = run_unit(TINY, [*program, go(160), signal()], bytearray(TINY.am_bytes))
    first = run.taken[-2] + FIRST_ISSUE_CYCLES
    assert run.issues == list(range(first, first + 160))


def test_configuration_takes_a_cycle_each():
    commands = [uop(0), bounds(0), *streams(), make(Opcode.VECTOR_MARK, layer=5), signal()]
    run = run_unit(TINY, commands, bytearray(TINY.am_bytes))
    assert run.taken == list(range(1, 1 + len(commands)))


def test_stalls_are_counted():
    program = [uop(0, Op.MOV, ARRAY, LOAD, to_memory=1), bounds(0), *streams(), go(30)]
    run = run_unit(TINY, program, bytearray(TINY.am_bytes), [[1, 2, 3, 4]] * 30, seed=4)
    assert len(run.issues) == 30
    assert run.issues[-1] - run.issues[0] + 1 <= 30 + run.stalls_array
    assert run.stalls_array > 0
