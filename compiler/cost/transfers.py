"""Cycles of the bus, and of what decodes or unpacks weights on their way."""

from collections.abc import Sequence

from tosaic.compiler.machine_numbers import (
    PACKED_ROW_CYCLES,
    SEGMENT_BORDER_CYCLES,
    SEGMENT_OUT_OF_STEP_FACTOR,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.packed_weights import PALETTE_SIZE, WORDS_PER_CODE, WeightCoding


def load_cycles(size_bytes: int, bytes_per_cycle: float) -> int:
    """Cycles to load weights as they are."""
    return int(size_bytes // bytes_per_cycle)


def packed_row_cycles(
    row_bytes: int, mode: WeightCoding, words: int, word_bytes: int, bytes_per_cycle: float
) -> float:
    """Cycles to load a packed row of `words` words of weights: what the bus takes, or what unpacking takes."""
    beats = row_bytes // word_bytes
    entering = beats - 1 - PALETTE_SIZE[mode] - -(-words // WORDS_PER_CODE[mode])
    unpacking = 2 + PALETTE_SIZE[mode] + words + entering
    return max(row_bytes / bytes_per_cycle, unpacking) + PACKED_ROW_CYCLES


def runs_cycles(size_bytes: int, runs: int, config: Config, speed: MemorySpeed) -> int:
    """Cycles for bytes in `runs` short runs, each of which begins and ends within a word; in one piece where there are
    none."""
    rate = speed.bytes_per_cycle(config)
    if not runs:
        return int(size_bytes // rate)
    beats = (size_bytes + runs * config.word_bytes) // rate
    return max(int(beats), int(runs * speed.burst_cycles))


def segment_border_cycles(speed: MemorySpeed) -> int:
    """Cycles between two segments of several cores, with the latency of a STORE and a LOAD."""
    return 2 * speed.latency_cycles + SEGMENT_BORDER_CYCLES


def segments_cycles(cycles: Sequence[int], border_cycles: int) -> int:
    """Cycles of segments with what passes between them, and before the first."""
    return border_cycles * len(cycles) + sum(cycles)


def bytes_ahead(cycles: int, config: Config, speed: MemorySpeed) -> int:
    """Bytes that a core loads while it waits for others, which are `cycles` away from where it is."""
    return int(SEGMENT_OUT_OF_STEP_FACTOR * cycles * speed.bytes_per_cycle(config))
