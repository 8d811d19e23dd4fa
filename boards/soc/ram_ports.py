"""The ports of a RAM of one access per cycle, whatever it is made of."""

from amaranth.lib.wiring import In, Out, Signature


def ram_ports(width: int, depth: int) -> Signature:
    """Returns the ports of a RAM of `depth` words of `width` bytes.

    `enable`, `write`, `address`, `write_data`, `mask` (a bit per byte): an access.
    `data`: what the last read brought, from the cycle after it until the next read.
    """
    return Signature(
        {
            "enable": In(1),
            "write": In(1),
            "address": In(range(depth)),
            "write_data": In(8 * width),
            "mask": In(width),
            "data": Out(8 * width),
        }
    )
