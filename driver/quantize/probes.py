"""What lies between encoded tensors, found by probes of the operators between them."""

import zlib
from collections.abc import Mapping

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.compiler.quantizer import Encoding, Statistics
from tosaic.errors import UnsupportedError
from tosaic.sim.golden import evaluate

from .integer_probes import IntegerProbes

_SPREADS = (1.0, 0.5, 0.2)
_AROUND_MIDDLE = 12
_AROUND_ENDS = 2
"""Probes around the ends of all encodings at once: a mean may reach as far as the elements."""
_LONELY = 4
"""Probes with elements at both ends, few or half of them at the one: how far they are from a row's mean or largest."""
_FLAT = 2
"""Probes of one value: the variance of a row may be nothing."""
_PROBES = _AROUND_MIDDLE + _AROUND_ENDS + _LONELY + _FLAT
_FEW = 1 / 16
_MASKED = -500.0
"""A value that masks: exp(-500) is 0."""
_ABSORBS = 2.0**24
"""A float32 that is larger by this factor is all that is left of a sum."""


class ProbedStatistics(Statistics):
    """Statistics of the tensors that somebody asks for; nothing else is computed.

    An encoded tensor may take any value of its encoding, and an integer input any that its readers have a use for. What
    is computed from such tensors is tried on values of these, since the model tells nothing else: only the operators
    back to the nearest encoded tensors run.
    """

    def __init__(self, graph: Graph, encodings: Mapping[str, Encoding], integers: IntegerProbes) -> None:
        super().__init__()
        self._graph, self._encodings, self._index = graph, encodings, graph.index()
        self._integers, self._whole = integers, False
        self._masked: dict[str, float] = {}
        self._scores: dict[str, float] = {}
        for name, encoding in encodings.items():
            self.low[name] = float(encoding.dequantize(encoding.dtype.min))
            self.high[name] = float(encoding.dequantize(encoding.dtype.max))

    def seen_whole(self) -> "ProbedStatistics":
        """The same, with all tensors probed now: for whoever changes the graph while asking.

        Both ways of a mask are tried, and one of them masks all. Maxima of such rows are left out: the row's scores
        still tell its softmax, unless the mask is so large that a float32 keeps nothing of them.
        """
        self._whole = True
        for op in self._graph.operators:
            for name in op.outputs:
                if name not in self.low and self._graph.tensors[name].dtype.is_float:
                    self._probe(name)
        for op in self._graph.operators:
            if op.op == "REDUCE_MAX" and op.outputs[0] in self._masked:
                masked, scores = self._masked[op.outputs[0]], self._scores[op.inputs[0]]
                if masked < -_ABSORBS * scores:
                    self.low[op.outputs[0]] = masked
        return self

    def range_seen(self, name: str) -> tuple[float, float]:
        """The least and the largest element."""
        if name not in self.low and not self._whole:
            self._probe(name)
        return super().range_seen(name)

    def range(self, name: str, method: str = "minmax") -> tuple[float, float]:
        """The range to encode; 0 is inside."""
        low, high = self.range_seen(name)
        return min(low, 0.0), max(high, 0.0)

    def largest(self, name: str) -> float:
        """Returns the largest magnitude of a tensor."""
        return max(map(abs, self.range_seen(name)))

    def _probe(self, name: str) -> None:
        part, sources = self._between(name)
        for number in range(_PROBES):
            sample = {source: self._values(source, number) for source in sources}
            values = {**sample, **evaluate(part, sample, keep=True)}
            for op in part.operators if self._whole else ():
                if op.op == "REDUCE_MAX":
                    self._set_masked_apart(values, *op.inputs, *op.outputs)
            self.observe(values, {})

    def _set_masked_apart(self, values: dict[str, np.ndarray], source: str, result: str) -> None:
        """Leaves maxima that are masks out of values, and notes how large they and other scores are."""
        scores, largest = values[source], values[result]
        kept = scores[scores > _MASKED]
        self._scores[source] = max(self._scores.get(source, 0.0), float(np.abs(kept).max(initial=0.0)))
        self._masked[result] = min(self._masked.get(result, 0.0), float(largest.min()))
        values[result] = largest[largest > _MASKED]

    def _between(self, name: str) -> tuple[Graph, list[str]]:
        """The operators that lead from encoded tensors and inputs to a tensor, and these tensors."""
        needed, sources, pending = set[int](), dict[str, None](), [name]
        while pending:
            tensor = pending.pop()
            op = self._index.producer(tensor)
            if self._graph.tensors[tensor].data is not None or tensor in sources:
                continue
            if op is None or tensor in self._encodings:
                sources[tensor] = None
            elif id(op) not in needed:
                needed.add(id(op))
                pending += op.inputs
        operators = [op for op in self._graph.operators if id(op) in needed]
        part = Graph(self._graph.name, list(sources), [name], self._graph.tensors, operators)
        return part, list(sources)

    def _values(self, name: str, number: int) -> np.ndarray:
        """Values of an encoded tensor or an input, the same whoever asks."""
        tensor, encoding = self._graph.tensors[name], self._encodings.get(name)
        if encoding is None:
            if tensor.dtype.is_float:
                raise UnsupportedError(f"input {tensor} is read without an encoding")
            return self._integers.values(name, number)
        reals = self._reals(name, number)
        return reals.astype(tensor.dtype.numpy) if tensor.dtype.is_float else encoding.quantize(reals)

    def _reals(self, name: str, number: int) -> np.ndarray:
        shape, low, high = self._graph.tensors[name].shape, self.low[name], self.high[name]
        random = np.random.default_rng([zlib.crc32(name.encode()), number])
        if number < _AROUND_MIDDLE + _AROUND_ENDS:
            spread = _SPREADS[number % len(_SPREADS)] * (high - low) / 4
            centre = (low + high) / 2 if number < _AROUND_MIDDLE else (low, high)[number % 2]
            values = random.standard_normal(shape, np.float32) * np.float32(spread) + centre
            return np.clip(values, low, high)
        if number < _PROBES - _FLAT:
            few = random.random(shape, np.float32) < (_FEW if number < _PROBES - _FLAT - 2 else 0.5)
            few.reshape(-1)[:1] = True
            return np.where(few, *((high, low) if number % 2 else (low, high)))
        return np.full(shape, random.uniform(low, high))
