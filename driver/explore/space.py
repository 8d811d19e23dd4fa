"""The configurations that an exploration looks at: sizes by field, each combination a variant of a named one."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config, variant
from tosaic.hw.legal import LANE_COLUMNS, faults

SPACE: Mapping[str, tuple[int, ...]] = {
    "rows": (2, 4, 8, 16, 32),
    "columns": (4, 8, 16, 32),
    "am_bytes": (32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10),
    "am_banks": (1, 2, 4, 8),
    "wm_bytes": (16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10),
    "partial_sums": (0, 512),
    "cabac_engines": (0, 1),
    "lane_columns": LANE_COLUMNS,
    "cores": (1, 2, 4),
}
"""Sizes that decide cycles and area; `--set` fixes one of them, or another field of the configuration."""


def configuration(base: Config, sizes: Mapping[str, int]) -> Config | None:
    """`base` with these sizes; None where there is no such machine."""
    if faults({**base.sizes, **sizes}):
        return None
    return variant(base, dict(sizes))


def free_fields(fixed: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The fields that are searched."""
    return {field: sizes for field, sizes in SPACE.items() if field not in fixed}


def draw_grid(base: str, fixed: Sequence[str], seed: int) -> Iterator[Config]:
    """Every machine of the grid once, in an order that the seed decides."""
    fields = free_fields(fixed)
    combinations = list(itertools.product(*fields.values()))
    random.Random(seed).shuffle(combinations)
    origin = get_config(base)
    for sizes in combinations:
        config = configuration(origin, dict(zip(fields, sizes, strict=True)))
        if config is not None:
            yield config
