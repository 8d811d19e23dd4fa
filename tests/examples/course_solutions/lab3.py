"""A solution of lab 3: a batch shares one fetch of the weights, and a lane serves four columns."""

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


CHOICES = {"matrix": Choice("small", batch=8), "image": Choice("large,lane_columns=4")}
