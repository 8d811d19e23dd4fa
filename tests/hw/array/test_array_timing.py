"""Cycles of the array unit, exactly: the cycle model relies on them."""

import random

import pytest
from array_bench import run_unit
from array_programs import SQUARE, TINY, depthwise

from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Instruction, Opcode, make

LATENCY_CYCLES = 16
"""Cycles from taking a GO to its first vector, without those of the slots in between."""


def configuration(steps: int) -> list[Instruction]:
    return [
        make(
            Opcode.ARRAY_INPUT,
            address=0,
            row_bytes=4000,
            height=4000,
            input_zp=0,
            weight_zp=0,
            unsigned_input=0,
        ),
        make(Opcode.ARRAY_WINDOW, x_start=0, x_step=1, y_start=0, y_step=1, y_step_bytes=9, width=5),
        make(
            Opcode.ARRAY_KERNEL, ky_count=1, ky_step=1, ky_step_bytes=9, run_count=1, run_step=1, chunks=steps
        ),
    ]


def go(pixels: int) -> Instruction:
    return make(Opcode.ARRAY_GO, weights=0, pixels=pixels, accumulate=0, drain=1)


def one_row_kernel(config: Config, taps: int, size: int) -> list[Instruction]:
    """A depthwise convolution with a kernel of 1 x `taps` over a square image of as many channels as columns."""
    return depthwise(
        random.Random(1),
        config,
        kernel=(1, taps),
        size=(size, size),
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        channels=config.columns,
        block=0,
    )


def token(opcode: Opcode) -> Instruction:
    return make(opcode, semaphore=1, count=1)


def run(config: Config, commands: list[Instruction]):
    return run_unit(config, commands, bytes(config.am_bytes), bytes(config.wm_bytes))


def gaps(cycles: list[int]) -> list[int]:
    """Lengths of the pauses between cycles."""
    return [
        after - before - 1 for before, after in zip(cycles, cycles[1:], strict=False) if after > before + 1
    ]


@pytest.mark.parametrize(
    "config", [TINY, SQUARE, get_config("nano"), get_config("small")], ids=lambda c: c.name
)
@pytest.mark.parametrize(("tiles", "steps"), [(1, 1), (3, 2)])
def test_cycles_of_a_convolution(config, tiles, steps):
    pixels = tiles * config.rows - (config.rows > 2)
    result = run(config, [*configuration(steps), go(pixels)])
    slots = tiles * steps * config.columns
    taken = result.taken_cycles[-1]
    assert result.active_cycles == list(range(taken + 6, taken + 6 + slots))
    assert result.vector_cycles[-1] == taken + LATENCY_CYCLES + slots + (pixels - 1) % config.rows


@pytest.mark.parametrize("config", [TINY, SQUARE, get_config("small")], ids=lambda c: c.name)
@pytest.mark.parametrize("stride", [1, 2])
def test_cycles_of_a_depthwise_convolution(config, stride):
    kernel = (2, 2) if config.rows >= 4 else (3, 1)
    commands = depthwise(
        random.Random(1),
        config,
        kernel=kernel,
        size=(6, 5),
        strides=(stride, stride),
        pads=(1, 1, 0, 0),
        channels=config.columns,
        block=0,
    )
    skip = next(c.skip for c in commands if c.opcode == Opcode.ARRAY_DEPTHWISE)
    result = run(config, commands)
    late = max(config.rows - skip, 0)
    assert result.vector_cycles[-1] == result.taken_cycles[-1] + LATENCY_CYCLES + late + commands[-1].advances


def test_goes_follow_each_other_without_a_pause():
    config = get_config("small")
    job = [token(Opcode.ARRAY_WAIT), *configuration(1), go(8), *[token(Opcode.ARRAY_SIGNAL)] * 2]
    result = run(config, job * 4)
    assert gaps(result.active_cycles) == []
    assert len(result.vectors) == 32
    reads = config.columns
    assert [signal[3] for signal in result.signals] == [reads * 1, reads * 1 + 1] + [
        n for job in (2, 3) for n in (reads * job, reads * job + 1)
    ] + [reads * 4, reads * 4]


def test_a_go_of_one_step_needs_six_cycles_of_commands():
    config = TINY
    result = run(config, [*configuration(1), go(3)] * 4)
    assert gaps(result.active_cycles) == [6 - config.columns] * 3


def test_modes_follow_each_other():
    """Depthwise after depthwise: its weights. After a convolution: the rows behind row 0, too."""
    config = get_config("small")
    chain = one_row_kernel(config, taps=1, size=4)
    late = config.rows  # skip is rows - 1: no vector may enter before the last weight
    result = run(config, [*chain, chain[-1], *configuration(1), go(8), *chain])
    assert gaps(result.active_cycles) == [late, config.rows - 1 + late]


def test_idle_rows_cost_nothing_between_depthwise_goes():
    """A GO takes as many slots fewer for its weights, and its sums pass the idle rows while the next one runs. Only an
    ARRAY_GO waits for them."""
    config = get_config("small")
    chain = one_row_kernel(config, taps=2, size=4)
    fields = dict(chain[-1].fields) | {"accumulate": 0, "drain": 1, "idle_rows": 6}
    go_ = make(Opcode.ARRAY_DEPTHWISE_GO, **(fields | {"advances": chain[-1].advances - 6}))
    result = run(config, [*chain[:-1], go_, go_, go_, *configuration(1), go(8)])
    assert len(result.vectors) == 3 * 12 + 8
    assert gaps(result.active_cycles) == [2, 2, 6]
    taken, slots = result.taken_cycles[3], 3 * (2 + go_.advances)
    assert result.vector_cycles[3 * 12 - 1] == taken + LATENCY_CYCLES + slots + 6


def test_one_vector_per_cycle_flows():
    config = get_config("nano")
    commands = one_row_kernel(config, taps=1, size=10)
    result = run(config, commands)
    assert len(result.vectors) == 100
    assert gaps(result.vector_cycles) == []
    assert result.stalls_vector == 0
