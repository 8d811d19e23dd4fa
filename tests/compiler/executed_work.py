"""Executes pieces of work as they were emitted, in order, and compares what each touches with what it tells."""

from collections.abc import Iterable

import numpy as np

from tosaic.compiler.emit.commands import Command, Work
from tosaic.compiler.place.address import Region, Span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode, Unit
from tosaic.sim.emulator.external_memory import ExternalBytes as Window
from tosaic.sim.emulator.hazards import AM, MEMORY, Hazards
from tosaic.sim.emulator.state import CoreState
from tosaic.sim.emulator.transfer import load, store
from tosaic.sim.emulator.vector import Vector

DATA = 1 << 20
"""Where tensors begin in external memory; constants are at 0."""
_GOS = {Opcode.LOAD_GO, Opcode.STORE_GO, Opcode.VECTOR_GO}
_REGIONS = {Region.ACTIVATION: (AM, 0), Region.CONSTANTS: (MEMORY, 0), Region.DATA: (MEMORY, DATA)}


class Told(Hazards):
    """Keeps what a piece of work reads and writes; it searches for no races."""

    def __init__(self, config: Config, memory_bytes: int) -> None:
        super().__init__(config, memory_bytes)
        self.reads: list[tuple[str, np.ndarray]] = []
        self.writes: list[tuple[str, np.ndarray]] = []

    def read(self, name: str, addresses: np.ndarray, **_: object) -> None:
        self.reads.append((name, np.ravel(addresses)))

    def write(self, name: str, addresses: np.ndarray) -> None:
        self.writes.append((name, np.ravel(addresses)))

    def copy(self, source: str, addresses: np.ndarray, target: str, places: np.ndarray) -> None:
        self.read(source, addresses)
        self.write(target, places)

    def taken(self, vectors: int) -> None:
        """Nothing comes out of the array."""
        assert vectors == 0


class Machine:
    """Memories, LOAD, STORE and VECTOR."""

    def __init__(self, config: Config, external: ExternalMemory, data_bytes: int = 1 << 16):
        self._external = external
        self.memory = np.zeros(DATA + data_bytes, np.uint8)
        self.activations = np.zeros(config.am_bytes, np.uint8)
        self._told = Told(config, len(self.memory))
        self.state = CoreState(config, Window.of(self.memory), self._told)
        self._vector = Vector(self.state)
        self._marked = {AM: np.zeros(config.am_bytes, bool), MEMORY: np.zeros(len(self.memory), bool)}
        """Bytes that the present piece tells."""
        self._pitches: dict[Unit, Instruction] = {}

    @property
    def data(self) -> np.ndarray:
        return self.memory[DATA:]

    def run(self, works: Iterable[Work]) -> None:
        """Each piece must touch only bytes that it tells."""
        constants = np.frombuffer(self._external.constants(), np.uint8)
        self.memory[: len(constants)] = constants
        self.state.am.write_rows(np.array([0]), self.activations[None, None])
        for work in works:
            self._told.reads, self._told.writes = [], []
            for item in (*work.configuration, *work.commands):
                self._execute(_settled(item))
            # Who waits for what a piece writes, waits for what it reads there, too.
            assert self._within(self._told.reads, [*work.reads, *work.writes]), work
            assert self._within(self._told.writes, work.writes), work
        self.activations[:] = self.state.am.read(0, len(self.activations))[0]

    def _within(self, touched: list[tuple[str, np.ndarray]], spans: list[Span]) -> bool:
        """Whether all of these bytes are in the spans."""
        assert all(span.columns is None for span in spans)
        places = [(*_REGIONS[span.region], span) for span in spans]
        for name, base, span in places:
            self._marked[name][base + span.start : base + span.end] = True
        inside = all(self._marked[name][addresses].all() for name, addresses in touched)
        for name, base, span in places:
            self._marked[name][base + span.start : base + span.end] = False
        return inside

    def _execute(self, instruction: Instruction) -> None:
        unit = instruction.opcode.unit
        match instruction.opcode:
            case Opcode.LOAD_PITCH | Opcode.STORE_PITCH:
                self._pitches[unit] = instruction
            case Opcode.LOAD_GO:
                load(self.state, instruction, self._pitches.get(unit))
            case Opcode.STORE_GO:
                store(self.state, instruction, self._pitches.get(unit))
            case Opcode.VECTOR_GO:
                self._vector.go(instruction)
            case _:
                self._vector.configure(instruction)


def _settled(item: Command) -> Instruction:
    if item.address is None:
        return item.instruction
    address = _REGIONS[item.address.region][1] + item.address.offset
    fields = item.instruction.fields | {"memory_address": address}
    return Instruction(item.instruction.opcode, fields)


def gos(works: Iterable[Work]) -> list[Instruction]:
    """Every GO, in order."""
    return [item.instruction for work in works for item in work.commands if item.instruction.opcode in _GOS]
