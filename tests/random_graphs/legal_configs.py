"""Legal configurations at random: every size within the bounds of hw/legal.py, but few multipliers."""

import dataclasses
import random

from failed_case import Case, fewest

from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.config_text import get_config, variant
from tosaic.hw.constants import ARRAY_FIFO_VECTORS
from tosaic.hw.legal import ENGINES, FETCH_INSTRUCTIONS, LANE_COLUMNS, VECTOR_BITS, WEIGHT_BANKS, faults

SIMPLE = CONFIGS["nano"]
MOST_MULTIPLIERS = 64
"""Largest number of multipliers, so that a simulator is built in about a minute."""


def random_config(dice: random.Random) -> Config:
    """A variant of `nano` whose name says its sizes."""
    while True:
        columns = dice.choice((4, 8, 16, 32))
        sizes = {
            "rows": dice.randint(1, columns),
            "columns": columns,
            "am_bytes": 1 << dice.randint(12, 18),
            "am_banks": dice.choice((1, 2, 4, 8)),
            "wm_bytes": 1 << dice.randint(11, 16),
            "line_pixels": dice.randint(2, 200),
            "line_groups": dice.randint(1, 7),
            "partial_sums": dice.choice((0, 8, 64)),
            "vector_registers": dice.choice((4, 8)),
            "vector_uops": dice.randint(8, 16),
            "queue_commands": dice.choice((4, 5, 8, 20, 32)),
            "semaphores": dice.randint(12, 16),
            "cabac_engines": dice.choice(ENGINES),
            "weight_banks": dice.choice(WEIGHT_BANKS),
            "drain_vectors": dice.choice((ARRAY_FIFO_VECTORS, 64, 512)),
            "lane_columns": dice.choice(LANE_COLUMNS),
            # Narrow lanes refuse operators of int48, so most are wide.
            "vector_bits": dice.choice((VECTOR_BITS.start, 40, *[VECTOR_BITS.stop - 1] * 4)),
            "unpackers": dice.choice((0, 1)),
            "event_counters": dice.choice((0, 1)),
            "fetch_instructions": dice.choice(FETCH_INSTRUCTIONS),
            # A simulator of several cores takes that many times as long to build.
            "cores": dice.choice((1, 1, 1, 2)),
            "bus_words": dice.choice((1, 2)),
            "load_crc": dice.choice((0, 1)),
            "memory_parity": dice.choice((0, 1)),
        }
        small_enough = sizes["rows"] * sizes["columns"] * sizes["cores"] <= MOST_MULTIPLIERS
        if small_enough and not faults({**SIMPLE.sizes, **sizes}):
            return variant(SIMPLE, sizes)


def smaller_config(case: Case) -> Case:
    """Returns the case with only those sizes other than `SIMPLE`'s that it needs to fail."""
    sizes = get_config(case.settings["config"]).sizes
    changed = [name for name, size in sizes.items() if size != SIMPLE.sizes[name]]

    def of(some: list[str]) -> Case:
        config = variant(SIMPLE, {name: sizes[name] for name in some})
        return dataclasses.replace(case, settings=case.settings | {"config": config.name})

    def fails(some: list[str]) -> bool:
        legal = not faults({**SIMPLE.sizes, **{name: sizes[name] for name in some}})
        return legal and bool(of(some).problem())

    return of(fewest(changed, fails))
