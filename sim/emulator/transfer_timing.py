"""Timing of LOAD and STORE: bursts are issued ahead of their data; SIGNALs pass beside the data."""

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable

from tosaic.hw.constants import BURST_BEATS, DECODE_BUFFER_BEATS, OUTSTANDING_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.isa import Instruction, Opcode, Space, Unit

from ..result import Slice
from .events import Event, Process
from .timing_parts import (
    ADDRESS_CYCLES,
    DECODE_END_CYCLES,
    DECODE_NEXT_CYCLES,
    DECODE_START_CYCLES,
    LOAD_END_CYCLES,
    STORE_END_CYCLES,
    STORE_READ_CYCLES,
    AccessesBefore,
    BurstBeats,
    CoreFabric,
    TimedQueue,
    bursts,
)
from .transfer import UnpackedRow

_READ_AHEAD_CYCLES = 2
_ISSUE_CYCLES = 2
"""Cycles from a GO or SIGNAL at the head of the queue to its first burst's issue, or to the token at the earliest."""
_KEPT_BEATS = 1
"""Beats that wait for LOAD on the bus and behind it, and do not hold up those after them."""
_RETIRE_CYCLES = 2
"""Cycles from a beat on the bus to room for another one."""
_UNPACK_CYCLES = 2
"""Cycles from the last unpacked word of a packed row to its write."""


def _slice(unit: str, command: Instruction, rows: list[list[BurstBeats]], start: int, end: int) -> Slice:
    name = "weights" if command.fields.get("space") == Space.WM else "tensor"
    beats = sum(burst.beats for row in rows for burst in row)
    return Slice(unit, name, start, end, command.row_bytes * command.rows, work=beats)


def _bursts(fabric: CoreFabric, command: Instruction, pitch: int) -> list[list[BurstBeats]]:
    """Every burst of every row."""
    addresses = (command.memory_address + row * pitch for row in range(command.rows))
    return [bursts(fabric.config, address, command.row_bytes) for address in addresses]


@dataclasses.dataclass
class _Burst:
    """A burst of LOAD that is issued and not yet written."""

    beats: int
    issued: int
    first: int
    """Cycle of the first beat, as far as known."""
    end: int
    """The one after the last."""


@dataclasses.dataclass
class _Unpacking:
    """A packed row on its way: every beat takes the same share of the row's cycles."""

    row: UnpackedRow
    beats: int
    taken: int = 0
    """Beats so far."""

    def take(self, burst: _Burst) -> tuple[int, int]:
        """Cycle in which the burst is through, and the words of weights that it makes."""
        before, self.taken = self.taken, self.taken + burst.beats
        words, cycles = (
            count * self.taken // self.beats - count * before // self.beats
            for count in (self.row.words, self.row.cycles)
        )
        end = max(burst.end, burst.first + cycles)
        return end + (_UNPACK_CYCLES if self.taken == self.beats else 0), words


