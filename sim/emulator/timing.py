"""Predicts the cycles of a program: every unit is a process on an event-driven timeline.

Only the instructions matter, never the data. Of the waits for a bank of the activation memory only those of
ARRAY for VECTOR are counted, a tile at a time. The pipeline depths are constants in timing_parts.py; all else
follows docs/architecture.md.
"""

import dataclasses
from collections.abc import Sequence

from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, Instruction, Opcode, Unit

from ..result import Slice
from .events import Condition, Process
from .timing_array import ArrayUnit
from .timing_dma import TransferUnit
from .timing_parts import (
    FETCH_AHEAD_INSTRUCTIONS,
    FETCH_BURST_BYTES,
    FETCH_CYCLES,
    QUEUE_CYCLES,
    START_CYCLES,
    AccumulatorFifo,
    Fabric,
    Queue,
    VectorReads,
)
from .timing_vector import VectorUnit


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
    fabric = Fabric(config, bandwidth_bytes or config.columns, latency_cycles)
    machine = _Machine(fabric, program, program_address)
    fabric.timeline.run()
    if machine.end_cycle is None:
        raise Deadlock(machine.waiting())
    counters, word = fabric.counters, config.word_bytes
    return Prediction(
        cycles=machine.end_cycle,
        read_bytes=(counters["fetch_beats"] + counters["load_beats"]) * word,
        write_bytes=counters["store_beats"] * word,
        marks=fabric.marks,
        counters=dict(counters),
        slices=fabric.slices,
    )


class _Machine:
    """The sequencer, and the units on their queues."""

    def __init__(self, fabric: Fabric, program: Sequence[Instruction], program_address: int):
        self._fabric, self._program, self._address = fabric, program, program_address
        self._arrivals: list[int] = []
        """Cycles in which instructions can be dispatched, as far as they are known."""
        self._dispatched = 0
        self._changed = Condition(fabric.timeline)
        self.end_cycle: int | None = None
        timeline, depth = fabric.timeline, fabric.config.queue_commands
        self._queues = {unit: Queue(timeline, depth, QUEUE_CYCLES) for unit in Unit if unit != Unit.SEQUENCER}
        fifo = AccumulatorFifo(fabric.config, timeline)
        reads = VectorReads(fabric.config)
        self._array = array = ArrayUnit(fabric, self._queues[Unit.ARRAY], fifo, reads)
        processes = (
            self._fetch(),
            self._dispatch(),
            TransferUnit(fabric, self._queues[Unit.LOAD], "load").run(),
            array.commands(),
            array.slots(),
            VectorUnit(fabric, self._queues[Unit.VECTOR], fifo, reads).run(),
            TransferUnit(fabric, self._queues[Unit.STORE], "store").run(),
        )
        for process in processes:
            timeline.resume_at(START_CYCLES, process)

    def waiting(self) -> str:
        """The oldest incomplete command of every unit that has one."""
        heads = {unit: queue.items[0][1] for unit, queue in self._queues.items() if queue.items}
        if self._array.running:
            heads[Unit.ARRAY] = self._array.running
        return ", ".join(f"{unit.name} at {command}" for unit, command in heads.items())

    def _fetch(self) -> Process:
        word, fabric = self._fabric.config.word_bytes, self._fabric
        left = len(self._program)
        # Bursts end at multiples of their length.
        count = (FETCH_BURST_BYTES - self._address % FETCH_BURST_BYTES) // INSTRUCTION_BYTES
        while left > 0:
            count = min(count, left)
            while len(self._arrivals) + count - self._dispatched > FETCH_AHEAD_INSTRUCTIONS:
                yield self._changed
            beats = -(-count * INSTRUCTION_BYTES // word)
            fabric.counters["fetch_beats"] += beats
            end = fabric.reads.transfer(beats, 0)
            for number in range(count):
                beats_after = (count - 1 - number) * INSTRUCTION_BYTES // word
                self._arrivals.append(end - beats_after + FETCH_CYCLES)
            self._changed.notify()
            left -= count
            count = FETCH_BURST_BYTES // INSTRUCTION_BYTES
            yield fabric.timeline.now + 2

    def _dispatch(self) -> Process:
        fabric, timeline = self._fabric, self._fabric.timeline
        for number, instruction in enumerate(self._program):
            while len(self._arrivals) <= number:
                yield self._changed
            yield max(self._arrivals[number], timeline.now)
            unit = instruction.opcode.unit
            if unit != Unit.SEQUENCER:
                fabric.busy += 1
                yield from self._queues[unit].put(instruction)
            elif instruction.opcode == Opcode.END:
                while fabric.busy:
                    yield fabric.idle
                self.end_cycle = timeline.now
            self._dispatched = number + 1
            self._changed.notify()
            yield timeline.now + 1
