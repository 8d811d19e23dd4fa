"""Which lanes of a VECTOR_GO reach memory: what the others read does not matter, and may still be written."""

import functools
from collections.abc import Sequence

import numpy as np

from tosaic.hw.isa import Instruction, Source

from .faults import Fault
from .micro_ops import lanes_of
from .streams import Stream


def carried_registers(program: Sequence[Instruction]) -> set[int]:
    """The registers that a micro-program reads and has not written before: those hold what was left in them."""
    written, carried = set[int](), set[int]()
    for uop in program:
        for source, index in ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index)):
            if source == Source.REGISTER and index not in written:
                carried.add(index)
        if not uop.to_memory:
            written.add(uop.destination)
    return carried


class LaneStores:
    """Finds the lanes that a GO stores. `program` are its micro-operations, `beat_lanes` the lanes of each that have
    a beat, `stores_per_slot` its accesses of the store stream."""

    def __init__(
        self,
        go: Instruction,
        program: Sequence[Instruction],
        beat_lanes: Sequence[int],
        stream: Stream,
        stores_per_slot: int,
        columns: int,
    ):
        self._go, self._program, self._stream = go, program, stream
        self._beat_lanes, self._columns = beat_lanes, columns
        self._per_slot = stores_per_slot
        self._carried = carried_registers(program)

    def of_slots(self, first: int, batches: int, slots: int) -> np.ndarray:
        """Lanes that count [batches, slots], from batch number `first` on."""
        start = first * self._go.slots
        return self._of_vectors[start : start + batches * slots].reshape(batches, slots)

    @functools.cached_property
    def _of_vectors(self) -> np.ndarray:
        """Lanes that count, of every vector: all, where nothing is stored, for another GO may store what stays in the
        registers; and those of all vectors, where one batch goes on with another one's registers."""
        go, per_slot = self._go, self._per_slot
        if not per_slot:
            return np.full(go.vectors, lanes_of(go, self._columns))
        tail = min(go.tail_lanes, max(self._stored_beats()))
        numbers = np.arange(go.vectors * per_slot)
        stored = np.where(self._stream.at_last_turn(numbers), tail, min(go.lanes, self._columns))
        if self._carried:
            return np.full(go.vectors, stored.max())
        whole = go.vectors // go.slots * go.slots * per_slot
        batches = stored[:whole].reshape(-1, per_slot, go.slots).max(axis=1)
        rest = stored[whole:].reshape(per_slot, -1).max(axis=0)
        return np.concatenate([batches.ravel(), rest])

    def follow(self, defined: dict[int, int], slots: dict[int, int] | None = None) -> None:
        """Note in `defined` how many lanes the registers have that the GO leaves, and in `slots` in how many slots;
        Fault where it stores lanes of those before it that are not defined."""
        before, slots = dict(defined), {} if slots is None else slots
        self._check_slots(slots)
        self._follow_lanes(defined)
        own = min(self._go.slots, self._go.vectors)
        for uop in self._program:
            number = uop.destination
            if uop.to_memory or number not in slots:
                continue
            more = defined.get(number, self._columns) > before.get(number, self._columns)
            # The other slots have what was there before, which may be less.
            slots[number] = own if more else max(own, slots[number])

    def _check_slots(self, slots: dict[int, int]) -> None:
        own = min(self._go.slots, self._go.vectors)
        for number in sorted(self._carried):
            there = slots.get(number, own)
            if there < own:
                raise Fault(None, f"reads register {number} of slot {there}, which no micro-op has written")

    def _follow_lanes(self, defined: dict[int, int]) -> None:
        columns, needed = self._columns, self._of_vectors
        left = min((defined.get(index, columns) for index in self._carried), default=columns)
        if self._per_slot and needed.max() > left:
            raise Fault(None, f"stores {needed.max()} lanes of a register of which only {left} are defined")
        fewest = min(int(needed.min()), left)
        for uop, beats in zip(self._program, self._beat_lanes, strict=True):
            if uop.to_memory:
                continue
            if fewest < lanes_of(self._go, columns):
                defined[uop.destination] = fewest
            elif beats == columns:
                defined.pop(uop.destination, None)
            elif defined.get(uop.destination, columns) <= beats:
                defined[uop.destination] = beats

    def _stored_beats(self) -> list[int]:
        pairs = zip(self._program, self._beat_lanes, strict=True)
        return [beats for uop, beats in pairs if uop.to_memory]
