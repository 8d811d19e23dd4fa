"""Lab 3: make it faster. Choose a machine and a batch for each of two networks; `-k lab3` grades it.

`tosaic run NET.tosa --random 1 --on emulator --report r.html` tells what a network waits for,
`docs/howto_slow_layer.md` what to try then, and `tosaic configs` what machines there are. Sizes are changed as in
`base,am_bytes=512K` (`hw/config.py` lists them). The largest machine is too large as it is: which of its parts has
little to do?
"""

import dataclasses

MEMORY_BANDWIDTH = 4
"""Bytes per cycle of external memory."""
MOST_LUTS = 130_000
"""LUTs with four inputs that a machine may take, by the estimate of `tosaic explore`."""
GOALS_CYCLES = {"matrix": 3_000, "image": 30_000}
"""Cycles per sample that are wanted, by network: a matrix of 256 x 256, whose weights are used once per sample; and a
3x3 convolution of an image of 32 x 32 pixels, 32 to 64 channels."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """A machine, and how many samples it works on at once."""

    config: str = "small"
    batch: int = 1


CHOICES = {"matrix": Choice(), "image": Choice()}
"""Yours."""
