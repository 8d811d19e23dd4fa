"""ArrayUnit against the reference: random programs in both modes, random stalls."""

import random

import pytest
from array_bench import Run, run_unit
from array_programs import SHALLOW, SINGLE, SQUARE, TINY, memories, program
from array_reference import Reference
from rest_nightly import first_of

from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Instruction, Opcode, make


def compare(config: Config, commands: list[Instruction], dice: random.Random, seed: int | None) -> Run:
    """Vectors, words read and signals of a run are the reference's, and no signal comes before its reads."""
    am, wm = memories(config, dice)
    reference = Reference(config, am, wm)
    for command in commands:
        reference.execute(command)
    run = run_unit(config, commands, am, wm, seed=seed, streamed_words=reference.streamed_words)
    assert run.errors == []
    assert run.reads == reference.reads
    assert run.weight_reads == reference.weight_reads
    assert len(run.vectors) == len(reference.vectors)
    for index, (vector, expected) in enumerate(zip(run.vectors, reference.vectors, strict=True)):
        assert vector == expected, f"vector {index}"
    assert [signal[:2] for signal in run.signals] == [signal[:2] for signal in reference.signals]
    for signal, expected in zip(run.signals, reference.signals, strict=True):
        assert signal[2] >= expected[2] and signal[3] >= expected[3], f"signal {signal[:2]} before its reads"
    waits = [(c.semaphore, c.count) for c in commands if c.opcode == Opcode.ARRAY_WAIT]
    assert run.waits == waits
    return run


@pytest.mark.parametrize("kinds", ["convolution", "depthwise", "both"])
@pytest.mark.parametrize("config", [TINY, SQUARE, SINGLE, SHALLOW], ids=lambda c: c.name)
@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_random_programs_with_stalls(config, kinds, seed):
    dice = random.Random(f"{config.name} {kinds} {seed}")
    compare(config, program(dice, config, 5, kinds), dice, seed)


@pytest.mark.parametrize("kinds", ["convolution", "depthwise", "both"])
@pytest.mark.parametrize("name", ["nano", "small"])
def test_random_programs_at_full_speed(name, kinds):
    config, dice = get_config(name), random.Random(f"{name} {kinds}")
    run = compare(config, program(dice, config, 6, kinds), dice, None)
    assert (run.stalls_am, run.stalls_vector) == (0, 0)


def test_streamed_weights_are_waited_for_one_by_one():
    """With W words of a step there, its W slots are issued and no more; the next word lets the next slot go."""
    config = SQUARE
    commands = [
        make(
            Opcode.ARRAY_INPUT,
            address=0,
            row_bytes=64,
            height=1,
            input_zp=0,
            weight_zp=0,
            unsigned_input=0,
        ),
        make(Opcode.ARRAY_WINDOW, x_start=0, x_step=4, y_start=0, y_step=0, y_step_bytes=0, width=3),
        make(
            Opcode.ARRAY_KERNEL,
            ky_count=1,
            ky_step=0,
            ky_step_bytes=0,
            run_count=1,
            run_step=0,
            chunks=2,
        ),
        make(Opcode.ARRAY_GO, weights=0, pixels=3, accumulate=0, drain=1, more_blocks=2, streamed=1),
    ]
    am, wm = memories(config, random.Random(5))
    for words in (5, 8, 23):
        with pytest.raises(AssertionError, match="still busy"):
            run_unit(config, commands, am, wm, streamed_words=words, limit=200)
    run = run_unit(config, commands, am, wm, streamed_words=24)
    assert run.weight_reads == list(range(24))
    assert len(run.vectors) == 9
    # The words come one per cycle from cycle 0 on, the first slot could be issued some cycles later.
    assert run.stalls_weights == 0
