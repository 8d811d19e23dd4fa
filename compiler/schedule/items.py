"""The units' command lists while a program is being built, with their waits and signals."""

import dataclasses

from tosaic.compiler.emit.commands import Command, Work, command
from tosaic.hw.isa import Opcode, Unit

WAIT = {
    Unit.LOAD: Opcode.LOAD_WAIT,
    Unit.ARRAY: Opcode.ARRAY_WAIT,
    Unit.VECTOR: Opcode.VECTOR_WAIT,
    Unit.STORE: Opcode.STORE_WAIT,
}
SIGNAL = {
    Unit.LOAD: Opcode.LOAD_SIGNAL,
    Unit.ARRAY: Opcode.ARRAY_SIGNAL,
    Unit.VECTOR: Opcode.VECTOR_SIGNAL,
    Unit.STORE: Opcode.STORE_SIGNAL,
}
_UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
_PAIRS = [(a, b) for a in _UNITS for b in _UNITS if a != b]
SEMAPHORE = {pair: number for number, pair in enumerate(_PAIRS)}
"""Which semaphore carries "producer has completed this" to a consumer: one for each ordered pair of units."""


@dataclasses.dataclass
class Item:
    """One piece of work of a unit: configuration, then the waits, then the instructions that do it."""

    work: Work
    index: int
    """Place among the unit's items."""
    waits: dict[Unit, int] = dataclasses.field(default_factory=dict)
    """Index, by producing unit, of the last item that must be complete first."""
    behind_load: int = -1
    """Last load that must come first in the program, without a wait: the unit waits for its words one by one."""
    signals: list[Unit] = dataclasses.field(default_factory=list)
    """Units that wait for this item."""

    @property
    def unit(self) -> Unit:
        return self.work.unit

    def commands(self) -> list[Command]:
        out = list(self.work.configuration)
        out += [
            command(WAIT[self.unit], semaphore=SEMAPHORE[unit, self.unit], count=1) for unit in self.waits
        ]
        out += self.work.commands
        out += [
            command(SIGNAL[self.unit], semaphore=SEMAPHORE[self.unit, unit], count=1) for unit in self.signals
        ]
        return out
