"""Predicts the cycles of a program: every unit is a process on an event-driven timeline.

Only the instructions matter, never the data. The constants below are the pipeline depths of the RTL;
everything else follows docs/architecture.md.
"""

import collections
import dataclasses
from collections.abc import Callable, Sequence

from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, Instruction, Opcode, Source, Unit

from .events import Condition, Process, Timeline

FETCH_BURST_BYTES = 256
"""Bytes of program per fetch burst."""
FETCH_AHEAD_INSTRUCTIONS = 32
"""Instructions the sequencer fetches ahead."""
COMMAND_CYCLES = 1
"""A unit takes a command that starts nothing."""
TRANSFER_START_CYCLES = 4
"""From taking a LOAD_GO or STORE_GO to its first address on the bus."""
TRANSFER_END_CYCLES = 3
"""From the last beat of a read to its bytes in on-chip memory."""
BURST_BYTES = 256
"""Longest burst of LOAD and STORE."""
OUTSTANDING_BURSTS = 8
"""Bursts of LOAD under way."""
ARRAY_START_CYCLES = 6
"""From taking a GO in an idle array to the first product; hidden while another GO runs."""
ARRAY_DRAIN_CYCLES = 4
"""From a row's last product to its vector at the vector unit."""
VECTOR_START_CYCLES = 3
"""From taking a VECTOR_GO to the first slot."""
VECTOR_END_CYCLES = 2
"""Added to vector_latency_cycles after the last slot: its store is written."""
FIFO_VECTORS_MIN = 8
"""The queue between array and vector unit holds `rows` vectors, at least this many."""


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


def predict(
    config: Config,
    program: Sequence[Instruction],
    program_address: int,
    bandwidth_bytes: int | None,
    latency_cycles: int,
) -> Prediction:
    """Cycles, traffic and marks of a program whose instructions are executed once, in this order.

    Raises Deadlock when the units, side by side with bounded queues, would wait for each other forever.
    """
    model = _Machine(config, program, program_address, bandwidth_bytes or config.columns, latency_cycles)
    model.timeline.run()
    if not model.ended:
        raise Deadlock(model.waiting())
    return Prediction(model.end_cycle, model.read_bytes, model.write_bytes, model.marks, dict(model.counters))


class _Channel:
    """The data channel of one direction of the bus: beats in the order of their requests."""

    def __init__(self, timeline: Timeline, beat_cycles: float, latency_cycles: int):
        self._timeline, self._beat_cycles, self._latency_cycles = timeline, beat_cycles, latency_cycles
        self._free_at = 0.0

    def transfer(self, beats: int) -> int:
        """The cycle in which the last beat of a burst requested now has passed."""
        start = max(self._timeline.now + self._latency_cycles, self._free_at)
        self._free_at = start + beats * self._beat_cycles
        return int(self._free_at + 0.999)


class _Queue:
    """Commands on their way to a process, `depth` at most."""

    def __init__(self, timeline: Timeline, depth: int):
        self.items: collections.deque[Instruction] = collections.deque()
        self.depth = depth
        self.changed = Condition(timeline)

    def put(self, item: Instruction) -> Process:
        while len(self.items) >= self.depth:
            yield self.changed
        self.items.append(item)
        self.changed.notify()


