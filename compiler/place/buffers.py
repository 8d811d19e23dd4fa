"""Buffers of activation memory for what does not stay there."""

from collections.abc import Sequence

from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.placement import Buffer, BufferKey, Role

Sizes = dict[BufferKey, int]
"""Bytes of each buffer of a layer."""
Buffers = dict[BufferKey, Buffer]


def allocate_buffers(
    arena: Arena,
    sizes: Sizes,
    window_turns: int = 2,
    apart: Sequence[tuple[int, int]] = (),
    low: Role = Role.WINDOW,
) -> Buffers:
    """Buffers of the given sizes, double where that fits, or `window_turns` of the image that a window slides over.
    OutOfMemory where they do not even fit once.

    That image and the other buffers lie at opposite ends of the memory: the array reads a bank in every cycle, and
    STORE would wait for it. LOAD writes the image and would wait for VECTOR's writes, too: the image keeps out of the
    banks `apart`, (start, end), where there is room. `low`: what lies at the low end; without a window it may be the
    result, for VECTOR writes it while LOAD writes operands, and STORE reads it while VECTOR reads them."""
    for turns in range(window_turns, 0, -1):
        taken: list[int] = []
        buffers: Buffers = {}
        for key, size in sizes.items():
            slid = key.role is Role.WINDOW
            copies = turns if slid else min(turns, 2) if key.role.takes_turns else 1
            found = []
            for _ in range(copies):
                address = arena.allocate(size, others=apart) if slid and apart else None
                high = key.role not in (low, Role.STRIPE)
                address = arena.allocate(size, high=high) if address is None else address
                found += [] if address is None else [address]
            taken += found
            if len(found) < copies:
                break
            buffers[key] = Buffer(tuple(found), size)
        else:
            return buffers
        arena.give_back(taken)
    raise OutOfMemory(
        f"{sum(sizes.values())} bytes of buffers do not fit {arena.largest_gap_bytes()} free bytes"
    )


def addresses_of(buffers: Buffers) -> list[int]:
    """What to free when the buffers are not needed any more."""
    return [address for buffer in buffers.values() for address in buffer.addresses]
