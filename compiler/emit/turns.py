"""A batch as a loop: one body for some samples, which runs in turns over all of them.

Instructions have fixed addresses. So the body reads and writes the places of one turn's samples, and a turn begins with
copies of its own: results of the turn before leave, and samples come. Which copies these are, a record in external
memory tells, bit by bit: each turn leaves the number of the next one there.

        copies of turn 0 ─► body ─► bits of the record ─► copies of turn 1, 2, ... ─► body ...
                                                      └─► results of the last turn leave ─► end
"""

import dataclasses

import numpy as np

from tosaic.compiler.emit.commands import Blocks, Label
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.graph_emission import OnLayer, TakeWork, emission_of, emit_graph
from tosaic.compiler.machine_numbers import TURN_COPY_BUFFERS
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.external import PlacedPort
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.tile.work import GraphPlan
from tosaic.hw.config import Config
from tosaic.hw.isa import Condition


class TurnsEmission:
    """The program of a batch. `inputs` and `outputs`: ports of the body, `turns`: how often it runs."""

    def __init__(
        self,
        config: Config,
        memories: Memories,
        inputs: list[PlacedPort],
        outputs: list[PlacedPort],
        turns: int,
    ):
        self.config, self.external = config, memories.external
        self.memories, self.inputs, self.outputs = memories, inputs, outputs
        self.all_inputs, self.all_outputs = (
            [self._all(port, turns) for port in side] for side in (inputs, outputs)
        )
        """The ports of all samples."""
        self.turns, self.bits = turns, turns.bit_length()
        self._record = self.external.reserve(self.bits)
        self._body = Label("turn")

    def _all(self, port: PlacedPort, turns: int) -> PlacedPort:
        shape, size_bytes = (turns * port.tensor.shape[0], *port.tensor.shape[1:]), turns * port.bytes
        tensor = dataclasses.replace(port.tensor, shape=shape)
        return PlacedPort(tensor, self.external.reserve(size_bytes, tensor), size_bytes)

    def emit(self, plan: GraphPlan, on_layer: OnLayer | None = None, take: TakeWork | None = None) -> Blocks:
        """The blocks of the program, as `emit` makes them of a plan that runs once."""
        emitter, layer_begins = emission_of(plan, self.config, self.memories, on_layer, take)
        self._begin(emitter, 0)
        emitter.place(self._body)
        emit_graph(emitter, plan, layer_begins)
        emitter.load(self._record, 0, self.bits)
        self._choose(emitter, self.bits - 1, 0)
        return emitter.blocks

    def _choose(self, emitter: Emitter, bit: int, first: int) -> None:
        """Goes where the record says, among the turns from `first` on that differ in bits up to this one."""
        if bit < 0:
            self._end(emitter, first - 1)
            if first < self.turns:
                self._begin(emitter, first)
                emitter.branch(Condition.ALWAYS, self._body)
            return
        middle = first + (1 << bit)
        if middle > self.turns:
            self._choose(emitter, bit - 1, first)
        elif middle == 1:
            # There is no way back to turn 0.
            self._choose(emitter, bit - 1, middle)
        else:
            upper = Label(f"turns from {middle} on")
            emitter.test(bit)
            emitter.branch(Condition.IF_SET, upper)
            self._choose(emitter, bit - 1, first)
            emitter.place(upper)
            self._choose(emitter, bit - 1, middle)

    def _begin(self, emitter: Emitter, turn: int) -> None:
        """The samples of a turn come, and the record tells of the next one."""
        for port, whole in zip(self.inputs, self.all_inputs, strict=True):
            self._copy(emitter, whole.address + turn * port.bytes, port.address, port.bytes)
        bits = np.array([turn + 1 >> bit & 1 for bit in range(self.bits)], np.uint8)
        self._copy(emitter, self.external.add_constant(bits), self._record, self.bits)

    def _end(self, emitter: Emitter, turn: int) -> None:
        """The results of a turn leave."""
        for port, whole in zip(self.outputs, self.all_outputs, strict=True):
            self._copy(emitter, port.address, whole.address + turn * port.bytes, port.bytes)

    def _copy(self, emitter: Emitter, source: Address, target: Address, size_bytes: int) -> None:
        """Copies external memory by way of activation memory, of which all is free between two turns."""
        part = self.config.am_bytes // TURN_COPY_BUFFERS
        for number, start in enumerate(range(0, size_bytes, part)):
            place, count = number % TURN_COPY_BUFFERS * part, min(part, size_bytes - start)
            emitter.load(source + start, place, count)
            emitter.store(place, target + start, count)
