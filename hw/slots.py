"""Slots of the array: cycles in which it works, by what a command tells. The compiler's predictions (`compiler/cost`)
and the emulator's timing count with the same functions."""


def tile_slots(steps: int, parts: int, columns: int) -> int:
    """Slots for a tile of pixels: `steps` words of weights and `columns` bytes of each, shared by `parts` of the
    rows."""
    return -(-steps // parts) * columns


def taps_wait_slots(rows: int, skip: int) -> int:
    """Slots of the depthwise mode before the stream begins: the taps of `rows` rows load in as many, and `skip`
    positions pass before the first sum begins."""
    return max(rows - skip, 0)
