"""Timing of LOAD and STORE: bursts are issued ahead of their data; SIGNALs pass beside the data."""

import collections
import math
from collections.abc import Iterable

from tosaic.hw.isa import Instruction, Opcode, Space

from ..result import Slice
from .events import Process
from .timing_parts import (
    ADDRESS_CYCLES,
    BURST_BEATS,
    DECODE_BUFFER_BEATS,
    DECODE_END_CYCLES,
    DECODE_NEXT_CYCLES,
    DECODE_START_CYCLES,
    LOAD_END_CYCLES,
    OUTSTANDING_BEATS,
    STORE_END_CYCLES,
    STORE_READ_CYCLES,
    Fabric,
    Queue,
    bursts,
)


class TransferUnit:
    """LOAD or STORE. `decode_cycles`: of each LOAD_DECODE in turn."""

    def __init__(self, fabric: Fabric, queue: Queue, name: str, decode_cycles: Iterable[int] = ()):
        self._fabric, self._queue, self._name = fabric, queue, name
        self._decode_cycles = iter(decode_cycles)
        self._decode_start = self._decode_end = 0
        """Of the last LOAD_DECODE."""
        self._block_beats: collections.deque[tuple[float, int]] = collections.deque()
        """Beats for the decoder, and when it has taken them."""
        self._block_beats_waiting = 0
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
                case Opcode.LOAD_TENSOR | Opcode.LOAD_STREAMS:
                    pass
                case Opcode.LOAD_DECODE:
                    yield from self._decode(command)
                    complete_at = self._complete_at
                case _:
                    started = timeline.now
                    yield timeline.now + 2
                    # Nothing is requested while a block is decoded that is not for the decoder.
                    yield max(self._decode_end, timeline.now)
                    transfer = self._load if command.opcode == Opcode.LOAD_GO else self._store
                    for beats in bursts(
                        fabric.config, command.memory_address, command.row_bytes, command.rows, pitch
                    ):
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

    def _decode(self, go: Instruction) -> Process:
        """The weights go to their places as they are decoded, long after their beats came."""
        fabric, timeline = self._fabric, self._fabric.timeline
        # The decoder holds one block that waits.
        yield max(self._decode_start, timeline.now)
        yield timeline.now + 2
        cycles, total, requested = next(self._decode_cycles), go.row_bytes // fabric.config.word_bytes, 0
        start = 0
        for beats in bursts(fabric.config, go.memory_address, go.row_bytes, 1, 0):
            while self._block_beats_waiting > DECODE_BUFFER_BEATS - BURST_BEATS:
                taken_at, count = self._block_beats.popleft()
                yield max(math.ceil(taken_at), timeline.now)
                self._block_beats_waiting -= count
            fabric.counters["load_beats"] += beats
            yield from self._load(beats)
            if not requested:
                first = self._under_way[-1][0] - round((beats - 1) * fabric.reads.beat_cycles)
                start = max(first + DECODE_START_CYCLES, self._decode_end + DECODE_NEXT_CYCLES)
            requested += beats
            self._block_beats.append((start + cycles * requested / total, beats))
            self._block_beats_waiting += beats
        # A slow bus may bring the last beat after the decoder could have been through.
        end = max(start + cycles, self._under_way[-1][0] + DECODE_START_CYCLES + cycles // total)
        self._decode_start, self._decode_end = start, end
        self._complete_at = end + DECODE_END_CYCLES
        fabric.counters["decode_active"] += end - start
        fabric.slices.append(Slice("LOAD", "decode", start, end, go.row_bytes))

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
