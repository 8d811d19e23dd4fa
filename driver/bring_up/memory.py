"""External memory as the host sees it: bits, addresses, and whether data stay."""

import numpy as np

from ..transports import Transport
from .faults import FaultFound

BLOCK_BYTES = 64
SEED = 7
STAY_SECONDS = 1.0
"""How long data must stay; a chip without refresh loses some in a fraction of that."""


def places(memory_bytes: int) -> list[int]:
    """Blocks at 0 and at each power of two: each address line is 1 in one of them."""
    found, place = [0], BLOCK_BYTES
    while place + BLOCK_BYTES <= memory_bytes:
        found.append(place)
        place *= 2
    return found


def check_memory(transport: Transport, word_bytes: int) -> str:
    """Writes blocks of made-up bytes and reads them, at once and later. Raises FaultFound; returns what was done."""
    blocks = {
        place: np.random.default_rng([SEED, place]).integers(0, 256, BLOCK_BYTES, dtype=np.uint8)
        for place in places(transport.identity.memory_bytes)
    }
    for place, block in blocks.items():
        transport.write_memory(place, block.tobytes())
    first = {place: _read(transport, place) for place in blocks}
    for place, block in blocks.items():
        if not np.array_equal(first[place], block):
            raise _told(place, first[place], blocks, word_bytes)
    transport.pause(STAY_SECONDS)
    for place, block in blocks.items():
        if not np.array_equal(_read(transport, place), block):
            raise FaultFound("memory-loss", f"the block at {place:#x} has changed after {STAY_SECONDS:g} s")
    return f"{len(blocks)} blocks of {BLOCK_BYTES} bytes in {transport.identity.memory_bytes >> 10} KiB"


def _read(transport: Transport, place: int) -> np.ndarray:
    return np.frombuffer(transport.read_memory(place, BLOCK_BYTES), np.uint8)


def _told(place: int, found: np.ndarray, blocks: dict[int, np.ndarray], word_bytes: int) -> FaultFound:
    """The fault that a wrong block shows."""
    for other, block in blocks.items():
        if other != place and np.array_equal(found, block):
            return FaultFound("memory-address", f"at {place:#x} is what was written at {other:#x}")
    changed = np.bitwise_or.reduce((found ^ blocks[place]).reshape(-1, word_bytes), axis=0)
    bits = [8 * byte + bit for byte in range(word_bytes) for bit in range(8) if changed[byte] >> bit & 1]
    if len(bits) <= 2:
        named = " and ".join(map(str, bits))
        return FaultFound(
            "memory-bit", f"bit {named} of words of {8 * word_bytes} bits is wrong, as at {place:#x}"
        )
    wrong = int(np.count_nonzero(found != blocks[place]))
    return FaultFound("memory-data", f"{wrong} of {BLOCK_BYTES} bytes at {place:#x} are wrong")
