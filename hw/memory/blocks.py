"""Small memories that lie in block RAM on a board that has blocks to spare, and in LUTs elsewhere."""

from amaranth.hdl import Module
from amaranth.lib.fifo import SyncFIFOBuffered

from .words import NO_COLLISION_LOGIC


def placement(platform: object) -> dict[str, object]:
    """Attributes of a memory that is read in a register, and in which no word is read and written in one cycle."""
    if getattr(platform, "spare_block_ram", False):
        return NO_COLLISION_LOGIC | {"ram_style": "block"}
    return dict(NO_COLLISION_LOGIC)


def has_small_memories(platform: object) -> bool:
    """Whether a memory of some hundred bits is one: an FPGA has LUTs for it, a chip flip-flops."""
    return getattr(platform, "has_small_memories", True)


class Queue(SyncFIFOBuffered):
    """The FIFO of the library. What is read was written in an earlier cycle: it is never full and read at the place
    that is written.

    `direct`: what is read goes through logic in the cycle in which it is there. On ECP5 a word leaves a block RAM 5 ns
    later than LUT RAM's register, so such a queue is in LUTs on every board.
    """

    def __init__(self, *, width: int, depth: int, direct: bool = False):
        super().__init__(width=width, depth=depth)
        self._direct = direct

    def elaborate(self, platform: object) -> Module:
        m: Module = super().elaborate(platform)
        m.submodules.storage.attrs.update(placement(None if self._direct else platform))
        return m


__all__ = ["Queue", "has_small_memories", "placement"]
