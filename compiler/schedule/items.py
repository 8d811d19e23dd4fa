"""The units' command lists while a program is being built, with their waits and signals."""

import dataclasses
import types
from collections.abc import Mapping

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
_NONE: Mapping[Unit, int] = types.MappingProxyType({})
_WAITS = {
    (a, b): command(WAIT[b], semaphore=number, count=1) for (a, b), number in SEMAPHORE.items()
}
_SIGNALS = {
    (a, b): command(SIGNAL[a], semaphore=number, count=1) for (a, b), number in SEMAPHORE.items()
}


@dataclasses.dataclass(slots=True)
class Item:
    """One piece of work of a unit: configuration, then the waits, then the instructions that do it."""

    work: Work
    index: int
    """Place among the unit's items."""
    waits: Mapping[Unit, int] = dataclasses.field(default_factory=lambda: _NONE)
    """Index, by producing unit, of the last item that must be complete first."""
    behind_load: int = -1
    """Last load that must come first in the program, without a wait: the unit waits for its words one by one."""
    signals: tuple[Unit, ...] = ()
    """Units that wait for this item."""

    @property
    def unit(self) -> Unit:
        return self.work.unit

    def commands(self) -> list[Command]:
        unit = self.work.unit
        return [
            *self.work.configuration,
            *(_WAITS[producer, unit] for producer in self.waits),
            *self.work.commands,
            *(_SIGNALS[unit, consumer] for consumer in self.signals),
        ]
