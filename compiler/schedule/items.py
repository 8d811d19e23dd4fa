"""The units' command lists while a program is being built, with their waits and signals."""

import dataclasses
from typing import Any

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
_WAITS = {(a, b): command(WAIT[b], semaphore=number, count=1) for (a, b), number in SEMAPHORE.items()}
_SIGNALS = {(a, b): command(SIGNAL[a], semaphore=number, count=1) for (a, b), number in SEMAPHORE.items()}


@dataclasses.dataclass(slots=True)
class Item:
    """One piece of work of a unit: configuration, then the waits, then the instructions that do it."""

    work: Work
    index: int
    """Place among the unit's items."""
    waited: tuple[Any, ...] = ()
    """Producing units, each with the index of its last item that must be complete first: a flat tuple takes a third of
    the memory of a dictionary, and there is one for every few instructions."""
    behind_load: int = -1
    """Last load that must come first in the program, without a wait: the unit waits for its words one by one."""
    signals: tuple[Unit, ...] = ()
    """Units that wait for this item."""

    @property
    def unit(self) -> Unit:
        return self.work.unit

    @property
    def waits(self) -> dict[Unit, int]:
        """Index, by producing unit, of the last item that must be complete first."""
        return dict(zip(self.waited[::2], self.waited[1::2], strict=True))

    def commands(self) -> list[Command]:
        unit = self.work.unit
        return [
            *self.work.configuration,
            *(_WAITS[producer, unit] for producer in self.waited[::2]),
            *self.work.commands,
            *(_SIGNALS[unit, consumer] for consumer in self.signals),
        ]
