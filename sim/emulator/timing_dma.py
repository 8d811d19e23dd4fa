"""Timing of LOAD and STORE: bursts are issued ahead of their data; SIGNALs pass beside the data."""

import collections

from tosaic.hw.isa import Instruction, Opcode, Space

from ..result import Slice
from .events import Process
from .timing_parts import (
    ADDRESS_CYCLES,
    BURST_BEATS,
    LOAD_END_CYCLES,
    OUTSTANDING_BEATS,
    STORE_END_CYCLES,
    STORE_READ_CYCLES,
    Fabric,
    Queue,
    bursts,
)


class TransferUnit:
    """LOAD or STORE."""

    def __init__(self, fabric: Fabric, queue: Queue, name: str):
        self._fabric, self._queue, self._name = fabric, queue, name
        self._complete_at = 0
        self._under_way: collections.deque[tuple[int, int]] = collections.deque()
        self._beats_under_way = 0

    def run(self) -> Process:
        """The unit's process."""
        fabric, timeline, pitch = self._fabric, self._fabric.timeline, 0
        while True:
            command = yield from self._queue.head()
            complete_at = timeline.now
            match command.opcode:
                case Opcode.LOAD_PITCH | Opcode.STORE_PITCH:
                    pitch = command.memory_pitch
                case Opcode.LOAD_WAIT | Opcode.STORE_WAIT:
                    yield from fabric.wait(command)
                case Opcode.LOAD_SIGNAL | Opcode.STORE_SIGNAL:
                    complete_at = max(self._complete_at, timeline.now + 2)
                    self._signal_at(complete_at, command)
                case _:
                    started = timeline.now
                    yield timeline.now + 2
                    transfer = self._load if command.opcode == Opcode.LOAD_GO else self._store
                    for beats in bursts(fabric.config, command, pitch):
                        fabric.counters[f"{self._name}_beats"] += beats
                        yield from transfer(beats)
                    complete_at = self._complete_at
                    name = "weights" if command.fields.get("space") == Space.WM else "tensor"
                    size = command.row_bytes * command.rows
                    fabric.slices.append(Slice(self._name.upper(), name, started, complete_at, size))
            self._queue.pop()
            fabric.at(complete_at, fabric.done)
            yield timeline.now + 1

    def _signal_at(self, time: int, signal: Instruction) -> None:
        self._fabric.at(time, lambda: self._fabric.signal(signal))

    def _load(self, beats: int) -> Process:
        timeline = self._fabric.timeline
        while self._beats_under_way > OUTSTANDING_BEATS - BURST_BEATS:
            end, count = self._under_way.popleft()
            yield max(end, timeline.now)
            self._beats_under_way -= count
        # The request is on the bus a little later; that the process goes on at once keeps one burst per cycle.
        end = self._fabric.reads.transfer(beats, ADDRESS_CYCLES - 2)
        self._under_way.append((end, beats))
        self._beats_under_way += beats
        self._complete_at = end + LOAD_END_CYCLES
        yield timeline.now + 1

    def _store(self, beats: int) -> Process:
        timeline = self._fabric.timeline
        end = self._fabric.writes.transfer(beats, ADDRESS_CYCLES - 2 + STORE_READ_CYCLES)
        self._complete_at = end + self._fabric.write_latency_cycles + STORE_END_CYCLES
        yield max(end - ADDRESS_CYCLES - STORE_READ_CYCLES, timeline.now + 1)
