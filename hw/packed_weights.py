"""Packed weights: a format that LOAD unpacks at up to a word of W weights per cycle. What a row of it is made of.

A row of words of W bytes stands for a number of words of W weights. Byte f of every word belongs to FIFO f.

    header    bits 15:0 the number of words of weights, bits 17:16 the mode; the rest is 0
    palette   modes PALETTE_4 and PALETTE_16: 4 or 16 words; all bytes of word n are weight n
    then, until all words of weights are made:
    codes     mode MASK: bit p of byte f is 1 where FIFO f gives a weight for word p of the 8 that follow, else it is 0;
              PALETTE_4: bits 2p+1:2p of byte f are the number of the weight of lane f in word p of 4; PALETTE_16:
              bits 4p+3:4p in word p of 2
    weights   only MASK: a word whose bytes enter the FIFOs, byte f FIFO f unless it is full. It comes whenever one that
              must give a weight is empty

In mode MASK the weight of lane i in word n comes from FIFO i ^ (n % TURNS): a channel with few zeros does not fill one
FIFO alone. A FIFO holds FIFO_BYTES. Nothing here needs Amaranth.
"""

import enum
from collections.abc import Iterator

import numpy as np

MODE_BITS = 2
COUNT_BITS = 16
MOST_WORDS = (1 << COUNT_BITS) - 1
TURNS = 4
"""Ways in which lanes and FIFOs are paired, in turns."""
PALETTE_DEPTH = 16
FIFO_BYTES = PALETTE_DEPTH - 1
"""The palette lies where the FIFOs lie. One place stays free: full and empty differ."""


class WeightCoding(enum.IntEnum):
    """How weights are coded."""

    MASK = 0
    PALETTE_4 = 1
    PALETTE_16 = 2


WORDS_PER_CODE = {WeightCoding.MASK: 8, WeightCoding.PALETTE_4: 4, WeightCoding.PALETTE_16: 2}
"""Words of weights that a word of codes stands for."""
PALETTE_SIZE = {WeightCoding.MASK: 0, WeightCoding.PALETTE_4: 4, WeightCoding.PALETTE_16: 16}


class PackedError(ValueError):
    """A row is not made of what its header says."""


def pack(weights: np.ndarray, mode: WeightCoding, word_bytes: int) -> bytes:
    """int8 `weights`, a multiple of W of them and at most MOST_WORDS words, as a row. ValueError where a palette does
    not hold all values."""
    words = np.ascontiguousarray(weights, np.int8).view(np.uint8).reshape(-1, word_bytes)
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"a row holds 1 to {MOST_WORDS} words of weights, not {len(words)}")
    header = (len(words) | mode << COUNT_BITS).to_bytes(word_bytes, "little")
    return header + b"".join(
        _packed_mask(words) if mode == WeightCoding.MASK else _packed_palette(words, mode)
    )


def _packed_palette(words: np.ndarray, mode: WeightCoding) -> Iterator[bytes]:
    values, numbers = np.unique(words, return_inverse=True)
    size, word_bytes = PALETTE_SIZE[mode], words.shape[1]
    if len(values) > size:
        raise ValueError(f"{len(values)} different weights are no palette of {size}")
    for value in (*values.tolist(), *(0 for _ in range(size - len(values)))):
        yield bytes([value]) * word_bytes
    yield from _codes(numbers.reshape(words.shape), mode)


