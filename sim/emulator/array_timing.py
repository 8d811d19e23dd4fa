"""Timing of ARRAY: a walk through slots, one per cycle, that only waits for room for the vectors it delivers."""

import functools
from collections.abc import Iterator
from typing import NamedTuple

from tosaic.hw.isa import Instruction, Opcode, Unit
from tosaic.hw.slots import taps_wait_slots, tile_slots

from ..result import Slice
from .events import Event, Process
from .timing_parts import (
    ARRAY_DRAIN_CYCLES,
    ARRAY_START_CYCLES,
    STREAM_CYCLES,
    AccessesBefore,
    AccumulatorFifo,
    CoreFabric,
    TimedQueue,
)


class SlotStretch(NamedTuple):
    """A stretch of slots that ends with a delivery, or with the GO."""

    slots: int
    """Number of slots, up to and with the one that delivers the first vector, or the last one."""
    distances: list[int]
    """Slots from one delivery to the next; 0 for the first."""
    address: int
    """A byte of the activation memory that the stretch reads."""
    reads: float
    """Share of the slots that read."""


class ArrayTiming:
    """Front (commands, one GO waiting) and walker (slots)."""

    def __init__(
        self,
        fabric: CoreFabric,
        queue: TimedQueue,
        fifo: AccumulatorFifo,
        reads: AccessesBefore,
        own: AccessesBefore,
    ):
        """`reads` go before the array's, which are told to `own`."""
        self._fabric, self._queue, self._fifo = fabric, queue, fifo
        self._reads, self._own = reads, own
        self._setup: dict[Opcode, Instruction] = {}
        self._jobs: list[tuple[int, Instruction, Iterator[SlotStretch] | None]] = []
        self._changed = Event(fabric.timeline)
        self.running: Instruction | None = None
        """The GO whose slots are being walked."""

    def commands(self) -> Process:
        """The front's process: configuration waits until the GO before it has begun."""
        timeline = self._fabric.timeline
        while True:
            command = yield from self._queue.head()
            match command.opcode:
                case Opcode.ARRAY_WAIT:
                    yield from self._fabric.wait(command)
                    self._fabric.done()
                case Opcode.ARRAY_SIGNAL:
                    self._jobs.append((timeline.now, command, None))
                    self._changed.notify()
                case _:
                    while any(parts for _, _, parts in self._jobs):
                        yield self._changed
                    if command.opcode in (Opcode.ARRAY_GO, Opcode.ARRAY_DEPTHWISE_GO):
                        self._jobs.append((timeline.now, command, self._parts(command)))
                        self._changed.notify()
                    else:
                        self._setup[command.opcode] = command
                        self._fabric.done()
            self._queue.pop()
            yield timeline.now + 1

    def slots(self) -> Process:
        """The walker's process."""
        timeline, rows = self._fabric.timeline, self._fabric.config.rows
        # The next slot's cycle, and until when slots carry the rows of the last tile to their end.
        clock = flushed = 0
        was_depthwise = False
        streamed_words = 0
        while True:
            while not self._jobs:
                yield self._changed
            taken_at, command, parts = self._jobs[0]
            if parts is None:
                self._jobs.pop(0)
                self._fabric.at(clock + 1, functools.partial(self._complete_signal, command))
                continue
            depthwise = command.opcode == Opcode.ARRAY_DEPTHWISE_GO
            clock = max(clock, taken_at + ARRAY_START_CYCLES)
            if self._waits_for_rows(command, was_depthwise):
                clock = max(clock, flushed)
            was_depthwise = depthwise
            yield max(clock - ARRAY_START_CYCLES + 2, timeline.now)
            self._jobs.pop(0)
            self._changed.notify()
            started, self.running = clock, command
            # The slots that load the taps of a depthwise kernel and nothing else do not count.
            work = command.advances if depthwise else 0
            for number, part in enumerate(parts):
                clock = yield from self._walk(clock, part)
                work += 0 if depthwise else part.slots
                if command.fields.get("streamed") and number <= command.more_blocks:
                    streamed_words += part.slots
                    fabric = self._fabric
                    there = yield from fabric.streamed.arrival(streamed_words, fabric.reads.beat_cycles)
                    late = max(there + STREAM_CYCLES - clock, 0)
                    fabric.counters["array_stall_weights"] += late
                    clock += late
                last, waited = yield from self._fifo.deliver(clock - 1, part.distances)
                self._fabric.counters["array_stall_vector"] += waited
                clock += waited
                if depthwise and part.distances:
                    slots = last + 1 - command.idle_rows - clock
                    clock = yield from self._walk(clock, part._replace(slots=slots))
            self.running = None
            flushed = clock + (command.idle_rows if depthwise else rows - 1)
            self._fabric.counters["array_active"] += work
            self._fabric.was_busy(Unit.ARRAY, taken_at + 1, flushed + ARRAY_DRAIN_CYCLES)
            name = "depthwise" if depthwise else "convolution"
            self._fabric.slices.append(Slice("ARRAY", name, started, clock, work=work))
            self._fabric.at(flushed, self._fabric.done)

    def _walk(self, start: int, part: SlotStretch) -> Process:
        """The cycle after the part's slots; they wait while the vector unit reads the same bank."""
        end, checked = start + part.slots, start
        bank = self._reads.bank(part.address)
        self._own.record(start, end, bank, part.reads)
        stalls = 0.0
        while checked < end:
            # What the vector unit reads until then is only known then.
            yield max(end - 1, self._fabric.timeline.now)
            stalls += self._reads.cycles(checked, end, bank) * part.reads
            checked, end = end, start + part.slots + round(stalls)
        self._fabric.counters["array_stall_am"] += end - start - part.slots
        return end

    def _waits_for_rows(self, go: Instruction, was_depthwise: bool) -> bool:
        """Whether the rows finish what came before: another mode, partial sums, or words of a bank that lower parts of
        the rows read."""
        if go.opcode == Opcode.ARRAY_DEPTHWISE_GO:
            return not was_depthwise or bool(go.accumulate) or not go.drain
        config = self._fabric.config
        return was_depthwise or (config.most_row_parts > 1 and go.weights % config.columns > 0)

    def _complete_signal(self, signal: Instruction) -> None:
        self._fabric.signal(signal)
        self._fabric.done()

    def _parts(self, go: Instruction) -> Iterator[SlotStretch]:
        if go.opcode == Opcode.ARRAY_GO:
            return self._tiles(go, self._setup[Opcode.ARRAY_KERNEL])
        return self._lines(go, self._setup[Opcode.ARRAY_DEPTHWISE])

    def _tiles(self, go: Instruction, kernel: Instruction) -> Iterator[SlotStretch]:
        rows, columns = self._fabric.config.rows, self._fabric.config.columns
        steps = kernel.ky_count * kernel.run_count * kernel.chunks
        source, window = self._setup[Opcode.ARRAY_INPUT], self._setup[Opcode.ARRAY_WINDOW]
        # The front sets up the next GO while this one's tiles are walked.
        plain = go.drain and not go.accumulate and not go.streamed
        divisible = plain and not source.weight_zp and go.weights % columns == 0
        middle = source.address + kernel.ky_count // 2 * kernel.ky_step_bytes
        # Blocks come with one tile only.
        for first in [*range(0, go.pixels, rows)] * (1 + go.more_blocks):
            py, px = divmod(first, window.width)
            address = middle + py * window.y_step_bytes + px * window.x_step
            valid = min(rows, go.pixels - first)
            parts = self._fabric.config.row_parts(valid) if divisible else 1
            # The last part's rows deliver.
            delay = self._fabric.config.divided_rows // parts * (parts - 1)
            distances = [delay] + [1] * (valid - 1) if go.drain else []
            yield SlotStretch(tile_slots(steps, parts, columns), distances, address, parts * valid / columns)

    def _lines(self, go: Instruction, depthwise: Instruction) -> Iterator[SlotStretch]:
        rows = self._fabric.config.rows - go.idle_rows
        # The taps load in `rows` slots; the stream begins as early as no tap can be late for an output.
        wait = taps_wait_slots(rows, depthwise.skip)
        walked, end = 0, wait + go.advances
        source, window = self._setup[Opcode.ARRAY_INPUT], self._setup[Opcode.ARRAY_WINDOW]
        # Of those behind the line's end none comes.
        outputs = min(depthwise.out_width, -(-depthwise.line // depthwise.x_stride))
        for y in range(depthwise.out_height if go.drain and outputs else 0):
            first = wait + depthwise.skip + rows - 1 + y * depthwise.line * depthwise.y_stride + 1
            if first > end:
                break
            address = source.address + y * depthwise.y_stride * window.y_step_bytes
            # The job may end in the line. The sums still pass the idle rows.
            following = min(outputs - 1, (end - first) // depthwise.x_stride)
            distances = [go.idle_rows] + [depthwise.x_stride] * following
            yield SlotStretch(first - walked, distances, address, 1.0)
            walked = first + depthwise.x_stride * following
        yield SlotStretch(end - walked, [], source.address, 1.0)
