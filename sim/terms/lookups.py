"""Chains of operators on terms of few values, enumerated: a program may look their results up in a table."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Trait, operators_with

from .algebra import Algebra, UndecidedError
from .values import Terms

MOST_VALUES, MOST_ELEMENTS = 512, 1 << 14
"""Terms of more values, and tensors of more elements, are not enumerated."""
_RENAMES = operators_with(Trait.RENAMES)
_ELEMENTWISE = _RENAMES | operators_with(Trait.ELEMENTWISE) - operators_with(Trait.COMPARES)
"""Each element of their results is of the elements at its place, which tests/golden/test_traits.py tries on golden."""

Read = Callable[[Graph, Operator, Sequence[Terms | None], Algebra], Terms]
"""What an operator makes of operands, of which None stands for the constant of the graph."""


@dataclasses.dataclass(frozen=True)
class _Curve:
    """A tensor each of whose elements is a function of that of tensor `origin` at the same place."""

    origin: str
    values: np.ndarray
    """int64: what becomes of the origin's lowest value, and of those that follow."""
    tabled: bool
    """Whether a TABLE is on the way."""


class Curves:
    """Follows the curves of a graph while it is evaluated, and tells `algebra.lookups` of those with a TABLE."""

    def __init__(self, graph: Graph, algebra: Algebra, read: Read):
        self._read = read
        self._graph, self._algebra, self._concrete = graph, algebra, Algebra(entropy=0)
        self._on = algebra.uses("lookups") and any(operator.op == "TABLE" for operator in graph.operators)
        algebra.evaluations += 1
        self._number = algebra.evaluations
        self._origins = dict[str, Terms]()
        self._curves = dict[str, _Curve | None]()

    def follow(self, operator: Operator, values: Mapping[str, Terms]) -> None:
        """The operator's result is among `values`."""
        if not self._on or operator.op not in _ELEMENTWISE:
            return
        name = operator.outputs[0]
        curve = self._curves[name] = self._curve(operator, values)
        if curve is not None and curve.tabled:
            terms = self._origins[curve.origin]
            turns = self._algebra.subtract(terms, self._algebra.constant(terms.low))
            names = self._algebra.indexed.note_index(turns, len(curve.values))
            # A loop evaluates a graph again and again.
            origin = f"{self._number} {curve.origin}"
            self._algebra.lookups.note(origin, names, curve.values, values[name])

    def _of(self, name: str, values: Mapping[str, Terms]) -> _Curve | None:
        """The curve of a tensor that is computed: its own, where it is no other's and has few values."""
        if self._curves.get(name) is None:
            terms = values[name]
            low, high = (np.unique(ends) for ends in (terms.low, terms.high))
            if terms.size > MOST_ELEMENTS or len(low) != 1 or len(high) != 1 or high - low >= MOST_VALUES:
                return None
            self._origins[name] = terms
            self._curves[name] = _Curve(name, np.arange(low[0], high[0] + 1), False)
        return self._curves[name]

    def _curve(self, operator: Operator, values: Mapping[str, Terms]) -> _Curve | None:
        output, given = self._graph.tensor(operator.outputs[0]), list[Terms | None]()
        tensors, found = [self._graph.tensor(name) for name in operator.inputs], list[_Curve]()
        rank = max(len(output.shape), 1)
        for number, tensor in enumerate(tensors):
            data = tensor.data
            if data is None:
                curve = self._of(operator.inputs[number], values)
                same = tuple(tensor.shape) == tuple(output.shape) or operator.op in _RENAMES
                if curve is None or not same:
                    return None
                found.append(curve)
                given.append(self._concrete.constant(curve.values.reshape((1,) * (rank - 1) + (-1,))))
            elif operator.op in _RENAMES or (operator.op, number) == ("TABLE", 1):
                given.append(None)
            elif len(only := np.unique(data)) == 1:
                given.append(self._concrete.constant(np.full((1,) * max(data.ndim, 1), int(only[0]))))
            else:
                return None
        if len({curve.origin for curve in found}) != 1:
            return None
        origin, tabled = found[0].origin, operator.op == "TABLE" or any(curve.tabled for curve in found)
        if operator.op in _RENAMES:
            return _Curve(origin, found[0].values, tabled)
        try:
            result = self._read(self._graph, operator, given, self._concrete)
        except UndecidedError:
            return None
        if not result.constant or result.size != len(found[0].values):
            return None
        return _Curve(origin, result.low.reshape(-1), tabled)
