"""Predicts the cycles of a program: every unit is a process on an event-driven timeline.

Only the instructions matter, never the data. Of the waits for a bank of the activation memory those of
ARRAY and LOAD for VECTOR, and of STORE for both, are counted, a tile or a burst at a time. The pipeline depths are
constants in timing_parts.py; all else follows docs/timing.md.
"""

import collections
import dataclasses
from collections.abc import Sequence

from tosaic.hw.config import Config
from tosaic.hw.constants import FETCH_BURST_BYTES
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, Unit

from ..result import Slice, counted_events
from .array_timing import ArrayTiming
from .events import Event as Event
from .events import Process
from .timing_parts import (
    FETCH_ADDRESS_CYCLES,
    FETCH_CYCLES,
    QUEUE_CYCLES,
    QUIET_CYCLES,
    START_CYCLES,
    VECTOR_QUEUE_CYCLES,
    AccessesBefore,
    AccumulatorFifo,
    Bus,
    CoreFabric,
    TimedQueue,
    burst_of,
)
from .trace import Trace
from .transfer_timing import LoadTiming, StoreTiming
from .vector_timing import VectorTiming


class Deadlock(Exception):
    """The units wait for each other; the message names what each one waits at."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What `predict` returns; fields as in RunResult."""

    cycles: int
    read_bytes: int
    write_bytes: int
    marks: list[tuple[int, int]]
    counters: dict[str, int]
    slices: list[Slice]
    cores: list[dict[str, int]]


def predict(
    config: Config, traces: Sequence[Trace], bandwidth_bytes: float | None, latency_cycles: int
) -> Prediction:
    """Cycles, traffic and marks of what each core executed.

    Raises Deadlock when the units, side by side with bounded queues, would wait for each other forever.
    """
    bus = Bus(config, bandwidth_bytes, latency_cycles)
    fabrics: list[CoreFabric] = []
    fabrics += [CoreFabric(config, bus, core, fabrics) for core in range(config.cores)]
    machines = [_Machine(fabrics[trace.core], trace) for trace in traces]
    bus.timeline.run()
    ends = [machine.end_cycle for machine in machines if machine.end_cycle is not None]
    if len(ends) < len(machines):
        raise Deadlock("; ".join(machine.waiting() for machine in machines if machine.end_cycle is None))
    for fabric in fabrics:
        fabric.counters["decode_hidden"] = hidden_cycles(fabric.slices)
    names = counted_events(config)
    cores = [{name: fabric.counters[name] for name in names} for fabric in fabrics]
    counters = {name: sum(core[name] for core in cores) for name in names}
    bytes_read, bytes_written = bus.traffic()
    return Prediction(
        cycles=max(ends),
        read_bytes=bytes_read,
        write_bytes=bytes_written,
        marks=fabrics[0].marks,
        counters=counters,
        slices=[slice._replace(core=core) for core, fabric in enumerate(fabrics) for slice in fabric.slices],
        cores=cores,
    )


def hidden_cycles(slices: list[Slice]) -> int:
    """Cycles in which weights are decoded while the array computes, or the vector unit something of its own."""
    decodes = sorted((s.start, s.end) for s in slices if s.name == "decode")
    work = sorted((s.start, s.end) for s in slices if s.unit == "ARRAY" or s.name == "elementwise")
    hidden, first, counted_to = 0, 0, 0
    for start, end in work:
        start = max(start, counted_to)
        counted_to = max(end, counted_to)
        while first < len(decodes) and decodes[first][1] <= start:
            first += 1
        for decode_start, decode_end in decodes[first:]:
            if decode_start >= end:
                break
            hidden += max(0, min(end, decode_end) - max(start, decode_start))
    return hidden