class LoadTiming:
    """LOAD: one process issues bursts ahead, one retires their beats in order. `decode_cycles`: of each LOAD_DECODE."""

    def __init__(
        self,
        fabric: CoreFabric,
        queue: TimedQueue,
        writes: AccessesBefore,
        decode_cycles: Iterable[int] = (),
        unpacked_rows: Iterable[UnpackedRow] = (),
    ):
        self._decode_cycles, self._unpacked_rows = iter(decode_cycles), iter(unpacked_rows)
        self._decode_start = self._decode_end = 0
        """Cycles in which the last LOAD_DECODE starts and ends."""
        self._block_beats: collections.deque[tuple[float, int]] = collections.deque()
        """Beats for the decoder, and when it has taken them."""
        self._block_beats_waiting = 0
        self._fabric, self._queue, self._writes = fabric, queue, writes
        self._job: tuple[int, Instruction, int] | None = None
        """(cycle in which it was taken, a GO or SIGNAL, memory pitch) whose last row has not begun."""
        self._pending: collections.deque[Process | Callable[[int], None]] = collections.deque()
        """Bursts to retire, and between them what waits for those before it, called with the cycle of the last beat."""
        self._changed = Event(fabric.timeline)
        self._settled = Event(fabric.timeline)
        """Everything before a LOAD_CHECK is complete."""
        self._left = Event(fabric.timeline)
        """A burst is no longer under way."""
        self._under_way: collections.deque[_Burst] = collections.deque()
        self._beats_under_way = 0
        self._clock = 0
        """Cycle after the last beat retired."""

    def commands(self) -> Process:
        """The process of the commands: GOs and SIGNALs go on as jobs."""
        fabric, timeline, pitch = self._fabric, self._fabric.timeline, 0
        while True:
            command = yield from self._queue.head()
            match command.opcode:
                case Opcode.LOAD_PITCH:
                    pitch = command.memory_pitch
                    fabric.done()
                case Opcode.LOAD_WAIT:
                    yield from fabric.wait(command)
                    fabric.done()
                case Opcode.LOAD_TENSOR | Opcode.LOAD_STREAMS:
                    fabric.done()
                case _:
                    while self._job:
                        yield self._changed
                    self._job = (timeline.now, command, pitch)
                    self._changed.notify()
                    if command.opcode == Opcode.LOAD_CHECK:
                        yield self._settled
                        fabric.done()
            self._queue.pop()
            yield timeline.now + 1

    def split(self) -> Process:
        """The process of the jobs: their bursts, one per cycle, as long as there is room for what will come back."""
        timeline = self._fabric.timeline
        while True:
            while not self._job:
                yield self._changed
            taken_at, command, pitch = self._job
            yield max(taken_at + 1, timeline.now)
            if command.opcode == Opcode.LOAD_DECODE:
                yield from self._decode(command)
            elif command.opcode == Opcode.LOAD_CHECK:
                self._job_taken()
                self._then(self._settle)
            elif command.opcode == Opcode.LOAD_SIGNAL:
                self._job_taken()
                yield timeline.now + 1
                self._then(functools.partial(self._signal, command, timeline.now))
            else:
                # Nothing is requested while a block is decoded that is not for the decoder.
                yield max(self._decode_end, timeline.now)
                local = command.local_address
                rows = _bursts(self._fabric, command, pitch)
                # In the order of the queue; its end is known later.
                place = len(self._fabric.slices)
                self._fabric.slices.append(_slice("LOAD", command, rows, taken_at, taken_at))
                for row, row_bursts in enumerate(rows, 1):
                    if row == len(rows):
                        self._job_taken()
                    unpacking = (
                        _Unpacking(next(self._unpacked_rows), sum(burst.beats for burst in row_bursts))
                        if command.packed
                        else None
                    )
                    for burst in row_bursts:
                        yield timeline.now + 1
                        yield from self._issue(command, burst, local, unpacking)
                        local += burst.beats * self._fabric.config.word_bytes
                self._then(functools.partial(self._complete, place, taken_at))

    def _job_taken(self) -> None:
        self._job = None
        self._changed.notify()

    def retire(self) -> Process:
        """The process of the data."""
        while True:
            while not self._pending:
                yield self._changed
            item = self._pending.popleft()
            if callable(item):
                item(self._clock + LOAD_END_CYCLES)
            else:
                yield from item

    def _then(self, action: Callable[[int], None]) -> None:
        self._pending.append(action)
        self._changed.notify()

    def _issue(
        self, command: Instruction, asked: BurstBeats, local: int, unpacking: "_Unpacking | None" = None
    ) -> Process:
        """Returns the burst; from here on the process of the data has it."""
        yield from self._room()
        self._fabric.counters["load_beats"] += asked.beats
        times = self._fabric.reads.transfer(asked, ADDRESS_CYCLES)
        burst = _Burst(asked.beats, self._fabric.timeline.now, *times)
        self._under_way.append(burst)
        self._beats_under_way += asked.beats
        self._pending.append(self._take(command, burst, local, unpacking))
        self._changed.notify()
        return burst

    def _room(self) -> Process:
        """Waits until another burst may be issued: few beats and few bursts are under way."""
        timeline = self._fabric.timeline
        while True:
            full = len(self._under_way) == OUTSTANDING_BURSTS
            beats = self._beats_under_way - (OUTSTANDING_BEATS - BURST_BEATS)
            if not full and beats <= 0:
                return
            oldest = self._under_way[0]
            if full or beats >= oldest.beats:
                yield self._left
                continue
            part_there = (
                oldest.first + -(-(oldest.end - oldest.first) * beats // oldest.beats) + _RETIRE_CYCLES
            )
            if part_there <= timeline.now:
                return
            yield part_there

    def _decode(self, go: Instruction) -> Process:
        """The weights go to their places as they are decoded, long after their beats came."""
        fabric, timeline = self._fabric, self._fabric.timeline
        # The decoder holds one block that waits.
        yield max(self._decode_start, timeline.now)
        self._job_taken()
        cycles, total, requested = next(self._decode_cycles), go.row_bytes // fabric.config.word_bytes, 0
        start = bus_end = 0
        for asked in bursts(fabric.config, go.memory_address, go.row_bytes):
            yield timeline.now + 1
            while self._block_beats_waiting > DECODE_BUFFER_BEATS - BURST_BEATS:
                taken_at, count = self._block_beats.popleft()
                yield max(math.ceil(taken_at), timeline.now)
                self._block_beats_waiting -= count
            burst = yield from self._issue(go, asked, 0)
            bus_end = burst.end
            if not requested:
                start = max(burst.first + DECODE_START_CYCLES, self._decode_end + DECODE_NEXT_CYCLES)
            requested += burst.beats
            self._block_beats.append((start + cycles * requested / total, burst.beats))
            self._block_beats_waiting += burst.beats
        # A slow bus may bring the last beat after the decoder could have been through.
        end = max(start + cycles, bus_end + DECODE_START_CYCLES + cycles // total)
        self._decode_start, self._decode_end = start, end
        fabric.counters["decode_active"] += end - start
        fabric.was_busy(Unit.LOAD, timeline.now, end)
        fabric.slices.append(Slice("LOAD", "decode", start, end, go.row_bytes, work=requested))
        self._then(functools.partial(self._decoded, end + DECODE_END_CYCLES))

    def _decoded(self, end: int, _: int) -> None:
        # What comes behind it is complete no earlier.
        self._clock = max(self._clock, end - LOAD_END_CYCLES)
        self._fabric.at(end, self._fabric.done)

    def _take(
        self, command: Instruction, burst: _Burst, local: int, unpacking: "_Unpacking | None"
    ) -> Process:
        """Takes a burst from the bus; writes of VECTOR to the same bank go first."""
        fabric, timeline = self._fabric, self._fabric.timeline
        bus_cycles = burst.end - burst.first
        start = max(burst.first, self._clock)
        idle_cycles = start - max(self._clock, burst.issued + 1) + bus_cycles - burst.beats
        fabric.counters["load_stall_bus"] += max(idle_cycles, 0)
        burst.first, burst.end = start, start + bus_cycles
        if command.opcode == Opcode.LOAD_GO and command.space == Space.AM:
            bank, checked, refused, lost = self._writes.bank(local), start, 0.0, 0.0
            # A bus that brings less than a beat per cycle makes good what fits into the buffers on the way.
            kept = _KEPT_BEATS * fabric.reads.beat_cycles if fabric.reads.beat_cycles > 1 else 0.0
            while checked < burst.end:
                # What the vector unit writes until then is only known then.
                yield max(burst.end - 1, timeline.now)
                pieces = self._writes.pieces(checked, burst.end, bank)
                refused += sum(pieces)
                lost += sum(max(piece - kept, 0) for piece in pieces)
                checked = burst.end
                burst.end = max(burst.end, start + round(max(bus_cycles + lost, burst.beats + refused)))
            fabric.counters["load_stall_am"] += round(refused)
            fabric.reads.held_until(burst.end)
        elif unpacking is not None:
            burst.end, words = unpacking.take(burst)
            fabric.reads.held_until(burst.end)
            if command.streamed:
                fabric.streamed.put(words, burst.end)
        elif command.fields.get("streamed"):
            fabric.streamed.put(burst.beats, burst.end)
        self._clock = burst.end
        fabric.at(burst.end - 1 + _RETIRE_CYCLES, self._leave)

    def _leave(self) -> None:
        self._beats_under_way -= self._under_way.popleft().beats
        self._left.notify()

    def _signal(self, command: Instruction, earliest: int, complete_at: int) -> None:
        self._fabric.was_busy(Unit.LOAD, earliest, max(complete_at, earliest))
        self._fabric.at(max(complete_at, earliest), functools.partial(self._fabric.signal, command))
        self._fabric.at(max(complete_at, earliest), self._fabric.done)

    def _settle(self, complete_at: int) -> None:
        self._fabric.at(max(complete_at, self._fabric.timeline.now), self._settled.notify)

    def _complete(self, place: int, started: int, complete_at: int) -> None:
        self._fabric.slices[place] = self._fabric.slices[place]._replace(end=complete_at)
        self._fabric.was_busy(Unit.LOAD, started + 1, complete_at)
        self._fabric.at(complete_at, self._fabric.done)


class StoreTiming:
    """STORE."""

    def __init__(self, fabric: CoreFabric, queue: TimedQueue, reads: AccessesBefore):
        self._fabric, self._queue, self._reads = fabric, queue, reads
        self._complete_at = 0
        self._answers: collections.deque[int] = collections.deque()
        """Cycles from which on each burst under way is no longer, the oldest first."""
        self._read_clock = 0
        """Cycle after the last beat read, the first one of a burst being read _READ_AHEAD_CYCLES before its issue."""

    def run(self) -> Process:
        """The unit's process."""
        fabric, timeline, pitch = self._fabric, self._fabric.timeline, 0
        while True:
            command = yield from self._queue.head()
            complete_at = timeline.now
            match command.opcode:
                case Opcode.STORE_PITCH:
                    pitch = command.memory_pitch
                case Opcode.STORE_WAIT:
                    yield from fabric.wait(command)
                case Opcode.STORE_SIGNAL:
                    complete_at = max(self._complete_at, timeline.now + _ISSUE_CYCLES)
                    fabric.at(complete_at, functools.partial(fabric.signal, command))
                case _:
                    started = timeline.now
                    yield timeline.now + _ISSUE_CYCLES
                    local = command.local_address
                    rows = _bursts(fabric, command, pitch)
                    for burst in itertools.chain.from_iterable(rows):
                        fabric.counters["store_beats"] += burst.beats
                        yield from self._send(burst, local)
                        local += burst.beats * fabric.config.word_bytes
                    complete_at = self._complete_at
                    fabric.slices.append(_slice("STORE", command, rows, started, complete_at))
                    fabric.was_busy(Unit.STORE, started + 1, complete_at)
            self._queue.pop()
            fabric.at(complete_at, fabric.done)
            yield timeline.now + 1

    def _send(self, burst: BurstBeats, local: int) -> Process:
        fabric, timeline, beats = self._fabric, self._fabric.timeline, burst.beats
        if len(self._answers) == OUTSTANDING_BURSTS:
            yield max(self._answers.popleft(), timeline.now)
        first, end = fabric.writes.transfer(burst, ADDRESS_CYCLES + STORE_READ_CYCLES)
        fabric.counters["store_stall_bus"] += end - first - beats
        checked = start = max(timeline.now - _READ_AHEAD_CYCLES, self._read_clock)
        bank, refused, read_end = self._reads.bank(local), 0, start + beats
        while checked < read_end:
            yield max(read_end - 1, timeline.now)
            refused += self._reads.cycles(checked, read_end, bank)
            checked, read_end = read_end, start + beats + refused
        fabric.counters["store_stall_am"] += refused
        self._read_clock = read_end
        end = max(end, read_end + _READ_AHEAD_CYCLES + ADDRESS_CYCLES + STORE_READ_CYCLES)
        fabric.writes.held_until(end)
        self._complete_at = fabric.writes.through(burst, end) + fabric.write_latency_cycles + STORE_END_CYCLES
        self._answers.append(self._complete_at)
        yield max(end - _ISSUE_CYCLES - ADDRESS_CYCLES - STORE_READ_CYCLES, timeline.now + 1)
