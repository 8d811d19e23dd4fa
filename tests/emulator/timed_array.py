"""The cycle model's ARRAY alone: commands in, the cycles of its GOs and of the vectors that it sends out."""

from collections.abc import Sequence

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Instruction
from tosaic.sim.emulator.array_timing import ArrayTiming
from tosaic.sim.emulator.events import Process
from tosaic.sim.emulator.timing_parts import AccessesBefore, AccumulatorFifo, Bus, CoreFabric, TimedQueue


class TimedArray:
    """Runs commands that all come in cycle 0; each vector is taken when it is there. `before`: stretches of cycles in
    which VECTOR reads a bank, which the array waits for: (start, end, bank)."""

    def __init__(
        self,
        machine: str,
        *commands: Instruction,
        vectors: int = 0,
        before: Sequence[tuple[int, int, int]] = (),
    ):
        config = get_config(machine)
        bus = Bus(config, None, 0)
        self.fabric = CoreFabric(config, bus, 0, [])
        self.fabric.busy = len(commands)
        queue, fifo = TimedQueue(bus.timeline, len(commands), 1), AccumulatorFifo(config, bus.timeline)
        reads = AccessesBefore(config)
        for start, end, bank in before:
            reads.record(start, end, bank)
        unit = ArrayTiming(self.fabric, queue, fifo, reads, AccessesBefore(config))
        self.sent: list[int] = []
        """The cycle from which on each vector is there."""

        def taker() -> Process:
            for _ in range(vectors):
                times, _ = yield from fifo.take(0, 1, 1, [])
                self.sent += times

        for process in (unit.commands(), unit.slots(), taker(), *map(queue.put, commands)):
            bus.timeline.resume_at(0, process)
        bus.timeline.run()
        assert len(self.sent) == vectors and self.fabric.busy == 0

    @property
    def gos(self) -> list[tuple[int, int]]:
        """The cycle of each GO's first slot, and the one after its last slot."""
        return [(each.start, each.end) for each in self.fabric.slices]


def duration(machine: str, *commands: Instruction, vectors: int = 0, **more: Sequence) -> int:
    """Cycles of the slots of the last GO."""
    start, end = TimedArray(machine, *commands, vectors=vectors, **more).gos[-1]
    return end - start
