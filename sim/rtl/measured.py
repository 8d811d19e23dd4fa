"""When each unit of the RTL worked on what: the work that the emulator knows of, with the cycles that the probe saw."""

from collections.abc import Sequence

import numpy as np

from tosaic.hw.csr_map import EVENT_COUNTERS
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, Unit

from ..program import decode_program
from ..result import Slice, UnitActivity
from .library import Harness

_MOST_CYCLES = 100_000_000
"""A run of more is not recorded: a byte for each cycle is kept."""
_EVENTS = {
    "load": ("load_beats",),
    "decode": ("decode_active",),
    "array": ("array_active",),
    "array stalls": ("array_stall_am", "array_stall_vector", "array_stall_weights"),
    "vector": ("vector_active",),
    "vector stalls": ("vector_stall_am", "vector_stall_array"),
    "store": ("store_beats",),
}
"""What is kept of a cycle, a bit each."""
_BIT = {kind: 1 << bit for bit, kind in enumerate(_EVENTS)}
_MASK = {kind: sum(1 << EVENT_COUNTERS.index(event) for event in events) for kind, events in _EVENTS.items()}
_TRANSFERS = (Opcode.LOAD_GO, Opcode.LOAD_DECODE, Opcode.STORE_GO)
_WAITS = (Opcode.LOAD_WAIT, Opcode.STORE_WAIT)
_UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
"""The units in the order of the probe."""
_SEEN_LATE_CYCLES = 1
"""Cycles from a unit's taking a GO to its place in the record."""


class ActivityRecorder:
    """Takes down what the cores of a harness do, whose programs these are, until `end`."""

    def __init__(self, harness: Harness, codes: Sequence[bytes], cores: int):
        self._harness, self._codes = harness, [*codes, *[b""] * (cores - len(codes))]
        self._work: list[list[np.ndarray]] = [[] for _ in self._codes]
        self._steps: list[list[np.ndarray]] = [[] for _ in self._codes]
        self._cycles = 0
        harness.begin_record()

    def take(self) -> None:
        """Takes over what the harness has recorded since the last time."""
        before = self._cycles
        for core in range(len(self._codes) if before <= _MOST_CYCLES else 0):
            recorded = self._harness.recorded(core)
            work = np.zeros(len(recorded.events), np.uint8)
            for kind, bit in _BIT.items():
                work[(recorded.events & _MASK[kind]) != 0] |= bit
            self._work[core].append(work)
            self._steps[core].append(recorded.steps + np.array([before, 0, 0], np.uint32))
            self._cycles = before + len(work)
        self._harness.begin_record()

    def end(self) -> tuple[UnitActivity, ...]:
        """What each core did; nothing where the run was too long."""
        self.take()
        if self._cycles > _MOST_CYCLES:
            return ()
        return tuple(
            UnitActivity(np.concatenate(work), np.concatenate(steps), code)
            for work, steps, code in zip(self._work, self._steps, self._codes, strict=True)
        )


def _taken(activity: UnitActivity, unit: Unit) -> list[int]:
    """Cycles in which the unit took its transfers, as far as they were seen."""
    opcodes = [instruction.opcode for instruction in decode_program(activity.code)]
    seen = last_taken = -1
    cycles = []
    for cycle, place in activity.steps[activity.steps[:, 1] == _UNITS.index(unit)][:, [0, 2]].tolist():
        # Each record begins with the places where the units are.
        if place == seen:
            continue
        seen = place
        index = place // INSTRUCTION_BYTES
        opcode = opcodes[index] if index < len(opcodes) else None
        # While a WAIT waits its place is seen, and then that of the instruction taken before it once more.
        if opcode in _WAITS or place == last_taken:
            continue
        last_taken = place
        if opcode in _TRANSFERS:
            cycles.append(cycle - _SEEN_LATE_CYCLES)
    return cycles


