"""What external memory gives: the choices of a plan rest on it, the program's results never do."""

import dataclasses
import functools
from fractions import Fraction

from tosaic.compiler.machine_numbers import BURST_TURN_CYCLES
from tosaic.errors import InputError
from tosaic.hw.config import Config
from tosaic.hw.constants import OUTSTANDING_BURSTS

MEMORY_LATENCY_CYCLES = 50
"""Cycles of latency, unless told otherwise."""
LEAST_BANDWIDTH_BYTES = 0.01
"""The least bytes per cycle of an external memory."""
_BYTE_PARTS = 1000
"""Parts of a byte that a bandwidth is told in."""


@dataclasses.dataclass(frozen=True)
class MemorySpeed:
    """The memory that a program is compiled for. InputError for numbers that cannot be."""

    bandwidth_bytes: float | None = None
    """Bytes per cycle, of which thousandths count; None: the bus width."""
    latency_cycles: int = MEMORY_LATENCY_CYCLES

    def __post_init__(self) -> None:
        if self.bandwidth_bytes is not None and not self.bandwidth_bytes >= LEAST_BANDWIDTH_BYTES:
            raise InputError(
                f"memory bandwidth must be at least {LEAST_BANDWIDTH_BYTES} bytes per cycle, not {self.bandwidth_bytes}"
            )
        if self.latency_cycles < 0:
            raise InputError(f"memory latency must be at least 0 cycles, not {self.latency_cycles}")

    def bytes_per_cycle(self, config: Config) -> Fraction:
        """Returns the bytes per cycle, no more than the bus is wide."""
        return _limited(self.bandwidth_bytes or config.word_bytes, config.word_bytes)

    def shared(self, config: Config, cores: int) -> "MemorySpeed":
        """What each of `cores` cores gets while all of them use it."""
        whole = min(self.bandwidth_bytes or config.bus_bytes, config.bus_bytes)
        return dataclasses.replace(self, bandwidth_bytes=whole / cores)

    @property
    def burst_cycles(self) -> float:
        """Cycles from one short burst to the next, however wide the bus: OUTSTANDING_BURSTS at a time."""
        return (self.latency_cycles + BURST_TURN_CYCLES) / OUTSTANDING_BURSTS


@functools.lru_cache(1 << 8)
def _limited(bandwidth_bytes: float, most: int) -> Fraction:
    return min(Fraction(bandwidth_bytes).limit_denominator(_BYTE_PARTS), Fraction(most))


FULL_SPEED = MemorySpeed()
"""A word of the bus in every cycle, after the usual latency."""
