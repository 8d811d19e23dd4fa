"""Channels that several tensors share: what residual sums, pools, CONCATs and ReLUs tie together has one factor.

A positive factor for each channel commutes with these operators. So a stream that blocks add to, and read, is evened
out as a whole: the convolutions that write to it are divided and those that read it multiplied, and nothing is left to
compute.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import OPERATORS, Graph, Operator, Trait, data_inputs, operators_with
from tosaic.compiler.ir.building import add_constant
from tosaic.compiler.quantizer.calibration import Channels, Statistics
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.compiler.quantizer.functions import is_real

_COMPARES, _BOUNDS = operators_with(Trait.COMPARES), operators_with(Trait.BOUNDS)
_NO_BOUND = 1e30
_MOST_CHANNELS = 4096
"""A longer last axis is none of channels."""


@dataclass(frozen=True)
class TiedChannels:
    """Tensors whose channels are tied: `labels` gives the class of each channel of a tensor."""

    labels: dict[str, np.ndarray]
    free: np.ndarray
    """Whether the factor of each class may be chosen. Others are read or written by operators that know no factors."""


Pairs = tuple[str, np.ndarray, np.ndarray]
"""An operand, and which of its channels is which of the result's."""


def streams(graph: Graph) -> list[TiedChannels]:
    """The streams of a canonical float graph in which a channel may be scaled."""
    ties = _Ties(graph)
    for op in graph.operators:
        if not ties.add(op):
            ties.pin(op.inputs + op.outputs)
    ties.pin(graph.inputs + graph.outputs)
    return ties.streams()


class _Ties:
    """Numbers for all channels of a graph, of which those that are tied get one root."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._first: dict[str, int] = {}
        count = 0
        for name, tensor in graph.tensors.items():
            if tensor.data is None and is_real(graph, name) and 0 < self._size(name) <= _MOST_CHANNELS:
                self._first[name] = count
                count += tensor.shape[-1]
        self._parents = np.arange(count)
        self._pinned = np.zeros(count, bool)
        self._tensors: dict[str, str] = {}

    def streams(self) -> list[TiedChannels]:
        """Those with a class that is not pinned."""
        roots = self._parents
        while np.any(roots != roots[roots]):
            roots = roots[roots]
        members: dict[str, list[str]] = {}
        for name in self._first:
            members.setdefault(self._group(name), []).append(name)
        found = []
        for names in members.values():
            lines = [roots[self._own(name)] for name in names]
            classes, labels = np.unique(np.concatenate(lines), return_inverse=True)
            ends = np.cumsum([len(line) for line in lines])[:-1]
            pinned = np.concatenate([self._pinned[self._own(name)] for name in names])
            free = np.ones(len(classes), bool)
            free[labels[pinned]] = False
            if free.any():
                found.append(TiedChannels(dict(zip(names, np.split(labels, ends), strict=True)), free))
        return found

    def add(self, op: Operator) -> bool:
        """Ties the channels of an operator's operands and results; False where it knows no factors."""
        if op.op in MACS:
            return all(self.graph.tensors[name].data is not None for name in op.inputs[1:3])
        if op.op in _COMPARES:
            return any(self._is_zero(name) for name in op.inputs)
        if len(op.outputs) != 1 or op.outputs[0] not in self._first:
            return False
        found = self._tied(op)
        result = op.outputs[0]
        for name, own, theirs in found:
            if name in self._first:
                a, b = self._group(name), self._group(result)
                if a != b:
                    self._tensors[b] = a
                for first, second in zip(self._own(name)[own], self._own(result)[theirs], strict=True):
                    self._parents[self._root(int(second))] = self._root(int(first))
        return bool(found)

    def pin(self, names: Iterable[str]) -> None:
        """Forbids factors for these tensors."""
        for name in names:
            if name in self._first:
                self._pinned[self._own(name)] = True

    def _tied(self, op: Operator) -> list[Pairs]:
        """Which channels of operands are which of the result's; nothing where factors do not commute."""
        tensors, name = self.graph.tensors, op.inputs[0]
        shape = tensors[op.outputs[0]].shape
        last = op.attributes.get("axis") == len(shape) - 1
        if op.op == "RESIZE":
            # It rounds between two sizes of an image, whose channels fit other factors.
            return []
        spec, data = OPERATORS[op.op], data_inputs(op)
        by_channel = spec.degree == 1 and Trait.CHANNEL_BY_CHANNEL in spec.traits and not last
        if by_channel and len(data) == 1:
            return [self._along(name, shape[-1])]
        if op.op == "TRANSPOSE":
            return [self._along(name, shape[-1])] if op.attributes["perms"][-1] == len(shape) - 1 else []
        if op.op == "CLAMP":
            low, high = op.attributes["min_val"], op.attributes["max_val"]
            commutes = (low == 0 or low <= -_NO_BOUND) and high >= _NO_BOUND
            return [self._along(name, shape[-1])] if commutes else []
        if op.op == "RESHAPE":
            size = self._size(name)
            longest = max(size, shape[-1])
            fits = size and longest % size == 0 and longest % shape[-1] == 0
            places = np.arange(longest)
            return [(name, places % size, places % shape[-1])] if fits else []
        if by_channel and len(data) > 1:
            names = data[1:] if op.op == "SELECT" else data
            limits = [each for each in names if tensors[each].data is not None]
            if op.op in _BOUNDS and not all(self._is_zero(each) for each in limits):
                return []
            return [self._along(each, shape[-1]) for each in names]
        if op.op == "MUL":
            return self._product(op, shape)
        return self._moved(op, shape, last)

    def _product(self, op: Operator, shape: tuple[int, ...]) -> list[Pairs]:
        """The factors of one operand are the result's, if the other has none."""
        a, b = op.inputs[:2]
        if self.graph.tensors[a].data is not None or self.graph.tensors[a].shape != shape:
            a, b = b, a
        if self.graph.tensors[b].data is None and self.graph.tensors[a].shape != shape:
            return []
        self.pin([b])
        return [self._along(a, shape[-1])]

    def _moved(self, op: Operator, shape: tuple[int, ...], last: bool) -> list[Pairs]:
        """Pairs the channels of operators that give them other places."""
        tensors, name = self.graph.tensors, op.inputs[0]
        if op.op == "CONCAT":
            if not last:
                return [self._along(each, shape[-1]) for each in op.inputs]
            ends = np.cumsum([self._size(each) for each in op.inputs])
            return [
                (each, np.arange(self._size(each)), np.arange(end - self._size(each), end))
                for each, end in zip(op.inputs, ends, strict=True)
            ]
        if op.op == "SLICE":
            start = tensors[op.inputs[1]].data
            whole = np.arange(shape[-1])
            return [(name, whole + int(start[-1]), whole)] if start is not None else []
        if op.op == "PAD" and self._is_zero(op.inputs[2]):
            amounts, whole = tensors[op.inputs[1]].data, np.arange(self._size(name))
            return [(name, whole, whole + int(amounts.reshape(-1)[-2]))] if amounts is not None else []
        return []

    def _along(self, name: str, channels: int) -> Pairs:
        """An operand of as many channels as the result, or of one."""
        whole = np.arange(channels)
        return name, whole % max(self._size(name), 1), whole

    def _size(self, name: str) -> int:
        shape = self.graph.tensors[name].shape
        return shape[-1] if shape else 0

    def _is_zero(self, name: str) -> bool:
        value = self.graph.tensors[name].data
        return value is not None and not value.any()

    def _own(self, name: str) -> np.ndarray:
        first = self._first[name]
        return np.arange(first, first + self._size(name))

    def _root(self, channel: int) -> int:
        parents = self._parents
        while parents[channel] != channel:
            parents[channel] = parents[parents[channel]]
            channel = int(parents[channel])
        return channel

    def _group(self, name: str) -> str:
        while name in self._tensors:
            name = self._tensors[name]
        return name


