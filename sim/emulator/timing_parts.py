"""What the units' timing models share: pipeline depths of the RTL, queues, semaphores, the bus."""

import collections
import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tosaic.hw.config import Config
from tosaic.hw.constants import BURST_BEATS
from tosaic.hw.isa import Instruction, Unit

from ..bandwidth import THOUSAND, thousandths
from ..result import Slice
from .events import Event, Process, Timeline
from .tokens import receivers

START_CYCLES = 1
"""Cycles from the start to the first room in the program's buffer."""
FETCH_ADDRESS_CYCLES = 4
"""Cycles from room in the program's buffer to a burst's address. It is requested at once, so it comes before LOAD's
requests of the next cycle."""
QUIET_CYCLES = 3
"""Cycles from the one in which all is idle to the decision of a BRANCH."""
FETCH_CYCLES = 1
"""Cycles from the one after a beat of the program to the one before its instruction's dispatch, which takes it from
the buffer."""
QUEUE_CYCLES = 1
"""Cycles from an instruction's dispatch to the head of its unit's empty queue."""
VECTOR_QUEUE_CYCLES = 2
"""The same of VECTOR's, which has one place more: an instruction is decoded on its way to the head."""
GRANT_CYCLES = 1
"""Cycles from a WAIT at the head of its queue, whose tokens are there, to the one in which it gets them."""
SIGNAL_CYCLES = 1
"""Cycles from the one after a SIGNAL fired to the one in which a WAIT sees its tokens."""
FOREIGN_CYCLES = 1
"""The same where another core waits, beyond that."""

SHARED_ADDRESS_CYCLES = 1
"""Cycles from a core's address to that on the port that the cores share."""
SHARED_READ_CYCLES = 2
"""Cycles from a beat on the shared port to its first word for the core."""
SHARED_WRITE_CYCLES = 1
"""Cycles from the one after the last beat of a core's burst to the burst's first beat on the shared port."""

ADDRESS_CYCLES = 2
"""Cycles from a burst's issue to its address on the bus."""
LOAD_END_CYCLES = 3
"""Cycles from a beat on the bus to the token that it stands for."""
DECODE_START_CYCLES = 4
"""Cycles from the first beat of a block on the bus to the decoder's start."""
DECODE_NEXT_CYCLES = 1
"""Cycles from a block's result to the start of the next block, if its words are there."""
DECODE_END_CYCLES = 4
"""Cycles from a block's result to the token that it stands for."""
STREAM_CYCLES = 2
"""Cycles from the one after a beat on the bus to the one after the slot that reads it as a streamed weight."""
STORE_READ_CYCLES = 6
"""Cycles from a burst's address to its first beat."""
STORE_END_CYCLES = 1
"""Cycles from a write's answer to the token that it stands for."""

ARRAY_START_CYCLES = 6
"""Cycles from a GO at the head of an idle array's queue to its first slot's issue."""
ARRAY_DRAIN_CYCLES = 11
"""Cycles from the issue of the slot that delivers a vector to the first cycle in which the vector unit may take
it."""

VECTOR_START_CYCLES = 2
"""Cycles from taking a VECTOR_GO to its first issue."""
TEST_CYCLES = 3
"""Cycles of a VECTOR_TEST, in addition to the one of every command."""
OFFSETS_END_CYCLES = 3
"""Cycles from the last read of a VECTOR_OFFSETS to taking the next command, in addition to those of other reads."""


