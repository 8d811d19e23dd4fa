"""Floats that hold whole numbers whatever the inputs are, masks above all: computed in int32 of scale 1, exactly."""

import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import ByOperator, DType, Graph, Operator, Trait, operators_with
from tosaic.compiler.quantizer.calibration import Statistics

Span = tuple[float, float]
"""The least and the largest number that a tensor may hold."""
LARGEST = 2.0**24
"""Larger whole numbers are not exact in float32 either."""
_ROOM = 16.0
"""What comes from int32 has room for numbers this much larger than those seen; larger ones saturate."""
_SPANS = ByOperator[Callable[[list[Span]], Span]]()
"""The span of a result by those of the real operands."""
_INDEXED = operators_with(Trait.INDEXED)
_PICKS = operators_with(Trait.PICKS) - operators_with(Trait.POOLS)
"""Operators that keep whole numbers as they are; TOSA pools no int32."""


def whole_numbers(graph: Graph, statistics: Statistics) -> dict[str, Span]:
    """The tensors of reals that are computed from integers and truth values alone, as whole numbers, and their spans.

    Operators must be in topological order.
    """
    return _SpanSearch(graph, statistics).found


class _SpanSearch:
    def __init__(self, graph: Graph, statistics: Statistics) -> None:
        self.graph, self.statistics = graph, statistics
        self.found: dict[str, Span] = {}
        self._discrete = {name for name in graph.inputs if not self._is_real(name)}
        """Integers and truth values that no real takes part in."""
        for op in graph.operators:
            if all(self._is_known(name) for name in op.inputs):
                for name in op.outputs:
                    self._add(op, name)

    def _add(self, op: Operator, result: str) -> None:
        if not self._is_real(result):
            self._discrete.add(result)
            return
        span = self._span(op, result)
        if span is not None and max(map(abs, span)) <= LARGEST:
            self.found[result] = span

    def _is_real(self, name: str) -> bool:
        return self.graph.tensors[name].dtype.is_float

    def _is_known(self, name: str) -> bool:
        if self.graph.tensors[name].data is not None:
            return not self._is_real(name) or self._constant(name) is not None
        return name in self.found or name in self._discrete

    def _constant(self, name: str) -> Span | None:
        data = self.graph.tensors[name].data
        if (
            data is None
            or not data.size
            or not np.all(np.abs(data) <= LARGEST)
            or np.any(data != np.rint(data))
        ):
            return None
        return float(data.min()), float(data.max())

    def _span(self, op: Operator, result: str) -> Span | None:
        if op.op == "CAST" and not self._is_real(op.inputs[0]):
            return self._span_of_integers(op.inputs[0], result)
        reals = [name for name in op.inputs if self._is_real(name)]
        spans = [self.found.get(name) or self._constant(name) for name in reals]
        if not spans or any(span is None for span in spans):
            return None
        known = [span for span in spans if span is not None]
        if op.op in _INDEXED and self.graph.tensors[reals[0]].data is not None:
            return None  # a table of constants
        if op.op == "CLAMP":
            return self._clamped(op, known[0])
        if op.op == "REDUCE_SUM":
            count = self.graph.tensors[reals[0]].shape[op.attributes["axis"]]
            return known[0][0] * count, known[0][1] * count
        if op.op in _PICKS or (op.op == "CAST" and len(known) == 1):
            return known[0]
        rule = _SPANS.get(op.op)
        return None if rule is None else rule(known)

    def _span_of_integers(self, source: str, result: str) -> Span:
        dtype = self.graph.tensors[source].dtype
        if dtype is DType.BOOL:
            return 0.0, 1.0
        if dtype.bits <= 16:
            return float(dtype.min), float(dtype.max)
        most = _ROOM * 2.0 ** math.ceil(math.log2(max(self.statistics.largest(result), 1.0)))
        return -most, most

    @staticmethod
    def _clamped(op: Operator, span: Span) -> Span | None:
        low, high = (max(bound, -LARGEST) for bound in (op.attributes["min_val"], op.attributes["max_val"]))
        low, high = max(low, span[0]), min(high, span[1])
        return (low, high) if low == round(low) and high == round(high) and low <= high else None


@_SPANS.of("CONCAT", "PAD", "SELECT")
def _hull(spans: list[Span]) -> Span:
    return min(low for low, _ in spans), max(high for _, high in spans)


@_SPANS.of("MUL")
def _product(spans: list[Span]) -> Span:
    products = [a * b for a in spans[0] for b in spans[-1]]
    return min(products), max(products)


@_SPANS.of("ADD")
def _sum(spans: list[Span]) -> Span:
    return spans[0][0] + spans[-1][0], spans[0][1] + spans[-1][1]


@_SPANS.of("SUB")
def _difference(spans: list[Span]) -> Span:
    return spans[0][0] - spans[-1][1], spans[0][1] - spans[-1][0]


@_SPANS.of("MAXIMUM")
def _larger(spans: list[Span]) -> Span:
    return max(low for low, _ in spans), max(high for _, high in spans)


@_SPANS.of("MINIMUM")
def _smaller(spans: list[Span]) -> Span:
    return min(low for low, _ in spans), min(high for _, high in spans)


@_SPANS.of("ABS")
def _size(spans: list[Span]) -> Span:
    return 0.0, max(map(abs, spans[0]))


@_SPANS.of("NEGATE")
def _negated(spans: list[Span]) -> Span:
    return -spans[0][1], -spans[0][0]