class _Machine:
    """Units, queues, semaphores and bus on one timeline."""

    def __init__(
        self,
        config: Config,
        program: Sequence[Instruction],
        program_address: int,
        bandwidth: int,
        latency_cycles: int,
    ):
        self.config, self.program, self.program_address = config, program, program_address
        self.timeline = Timeline()
        self.end_cycle = 0
        self.ended = False
        self.read_bytes = self.write_bytes = 0
        self.marks: list[tuple[int, int]] = []
        self.counters: collections.Counter[str] = collections.Counter()
        word = config.word_bytes
        beat_cycles = max(word / bandwidth, 1.0)
        self.reads = _Channel(self.timeline, beat_cycles, latency_cycles)
        self.writes = _Channel(self.timeline, beat_cycles, 0)
        self.latency_cycles = latency_cycles
        self.semaphores = [0] * config.semaphores
        self.signalled = Condition(self.timeline)
        self.idle = Condition(self.timeline)
        units: dict[Unit, Callable[[_Queue], Process]] = {
            Unit.LOAD: self._load,
            Unit.ARRAY: self._array_commands,
            Unit.VECTOR: self._vector,
            Unit.STORE: self._store,
        }
        self.queues = {unit: _Queue(self.timeline, config.queue_commands) for unit in units}
        self.array_queue = _Queue(self.timeline, 2)
        self.setups: collections.deque[dict[Opcode, Instruction]] = collections.deque()
        """Configuration of every command in `array_queue`."""
        self.busy = 0
        """Commands handed to a unit and not complete."""
        self.fetched = 0
        self.fetch_changed = Condition(self.timeline)
        self.dispatched = 0
        self.push_times: list[int] = []
        self.pop_times: list[int] = []
        self.fifo_changed = Condition(self.timeline)
        self.fifo_vectors = max(config.rows, FIFO_VECTORS_MIN)
        self.timeline.resume_at(0, self._fetch())
        self.timeline.resume_at(0, self._sequence())
        self.timeline.resume_at(0, self._array())
        for unit, process in units.items():
            self.timeline.resume_at(0, process(self.queues[unit]))

    def waiting(self) -> str:
        """The oldest incomplete command of every unit that has one."""
        heads = {unit.name: queue for unit, queue in self.queues.items()} | {"ARRAY": self.array_queue}
        return ", ".join(f"{unit} at {queue.items[0]}" for unit, queue in heads.items() if queue.items)

    # Sequencer

    def _fetch(self) -> Process:
        word = self.config.word_bytes
        burst = FETCH_BURST_BYTES // INSTRUCTION_BYTES
        for first in range(0, len(self.program), burst):
            while first + burst - self.dispatched > FETCH_AHEAD_INSTRUCTIONS + burst:
                yield self.fetch_changed
            beats = FETCH_BURST_BYTES // word
            self.read_bytes += beats * word
            self.counters["fetch_beats"] += beats
            end = self.reads.transfer(beats)
            yield max(end - beats, self.timeline.now)
            # The first instruction of a burst does not wait for its last one.
            self.fetched = first + burst
            self.fetch_changed.notify()

    def _sequence(self) -> Process:
        for number, instruction in enumerate(self.program):
            while self.fetched <= number:
                yield self.fetch_changed
            unit = instruction.opcode.unit
            if unit != Unit.SEQUENCER:
                self.busy += 1
                yield from self.queues[unit].put(instruction)
            elif instruction.opcode == Opcode.END:
                while self.busy:
                    yield self.idle
                self.end_cycle, self.ended = self.timeline.now, True
            self.dispatched = number + 1
            self.fetch_changed.notify()
            yield self.timeline.now + 1

    # Commands common to all units

    def _next(self, queue: _Queue) -> Process:
        """Wait until `queue` has an item; it stays there until `_complete`."""
        while not queue.items:
            yield queue.changed

    def _complete(self, queue: _Queue, last: bool = True) -> Instruction:
        item = queue.items.popleft()
        queue.changed.notify()
        if last:
            self._done()
        return item

    def _done(self) -> None:
        self.busy -= 1
        if not self.busy:
            self.idle.notify()

    def _wait(self, wait: Instruction) -> Process:
        while self.semaphores[wait.semaphore] < wait.count:
            yield self.signalled
        self.semaphores[wait.semaphore] -= wait.count

    def _signal(self, signal: Instruction) -> None:
        self.semaphores[signal.semaphore] += signal.count
        self.signalled.notify()

    # LOAD and STORE

    def _load(self, queue: _Queue) -> Process:
        pitch, complete_at = 0, 0
        under_way: collections.deque[int] = collections.deque()
        while True:
            yield from self._next(queue)
            command = queue.items[0]
            match command.opcode:
                case Opcode.LOAD_PITCH:
                    pitch = command.memory_pitch
                case Opcode.LOAD_WAIT:
                    yield from self._wait(command)
                case Opcode.LOAD_SIGNAL:
                    # Travels behind the data; the next transfer's addresses go out meanwhile.
                    self.timeline.resume_at(max(complete_at, self.timeline.now), self._signal_later(command))
                case Opcode.LOAD_GO:
                    bursts = self._bursts(command, pitch)
                    yield self.timeline.now + TRANSFER_START_CYCLES
                    for beats in bursts:
                        while len(under_way) >= OUTSTANDING_BURSTS:
                            yield max(under_way.popleft(), self.timeline.now)
                        self.read_bytes += beats * self.config.word_bytes
                        end = self.reads.transfer(beats)
                        under_way.append(end)
                        complete_at = end + TRANSFER_END_CYCLES
                        yield self.timeline.now + 1
                    self.counters["load_beats"] += sum(bursts)
            if len(queue.items) == 1:
                # Keeps END waiting until the last transfer is complete.
                yield max(complete_at, self.timeline.now)
            self._complete(queue)
            yield self.timeline.now + COMMAND_CYCLES

    def _signal_later(self, signal: Instruction) -> Process:
        self._signal(signal)
        yield self.timeline.now

    def _store(self, queue: _Queue) -> Process:
        pitch, complete_at = 0, 0
        while True:
            yield from self._next(queue)
            command = queue.items[0]
            match command.opcode:
                case Opcode.STORE_PITCH:
                    pitch = command.memory_pitch
                case Opcode.STORE_WAIT:
                    yield from self._wait(command)
                case Opcode.STORE_SIGNAL:
                    yield max(complete_at, self.timeline.now)
                    self._signal(command)
                case Opcode.STORE_GO:
                    bursts = self._bursts(command, pitch)
                    yield self.timeline.now + TRANSFER_START_CYCLES
                    for beats in bursts:
                        self.write_bytes += beats * self.config.word_bytes
                        end = self.writes.transfer(beats)
                        complete_at = end + self.latency_cycles
                        yield max(end, self.timeline.now)
                    self.counters["store_beats"] += sum(bursts)
            if len(queue.items) == 1:
                yield max(complete_at, self.timeline.now)
            self._complete(queue)
            yield self.timeline.now + COMMAND_CYCLES

    def _bursts(self, go: Instruction, pitch: int) -> list[int]:
        """Beats of every burst of a transfer."""
        word, bursts = self.config.word_bytes, []
        for row in range(go.rows):
            address = go.memory_address + row * pitch
            end = address + go.row_bytes
            address -= address % word
            while address < end:
                boundary = min(address // BURST_BYTES * BURST_BYTES + BURST_BYTES, end)
                bursts.append(-(-(boundary - address) // word))
                address = boundary
        return bursts

    # ARRAY

    def _array_commands(self, queue: _Queue) -> Process:
        """Configuration and WAIT; GOs and SIGNALs go on to the array: the next GO is ready in time."""
        setup: dict[Opcode, Instruction] = {}
        while True:
            yield from self._next(queue)
            command = queue.items[0]
            if command.opcode in (Opcode.ARRAY_GO, Opcode.ARRAY_DEPTHWISE_GO, Opcode.ARRAY_SIGNAL):
                # The configuration of this moment goes along: what follows may change it before the array gets here.
                self.setups.append(dict(setup))
                yield from self.array_queue.put(command)
                self._complete(queue, last=False)
            else:
                if command.opcode == Opcode.ARRAY_WAIT:
                    yield from self._wait(command)
                else:
                    setup[command.opcode] = command
                self._complete(queue)
            yield self.timeline.now + COMMAND_CYCLES

    def _array(self) -> Process:
        free_at = 0
        queue = self.array_queue
        while True:
            yield from self._next(queue)
            command = queue.items[0]
            self.array_setup = self.setups.popleft()
            if command.opcode == Opcode.ARRAY_SIGNAL:
                self._signal(command)
            else:
                now = self.timeline.now
                started = now if now <= free_at else now + ARRAY_START_CYCLES
                emissions = (
                    self._tiles(command) if command.opcode == Opcode.ARRAY_GO else self._lines(command)
                )
                clock = started
                for cycles, gaps in emissions:
                    clock += cycles
                    push = clock + ARRAY_DRAIN_CYCLES
                    for gap in gaps:
                        push += gap
                        pushed = yield from self._push(push)
                        clock += pushed - push
                        push = pushed
                    yield max(clock, self.timeline.now)
                free_at = self.timeline.now + 1
                self.counters["array_active"] += clock - started
            self._complete(queue)

    def _tiles(self, go: Instruction) -> list[tuple[int, range | list[int]]]:
        """(cycles, distances between the vectors that follow) of every tile."""
        kernel = self.array_setup[Opcode.ARRAY_KERNEL]
        rows = self.config.rows
        cycles = kernel.ky_count * kernel.run_count * kernel.chunks * self.config.columns
        tiles = []
        for first in range(0, go.pixels, rows):
            tiles.append((cycles, [1] * min(rows, go.pixels - first) if go.drain else []))
        return tiles

    def _lines(self, go: Instruction) -> list[tuple[int, range | list[int]]]:
        """The same of a depthwise GO, by output line."""
        depthwise = self.array_setup[Opcode.ARRAY_DEPTHWISE]
        lines, clock = [(self.config.rows, [])], 0
        for y in range(depthwise.out_height):
            first = depthwise.skip + y * depthwise.line * depthwise.y_stride
            lines.append((first - clock, [0] + [depthwise.x_stride] * (depthwise.out_width - 1)))
            clock = first
        lines.append((go.advances - clock, []))
        return lines

    def _push(self, time: int) -> Process:
        """Send one vector at `time` or when there is room; returns when."""
        number = len(self.push_times)
        if number >= self.fifo_vectors:
            while len(self.pop_times) <= number - self.fifo_vectors:
                yield self.fifo_changed
            time = max(time, self.pop_times[number - self.fifo_vectors] + 1)
        self.push_times.append(time)
        self.fifo_changed.notify()
        return time

    # VECTOR

    def _vector(self, queue: _Queue) -> Process:
        uops: dict[int, Instruction] = {}
        while True:
            yield from self._next(queue)
            command = queue.items[0]
            match command.opcode:
                case Opcode.VECTOR_UOP:
                    uops[command.index] = command
                case Opcode.VECTOR_WAIT:
                    yield from self._wait(command)
                case Opcode.VECTOR_SIGNAL:
                    self._signal(command)
                case Opcode.VECTOR_PARAM:
                    words = 4 * command.bias + 5 * command.scale
                    yield self.timeline.now + words + 2
                case Opcode.VECTOR_TABLE:
                    yield self.timeline.now + 4 * command.entries // self.config.columns + 2
                case Opcode.VECTOR_MARK:
                    self.marks.append((command.layer, self.timeline.now))
                case Opcode.VECTOR_GO:
                    yield from self._vector_go(command, [uops[index] for index in range(command.uops)])
            self._complete(queue)
            yield self.timeline.now + COMMAND_CYCLES

    def _vector_go(self, go: Instruction, uops: list[Instruction]) -> Process:
        latency = self.config.vector_latency_cycles
        from_array = [uop.a_source == Source.ARRAY for uop in uops]
        once = go.body_start + go.uops - go.body_end
        count = once + go.repeats * (go.body_end - go.body_start)
        clock = self.timeline.now + VECTOR_START_CYCLES
        if not any(from_array):
            batches, tail = divmod(go.vectors, go.slots)
            clock += batches * count * max(go.slots, latency) + (count * max(tail, latency) if tail else 0)
        else:
            sequence = from_array[: go.body_start]
            sequence += from_array[go.body_start : go.body_end] * go.repeats + from_array[go.body_end :]
            for first in range(0, go.vectors, go.slots):
                slots = min(go.slots, go.vectors - first)
                for takes in sequence:
                    issue = clock
                    if takes:
                        for _ in range(slots):
                            issue = yield from self._pop(issue)
                    clock = max(clock + max(slots, latency), issue)
                # Pops are known ahead of time; their cycle is what the array sees.
                yield max(clock - latency, self.timeline.now)
        yield max(
            clock + VECTOR_END_CYCLES + (latency if count else 0) - min(latency, go.slots), self.timeline.now
        )

    def _pop(self, time: int) -> Process:
        """Take the next vector at `time` or when there is one; returns the cycle after."""
        number = len(self.pop_times)
        while len(self.push_times) <= number:
            yield self.fifo_changed
        time = max(time, self.push_times[number] + 1)
        self.pop_times.append(time)
        self.fifo_changed.notify()
        return time + 1
