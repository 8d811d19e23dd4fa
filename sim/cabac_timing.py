"""How many bins levels have, and how many cycles the CABAC decoder takes for them: exact for one stream."""

import dataclasses

import numpy as np

from tosaic.hw.nnr_streams import BYPASS_BINS

FIRST_BIN_CYCLES = 23
"""From the job to the first level's first bin; without dq_flag and other bins in front one less."""
END_CYCLES = 6
"""From the cycle of the last bin to the result, if the last word is full."""


@dataclasses.dataclass(frozen=True)
class Bins:
    """Of all levels: bins and the cycles they take."""

    context_coded: int
    bypass: int
    cycles: int


def count_bins(levels: np.ndarray, unary_length: int, dependent: bool = False) -> Bins:
    """Bins of coded levels (int_param of 11.1.2.5), with `dependent` quantization of the levels before doubling."""
    size = np.abs(np.asarray(levels, np.int64))
    rest = np.maximum(size - unary_length, 0)
    # The remainder's prefix has as many ones as its suffix has bins.
    ones = np.where(rest > 0, np.frexp(rest)[1] - 1, 0)
    context_coded = 1 + (size > 0) * (1 + np.minimum(size, unary_length)) + (rest > 0) * (ones + 1)
    cycles = context_coded + -(-ones // BYPASS_BINS)
    if dependent:
        # The last bin of a level must not be a third one of its cycle.
        cycles += (ones > 0) & (ones % BYPASS_BINS == 0)
    return Bins(int(context_coded.sum()), int(ones.sum()), int(cycles.sum()))


def decode_cycles(levels: np.ndarray, unary_length: int, word_bytes: int, dependent: bool = False) -> int:
    """Cycles from the job taken to the result, for one stream of at least a level that starts with dq_flag at a word's
    first byte, and never waits for words or for weights to be taken."""
    missing = -np.asarray(levels).size % word_bytes
    filling = missing + 1 if missing else 0
    return FIRST_BIN_CYCLES + count_bins(levels, unary_length, dependent).cycles + END_CYCLES + filling
