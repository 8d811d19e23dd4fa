"""Cycles of the array."""

import math
from collections.abc import Iterable

from tosaic.compiler.machine_numbers import (
    LAYER_END_CYCLES,
    PLANES_IMAGE_CYCLES,
    PLANES_START_CYCLES,
    POOL_START_CYCLES,
)
from tosaic.hw.config import Config
from tosaic.hw.slots import taps_wait_slots, tile_slots


def dense_cycles(steps: int, pixels: int, config: Config) -> int:
    """Cycles for `steps` words of each of `pixels` pixels. The last tile of pixels may divide the rows."""
    whole, rest = divmod(pixels, config.rows)
    last = tile_slots(steps, config.row_parts(rest), config.columns) if rest else 0
    return whole * tile_slots(steps, 1, config.columns) + last


def full_rows_cycles(steps: int, pixels: int, config: Config) -> int:
    """Cycles for `steps` words of each of `pixels` pixels, where no tile of pixels divides the rows."""
    return -(-pixels // config.rows) * tile_slots(steps, 1, config.columns)


def depthwise_cycles(streams: Iterable[tuple[int, int, int]]) -> int:
    """Cycles of GOs of the depthwise mode, each of (advances, positions before the first sum, rows with taps)."""
    return sum(advances + taps_wait_slots(rows, skip) for advances, skip, rows in streams)


def pool_cycles(
    pixels: int, blocks: int, kernel_rows: int, kernel_columns: int, config: Config
) -> int | None:
    """Cycles of a depthwise convolution in place of a pool without padding: its `pixels` pixels pass by as many rows
    of the kernel as the array holds, for each of `blocks` blocks of channels. None where it holds too few."""
    together = min(kernel_rows, config.rows // kernel_columns, config.line_groups)
    if not together or (together < kernel_rows and not config.partial_sums):
        return None
    return POOL_START_CYCLES + blocks * -(-kernel_rows // together) * (pixels + config.rows)


def planes_cycles(images: int, planes: int, pixels: int, shared: Iterable[int], config: Config) -> float:
    """Cycles of a convolution that turns `planes` planes of `images` images to channels, for the best number of pixels
    that share vectors. Infinite where its weights do not stay in their memory."""
    best, columns = math.inf, config.columns
    for size in shared:
        tiles, groups = -(-size * planes // columns), pixels // size
        weight_bytes = tiles * planes * columns**2
        if weight_bytes <= config.wm_bytes:
            image = full_rows_cycles(tiles * planes, groups, config) + PLANES_IMAGE_CYCLES
            loaded = weight_bytes / config.word_bytes
            best = min(best, PLANES_START_CYCLES + loaded + images * image)
    return best


def vectors_in_turn(vectors: int, slots: int, more_slots: int = 0) -> int:
    """Of `vectors` that the array makes in `slots`, those of the last slots in which the next layer cannot begin yet;
    `more_slots` of them pass besides."""
    return -(-(LAYER_END_CYCLES + more_slots) * vectors // slots)
