"""Wishbone B4 ports, from the side of who begins a cycle. Addresses count words of the port's width, as LiteX's do."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config


def _members(data_bits: int, address_bits: int) -> dict[str, wiring.Member]:
    """The signals of Wishbone B4, by their names there; `adr` counts words."""
    return {
        "cyc": Out(1),
        "stb": Out(1),
        "we": Out(1),
        "adr": Out(address_bits),
        "sel": Out(data_bits // 8),
        "dat_w": Out(data_bits),
        "dat_r": In(data_bits),
        "ack": In(1),
        "err": In(1),
    }


class WishboneControl(wiring.Signature):
    """32 bits wide, 4 KiB: the registers. Classic cycles."""

    def __init__(self) -> None:
        super().__init__(_members(32, 10))


class WishboneMemory(wiring.Signature):
    """As wide as the accelerator's bus, and its addresses. Classic cycles, marked as incrementing bursts for memories
    that use it.

    Ports, with those of Wishbone:
        cti (3, out): CTI_INCREMENTING, CTI_END with the last beat.
        bte (2, out): 0, linear.
    """

    def __init__(self, config: Config):
        width = config.bus_bytes
        members = _members(8 * width, config.address_bits - exact_log2(width))
        super().__init__(members | {"cti": Out(3), "bte": Out(2)})
