"""One machine with one memory, and what networks take on it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Protocol

from tosaic.hw.config import Config


class Area(Protocol):
    """What a machine takes of a part; `boards.report.Usage` is one."""

    @property
    def lut(self) -> int: ...
    @property
    def ff(self) -> int: ...
    @property
    def dsp(self) -> int: ...
    @property
    def ram_kbit(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Point:
    """A configuration, its external memory, its estimated area and the predicted cycles by network."""

    config: Config
    bandwidth: int
    """Bytes per cycle."""
    area: Area
    cycles: Mapping[str, int]

    @property
    def score(self) -> float:
        """The geometric mean of the networks' cycles: a tenth less of one is worth a tenth less of another."""
        return math.exp(sum(map(math.log, self.cycles.values())) / len(self.cycles))
