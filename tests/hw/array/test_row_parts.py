"""Tiles of few pixels, for which the rows are divided into parts: the sums are those of undivided rows."""

import random

import pytest
from array_bench import run_unit
from array_programs import memories
from array_reference import Reference
from rest_nightly import first_of

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode, make


def banked(banks: int, rows: int = 0, columns: int = 0) -> Config:
    """Returns a machine with as few rows as the banks need, if not `rows`, and as many columns, if not `columns`."""
    rows = rows or 4 * banks
    return Config(
        f"{banks} banks",
        rows=rows,
        columns=columns or rows,
        am_bytes=4096,
        am_banks=2,
        wm_bytes=16384,
        line_pixels=24,
        weight_banks=banks,
    )


def convolution(config: Config, steps: int, *, weight_zp: int = 0) -> list[Instruction]:
    return [
        make(
            Opcode.ARRAY_INPUT,
            address=0,
            row_bytes=3000,
            height=4,
            input_zp=3,
            weight_zp=weight_zp,
            unsigned_input=0,
        ),
        make(Opcode.ARRAY_WINDOW, x_start=0, x_step=5, y_start=0, y_step=1, y_step_bytes=700, width=3),
        make(
            Opcode.ARRAY_KERNEL, ky_count=1, ky_step=1, ky_step_bytes=9, run_count=1, run_step=1, chunks=steps
        ),
    ]


def go(config: Config, pixels: int, block: int = 0, **values: int) -> Instruction:
    fields = {"weights": block * config.columns, "pixels": pixels, "accumulate": 0, "drain": 1, **values}
    return make(Opcode.ARRAY_GO, **fields)


def check(config: Config, commands: list[Instruction], seed: int | None = None):
    am, wm = memories(config, random.Random(7))
    reference = Reference(config, am, wm)
    for command in commands:
        reference.execute(command)
    result = run_unit(config, commands, am, wm, seed=seed)
    assert result.errors == []
    assert result.vectors == reference.vectors
    return result


@pytest.mark.parametrize(
    ("banks", "rows", "columns", "steps"),
    first_of([(2, 8, 8, 1), (2, 8, 8, 2), (2, 8, 8, 5), (4, 12, 16, 3), (4, 8, 16, 3)], 4),
)
def test_every_number_of_pixels(banks, rows, columns, steps):
    """Also with fewer rows than columns, and where not all of the rows are divided."""
    config = banked(banks, rows, columns)
    assert config.most_row_parts == 2
    commands = convolution(config, steps)
    for pixels in range(1, config.rows + 4):
        commands.append(go(config, pixels, pixels))
    check(config, commands)


@pytest.mark.parametrize(("seed", "rows", "columns"), first_of([(0, 16, 16), (1, 12, 16), (1, 9, 16)], 2))
def test_with_random_stalls(seed, rows, columns):
    config = banked(4, rows, columns)
    dice = random.Random(seed)
    commands = []
    for _ in range(4):
        commands += convolution(config, dice.randint(1, 6), weight_zp=dice.choice([0, 0, 5]))
        pixels = dice.choice([1, 3, 4, 6, 8, 9, 16, 18, 20, 37])
        offset = dice.choice([0, 0, 1])
        blocks = dice.randint(0, 2) if pixels <= config.rows else 0
        commands.append(go(config, pixels, dice.randint(0, 9), more_blocks=blocks))
        commands.append(go(config, pixels, weights=16 * dice.randint(0, 5) + offset))
    check(config, commands, seed)


@pytest.mark.parametrize(
    ("rows", "pixels", "parts", "steps"),
    first_of(
        [
            (16, 1, 4, 1),
            (16, 4, 4, 7),
            (16, 5, 2, 7),
            (16, 8, 2, 4),
            (16, 9, 1, 4),
            (16, 16, 1, 1),
            (12, 3, 2, 3),
            (8, 4, 2, 3),
            (7, 1, 1, 3),
        ],
        7,
    ),
)
def test_cycles(rows, pixels, parts, steps):
    """A tile takes W slots for a step of every part; the last part's rows deliver."""
    config = banked(4, rows, 16)
    assert config.row_parts(pixels) == parts
    result = check(config, [*convolution(config, steps), go(config, pixels)])
    slots = -(-steps // parts) * config.columns
    taken = result.taken_cycles[-1]
    assert result.active_cycles == list(range(taken + 6, taken + 6 + slots))
    last_row = config.divided_rows // parts * (parts - 1) + pixels - 1
    assert result.vector_cycles[-1] == taken + 16 + slots + last_row
