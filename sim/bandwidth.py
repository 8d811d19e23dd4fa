"""How emulator and the RTL's memory count the bandwidth of external memory: in thousandths of a byte, so that their
cycles are equal at every bandwidth that users can write."""

THOUSAND = 1000


def thousandths(bandwidth_bytes: float | None, bus_bytes: int) -> int:
    """Returns thousandths of a byte per cycle. None is the bus width, which is also the most."""
    if bandwidth_bytes is None:
        return THOUSAND * bus_bytes
    return min(max(round(THOUSAND * bandwidth_bytes), 1), THOUSAND * bus_bytes)