# --- changes ----------------------------------------------------------------------------------------------------


def divide_stream(graph: Graph, stream: TiedChannels, factors: np.ndarray, statistics: Statistics) -> None:
    """Divides the channels of all of a stream's tensors by the factors of their classes; what calibration saw of them,
    too."""
    lines = {name: factors[labels] for name, labels in stream.labels.items()}
    for op in graph.operators:
        if op.op in MACS:
            if op.inputs[0] in lines:
                multiply_inputs(graph, op, lines[op.inputs[0]])
            if op.outputs[0] in lines:
                divide_results(graph, op, lines[op.outputs[0]])
        elif op.outputs and op.outputs[0] in lines and op.op in ("ADD", "SUB", "SELECT", "CONCAT"):
            _divide_constants(graph, op, lines[op.outputs[0]])
    for (name, kept), seen in list(statistics.channels.items()):
        if name in lines and kept == (len(graph.tensors[name].shape) - 1,):
            statistics.channels[name, kept] = _divided(seen, lines[name])
            folds = statistics.folds.get((name, kept), {})
            statistics.folds[name, kept] = {
                place: _divided(each, lines[name]) for place, each in folds.items()
            }


def _divided(seen: Channels, line: np.ndarray) -> Channels:
    sizes = seen.size * seen.count / line
    return Channels(
        seen.low / line, seen.high / line, seen.total / line, seen.square / line**2, seen.count, sizes
    )


def multiply_inputs(graph: Graph, op: Operator, factors: np.ndarray) -> None:
    """Weights for an input that was divided."""
    line = factors.reshape(-1, 1) if op.op == "DEPTHWISE_CONV2D" else factors
    _scale(graph, op, 1, line)


def divide_results(graph: Graph, op: Operator, factors: np.ndarray) -> None:
    """Weights and biases for results that are divided."""
    weight = graph.tensors[op.inputs[1]]
    shape = weight.shape[2:] if op.op == "DEPTHWISE_CONV2D" else (-1,) + (1,) * (len(weight.shape) - 1)
    _scale(graph, op, 1, 1 / factors.reshape(shape))
    _scale(graph, op, 2, 1 / factors)


def _divide_constants(graph: Graph, op: Operator, line: np.ndarray) -> None:
    first = 0
    for place, name in enumerate(op.inputs):
        tensor = graph.tensors[name]
        size = tensor.shape[-1] if tensor.shape else 1
        if tensor.data is not None and is_real(graph, name):
            whole = op.op != "CONCAT" or op.attributes["axis"] != len(tensor.shape) - 1
            _scale(graph, op, place, 1 / (line if whole else line[first : first + size]))
        first += size


def _scale(graph: Graph, op: Operator, place: int, factors: np.ndarray) -> None:
    constant = graph.tensors[op.inputs[place]]
    assert constant.data is not None
    if not np.all(factors == 1):
        values = constant.data.astype(np.float64) * factors
        op.inputs[place] = add_constant(graph, f"{constant.name}/even", values, constant.dtype)


def reading(graph: Graph, names: Iterable[str]) -> Iterator[tuple[str, list[Operator]]]:
    """Those of the tensors that convolutions read, with these."""
    for name in names:
        readers = [op for op in graph.consumers(name) if op.op in MACS and op.inputs[0] == name]
        if readers:
            yield name, readers
