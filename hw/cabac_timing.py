"""How many bins levels have, and how many cycles the CABAC decoder takes for them: exact for one stream."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tosaic.hw.nnr_streams import BYPASS_BINS, WAITING_WORDS

FIRST_BIN_CYCLES = 22
"""Cycles from the job to the first level's first bin, without dq_flag and other bins before it."""
END_CYCLES = 6
"""Cycles from the last bin to the result, if the last word is full."""
SEVERAL_CYCLES = 5
"""What the way of the words through distributor and queues adds where there are several streams."""


@dataclasses.dataclass(frozen=True)
class Bins:
    """The bins of all levels, and the cycles that they take."""

    context_coded: int
    bypass: int
    cycles: int


def _parts(
    levels: np.ndarray, unary_length: int, dependent: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Context-coded bins, bypass bins, and cycles of each level."""
    size = np.abs(np.asarray(levels, np.int64))
    rest = np.maximum(size - unary_length, 0)
    # The remainder's prefix has as many ones as its suffix has bins.
    ones = np.where(rest > 0, np.frexp(rest)[1] - 1, 0)
    context_coded = 1 + (size > 0) * (1 + np.minimum(size, unary_length)) + (rest > 0) * (ones + 1)
    cycles = context_coded + -(-ones // BYPASS_BINS)
    if dependent:
        # The last bin of a level must not be a third one of its cycle.
        cycles += (ones > 0) & (ones % BYPASS_BINS == 0)
    return context_coded, ones, cycles


def count_bins(levels: np.ndarray, unary_length: int, dependent: bool = False) -> Bins:
    """Bins of coded levels (int_param of 11.1.2.5), with `dependent` quantization of the levels before doubling."""
    context_coded, bypass, cycles = _parts(levels, unary_length, dependent)
    return Bins(int(context_coded.sum()), int(bypass.sum()), int(cycles.sum()))


def decode_cycles(
    levels: np.ndarray, unary_length: int, word_bytes: int, dependent: bool = False, header_bins: int = 1
) -> int:
    """Cycles from the job taken to the result, for one stream of at least a level that starts with `header_bins`
    bypass bins (dq_flag is one) at a word's first byte, and never waits for words or for weights to be taken."""
    missing = -np.asarray(levels).size % word_bytes
    filling = missing + 1 if missing else 0
    start = FIRST_BIN_CYCLES + -(-header_bins // BYPASS_BINS)
    return start + count_bins(levels, unary_length, dependent).cycles + END_CYCLES + filling


def block_cycles(
    streams: Sequence[np.ndarray], unary_length: int, word_bytes: int, dependent: bool, header_bins: int
) -> int:
    """The same for the weights that a block of one or several streams decodes to, which with `dependent` quantization
    are doubled; within a few cycles for several streams."""
    levels = [-(-np.abs(stream.astype(np.int64)) // 2) if dependent else stream for stream in streams]
    if len(levels) == 1:
        return decode_cycles(levels[0], unary_length, word_bytes, dependent, header_bins)
    words = [_word_cycles(stream, unary_length, word_bytes, dependent) for stream in levels]
    start = FIRST_BIN_CYCLES + -(-header_bins // BYPASS_BINS) + SEVERAL_CYCLES
    decoded = [start] * len(words)
    """When each stream's last word so far was decoded."""
    moved: list[list[int]] = [[] for _ in words]
    """When each stream's words came out."""
    last = start
    for number in range(sum(map(len, words))):
        stream, turn = number % len(words), number // len(words)
        done = decoded[stream] + words[stream][turn]
        if turn >= WAITING_WORDS:
            # It finds no place before an earlier one has left.
            done = max(done, moved[stream][turn - WAITING_WORDS])
        decoded[stream] = done
        last = max(last + 1, done)
        moved[stream].append(last)
    return last + END_CYCLES


def _word_cycles(levels: np.ndarray, unary_length: int, word_bytes: int, dependent: bool) -> list[int]:
    """Cycles of each word of a stream's levels; a word that is not full is filled up, one lane per cycle."""
    cycles = _parts(levels, unary_length, dependent)[2]
    missing = -cycles.size % word_bytes
    padded = np.concatenate([cycles, np.ones(missing, np.int64)])
    return padded.reshape(-1, word_bytes).sum(axis=1).tolist()
