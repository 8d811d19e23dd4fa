"""Legal configurations at random: every size within the bounds of hw/legal.py, but few multipliers."""

import random

from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.config_text import variant
from tosaic.hw.constants import ARRAY_FIFO_VECTORS
from tosaic.hw.legal import ENGINES, LANE_COLUMNS, VECTOR_BITS, WEIGHT_BANKS, faults

MOST_MULTIPLIERS = 64
"""So that a simulator is built in about a minute."""


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
            "vector_bits": dice.choice((VECTOR_BITS.start, 40, VECTOR_BITS.stop - 1)),
            "unpackers": dice.choice((0, 1)),
            # A simulator of several cores takes that many times as long to build.
            "cores": dice.choice((1, 1, 1, 2)),
            "bus_words": dice.choice((1, 2)),
        }
        small_enough = sizes["rows"] * sizes["columns"] * sizes["cores"] <= MOST_MULTIPLIERS
        if small_enough and not faults({**CONFIGS["nano"].sizes, **sizes}):
            return variant(CONFIGS["nano"], sizes)
