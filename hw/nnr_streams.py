"""NNR streams as the CABAC decoder takes them: its limits, its verdicts, and how the streams of a tensor lie in memory.

The compiler writes such blocks, the emulator and `cabac/distributor.py` read them. Nothing here needs Amaranth.
"""

import enum
from collections.abc import Sequence

UNARY_MAX = 16
"""Largest cabac_unary_length that the hardware decodes; the encoder chooses it, and int8 weights want 1 to 10."""
BYPASS_BINS = 3
"""Bypass bins decoded in a cycle, at most."""
WAITING_WORDS = 16
"""Words of weights that a stream may be decoded ahead of its turn."""
TAG_BITS = 2
"""Bits of a tag word that name the stream of one word behind it."""
LOOK_AHEAD_BITS = 16
"""A decoder wants the bits up to here beyond its position; asking for a little more is safe."""


class DecodeError(enum.IntEnum):
    """Why a stream was given up. The order is that in which `tosaic.nnr` finds them."""

    NONE = 0
    UNARY_LENGTH = 1  # cabac_unary_length above UNARY_MAX
    START = 2  # ivlOffset 510 or 511 (11.2.2.3)
    TRUNCATED = 3  # a level, or the start, reads past the end
    PREFIX = 4  # 31 ones in abs_level_greater_x2
    LEVEL = 5  # a level outside int32
    TERMINATE = 6  # terminating_one_bit is 0
    STOP = 7  # the bit read last is 0 (11.2.4.3.5)
    PADDING = 8  # a nesting_zero_bit is 1
    TRAILING = 9  # bytes behind the end
    SATURATED = 10  # a level outside the weights' type; LOAD's verdict, a decoder only counts them
    TAGS = 11  # tag words do not bring the streams of a block their words, or not in time


def stream_levels(count: int, streams: int, word_bytes: int) -> list[list[slice]]:
    """Returns, for each stream, the slices of the tensor's `count` levels that it holds, in order: words of W levels,
    in turns."""
    words = [slice(start, min(start + word_bytes, count)) for start in range(0, count, word_bytes)]
    return [words[stream::streams] for stream in range(streams)]


def interleave(
    payloads: Sequence[bytes], positions: Sequence[Sequence[int]], count: int, word_bytes: int
) -> bytes:
    """One block of whole words for the payloads of the streams.

    positions: for each stream the position in its payload, in bits, behind each of its levels. count: levels of the
    tensor. A tag word, then as many words as it has tags, and so on; words are in the order of the weights that wait
    for them, so that no stream's words block those of another that is needed first.
    """
    if len(payloads) == 1:
        return bytes(payloads[0]) + bytes(-len(payloads[0]) % word_bytes)
    needed = []
    for stream, (payload, ends) in enumerate(zip(payloads, positions, strict=True)):
        blocks = range(stream, -(-count // word_bytes), len(payloads))
        block_ends = [ends[min(index, len(ends)) - 1] for index in _block_ends(len(blocks), word_bytes)]
        turn = 0
        for start in range(0, len(payload), word_bytes):
            while turn < len(blocks) and block_ends[turn] <= 8 * start - LOOK_AHEAD_BITS:
                turn += 1
            place = blocks[turn] if turn < len(blocks) else count
            word = bytes(payload[start : start + word_bytes])
            needed.append((place, stream, start, word + bytes(word_bytes - len(word))))
    needed.sort(key=lambda entry: entry[:3])
    group_words = 8 * word_bytes // TAG_BITS
    out = bytearray()
    for first in range(0, len(needed), group_words):
        group = needed[first : first + group_words]
        tags = sum(stream << (TAG_BITS * index) for index, (_, stream, _, _) in enumerate(group))
        out += tags.to_bytes(word_bytes, "little") + b"".join(word for _, _, _, word in group)
    return bytes(out)


def block_words(lengths: Sequence[int], word_bytes: int) -> int:
    """Words of the block of the streams whose lengths in bytes are given, tag words included."""
    words = sum(-(-length // word_bytes) for length in lengths)
    return words if len(lengths) == 1 else words + -(-words // (8 * word_bytes // TAG_BITS))


def separate(block: bytes, lengths: Sequence[int], word_bytes: int) -> list[bytes]:
    """The streams in a block of `block_words` words; a stream that the tags do not give all its words is shorter."""
    if len(lengths) == 1:
        return [block[: lengths[0]]]
    streams = [bytearray() for _ in range(1 << TAG_BITS)]
    words = [block[start : start + word_bytes] for start in range(0, len(block), word_bytes)]
    group_words = 8 * word_bytes // TAG_BITS
    for first in range(0, len(words), group_words + 1):
        tags = int.from_bytes(words[first], "little")
        for index, word in enumerate(words[first + 1 : first + 1 + group_words]):
            streams[tags >> TAG_BITS * index & (1 << TAG_BITS) - 1] += word
    return [bytes(stream[:length]) for stream, length in zip(streams, lengths, strict=False)]


def _block_ends(blocks: int, word_bytes: int) -> range:
    return range(word_bytes, (blocks + 1) * word_bytes, word_bytes)
