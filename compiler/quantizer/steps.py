"""Steps of a recurrence: which tensors of an unrolled loop are the same quantity at another time.

A network that is unrolled in time computes the same things with the same weights step after step. Where all steps have
the same encodings, they have the same tables, biases and multipliers too, and the program needs each of those once.
"""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from tosaic.compiler.ir import Graph, Operator, data_inputs
from tosaic.compiler.quantizer.calibration import Statistics
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.compiler.quantizer.functions import is_real

_WIDENED = 2.0
"""Steps share encodings where the range of all is at most this much wider than that of a median step."""


def steps_of_recurrences(graph: Graph, statistics: Statistics) -> list[list[str]]:
    """Groups of tensors of a canonical float graph, each the same quantity at several times."""
    return _Steps(graph).groups(statistics)


class _Steps:
    """Begins with products that have the same weights, each computed from the one before, and goes on with the
    operators that read their results in the same way."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.index = graph, graph.index()
        self._contents: dict[str, bytes] = {}
        self._parents: dict[str, str] = {}

    def groups(self, statistics: Statistics) -> list[list[str]]:
        for steps in self._recurrences():
            if _alike([statistics.range(op.inputs[0]) for op in steps]):
                for before, after in itertools.pairwise(steps):
                    self._match(before, after)
        found: dict[str, list[str]] = {}
        for name in self._parents:
            found.setdefault(self._root(name), []).append(name)
        return [names for names in found.values() if len(names) > 1]

    def _recurrences(self) -> Iterator[list[Operator]]:
        """Products of the same weights in the order of time, each computed from the one before."""
        same: dict[tuple, list[Operator]] = {}
        for op in self.graph.operators:
            if op.op in MACS and self.graph.tensors[op.inputs[1]].data is not None:
                same.setdefault(self._signature(op), []).append(op)
        for operators in same.values():
            if len(operators) > 1:
                yield from self._chains(operators)

    def _chains(self, operators: list[Operator]) -> Iterator[list[Operator]]:
        """Divides operators into chains; one that does not depend on any of the others is in none."""
        latest: dict[str, int] = {}
        """Tensor -> number of the last of the operators that it is computed from."""
        numbers, chains = {id(op): number for number, op in enumerate(operators)}, list[list[Operator]]()
        ends: dict[int, list[Operator]] = {}
        for op in self.graph.operators:
            depends = max((latest[name] for name in op.inputs if name in latest), default=None)
            number = numbers.get(id(op))
            if number is not None:
                chain = ends.pop(depends, None) if depends is not None else None
                if chain is None:
                    chain = []
                    chains.append(chain)
                chain.append(op)
                ends[number] = chain
                depends = number
            if depends is not None:
                latest.update(dict.fromkeys(op.outputs, depends))
        return (chain for chain in chains if len(chain) > 1)

    # --- what goes with them

    def _match(self, before: Operator, after: Operator) -> None:
        """Two operators do the same at two times: so do their operands' and results' other readers."""
        pending = [(before, after)]
        while pending:
            a, b = pending.pop()
            pairs = [
                *zip(data_inputs(a), data_inputs(b), strict=True),
                *zip(a.outputs, b.outputs, strict=True),
            ]
            for one, other in pairs:
                if self._join(one, other):
                    pending += self._common_readers(one, other)

    def _common_readers(self, one: str, other: str) -> Iterator[tuple[Operator, Operator]]:
        """Readers of two tensors that do the same with them."""
        found = [
            _unique((self._signature(op), op) for op in self.index.consumers(name)) for name in (one, other)
        ]
        for key, op in found[0].items():
            if key in found[1]:
                yield op, found[1][key]

    def _signature(self, op: Operator) -> tuple:
        """Equal for operators that do the same with operands of the same shapes."""
        operands = tuple(self._content(name) for name in op.inputs)
        shapes = tuple(self.graph.tensors[name].shape for name in op.outputs)
        return op.op, operands, shapes, repr(sorted(op.attributes.items(), key=lambda item: item[0]))

    def _content(self, name: str) -> tuple:
        tensor = self.graph.tensors[name]
        if tensor.data is None:
            return tensor.shape, tensor.dtype
        if name not in self._contents:
            self._contents[name] = np.ascontiguousarray(tensor.data).tobytes()
        return tensor.shape, tensor.dtype, self._contents[name]

    def _join(self, one: str, other: str) -> bool:
        """Returns False where they are known to be the same, or are no quantities."""
        if any(
            self.graph.tensors[name].data is not None or not is_real(self.graph, name)
            for name in (one, other)
        ):
            return False
        a, b = self._root(one), self._root(other)
        if a != b:
            self._parents[b] = a
        return a != b

    def _root(self, name: str) -> str:
        self._parents.setdefault(name, name)
        while self._parents[name] != name:
            name = self._parents[name]
        return name


def _unique(readers: Iterable[tuple[tuple, Operator]]) -> dict[tuple, Operator]:
    """Returns the operators by signature, without signatures that several share."""
    found: dict[tuple, list[Operator]] = {}
    for key, op in readers:
        found.setdefault(key, []).append(op)
    return {key: ops[0] for key, ops in found.items() if len(ops) == 1}


def _alike(ranges: list[tuple[float, float]]) -> bool:
    widths = sorted(high - low for low, high in ranges)
    whole = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return whole <= _WIDENED * widths[len(widths) // 2]