class _Machine:
    """The sequencer, and the units on their queues."""

    def __init__(self, fabric: CoreFabric, trace: Trace):
        self._fabric, self._trace, self._address = fabric, trace, trace.address
        self._arrivals: collections.deque[int] = collections.deque()
        """Cycles in which the instructions asked for and still in the buffer can be taken from it."""
        self._position = 0
        """Number in the program of the next instruction to be fetched."""
        self._fetched_at = 0
        """Cycle in which the last beat of program asked for so far has come."""
        self._fetching = True
        self._changed = Event(fabric.timeline)
        self.end_cycle: int | None = None
        timeline, depth = fabric.timeline, fabric.config.queue_commands
        self._queues = {
            unit: TimedQueue(timeline, depth, QUEUE_CYCLES) for unit in Unit if unit != Unit.SEQUENCER
        }
        self._queues[Unit.VECTOR] = TimedQueue(timeline, depth + 1, VECTOR_QUEUE_CYCLES)
        fifo = AccumulatorFifo(fabric.config, timeline)
        fabric.streamed.put(trace.streamed_words, 0)
        # Who goes before whom in a bank: VECTOR before ARRAY and LOAD, VECTOR and ARRAY before STORE.
        before_array, before_load, before_store = (AccessesBefore(fabric.config) for _ in range(3))
        load = LoadTiming(
            fabric, self._queues[Unit.LOAD], before_load, trace.decode_cycles, trace.unpacked_rows
        )
        self._array = array = ArrayTiming(fabric, self._queues[Unit.ARRAY], fifo, before_array, before_store)
        vector_reads = (before_array, before_store)
        processes = (
            self._fetch(),
            self._dispatch(),
            load.commands(),
            load.split(),
            load.retire(),
            array.commands(),
            array.slots(),
            VectorTiming(fabric, self._queues[Unit.VECTOR], fifo, vector_reads, (before_load,)).run(),
            StoreTiming(fabric, self._queues[Unit.STORE], before_store).run(),
        )
        for process in processes:
            timeline.resume_at(START_CYCLES, process)

    def waiting(self) -> str:
        """The oldest incomplete command of every unit that has one."""
        heads = {unit: queue.items[0][1] for unit, queue in self._queues.items() if queue.items}
        if self._array.running:
            heads[Unit.ARRAY] = self._array.running
        standing = ", ".join(f"{unit.name} at {command}" for unit, command in heads.items())
        return f"core {self._trace.core}: {standing}" if self._fabric.config.cores > 1 else standing

    def _fetch(self) -> Process:
        fabric, timeline, word = self._fabric, self._fabric.timeline, self._fabric.config.word_bytes
        most_ahead = fabric.config.fetch_instructions
        while True:
            start = self._address + self._position * INSTRUCTION_BYTES
            # Bursts end at multiples of their length.
            count = (FETCH_BURST_BYTES - start % FETCH_BURST_BYTES) // INSTRUCTION_BYTES
            count = min(count, self._trace.program_instructions - self._position)
            if not self._fetching or not count or len(self._arrivals) + count > most_ahead:
                yield self._changed
                continue
            beats = -(-(start % word + count * INSTRUCTION_BYTES) // word)
            fabric.counters["fetch_beats"] += beats
            _, end = fabric.reads.transfer(burst_of(fabric.config, start, beats), FETCH_ADDRESS_CYCLES)
            for number in range(count):
                beats_after = (count - 1 - number) * INSTRUCTION_BYTES // word
                self._arrivals.append(end - int(beats_after * fabric.reads.beat_cycles) + FETCH_CYCLES)
            self._fetched_at = end
            self._position += count
            self._changed.notify()
            yield timeline.now + 2

    def _dispatch(self) -> Process:
        fabric, timeline = self._fabric, self._fabric.timeline
        for number, instruction in enumerate(self._trace.instructions):
            since = timeline.now
            while not self._arrivals:
                yield self._changed
            yield max(self._arrivals[0], timeline.now)
            fabric.counters["fetch_wait"] += timeline.now - since
            self._arrivals.popleft()
            self._changed.notify()
            yield timeline.now + 1
            unit = instruction.opcode.unit
            if unit != Unit.SEQUENCER:
                fabric.busy += 1
                since = timeline.now
                yield from self._queues[unit].put(instruction)
                fabric.counters["queue_wait"] += timeline.now - since
            elif instruction.opcode == Opcode.END:
                yield from self._run_dry()
                self.end_cycle = timeline.now
            if instruction.opcode == Opcode.BRANCH:
                yield from self._branch(self._trace.jumps.get(number))

    def _run_dry(self) -> Process:
        """Nothing more is fetched; what was asked for comes, and all units complete what they have."""
        self._fetching = False
        while self._fabric.busy:
            yield self._fabric.idle
        yield max(self._fetched_at, self._fabric.timeline.now)

    def _branch(self, target: int | None) -> Process:
        timeline = self._fabric.timeline
        # From the next cycle on nothing is fetched.
        yield timeline.now + 1
        if self._fabric.busy or self._fetched_at > timeline.now:
            yield from self._run_dry()
            yield timeline.now + QUIET_CYCLES
        self._fetching = True
        if target is not None:
            self._arrivals.clear()
            self._position = target
        self._changed.notify()
