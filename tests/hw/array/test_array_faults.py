"""GOs that cannot be executed, and soft reset in the middle of one."""

import random

import pytest
from array_bench import run_unit
from array_programs import SQUARE, TINY, memories, program
from array_reference import Reference

from tosaic.hw.isa import Error, Opcode, make

FIELDS = {
    Opcode.ARRAY_INPUT: dict(address=0, row_bytes=64, height=8, input_zp=0, weight_zp=0, unsigned_input=0),
    Opcode.ARRAY_WINDOW: dict(x_start=0, x_step=1, y_start=0, y_step=1, y_step_bytes=8, width=8),
    Opcode.ARRAY_KERNEL: dict(ky_count=1, ky_step=1, ky_step_bytes=8, run_count=1, run_step=1, chunks=1),
    Opcode.ARRAY_DEPTHWISE: dict(
        delay=9, skip=0, line=8, out_width=8, out_height=2, x_stride=1, y_stride=1, paired=0
    ),
    Opcode.ARRAY_GO: dict(weights=0, pixels=4, accumulate=0, drain=1),
    Opcode.ARRAY_DEPTHWISE_GO: dict(weights=0, advances=20, group_rows=1, accumulate=0, drain=1),
}
CONFIGURATION = list(FIELDS)[:4]


def commands(go: Opcode, changed: Opcode, **values: int):
    fields = {opcode: {**given, **(values if opcode == changed else {})} for opcode, given in FIELDS.items()}
    return [make(opcode, **fields[opcode]) for opcode in (*CONFIGURATION, go)]


@pytest.mark.parametrize(
    ("go", "changed", "values"),
    [
        (Opcode.ARRAY_GO, Opcode.ARRAY_GO, {"pixels": 0}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_GO, {"pixels": 5, "accumulate": 1}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_GO, {"pixels": 5, "drain": 0}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_GO, {"pixels": 5, "more_blocks": 1}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_GO, {"accumulate": 1, "more_blocks": 1}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_GO, {"drain": 0, "more_blocks": 1}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_WINDOW, {"width": 0}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_KERNEL, {"ky_count": 0}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_KERNEL, {"run_count": 0}),
        (Opcode.ARRAY_GO, Opcode.ARRAY_KERNEL, {"chunks": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE_GO, {"advances": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE_GO, {"group_rows": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE_GO, {"idle_rows": SQUARE.rows}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE_GO, {"idle_rows": 1, "accumulate": 1}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE_GO, {"idle_rows": 1, "drain": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_WINDOW, {"width": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE, {"delay": 1}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE, {"paired": 1}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE, {"delay": SQUARE.line_pixels + 1}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE, {"line": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE, {"x_stride": 0}),
        (Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_DEPTHWISE, {"y_stride": 0}),
    ],
)
def test_illegal_go(go, changed, values):
    """It is reported once and dropped; a signal behind it still comes, a legal GO still runs."""
    am, wm = memories(SQUARE, random.Random(1))
    after = [make(Opcode.ARRAY_SIGNAL, semaphore=2, count=3), *commands(go, go)]
    run = run_unit(SQUARE, [*commands(go, changed, **values), *after], am, wm)
    assert run.errors == [Error.ILLEGAL]
    assert run.signals == [(2, 3, 0, 0)]
    assert len(run.vectors) == (4 if go == Opcode.ARRAY_GO else 16)


@pytest.mark.parametrize("values", [{"accumulate": 1}, {"drain": 0}])
def test_partial_sums_are_refused_where_there_are_none(values):
    am, wm = memories(TINY, random.Random(1))
    go = Opcode.ARRAY_DEPTHWISE_GO
    assert run_unit(TINY, commands(go, go, **values), am, wm).errors == [Error.ILLEGAL]


@pytest.mark.parametrize("go", [Opcode.ARRAY_GO, Opcode.ARRAY_DEPTHWISE_GO])
@pytest.mark.parametrize("values", [{"delay": 2}, {"delay": SQUARE.line_pixels}, {"out_width": 0}])
def test_limits_are_legal(go, values):
    am, wm = memories(SQUARE, random.Random(1))
    assert run_unit(SQUARE, commands(go, Opcode.ARRAY_DEPTHWISE, **values), am, wm).errors == []


def test_instruction_of_another_unit():
    am, wm = memories(SQUARE, random.Random(1))
    run = run_unit(SQUARE, [make(Opcode.LOAD_SIGNAL, semaphore=1, count=1)], am, wm)
    assert run.errors == [Error.ILLEGAL]
    assert run.signals == []


@pytest.mark.parametrize("seed", range(6))
def test_reset_at_any_time(seed):
    """After a reset of one cycle in the middle of a program, the next program runs as if it were the first."""
    dice = random.Random(seed)
    am, wm = memories(SQUARE, dice)
    first, second = program(dice, SQUARE, 4), program(dice, SQUARE, 3)
    reference = Reference(SQUARE, am, wm)
    for command in second:
        reference.execute(command)
    words, before = reference.streamed_words, (first, dice.randrange(20, 200))
    run = run_unit(SQUARE, second, am, wm, before=before, streamed_words=words)
    assert run.vectors == reference.vectors
    assert run.reads == reference.reads
    assert len(run.signals) == len(reference.signals)
