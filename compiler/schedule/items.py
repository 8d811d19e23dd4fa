"""The units' command lists while a program is being built, with their waits and signals."""

import dataclasses

from tosaic.hw.isa import Instruction, Opcode, Unit, make

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
    """One piece of work of a unit: configuration, then the waits, then the instruction that does it."""

    unit: Unit
    index: int
    """Place among the unit's items."""
    configuration: list[Instruction]
    work: list[Instruction]
    consumes_array: bool = False
    """A vector program fed by the array item just before it: nothing may come between the two."""
    waits: dict[Unit, int] = dataclasses.field(default_factory=dict)
    """Per producing unit the index of the last item that must be complete first."""
    behind_load: int = -1
    """Last load that must come first in the program, without a wait: the unit waits for its words one by one."""
    signals: list[Unit] = dataclasses.field(default_factory=list)
    """Units that wait for this item."""

    def instructions(self) -> list[Instruction]:
        out = list(self.configuration)
        out += [make(WAIT[self.unit], semaphore=SEMAPHORE[unit, self.unit], count=1) for unit in self.waits]
        out += self.work
        out += [
            make(SIGNAL[self.unit], semaphore=SEMAPHORE[self.unit, unit], count=1) for unit in self.signals
        ]
        return out
