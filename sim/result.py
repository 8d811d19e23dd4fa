"""What every executor of programs (emulator, RTL, device) reports about a run."""

import dataclasses
import typing
from collections.abc import Sequence

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.csr_map import EVENT_COUNTERS


def counted_events(config: Config) -> tuple[str, ...]:
    """The event counters of a machine by name; none where it counts no events."""
    return EVENT_COUNTERS if config.event_counters else ()


class Slice(typing.NamedTuple):
    """A unit at work on one GO."""

    unit: str
    """LOAD, ARRAY, VECTOR or STORE."""
    name: str
    """What it does, in a word or two."""
    start: int
    """Cycle in which it begins."""
    end: int
    """The first cycle after it."""
    bytes: int = 0
    """Bytes on the memory bus."""
    core: int = 0
    work: int = 0
    """Slots of ARRAY, beats of VECTOR and of the memory bus that it takes, however long they wait."""
    measured: bool = False
    """The cycles are those of the RTL, not the cycle model's."""
    layer: int | None = None
    """The number of the program's layer that it is work of, where that is known."""


@dataclasses.dataclass(frozen=True)
class UnitActivity:
    """What the units of a core did in the cycles that its counters counted (sim/rtl/measured.py)."""

    work: np.ndarray
    """uint8 [cycles]: a bit for each kind of work."""
    steps: np.ndarray
    """uint32 [steps, 3]: as `Recorded.steps` of the simulator's library."""
    code: bytes
    """The core's program."""


@dataclasses.dataclass(frozen=True)
class RunResult:
    """Measurements of one program run; the tensors are in the memory image that was handed in."""

    cycles: int
    """Cycles from start to done: predicted by the emulator, counted by the RTL."""
    dram_read_bytes: int
    """Bytes of all read beats on the memory bus, instruction fetch included."""
    dram_write_bytes: int
    """Bytes of all write beats on the memory bus."""
    marks: Sequence[tuple[int, int]] = dataclasses.field(default_factory=list)
    """(layer, cycle) of every VECTOR_MARK, in order."""
    counters: dict[str, int] = dataclasses.field(default_factory=dict)
    """Cycles per unit, such as ``array_busy``; the names are those of the counters in the register map. Sums over the
    cores. Empty where the machine counts no events (Config.event_counters)."""
    slices: list[Slice] = dataclasses.field(default_factory=list)
    """Every GO of every unit, by the emulator's cycle model."""
    activity: tuple[UnitActivity, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """Of each core of the RTL what its units did; nothing of a very long run."""
    macs: int = 0
    """Multiply-accumulates of the array for valid pixels: every column and every byte of a step counts."""
    cores: list[dict[str, int]] = dataclasses.field(default_factory=list)
    """The counters of each core."""
    boot: "RunResult | None" = None
    """Result of the boot part that ran once before this run or an earlier one, if the program has one."""