class Channel:
    """The data channel of one direction of the bus: beats in the order of their requests.

    A memory slower than the bus saves what is not asked of it, up to two beats.
    """

    def __init__(self, timeline: Timeline, beat_bytes: int, bandwidth: int, latency_cycles: int):
        """`bandwidth`: bandwidth.thousandths of a byte, per cycle."""
        self._timeline, self._latency_cycles = timeline, latency_cycles
        self._beat, self._bandwidth = THOUSAND * beat_bytes, bandwidth
        self.beat_cycles = self._beat / bandwidth
        self._free_at = 0
        self.beats = 0
        """Number of beats so far."""
        self._saved = 2 * self._beat
        """Saved before cycle `_free_at`."""

    def transfer(self, burst: "BurstBeats", delay_cycles: int) -> tuple[int, int]:
        """A burst whose address the bus takes `delay_cycles` from now: cycle of its first beat, one after the last."""
        word, bandwidth, beats = self._beat, self._bandwidth, burst.beats
        asked = max(self._timeline.now + delay_cycles + self._latency_cycles, self._free_at)
        self.beats += beats
        saved = min(self._saved + bandwidth * (asked - self._free_at + 1), 2 * word)
        first = asked + max(-(-(word - saved) // bandwidth), 0)
        last = max(first + beats - 1, asked + -(-(beats * word - saved) // bandwidth))
        self._saved = saved + bandwidth * (last - asked) - beats * word
        self._free_at = last + 1
        return first, last + 1

    def through(self, burst: "BurstBeats", end: int) -> int:
        """The cycle after its last beat has passed the memory port, where `end` is that after the unit's last one."""
        return end

    def held_until(self, time: int) -> None:
        """Nothing new comes before `time`: the receiver did not take what was there."""
        if time > self._free_at:
            saved = self._saved + self._bandwidth * (time - self._free_at)
            self._free_at, self._saved = time, min(saved, 2 * self._beat)


class SharedReads:
    """A core's side of the read channel that all cores share: what comes there is kept for the core, which takes a word
    per cycle, and a core that does not take its words holds up no other one."""

    def __init__(self, bus: Channel, bus_words: int):
        self._bus, self._bus_words = bus, bus_words
        self.beat_cycles = max(bus.beat_cycles / bus_words, 1.0)
        self._free_at = 0

    def transfer(self, burst: "BurstBeats", delay_cycles: int) -> tuple[int, int]:
        """Works like Channel.transfer."""
        bus_first, bus_end = self._bus.transfer(burst.on_bus, delay_cycles + SHARED_ADDRESS_CYCLES)
        first = max(bus_first + SHARED_READ_CYCLES, self._free_at)
        last_words = (burst.beats - 1) % self._bus_words
        end = max(first + burst.beats, bus_end + SHARED_READ_CYCLES + last_words)
        self._free_at = end
        return first, end

    def held_until(self, time: int) -> None:
        """The core took nothing before `time`."""
        self._free_at = max(self._free_at, time)


class SharedWrites:
    """A core's side of the write channel that all cores share: a burst goes there once all of it is here, where there
    is room for two."""

    def __init__(self, bus: Channel, timeline: Timeline):
        self._bus, self._timeline = bus, timeline
        self._free_at = 0
        self._sent: collections.deque[int] = collections.deque([0, 0])
        """When the last two bursts were through."""

    def transfer(self, burst: "BurstBeats", delay_cycles: int) -> tuple[int, int]:
        """Works like Channel.transfer, to the place where the burst is kept."""
        first = max(self._timeline.now + delay_cycles, self._free_at)
        return first, first + burst.beats

    def held_until(self, time: int) -> None:
        """The core gave nothing more before `time`."""
        self._free_at = max(self._free_at, time)

    def through(self, burst: "BurstBeats", end: int) -> int:
        """Works like Channel.through."""
        delay_cycles = max(end - self._timeline.now, 0) + SHARED_WRITE_CYCLES
        _, bus_end = self._bus.transfer(burst.on_bus, delay_cycles)
        self._sent.append(bus_end)
        self._free_at = max(self._free_at, self._sent.popleft())
        return bus_end


class TimedQueue:
    """Commands on their way to a unit, `depth` at most; a command reaches the head `delay_cycles` after it is put."""

    def __init__(self, timeline: Timeline, depth: int, delay_cycles: int):
        self._timeline, self._delay_cycles = timeline, delay_cycles
        self.items: collections.deque[tuple[int, Instruction]] = collections.deque()
        self.depth = depth
        self.changed = Event(timeline)

    def put(self, item: Instruction) -> Process:
        """Wait for room, then append."""
        while len(self.items) >= self.depth:
            yield self.changed
        self.items.append((self._timeline.now + self._delay_cycles, item))
        self.changed.notify()

    def head(self) -> Process:
        """Wait until there is a command at the head, and return it; it stays there until `pop`."""
        while not self.items:
            yield self.changed
        time, item = self.items[0]
        yield max(time, self._timeline.now)
        return item

    def pop(self) -> None:
        """Remove the head."""
        self.items.popleft()
        self.changed.notify()


class StreamedWeights:
    """Words of weights on their way from LOAD to those slots of the array that wait for each of them."""

    def __init__(self, timeline: Timeline):
        self._bursts: collections.deque[tuple[int, int]] = collections.deque()
        """(number of words up to and with the burst, cycle after its last beat)."""
        self._words = 0
        self._changed = Event(timeline)

    def put(self, words: int, end: int) -> None:
        """A burst comes, its last word one cycle before `end`."""
        self._words += words
        self._bursts.append((self._words, end))
        self._changed.notify()

    def arrival(self, count: int, beat_cycles: float) -> Process:
        """The cycle after the beat of word `count`, counted from 1; nobody asks for words before it again."""
        while self._words < count:
            yield self._changed
        while self._bursts[0][0] < count:
            self._bursts.popleft()
        last, end = self._bursts[0]
        return end - int((last - count) * beat_cycles)


class Bus:
    """External memory, and time, for all cores."""

    def __init__(self, config: Config, bandwidth_bytes: float | None, latency_cycles: int):
        self.timeline = Timeline()
        bandwidth = thousandths(bandwidth_bytes, config.bus_bytes)
        self.latency_cycles = max(latency_cycles, 1)
        self._reads = Channel(self.timeline, config.bus_bytes, bandwidth, self.latency_cycles)
        self._writes = Channel(self.timeline, config.bus_bytes, bandwidth, 0)
        self._config = config

    def traffic(self) -> tuple[int, int]:
        """Bytes of all beats, read and written."""
        return self._reads.beats * self._config.bus_bytes, self._writes.beats * self._config.bus_bytes

    def ports(self) -> tuple[Channel | SharedReads, Channel | SharedWrites]:
        """The channels for reads and writes of one more core."""
        if self._config.cores == 1:
            return self._reads, self._writes
        return (
            SharedReads(self._reads, self._config.bus_words),
            SharedWrites(self._writes, self.timeline),
        )


class CoreFabric:
    """What connects the units of core number `core`: semaphores, bus, counters, and who is still busy. `cores`: the
    fabrics of all, once they are made."""

    def __init__(self, config: Config, bus: Bus, core: int, cores: Sequence["CoreFabric"]):
        self.config, self._core, self._cores = config, core, cores
        self.timeline = bus.timeline
        self.reads, self.writes = bus.ports()
        self.streamed = StreamedWeights(self.timeline)
        self.write_latency_cycles = bus.latency_cycles
        self.counters: collections.Counter[str] = collections.Counter()
        self.marks: list[tuple[int, int]] = []
        self.slices: list[Slice] = []
        self.idle = Event(self.timeline)
        self.busy = 0
        """Commands dispatched and not complete."""
        self._busy_until: dict[Unit, int] = {}
        self._semaphores = [0] * config.semaphores
        self._signalled = Event(self.timeline)

    def done(self) -> None:
        """A command is complete."""
        self.busy -= 1
        if not self.busy:
            self.idle.notify()

    def was_busy(self, unit: Unit, start: int, end: int) -> None:
        """The unit had something under way in [start, end); told in the order of `end`."""
        start = max(start, self._busy_until.get(unit, 0))
        self.counters[f"{unit.name.lower()}_busy"] += max(end - start, 0)
        self._busy_until[unit] = max(end, start)

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Call `action` at cycle `time`."""
        self.timeline.resume_at(max(time, self.timeline.now), _later(action))

    def wait(self, wait: Instruction) -> Process:
        """Waits until the semaphore's count is there, and takes it."""
        since = self.timeline.now
        granted = False
        while not granted:
            while self._semaphores[wait.semaphore] < wait.count:
                yield self._signalled
            yield self.timeline.now + GRANT_CYCLES
            granted = self._semaphores[wait.semaphore] >= wait.count
        self.counters[f"{wait.opcode.unit.name.lower()}_wait"] += self.timeline.now - since
        self._semaphores[wait.semaphore] -= wait.count

    def signal(self, signal: Instruction) -> None:
        """Add to the semaphores, which waits see a little later."""
        for core in receivers(signal, self._core):
            cycles = SIGNAL_CYCLES + (FOREIGN_CYCLES if core != self._core else 0)
            self.at(self.timeline.now + cycles, functools.partial(self._cores[core]._add, signal))

    def _add(self, signal: Instruction) -> None:
        self._semaphores[signal.semaphore] += signal.count
        self._signalled.notify()


def _later(action: Callable[[], None]) -> Process:
    action()
    yield from ()


class AccumulatorFifo:
    """Vectors from array to vector unit: a place is reserved when the slot that delivers is issued."""

    def __init__(self, config: Config, timeline: Timeline):
        self._places = max(config.rows, config.drain_vectors)
        self._there: list[int] = []
        self._taken: list[int] = []
        self._changed = Event(timeline)

    def deliver(self, time: int, distances: Sequence[int]) -> Process:
        """Issue slots that deliver, each at its distance from the one before it (the first from `time`) or when there
        is a place; returns the last one's cycle and the cycles waited in all."""
        there, taken, places = self._there, self._taken, self._places
        done = waited = 0
        while done < len(distances):
            number = len(there)
            if len(taken) <= number - places:
                self._changed.notify()
                while len(taken) <= number - places:
                    yield self._changed
            # Those for which there is a place by now; it is free from the cycle after its last vector was taken.
            count = min(len(distances) - done, places + len(taken) - number)
            unlimited = min(max(places - number, 0), count)
            before = [time - 1] * unlimited
            before += (
                taken[number + unlimited - places : number + count - places] if count > unlimited else []
            )
            own = itertools.accumulate(distances[done : done + count], initial=time - 1)
            next(own)
            times, late = _not_before(before, list(own))
            waited, done, time = waited + late, done + count, times[-1] + 1
            there.extend([each + 1 + ARRAY_DRAIN_CYCLES for each in times])
        self._changed.notify()
        return time, waited

    def take(self, time: int, count: int, beats: int, earliest: Sequence[int]) -> Process:
        """Take the next vectors, the first at `time`, each `beats` after the one before it and not before its cycle in
        `earliest` (if that has any), or when it is there; returns their cycles and the cycles waited in all."""
        there, taken = self._there, self._taken
        start, end, waited = len(taken), len(taken) + count, 0
        while len(taken) < end:
            number = len(taken)
            if len(there) <= number:
                self._changed.notify()
                while len(there) <= number:
                    yield self._changed
            # Those that are there by now, or one that waits for something else as well.
            last = number + 1 if earliest else min(len(there), end)
            if earliest:
                time = max(time, earliest[number - start])
            times, late = _not_before(there[number:last], range(time, time + (last - number) * beats, beats))
            waited, time = waited + late, times[-1] + beats
            taken.extend(times)
        self._changed.notify()
        return taken[start:], waited


def _not_before(earliest: Sequence[int], times: Sequence[int]) -> tuple[Sequence[int], int]:
    """Cycles, each as far behind the one before it as in `times` or further, none before its one in `earliest`; and
    the cycles waited for these in all."""
    late = list(map(operator.sub, earliest, times))
    if max(late) <= 0:
        return times, 0
    delays = list(itertools.accumulate(late, max, initial=0))[1:]
    return list(map(operator.add, times, delays)), delays[-1]


class AccessesBefore:
    """Reads or writes of the activation memory that go before those of one other unit in the same bank."""

    def __init__(self, config: Config):
        self._bank_bytes, self._banks = config.am_bank_bytes, config.am_banks
        self._accesses: collections.deque[tuple[int, int, int, float]] = collections.deque()

    def bank(self, address: int) -> int:
        """The bank of a byte."""
        return address // self._bank_bytes % self._banks

    def record(self, start: int, end: int, bank: int, share: float = 1.0) -> None:
        """An access in that `share` of the cycles [start, end)."""
        if self._accesses and self._accesses[-1][1:] == (start, bank, share):
            start = self._accesses.pop()[0]
        self._accesses.append((start, end, bank, share))

    def cycles(self, start: int, end: int, bank: int) -> int:
        """Cycles of [start, end) with an access to `bank`; nobody asks for cycles before `start` again."""
        return round(sum(self.pieces(start, end, bank)))

    def pieces(self, start: int, end: int, bank: int) -> list[float]:
        """The same, stretch by stretch."""
        while self._accesses and self._accesses[0][1] <= start:
            self._accesses.popleft()
        return [
            (min(last, end) - max(first, start)) * share
            for first, last, used, share in self._accesses
            if used == bank and last > start and first < end
        ]


class BurstBeats(NamedTuple):
    """A burst's beats: for the unit, and on the memory port, which may be wider."""

    beats: int
    bus_beats: int

    @property
    def on_bus(self) -> "BurstBeats":
        """Returns the burst as the memory port sees it."""
        return BurstBeats(self.bus_beats, self.bus_beats)


def burst_of(config: Config, address: int, beats: int) -> BurstBeats:
    """The burst of `beats` words from `address` on."""
    first = address // config.word_bytes
    last = first + beats - 1
    return BurstBeats(beats, last // config.bus_words - first // config.bus_words + 1)


def bursts(config: Config, memory_address: int, row_bytes: int) -> list[BurstBeats]:
    """Every burst of a row."""
    word = config.word_bytes
    block = BURST_BEATS * word
    result = []
    address, end = memory_address - memory_address % word, memory_address + row_bytes
    while address < end:
        following = min(address - address % block + block, end)
        result.append(burst_of(config, address, -(-(following - address) // word)))
        address = following
    return result
