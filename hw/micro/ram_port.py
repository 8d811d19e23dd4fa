"""The one port of the RAM."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .memory_map import RAM_BYTES

WORD_BYTES = 4


class RamPort(wiring.Signature):
    """Accesses to the RAM's words, from the requester's side, one a cycle.

    `data` is the word of a read in the cycle after it, and undefined in others.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "enable": Out(1),
                "write": Out(1),
                "address": Out(range(RAM_BYTES // WORD_BYTES)),
                "write_data": Out(8 * WORD_BYTES),
                "mask": Out(WORD_BYTES),
                "data": In(8 * WORD_BYTES),
            }
        )