def measured_slices(predicted: Sequence[Slice], activities: Sequence[UnitActivity]) -> list[Slice]:
    """The predicted GOs of each unit with the cycles in which the RTL worked on them; nothing where the work that was
    seen is not theirs.

    A GO of ARRAY or VECTOR reaches from its first slot, issued or held up, to the one behind its last; one of LOAD or
    STORE from its taking by the unit (its first beat, where that was not seen) to the cycle behind its last beat."""
    found: list[Slice] = []
    for core, activity in enumerate(activities):
        of_core = [piece for piece in predicted if piece.core == core]
        of_unit = {unit: [piece for piece in of_core if piece.unit == unit.name] for unit in _UNITS}
        pieces = [
            _slots(of_unit[Unit.ARRAY], activity, "array"),
            _slots(of_unit[Unit.VECTOR], activity, "vector"),
            _transfers(of_unit[Unit.LOAD], activity, Unit.LOAD),
            _transfers(of_unit[Unit.STORE], activity, Unit.STORE),
        ]
        for of in pieces:
            if of is None:
                return []
            found += of
    return found


def _shares(work: np.ndarray, pieces: Sequence[Slice]) -> np.ndarray | None:
    """Of each piece the cycles of its first and of its last work, where `work` are the cycles of all; None where
    they are more or fewer."""
    ends = np.cumsum([piece.work for piece in pieces], dtype=np.int64)
    if len(work) != (ends[-1] if len(ends) else 0) or any(piece.work < 1 for piece in pieces):
        return None
    firsts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if len(ends) else ends
    return np.stack([work[firsts], work[ends - 1]], axis=1)


def _slots(pieces: Sequence[Slice], activity: UnitActivity, kind: str) -> list[Slice] | None:
    shares = _shares(np.flatnonzero(activity.work & _BIT[kind]), pieces)
    if shares is None:
        return None
    held = np.flatnonzero(activity.work & (_BIT[kind] | _BIT[f"{kind} stalls"]))
    behind, found = 0, []
    for piece, (first, last) in zip(pieces, shares.tolist(), strict=True):
        at = np.searchsorted(held, behind)
        start = min(first, int(held[at]))
        behind = last + 1
        found.append(piece._replace(start=start, end=behind, measured=True))
    return found


def _transfers(pieces: Sequence[Slice], activity: UnitActivity, unit: Unit) -> list[Slice] | None:
    shares = _shares(np.flatnonzero(activity.work & _BIT[unit.name.lower()]), pieces)
    if shares is None:
        return None
    taken = _taken(activity, unit)
    starts = taken if len(taken) == len(pieces) else shares[:, 0].tolist()
    found = [
        piece._replace(start=min(start, first), end=last + 1, measured=True)
        for piece, start, (first, last) in zip(pieces, starts, shares.tolist(), strict=True)
    ]
    return _decoded(found, np.flatnonzero(activity.work & _BIT["decode"]), pieces)


def _decoded(found: list[Slice], work: np.ndarray, predicted: Sequence[Slice]) -> list[Slice] | None:
    """The slices of LOAD with those of blocks that are decoded in the cycles in which the decoder works."""
    blocks = [number for number, piece in enumerate(found) if piece.name == "decode"]
    if not blocks:
        return found
    if not len(work):
        return None
    ends = np.cumsum([predicted[number].end - predicted[number].start for number in blocks])
    runs = np.flatnonzero(np.diff(work) > 1) + 1
    if len(runs) == len(blocks) - 1:
        cuts = np.concatenate([runs, [len(work)]])
    else:  # Blocks that follow each other: by their predicted cycles.
        cuts = np.maximum(ends * len(work) // ends[-1], 1)
    for number, first, cut in zip(blocks, [0, *cuts[:-1].tolist()], cuts.tolist(), strict=True):
        found[number] = found[number]._replace(start=int(work[first]), end=int(work[cut - 1]) + 1)
    return found
