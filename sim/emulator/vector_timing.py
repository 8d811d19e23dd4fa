"""Timing of VECTOR: one beat per cycle; a slot that reads a register waits for the slots before it."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tosaic.hw.constants import (
    BIAS_BYTES,
    NARROW_BIAS_BYTES,
    SCALE_BYTES,
    VECTOR_END_CYCLES,
    VECTOR_NEXT_EARLY_CYCLES,
    VECTOR_SETUP_EARLY_CYCLES,
    VECTOR_SIGNAL_EARLY_CYCLES,
    VECTOR_WRITE_CYCLES,
)
from tosaic.hw.csr_map import MARKS
from tosaic.hw.isa import STORE_STREAM, Instruction, Opcode, Source, Unit

from ..result import Slice
from .events import Process
from .micro_ops import beats_of
from .streams import Stream
from .timing_parts import (
    OFFSETS_END_CYCLES,
    TEST_CYCLES,
    VECTOR_START_CYCLES,
    AccessesBefore,
    AccumulatorFifo,
    CoreFabric,
    TimedQueue,
)

_EARLY_CYCLES = {
    Opcode.VECTOR_SIGNAL: VECTOR_SIGNAL_EARLY_CYCLES,
    Opcode.VECTOR_UOP: VECTOR_SETUP_EARLY_CYCLES,
    Opcode.VECTOR_BOUNDS: VECTOR_SETUP_EARLY_CYCLES,
}
"""Cycles by which these commands are taken before the GO in front of them is complete; others by
VECTOR_NEXT_EARLY_CYCLES."""


class _TimedMicroOp(NamedTuple):
    """A micro-op of a GO."""

    beats: int
    """Beats of each of its slots."""
    from_array: bool
    reads_register: bool
    stream: int | None
    """The stream that it loads from."""
    to_memory: bool

    @classmethod
    def of(cls, uop: Instruction, beats: int) -> "_TimedMicroOp":
        sources = {uop.a_source: uop.a_index, uop.b_source: uop.b_index}
        return cls(
            beats,
            uop.a_source == Source.ARRAY,
            Source.REGISTER in sources,
            sources.get(Source.LOAD),
            bool(uop.to_memory),
        )


class VectorTiming:
    """Commands in order, each one after the one before it is complete."""

    def __init__(
        self,
        fabric: CoreFabric,
        queue: TimedQueue,
        fifo: AccumulatorFifo,
        reads: Sequence[AccessesBefore],
        writes: Sequence[AccessesBefore],
    ):
        """Reads and writes are told to all of `reads` and `writes`."""
        self._fabric, self._queue, self._fifo = fabric, queue, fifo
        self._reads, self._writes = reads, writes
        self._uops: dict[int, Instruction] = {}
        self._params_cycles = 1
        """Cycles of the last VECTOR_PARAM."""
        self._streams = [Stream() for _ in range(STORE_STREAM + 1)]
        self._complete_at = 0
        """When the last GO is complete."""
        self._settled_at = 0
        """First cycle in which a GO may be taken: streams are checked in the cycle after they are set up."""

    def run(self) -> Process:
        """The unit's process."""
        fabric, timeline = self._fabric, self._fabric.timeline
        columns = fabric.config.columns
        while True:
            command = yield from self._queue.head()
            if command.opcode != Opcode.VECTOR_WAIT:
                early_cycles = _EARLY_CYCLES.get(command.opcode, VECTOR_NEXT_EARLY_CYCLES)
                yield max(self._complete_at - early_cycles, timeline.now)
            if command.opcode == Opcode.VECTOR_GO:
                yield max(self._settled_at, timeline.now)
            cycles, taken_at = 1, timeline.now
            match command.opcode:
                case Opcode.VECTOR_UOP:
                    self._uops[command.index] = command
                case Opcode.VECTOR_STREAM | Opcode.VECTOR_DIMS:
                    self._streams[command.stream].configure(command)
                    self._settled_at = timeline.now + 2
                case Opcode.VECTOR_WAIT:
                    yield from fabric.wait(command)
                case Opcode.VECTOR_SIGNAL:
                    fabric.at(timeline.now + 1, functools.partial(fabric.signal, command))
                case Opcode.VECTOR_PARAM:
                    bias_bytes = NARROW_BIAS_BYTES if command.narrow else BIAS_BYTES
                    cycles += bias_bytes * command.bias + SCALE_BYTES * command.scale
                    self._params_cycles = cycles
                case Opcode.VECTOR_TEST:
                    cycles += TEST_CYCLES
                case Opcode.VECTOR_TABLE:
                    cycles += 4 * command.entries // columns
                case Opcode.VECTOR_OFFSETS:
                    cycles += -(-4 * command.count // columns) + OFFSETS_END_CYCLES
                case Opcode.VECTOR_MARK:
                    if len(fabric.marks) < MARKS:
                        fabric.marks.append((command.layer, timeline.now))
                case Opcode.VECTOR_GO:
                    last = yield from self._go(command)
                    self._complete_at = last + VECTOR_END_CYCLES
                    fabric.was_busy(Unit.VECTOR, taken_at, self._complete_at)
                    self._queue.pop()
                    fabric.at(self._complete_at, fabric.done)
                    yield timeline.now + 1
                    continue
            if command.opcode != Opcode.VECTOR_WAIT:
                fabric.was_busy(Unit.VECTOR, taken_at, timeline.now + cycles)
            self._queue.pop()
            yield timeline.now + cycles
            fabric.done()

    def _go(self, go: Instruction) -> Process:
        """Returns the cycle of the last issue."""
        timeline, latency = self._fabric.timeline, self._fabric.config.vector_latency_cycles
        started = timeline.now
        uops = [self._uops[index] for index in range(go.uops)]
        config = self._fabric.config
        steps = [_TimedMicroOp.of(uop, beats_of(uop, go, self._streams, config).count) for uop in uops]
        body = steps[go.body_start : go.body_end]
        parts = (steps[: go.body_start], *[body] * go.repeats, steps[go.body_end :])
        # Cycles in which the slots of the last micro-op had their last beat.
        issues: Sequence[int] = ()
        accesses = [0] * (STORE_STREAM + 1)
        following = timeline.now + VECTOR_START_CYCLES
        for first in range(0, go.vectors, go.slots):
            if first and go.next_params:
                following += (
                    VECTOR_END_CYCLES
                    - VECTOR_NEXT_EARLY_CYCLES
                    - 1
                    + self._params_cycles
                    + VECTOR_START_CYCLES
                )
            slots = min(go.slots, go.vectors - first)
            for step in itertools.chain.from_iterable(parts):
                # Slot k waits for the slot issued `slots` issues before it.
                ready = issues[len(issues) - slots :] if step.reads_register else ()
                beats = step.beats
                if step.from_array:
                    earliest = [time + latency for time in ready]
                    taken, waited = yield from self._fifo.take(following, slots, beats, earliest)
                    self._fabric.counters["vector_stall_array"] += waited
                    issues = taken if beats == 1 else [time + beats - 1 for time in taken]
                    following = taken[-1] + beats
                elif ready and not (isinstance(ready, range) and ready.step <= beats):
                    times = []
                    for slot in range(slots):
                        following = max(following, ready[slot] + latency)
                        times.append(following + beats - 1)
                        following += beats
                    issues = times
                else:
                    if ready:
                        following = max(following, ready[0] + latency)
                    issues = range(following + beats - 1, following + slots * beats, beats)
                    following += slots * beats
                if step.stream is not None:
                    self._record(self._reads, step.stream, accesses, issues, beats, 0)
                if step.to_memory:
                    self._record(self._writes, STORE_STREAM, accesses, issues, beats, VECTOR_WRITE_CYCLES)
            yield max(following - 2 * latency, timeline.now)
        slot_beats = sum(step.beats for step in steps) + (go.repeats - 1) * sum(step.beats for step in body)
        work = go.vectors * slot_beats
        self._fabric.counters["vector_active"] += work
        name = "drain" if any(step.from_array for step in steps) else "elementwise"
        self._fabric.slices.append(Slice("VECTOR", name, started, following, work=work))
        return following - 1

    def _record(
        self,
        told: Sequence[AccessesBefore],
        stream: int,
        accesses: list[int],
        issues: Sequence[int],
        beats: int,
        delay_cycles: int,
    ) -> None:
        """A batch's accesses, `beats` up to each of `issues`; all are taken to go to the first one's bank."""
        bank = told[0].bank(self._streams[stream].address_of(accesses[stream]))
        first = issues[0] - beats + 1
        dense = issues[-1] - first == len(issues) * beats - 1
        ranges = [(first, issues[-1] + 1)] if dense else [(last - beats + 1, last + 1) for last in issues]
        for start, end in ranges:
            for used in told:
                used.record(start + delay_cycles, end + delay_cycles, bank)
        accesses[stream] += len(issues)
