"""Outputs that hold several quantities, such as boxes beside scores: one scale may leave nothing of the smaller one."""

import warnings
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Encoding, Graph, Operator, Trait, data_inputs, operators_with
from tosaic.compiler.quantizer.functions import is_real
from tosaic.compiler.quantizer.plan import MOVES
from tosaic.errors import ModelWarning
from tosaic.sim.golden import evaluate, evaluate_operator

from .samples import Samples

_LEAST_STEPS = 16.0
"""A quantity in fewer steps has 24 dB or less, were it spread evenly."""
_UNLIKE = 8.0
_SAMPLES = 8
"""Samples that ranges of parts are taken from."""
_NOTHING = -1
"""The label of padding, and of constants beside parts."""
_TOLD = 3
_MOVED = MOVES - operators_with(Trait.POOLS)
_TAIL = _MOVED | operators_with(Trait.ELEMENTWISE)


@dataclass
class _Part:
    """A tensor that a CONCAT puts beside others, and its elements' range where they leave the model."""

    name: str
    low: float = np.inf
    high: float = -np.inf

    @property
    def width(self) -> float:
        """Distance between the least and the largest element; 0 where none was seen."""
        return max(self.high - self.low, 0.0)


def warn_of_unlike_parts(graph: Graph, outputs: dict[str, Encoding], samples: Samples) -> None:
    """A ModelWarning for each output in whose scale a part of it has hardly a step, while another one fills it."""
    tails = {name: _Tail(graph, name) for name in outputs}
    joined = {name: tail for name, tail in tails.items() if len(tail.parts) > 1}
    if not joined:
        return
    for sample in samples[:_SAMPLES]:
        values = evaluate(graph, sample)
        for name, tail in joined.items():
            tail.observe(values[name])
    for name, tail in joined.items():
        said = _said(graph, name, outputs[name], tail.parts)
        if said:
            warnings.warn(said, ModelWarning, stacklevel=3)


def _said(graph: Graph, name: str, encoding: Encoding, parts: list[_Part]) -> str:
    """The warning; nothing where all parts have enough steps."""
    widest = max(parts, key=lambda part: part.width)
    lost = [
        part
        for part in parts
        if 0 < part.width < _LEAST_STEPS * encoding.scale and part.width * _UNLIKE < widest.width
    ]
    if not lost:
        return ""
    more = f" and {len(lost) - _TOLD} more parts" if len(lost) > _TOLD else ""
    listed = ", ".join(_shown(graph, part) for part in lost[:_TOLD]) + more
    return (
        f"output {name!r} has one scale for parts of very different ranges: in steps of {encoding.scale:.3g}, which "
        f"{_shown(graph, widest)} needs, hardly anything is left of {listed}; make each part an output of its own"
    )


def _shown(graph: Graph, part: _Part) -> str:
    producer = graph.producer(part.name)
    label = producer.source if producer is not None and producer.source else part.name
    return f"{label!r} ({part.low:.3g} to {part.high:.3g})"


class _Tail:
    """The operators from CONCATs to an output that move elements or change each for itself.

    `labels` has the output's shape, and for each element the number of its part. None, and no parts: that is known only
    when the model runs.
    """

    def __init__(self, graph: Graph, output: str) -> None:
        self.graph, self.parts = graph, list[_Part]()
        self._numbers: dict[str, int] = {}
        self._known: dict[str, np.ndarray] = {}
        producers = {name: op for op in graph.operators for name in op.outputs}
        found, pending = set[int](), [output]
        while pending:
            op = producers.get(pending.pop())
            if op is not None and id(op) not in found and op.op in _TAIL:
                found.add(id(op))
                pending += data_inputs(op)
        for op in graph.operators:
            if id(op) in found and is_real(graph, op.outputs[0]):
                labels = self._labels(op)
                if labels is not None:
                    self._known[op.outputs[0]] = labels
        self.labels = self._known.get(output)
        if self.labels is None:
            self.parts.clear()

    def observe(self, values: np.ndarray) -> None:
        """One sample of the output."""
        for number, part in enumerate(self.parts):
            own = values[(self.labels == number) & np.isfinite(values)]
            if own.size:
                part.low, part.high = min(part.low, float(own.min())), max(part.high, float(own.max()))

    def _labels(self, op: Operator) -> np.ndarray | None:
        """The labels of a result; None where all of it is one part."""
        if op.op == "CONCAT":
            return np.concatenate([self._of_part(name) for name in op.inputs], op.attributes["axis"])
        shape, condition = self.graph.tensors[op.outputs[0]].shape, self.graph.tensors[op.inputs[0]].data
        if op.op == "SELECT" and condition is not None and condition.size > 1:
            a, b = (np.broadcast_to(self._of_part(name), shape) for name in op.inputs[1:])
            return np.where(condition, a, b)
        known = [self._known[name] for name in op.inputs if name in self._known]
        if op.op == "SCATTER" or (known and op.op in _MOVED):
            return self._moved(op)
        return np.broadcast_to(max(known, key=np.size), shape) if known else None

    def _moved(self, op: Operator) -> np.ndarray | None:
        operands = []
        for name in op.inputs:
            data = self.graph.tensors[name].data
            if data is None and not is_real(self.graph, name):
                return None  # places that are known only when the model runs
            operands.append(self._of_part(name) if data is None or is_real(self.graph, name) else data)
        return evaluate_operator(op.op, operands, op.attributes, [DType.INT32])[0]

    def _of_part(self, name: str) -> np.ndarray:
        """Labels of a tensor: its own, or one for all of its elements."""
        if name in self._known:
            return self._known[name]
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            return np.full(tensor.shape, _NOTHING, np.int32)
        if name not in self._numbers:
            self._numbers[name] = len(self.parts)
            self.parts.append(_Part(name))
        return np.full(tensor.shape, self._numbers[name], np.int32)
