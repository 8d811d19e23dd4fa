"""A tensor in several streams: which weights each stream holds, and how the streams lie in memory.

This is the software's side of `distributor`; the compiler writes what it reads.
"""

from collections.abc import Sequence

TAG_BITS = 2
"""Bits of a tag word that name the stream of one word behind it."""


def stream_levels(count: int, streams: int, word_bytes: int) -> list[list[slice]]:
    """For each stream the slices of the tensor's `count` levels it holds, in order: words of W levels, in turns."""
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


LOOK_AHEAD_BITS = 16
"""A decoder wants the bits up to here beyond its position; asking for a little more is safe."""


def _block_ends(blocks: int, word_bytes: int) -> range:
    return range(word_bytes, (blocks + 1) * word_bytes, word_bytes)
