"""When the bench's AXI models make the accelerator wait."""

import random
from collections.abc import Callable, Iterator

PHASE_CYCLES = (20, 300)
"""A channel keeps one habit for so long."""
PAUSES = (0.0, 0.1, 0.5, 0.9)
"""Shares of cycles in which a channel pauses."""


def random_pauses(rng: random.Random, wanted: Callable[[], bool] | None = None) -> Iterator[bool]:
    """Forever: True in cycles in which the channel shall pause.

    Phases of no, rare, even and long pauses follow each other at random. With `wanted` (the accelerator offers
    something on the channel) there are phases in which ready only comes after it, too: AXI forbids a source to
    wait for ready (A3.3.1).
    """
    while True:
        share = rng.choice(PAUSES)
        late = wanted is not None and rng.random() < 0.25
        for _ in range(rng.randint(*PHASE_CYCLES)):
            if late and wanted is not None:
                yield not wanted()
            else:
                yield rng.random() < share
