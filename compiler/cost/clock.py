"""Cycles of units that work side by side, each in its own order, as the semaphores let them.

One clock for two questions: which of several layers' pieces comes next (`emit/weave.py`), and how long a program takes
(`schedule/prediction.py`)."""

import collections
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

from tosaic.compiler.machine_numbers import (
    ARRAY_DRAIN_CYCLES,
    ARRAY_START_CYCLES,
    BRANCH_CYCLES,
    LOAD_TOKEN_CYCLES,
    PROGRAM_START_CYCLES,
    STORE_TOKEN_CYCLES,
    TOKEN_CYCLES,
    VECTOR_START_CYCLES,
    VECTOR_TOKEN_CYCLES,
    WOVEN_WAIT_CYCLES,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.constants import OUTSTANDING_BEATS, VECTOR_END_CYCLES, VECTOR_NEXT_EARLY_CYCLES
from tosaic.hw.isa import INSTRUCTION_BYTES, Unit

_TURN_CYCLES = VECTOR_START_CYCLES + VECTOR_END_CYCLES - 1 - VECTOR_NEXT_EARLY_CYCLES
"""Cycles of a GO of VECTOR beside its vectors."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tiles:
    """Equal tiles of the array, one after the other."""

    count: int
    slots: int
    """Those of a tile up to its first vector."""
    vectors: int = 0
    delay: int = 0
    """Slots of later work in which the first vector leaves."""
    spacing: int = 1
    """Slots from vector to vector."""
    alone: bool = False
    """The next tile begins behind the last vector, not behind the first one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Batches of a GO of VECTOR, each of which takes `vectors` of the array, each of these in `beats` cycles, and goes
    on for `more` cycles."""

    count: int
    vectors: int
    beats: int
    more: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPass:
    """A unit's way through activation memory, while it works."""

    start: int
    end: int
    """Where its last access is."""
    share: float
    """The slots of the array that read, or the cycles of VECTOR, which goes first, for a vector."""
    cycles: int = 0
    """Cycles of VECTOR in which it does, in all."""

    def bank(self, done: float, bank_bytes: int) -> int:
        """The bank that it uses when a part `done` of it is over."""
        return int(self.start + done * (self.end - self.start)) // bank_bytes

    def middle_bank(self, bank_bytes: int) -> int:
        """The bank of the byte in the middle."""
        return (self.start + self.end) // 2 // bank_bytes


@dataclasses.dataclass(slots=True, eq=False)
class UnitWork:
    """A piece of a unit's work."""

    unit: Unit
    cycles: float = 0
    """Cycles of the unit alone."""
    commands: int = 0
    """Instructions that bring it, those that configure the unit as well."""
    lead: int = 0
    """Cycles of VECTOR for parameters, table and offsets."""
    setup: int = 0
    """Cycles of the commands that configure VECTOR."""
    tiles: Sequence[Tiles] = ()
    """The array's."""
    batches: Sequence[Batch] = ()
    """Those that take vectors of the array."""
    passes: Sequence["MemoryPass"] = ()
    """Through which bytes of the activation memory it goes; where it reads, of VECTOR."""
    writes: Sequence["MemoryPass"] = ()
    """Where VECTOR writes."""
    after: Sequence["UnitWork"] = ()
    """What must be complete first."""
    behind: "UnitWork | None" = None
    """The load that brings the last word of the weights that it waits for."""
    end: float | None = None
    """Cycle in which those who wait for it know that it is complete; None until it has a place in the order."""


@dataclasses.dataclass(slots=True)
class _Held:
    """Cycles in which VECTOR holds up another unit in banks of the activation memory."""

    begin: float
    end: float
    banks: dict[int, float]
    """In which share of these cycles."""


@dataclasses.dataclass(slots=True)
class _Moving:
    """A load or store under way."""

    piece: UnitWork
    begin: float
    end: float


@dataclasses.dataclass(slots=True)
class _ArrayWalk:
    """A GO of the array whose vectors VECTOR has yet to take."""

    piece: UnitWork
    begin: float
    run: int = 0
    """Number in `piece.tiles`."""
    tile: int = 0
    """Number in the run."""
    done: int = 0
    """Tiles in all."""
    left: int = 0
    """Vectors of the tile that no batch has taken."""
    there: float = 0
    """Cycle in which the first of them is there."""
    spacing: float = 1


class UnitClock:
    """Units that take their pieces in order, side by side."""

    def __init__(self, config: Config, speed: MemorySpeed):
        self._latency, self._depth = speed.latency_cycles, config.queue_commands
        self._bank_bytes = config.am_bank_bytes
        self._places = max(config.rows, config.drain_vectors)
        self._rate = float(speed.bytes_per_cycle(config))
        self.free: dict[Unit, float] = dict.fromkeys(Unit, 0.0)
        """Cycle in which each unit takes what comes next."""
        self._begun = 0.0
        """Cycle in which the array's last GO began."""
        self._bus = 0.0
        """Cycle in which all that LOAD has asked for is there."""
        self._dispatched = float(speed.latency_cycles + PROGRAM_START_CYCLES)
        """Cycle in which the last instruction so far is given to its unit."""
        self._last = self._dispatched
        self._queues: dict[Unit, collections.deque[tuple[int, float]]] = {
            unit: collections.deque() for unit in Unit
        }
        """Commands up to each piece of a unit, and when it took it."""
        self._commands: dict[Unit, int] = dict.fromkeys(Unit, 0)
        self._walks: list[_ArrayWalk] = []
        self._held: dict[Unit, list[_Held]] = {Unit.LOAD: [], Unit.STORE: []}
        self._moving: dict[Unit, list[_Moving]] = {Unit.LOAD: [], Unit.STORE: []}
        self._taken: collections.deque[tuple[int, float, float]] = collections.deque(
            [(self._places, 0.0, 0.0)]
        )
        """Vectors that VECTOR has taken of the array, those of the last places: how many, and when the first and the
        last of them."""

    @property
    def end_cycle(self) -> float:
        """The cycle in which all units are done with what they have."""
        return self._last

    def copy(self) -> "UnitClock":
        """A clock that goes on by itself."""
        other = object.__new__(UnitClock)
        other.__dict__.update(self.__dict__)
        other.free, other._commands = dict(self.free), dict(self._commands)
        other._queues = {unit: queue.copy() for unit, queue in self._queues.items()}
        other._walks = [dataclasses.replace(walk) for walk in self._walks]
        other._taken = self._taken.copy()
        other._held = {unit: list(held) for unit, held in self._held.items()}
        other._moving = {unit: [] for unit in self._moving}
        return other

    def take(self, pieces: Sequence[UnitWork]) -> None:
        """Lets the pieces come next."""
        for piece in pieces:
            begin = self._begin(piece)
            match piece.unit:
                case Unit.ARRAY:
                    self._array(piece, begin)
                case Unit.VECTOR:
                    self._vector(piece, begin)
                case Unit.LOAD:
                    self._load(piece, begin)
                case Unit.STORE:
                    self._store(piece, begin)
            assert piece.end is not None
            self._last = max(self._last, piece.end)

    def stall_cycles(self, pieces: Sequence[UnitWork]) -> float:
        """Cycles that VECTOR would wait if these came next, or for which they would hold up what comes behind them;
        none where they are few."""
        trial = self.copy()
        trial.take(pieces)
        for piece in pieces:
            piece.end = None
        own = [piece.lead + piece.cycles + _TURN_CYCLES for piece in pieces if piece.unit is Unit.VECTOR]
        last = trial.free[Unit.VECTOR] if own else max(trial.free[piece.unit] for piece in pieces)
        stall = last - self.free[Unit.VECTOR] - sum(own)
        return stall if stall > WOVEN_WAIT_CYCLES else 0.0

    def _begin(self, piece: UnitWork) -> float:
        """Cycle in which a unit takes a piece: it is dispatched, and what must come first is complete."""
        unit, queue = piece.unit, self._queues[piece.unit]
        self._commands[unit] += piece.commands
        self._dispatched += piece.commands
        while queue and queue[0][0] <= self._commands[unit] - self._depth:
            self._dispatched = max(self._dispatched, queue.popleft()[1])
        # A GO of the array is set up while the one before it runs.
        free = self._begun if unit is Unit.ARRAY else self.free[unit]
        begin = max(free + piece.setup, self._dispatched + 1)
        for other in piece.after:
            assert other.end is not None
            begin = max(begin, other.end + TOKEN_CYCLES)
        queue.append((self._commands[unit], begin))
        # Instructions come over the bus of the loads.
        self._bus += piece.commands * INSTRUCTION_BYTES / self._rate
        return begin

    def _load(self, piece: UnitWork, begin: float) -> None:
        start = max(self._bus, begin + self._latency)
        self._bus = there = self._moved(piece, start, start + piece.cycles)
        self.free[Unit.LOAD] = max(begin, there - OUTSTANDING_BEATS - self._latency)
        piece.end = there + LOAD_TOKEN_CYCLES

    def _store(self, piece: UnitWork, begin: float) -> None:
        self.free[Unit.STORE] = sent = self._moved(piece, begin, begin + piece.cycles)
        piece.end = sent + self._latency + STORE_TOKEN_CYCLES

    def _moved(self, piece: UnitWork, start: float, end: float) -> float:
        """When a load or store is over that would move its bytes from `start` to `end`, but for VECTOR."""
        held = self._held[piece.unit] = [each for each in self._held[piece.unit] if each.end > start]
        for each in held:
            end += self._lost(piece, start, end, each)
        self._moving[piece.unit].append(_Moving(piece, start, end))
        return end

    def _lost(self, piece: UnitWork, start: float, end: float, held: _Held) -> float:
        """Cycles that a load or store loses."""
        both = min(end, held.end) - max(start, held.begin)
        return (
            both * sum(held.banks.get(each.middle_bank(self._bank_bytes), 0) for each in piece.passes)
            if both > 0
            else 0
        )

    def _hold_up(self, piece: UnitWork, begin: float, end: float) -> None:
        """VECTOR works from `begin` to `end`: LOAD and STORE wait where they use the same banks."""
        for unit, passes in ((Unit.LOAD, piece.writes), (Unit.STORE, piece.passes)):
            held = _Held(begin, end, {})
            for each in passes:
                bank, share = each.middle_bank(self._bank_bytes), each.cycles / max(1, end - begin)
                held.banks[bank] = held.banks.get(bank, 0) + share
            if not held.banks:
                continue
            late = 0.0
            self._moving[unit] = moving = [other for other in self._moving[unit] if other.end > begin]
            for other in moving:
                late += self._lost(other.piece, other.begin, other.end, held)
                other.end += late
                assert other.piece.end is not None
                other.piece.end += late
            if unit is Unit.LOAD:
                self._bus += late
            self.free[unit] += late
            self._held[unit].append(held)

    def _array(self, piece: UnitWork, begin: float) -> None:
        clock = max(self.free[Unit.ARRAY], begin + ARRAY_START_CYCLES)
        walk, self._begun = _ArrayWalk(piece, clock), clock
        self.free[Unit.ARRAY] = piece.end = clock + piece.cycles
        self._walks.append(walk)
        if not any(run.vectors for run in piece.tiles):
            self._walks.pop()
            self._streamed(walk)

    def _streamed(self, walk: _ArrayWalk) -> None:
        """A GO that takes its weights as they come ends with the load that brings the last of them."""
        piece = walk.piece
        if piece.behind is not None and piece.behind.end is not None:
            self.free[Unit.ARRAY] = piece.end = max(self.free[Unit.ARRAY], piece.behind.end)

    def _vector(self, piece: UnitWork, begin: float) -> None:
        if not piece.cycles:
            # A command by itself.
            self.free[Unit.VECTOR] = piece.end = begin + 1
            return
        clock = begin + piece.lead + VECTOR_START_CYCLES
        if not piece.batches:
            clock += piece.cycles
        done, step = 0.0, 1 / max(1, sum(batch.count for batch in piece.batches))
        for batch in piece.batches:
            for _ in range(batch.count):
                used: dict[int, float] = {}
                for each in piece.passes:
                    bank = each.bank(done, self._bank_bytes)
                    used[bank] = used.get(bank, 0) + each.share
                clock, done = self._batch(batch, clock, used), done + step
        self.free[Unit.VECTOR] = clock + _TURN_CYCLES - VECTOR_START_CYCLES
        self._hold_up(piece, begin, clock)
        piece.end = clock + VECTOR_TOKEN_CYCLES

    def _batch(self, batch: Batch, clock: float, used: dict[int, float]) -> float:
        """The cycle in which a batch is through that begins with vectors of the array in `clock`. `used`: cycles
        of a vector, by bank of the activation memory."""
        left, beats = batch.vectors, batch.beats
        while left:
            if not self._walks:
                return clock + left * beats + batch.more
            walk = self._walks[0]
            if not walk.left:
                self._next_tile(walk, used)
                if not walk.left:
                    self._walks.pop(0)
                    continue
            count = min(left, walk.left)
            first = max(clock, walk.there)
            last = max(first + (count - 1) * beats, walk.there + (count - 1) * walk.spacing)
            self._taken.append((count, first, last))
            walk.left -= count
            walk.there += count * walk.spacing
            clock, left = last + beats, left - count
        return clock + batch.more

    def _next_tile(self, walk: _ArrayWalk, used: dict[int, float]) -> None:
        """Lets the array compute the next tile of a GO, if it has one: its vectors leave where there is room."""
        piece = walk.piece
        while walk.run < len(piece.tiles) and walk.tile == piece.tiles[walk.run].count:
            walk.run, walk.tile = walk.run + 1, 0
        if walk.run == len(piece.tiles):
            self._end(walk)
            return
        run = piece.tiles[walk.run]
        walk.tile += 1
        walk.done += 1
        done = walk.done / max(1, sum(run.count for run in piece.tiles))
        held = sum(each.share * used.get(each.bank(done, self._bank_bytes), 0) for each in piece.passes)
        walk.begin += run.slots + min(run.slots, held * run.vectors)
        if not run.vectors:
            return self._next_tile(walk, used)
        first = walk.begin - 1 + run.delay
        last = first + (run.vectors - 1) * run.spacing
        early, late = self._room(run.vectors)
        waited = max(0, early + 1 - first, late + 1 - last)
        walk.left, walk.there = run.vectors, max(first, early + 1) + ARRAY_DRAIN_CYCLES
        walk.spacing = (last + waited + ARRAY_DRAIN_CYCLES - walk.there) / max(1, run.vectors - 1)
        walk.begin += waited + (last - first if run.alone else 0)
        if walk.run + 1 == len(piece.tiles) and walk.tile == run.count:
            self._end(walk)
        return None

    def _end(self, walk: _ArrayWalk) -> None:
        """The array has computed a GO; those behind it have yet to begin."""
        self.free[Unit.ARRAY] = walk.piece.end = walk.begin
        self._streamed(walk)
        for other in self._walks[1:]:
            other.begin = max(other.begin, walk.begin)
            self.free[Unit.ARRAY] = max(self.free[Unit.ARRAY], other.begin + other.piece.cycles)

    def _room(self, vectors: int) -> tuple[float, float]:
        """Cycles in which the places of the first and the last of the next `vectors` become free."""
        taken, places = self._taken, self._places
        # Those of the places before the next vector, the oldest first.
        total = sum(count for count, _, _ in taken)
        while total - taken[0][0] >= places:
            total -= taken.popleft()[0]
        return self._at(total - places), self._at(total - places + min(vectors, places) - 1)

    def _at(self, number: int) -> float:
        for count, first, last in self._taken:
            if number < count:
                return first + (last - first) * number / max(1, count - 1)
            number -= count
        return 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class BlockWork:
    """Work without a branch, all units idle at its start."""

    pieces: Sequence[UnitWork]
    branches: bool
    """A branch follows."""


def program_cycles(blocks: Iterable[BlockWork], config: Config, speed: MemorySpeed) -> int:
    """Cycles of blocks, each run once."""
    total = 0.0
    for block in blocks:
        clock = UnitClock(config, speed)
        clock.take(block.pieces)
        total += clock.end_cycle + BRANCH_CYCLES * block.branches
    return round(total)


@functools.lru_cache(1 << 14)
def dependent_batch_cycles(uops: tuple[tuple[int, bool], ...], slots: int, latency: int) -> int:
    """Cycles of micro-operations, each of (cycles for a vector, whether it reads what the one before has computed), on
    a batch of `slots` vectors: a slot waits until its own result of the one before is there."""
    end, ready = 0, -math.inf
    for beats, reads in uops:
        begin = max(end, ready + latency) if reads else end
        last = max(begin + slots * beats, end - 1 + latency + beats if reads and end else 0)
        end, ready = int(last), begin + beats - 1
    return end
