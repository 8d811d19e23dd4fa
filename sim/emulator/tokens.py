"""Where the tokens of a SIGNAL go."""

from tosaic.hw.isa import Instruction


def receivers(signal: Instruction, core: int) -> tuple[int, ...]:
    """The cores whose semaphore a SIGNAL of `core` adds to."""
    mask = signal.cores
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1) or (core,)
