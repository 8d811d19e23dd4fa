"""What nets do that a run on the RTL does not name, estimated from those that it does.

The RTL has the registers of a netlist and the wires between its units by the same names, but not the nets within its
logic. A gate's output is computed from the probabilities of its inputs, to be 1 and to change, as if they knew nothing
of each other. A register that the RTL does not name does what its input does. Changes within a cycle are not counted,
as on the netlist.
"""

import collections
import itertools
from collections.abc import Iterator

import numpy as np

from .design import Design
from .functions import truth

SWEEPS = 4
"""Times that all logic is gone through, for registers whose input depends on their output."""
Gate = tuple[str, str]
"""A cell and its output."""


class ActivityEstimate:
    """`ones`, `changes`: of each net the probability to be 1, and to change from a cycle to the next.

    `known`: for each net whether the run counted it; `ones` and `changes` of those are taken as they are."""

    def __init__(self, design: Design, ones: np.ndarray, changes: np.ndarray, known: np.ndarray) -> None:
        self.ones, self.changes, self._known = ones.copy(), changes.copy(), known
        self._design = design
        registers = list(self._registers())
        levels = list(self._levels())
        for _ in range(SWEEPS):
            for kind, outputs, inputs in levels:
                self._settle(kind, outputs, inputs)
            for output, source, is_turned in registers:
                self.ones[output] = 1 - self.ones[source] if is_turned else self.ones[source]
                self.changes[output] = self.changes[source]

    def _registers(self) -> Iterator[tuple[int, int, bool]]:
        """Outputs of registers that nobody counted, the nets at their inputs, and whether they are turned."""
        for instance in self._design.netlist.instances:
            if instance.kind in self._design.shapes:
                continue
            cell = self._design.cell(instance)
            if cell.state is None:
                continue
            source = instance.pins.get(cell.state.next_state, (None,))[0]
            for port, function in cell.function.items():
                output = instance.pins.get(port, (None,))[0]
                if output is not None and source is not None and not self._known[output]:
                    yield output, source, function == cell.state.inverse

    def _levels(self) -> Iterator[tuple[Gate, np.ndarray, np.ndarray]]:
        """Gates of one kind whose inputs are there, in the order in which logic settles: outputs, and inputs in rows;
        -1 for a constant 0."""
        design = self._design
        depth: dict[int, int] = {}
        gates = {
            number: instance
            for number, instance in enumerate(design.netlist.instances)
            if instance.kind not in design.shapes and design.cell(instance).state is None
        }
        for number in self._sorted(gates):
            instance = gates[number]
            drivers = (
                design.drivers[instance.pins[port][0] or 0]
                for port in design.cell(instance).inputs
                if instance.pins.get(port, (None,))[0] is not None
            )
            depth[number] = 1 + max((depth.get(each[0], 0) for each in drivers if each), default=0)
        groups: dict[tuple[int, str], list[int]] = collections.defaultdict(list)
        for number, level in depth.items():
            groups[level, gates[number].kind].append(number)
        for (_, kind), members in sorted(groups.items()):
            cell = design.cell(gates[members[0]])
            for output in cell.function:
                nets = [gates[number].pins.get(output, (None,))[0] for number in members]
                rows = [
                    [
                        -1 if (net := gates[number].pins.get(pin, (None,))[0]) is None else net
                        for pin in cell.inputs
                    ]
                    for number, net_ in zip(members, nets, strict=True)
                    if net_ is not None and not self._known[net_]
                ]
                wanted = [net for net in nets if net is not None and not self._known[net]]
                if wanted:
                    yield (kind, output), np.array(wanted), np.array(rows)

    def _sorted(self, gates: dict) -> Iterator[int]:
        """Numbers of gates, each behind those that drive it."""
        design = self._design
        waits = {
            number: sum(
                1
                for pin in design.cell(instance).inputs
                if (net := instance.pins.get(pin, (None,))[0]) is not None
                and (driver := design.drivers[net]) is not None
                and driver[0] in gates
            )
            for number, instance in gates.items()
        }
        ready = collections.deque(number for number, left in waits.items() if not left)
        while ready:
            number = ready.popleft()
            yield number
            for port in design.cell(gates[number]).function:
                if (net := gates[number].pins.get(port, (None,))[0]) is None:
                    continue
                for reader, _ in design.loads[net]:
                    if reader in waits:
                        waits[reader] -= 1
                        if not waits[reader]:
                            ready.append(reader)

    def _settle(self, gate: Gate, outputs: np.ndarray, inputs: np.ndarray) -> None:
        """What outputs do, from the four ways in which each input goes from a cycle to the next."""
        cell = self._design.library.cells[gate[0]]
        function = truth(cell.function[gate[1]], tuple(cell.inputs))
        joint = np.ones((1, len(outputs)))
        for column in inputs.T:
            ones = np.where(column < 0, 0.0, self.ones[column])
            half = np.minimum(np.where(column < 0, 0.0, self.changes[column]) / 2, np.minimum(ones, 1 - ones))
            ways = np.stack([1 - ones - half, half, half, ones - half])  # 00, 01, 10, 11
            joint = (joint[:, None] * ways[None]).reshape(-1, len(outputs))
        before, after = _pairs(function, inputs.shape[1])
        self.ones[outputs] = before @ joint
        self.changes[outputs] = (before != after) @ joint


def _pairs(function: np.ndarray, inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """The output before and after, for each combination of the ways of the inputs."""
    ways = np.array(list(itertools.product(range(4), repeat=inputs))).reshape(-1, inputs)
    weights = 1 << np.arange(inputs)[::-1]
    return function[(ways >> 1) @ weights], function[(ways & 1) @ weights]