def _codes(numbers: np.ndarray, mode: WeightCoding) -> Iterator[bytes]:
    """The words of codes for numbers [words, lanes]."""
    per_code = WORDS_PER_CODE[mode]
    padded = np.concatenate([numbers, np.zeros((-len(numbers) % per_code, numbers.shape[1]), np.int64)])
    shifts = np.arange(per_code)[None, :, None] * (8 // per_code)
    for code in (padded.reshape(-1, per_code, numbers.shape[1]) << shifts).sum(axis=1):
        yield code.astype(np.uint8).tobytes()


def _by_fifo(words: np.ndarray) -> np.ndarray:
    """Lanes of words of weights as FIFOs, or back."""
    lanes = np.arange(words.shape[1])
    turned = words.copy()
    for turn in range(TURNS):
        turned[turn::TURNS] = words[turn::TURNS, lanes ^ turn]
    return turned


def _packed_mask(words: np.ndarray) -> Iterator[bytes]:
    by_fifo = _by_fifo(words)
    wanted = by_fifo != 0
    codes = list(_codes(wanted.astype(np.int64), WeightCoding.MASK))
    queues = [by_fifo[wanted[:, fifo], fifo].tolist() for fifo in range(words.shape[1])]
    sent, held = [0] * len(queues), [0] * len(queues)
    """Number of weights of each queue that went to its FIFO, and that the FIFO holds now."""
    lists = [np.flatnonzero(row).tolist() for row in wanted]
    for number, taking in enumerate(lists):
        if number % WORDS_PER_CODE[WeightCoding.MASK] == 0:
            yield codes[number // WORDS_PER_CODE[WeightCoding.MASK]]
        while not all(held[fifo] for fifo in taking):
            word = bytearray(len(queues))
            for fifo, queue in enumerate(queues):
                if held[fifo] < FIFO_BYTES:
                    word[fifo] = queue[sent[fifo]] if sent[fifo] < len(queue) else 0
                    sent[fifo] += 1
                    held[fifo] += 1
            yield bytes(word)
        for fifo in taking:
            held[fifo] -= 1


def unpack(row: bytes, word_bytes: int) -> tuple[np.ndarray, int]:
    """The int8 weights of a row, and the cycles that unpacking takes by itself. PackedError where the row is wrong."""
    source = iter(np.frombuffer(row, np.uint8).reshape(-1, word_bytes))
    header = int.from_bytes(row[:word_bytes], "little")
    next(source)
    count, mode_number = header & MOST_WORDS, header >> COUNT_BITS & (1 << MODE_BITS) - 1
    if not count or mode_number not in [*WeightCoding]:
        raise PackedError(f"its header 0x{header:x} has no words or an unknown mode")
    mode = WeightCoding(mode_number)
    palette = [_next(source)[0] for _ in range(PALETTE_SIZE[mode])]
    out, used = np.zeros((count, word_bytes), np.uint8), 1 + len(palette)
    if mode == WeightCoding.MASK:
        pushed = _unpack_mask(source, out)
    else:
        pushed = 0
        bits = 8 // WORDS_PER_CODE[mode]
        table = np.array(palette, np.uint8)
        for start in range(0, count, WORDS_PER_CODE[mode]):
            code = _next(source)
            for place in range(min(WORDS_PER_CODE[mode], count - start)):
                out[start + place] = table[code >> place * bits & (1 << bits) - 1]
    if next(source, None) is not None:
        raise PackedError(f"words are left over behind its {count} words of weights")
    # The first word of codes takes a cycle, the others come with the last word of weights before them.
    return out.view(np.int8).reshape(-1), used + 1 + count + pushed


def _unpack_mask(source: Iterator[np.ndarray], out: np.ndarray) -> int:
    """Fills `out`; the words of weights that entered the FIFOs."""
    lanes, per_code = out.shape[1], WORDS_PER_CODE[WeightCoding.MASK]
    fifos: list[list[int]] = [[] for _ in range(lanes)]
    pushed = 0
    for number in range(len(out)):
        if number % per_code == 0:
            code = _next(source)
        taking = np.flatnonzero(code >> number % per_code & 1).tolist()
        while not all(fifos[fifo] for fifo in taking):
            pushed += 1
            for fifo, value in zip(fifos, _next(source).tolist(), strict=True):
                if len(fifo) < FIFO_BYTES:
                    fifo.append(value)
        for fifo in taking:
            out[number, fifo ^ number % TURNS] = fifos[fifo].pop(0)
    return pushed


def _next(source: Iterator[np.ndarray]) -> np.ndarray:
    word = next(source, None)
    if word is None:
        raise PackedError("it ends before its last word of weights")
    return word
