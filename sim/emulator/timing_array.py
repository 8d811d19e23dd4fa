"""Timing of ARRAY: a walk through slots, one per cycle, that only waits for room for the vectors it delivers."""

from collections.abc import Iterator

from tosaic.hw.isa import Instruction, Opcode

from .events import Condition, Process
from .timing_parts import ARRAY_START_CYCLES, AccumulatorFifo, Fabric, Queue

Part = tuple[int, list[int]]
"""Slots up to and with the one that delivers the first vector (or the last slot), distances of the vectors after it."""


class ArrayUnit:
    """Front (commands, one GO waiting) and walker (slots)."""

    def __init__(self, fabric: Fabric, queue: Queue, fifo: AccumulatorFifo):
        self._fabric, self._queue, self._fifo = fabric, queue, fifo
        self._setup: dict[Opcode, Instruction] = {}
        self._jobs: list[tuple[int, Instruction, Iterator[Part] | None]] = []
        self._changed = Condition(fabric.timeline)
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
        while True:
            while not self._jobs:
                yield self._changed
            taken_at, command, parts = self._jobs[0]
            if parts is None:
                self._jobs.pop(0)
                self._fabric.at(clock + 1, lambda signal=command: self._complete_signal(signal))
                continue
            depthwise = command.opcode == Opcode.ARRAY_DEPTHWISE_GO
            clock = max(clock, taken_at + ARRAY_START_CYCLES)
            if depthwise and not was_depthwise:
                clock = max(clock, flushed)
            was_depthwise = depthwise
            yield max(clock - ARRAY_START_CYCLES + 2, timeline.now)
            self._jobs.pop(0)
            self._changed.notify()
            started, self.running = clock, command
            for slots, distances in parts:
                clock += slots
                delivery = clock - 1
                for distance in distances:
                    delivery += distance
                    issued = yield from self._fifo.deliver(delivery)
                    clock += issued - delivery
                    delivery = issued
                yield max(clock - rows, timeline.now)
            self.running = None
            flushed = clock if depthwise else clock + rows - 1
            self._fabric.counters["array_active"] += clock - started
            self._fabric.at(flushed, self._fabric.done)

    def _complete_signal(self, signal: Instruction) -> None:
        self._fabric.signal(signal)
        self._fabric.done()

    def _parts(self, go: Instruction) -> Iterator[Part]:
        if go.opcode == Opcode.ARRAY_GO:
            return self._tiles(go, self._setup[Opcode.ARRAY_KERNEL])
        return self._lines(go, self._setup[Opcode.ARRAY_DEPTHWISE])

    def _tiles(self, go: Instruction, kernel: Instruction) -> Iterator[Part]:
        rows = self._fabric.config.rows
        slots = kernel.ky_count * kernel.run_count * kernel.chunks * self._fabric.config.columns
        for first in range(0, go.pixels, rows):
            yield slots, [0] + [1] * (min(rows, go.pixels - first) - 1) if go.drain else []

    def _lines(self, go: Instruction, depthwise: Instruction) -> Iterator[Part]:
        rows = self._fabric.config.rows
        # The taps load in `rows` slots; the stream begins as early as no tap can be late for an output.
        wait = rows if depthwise.skip < rows else max(2 * rows - 1 - depthwise.skip, 0)
        walked, end = 0, wait + go.advances
        for y in range(depthwise.out_height):
            first = wait + depthwise.skip + y * depthwise.line * depthwise.y_stride + 1
            if first > end:
                break
            yield first - walked, [0] + [depthwise.x_stride] * (depthwise.out_width - 1)
            walked = first
        yield end - walked, []
