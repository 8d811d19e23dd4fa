"""Channels in front of a norm: what divides each channel by its own size hides how large it was.

A convolution's channels may be divided by factors where a norm behind it (InstanceNorm, GroupNorm) divides them by
their deviation: the factors cancel, but for the constant that is added to the variance, which is divided too. Channels
of one size share the steps of an activation evenly.
"""

import math

import numpy as np

from tosaic.compiler.ir import OPERATORS, Graph, Operator, Trait, data_inputs
from tosaic.compiler.ir.building import add_constant
from tosaic.compiler.quantizer.calibration import Statistics
from tosaic.compiler.quantizer.canonical import MACS, channels_of
from tosaic.compiler.quantizer.functions import is_real
from tosaic.compiler.quantizer.streams import divide_results

_LEAST_RATIO = 4.0
"""Channels that differ less lose two bits at most."""
_DEVIATIONS = 3.0
_NO_BOUND = 1e30
_MOST_ELEMENTS = 1 << 24


def equalize_norms(graph: Graph, statistics: Statistics) -> bool:
    """Divides channels of very different sizes in front of norms, in place; False if there are none."""
    changed = False
    for op in list(graph.operators):
        if op.op not in MACS or any(graph.tensors[name].data is None for name in op.inputs[1:3]):
            continue
        sizes = _sizes(graph, op, statistics)
        if sizes is None or sizes.max() < _LEAST_RATIO * sizes[sizes > 0].min(initial=np.inf):
            continue
        factors = _Followed(graph, op).factors(sizes)
        if factors is not None:
            divide_results(graph, op, factors)
            changed = True
    return changed


def _sizes(graph: Graph, op: Operator, statistics: Statistics) -> np.ndarray | None:
    """How large the results' channels are, by what was seen of the operand's."""
    weight, bias = (graph.tensors[name].data for name in op.inputs[1:3])
    seen = statistics.channels.get((op.inputs[0], (len(graph.tensors[op.inputs[0]].shape) - 1,)))
    if weight is None or bias is None or seen is None:
        return None
    rows = channels_of(weight, op.op).astype(np.float64)
    mean, variance = seen.mean, np.maximum(seen.power - seen.mean**2, 0)
    if op.op == "DEPTHWISE_CONV2D":
        repeats = len(rows) // len(mean)
        mean, variance = (np.repeat(each, repeats)[:, None] for each in (mean, variance))
    else:
        mean, variance = (np.tile(each, rows.shape[1] // len(each)) for each in (mean, variance))
    deviations = np.sqrt((rows**2 * variance).sum(1))
    return np.abs((rows * mean).sum(1) + bias) + _DEVIATIONS * deviations


class _Followed:
    """Tensors that are computed from a convolution's result, each a factor to some power times what it would be."""

    def __init__(self, graph: Graph, mac: Operator) -> None:
        self.graph, self.source = graph, mac.outputs[0]
        shape = graph.tensors[self.source].shape
        self._parents = np.arange(shape[-1])
        self._known = {self.source: (np.broadcast_to(self._parents, shape), 1.0)}
        """The channel that each element's factor is that of, and the factor's power."""
        self._summands: list[tuple[Operator, int, np.ndarray, float]] = []

    def factors(self, sizes: np.ndarray) -> np.ndarray | None:
        """Powers of two that bring channels to one size, once what is added behind is divided; None where the factors
        would show."""
        if math.prod(self.graph.tensors[self.source].shape) > _MOST_ELEMENTS or not self._cancel():
            return None
        roots = np.array([self._root(channel) for channel in range(len(sizes))])
        largest = np.array([sizes[roots == root].max() for root in roots])
        middle = float(np.median(largest))
        if middle <= 0 or largest.max() < _LEAST_RATIO * largest[largest > 0].min():
            return None
        factors = 2.0 ** np.rint(np.log2(np.where(largest > 0, largest, middle) / middle))
        for op, place, labels, power in self._summands:
            self._divide_summand(op, place, factors[labels] ** power)
        return factors

    # --- inside ---------------------------------------------------------------------------------------------

    def _cancel(self) -> bool:
        """Follows the factors to where they cancel; False if some leave the norm."""
        for op in self.graph.operators:
            if not any(name in self._known for name in op.inputs):
                continue
            found = self._result(op)
            if found is None:
                return False
            if found[1]:
                self._known[op.outputs[0]] = found
        return bool(self._known.keys() - {self.source}) and not self._known.keys() & set(self.graph.outputs)

    def _result(self, op: Operator) -> tuple[np.ndarray, float] | None:
        """Labels and power of a result; None for operators that factors do not pass."""
        if len(op.outputs) != 1 or op.inputs[0] not in self._known and op.op not in ("ADD", "MUL", "SUB"):
            return None
        if op.op in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"):
            return self._of_two(op)
        labels, power = self._known[op.inputs[0]]
        if op.op == "RESHAPE":
            return labels.reshape(self.graph.tensors[op.outputs[0]].shape), power
        if op.op == "TRANSPOSE":
            return labels.transpose(op.attributes["perms"]), power
        if op.op in ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN"):
            first = labels.take([0], op.attributes["axis"])
            self._tie(labels, np.broadcast_to(first, labels.shape))
            return first, power
        if op.op == "CLAMP" and (op.attributes["min_val"] == 0 and op.attributes["max_val"] > _NO_BOUND):
            return labels, power
        spec = OPERATORS[op.op]
        alone = Trait.ELEMENTWISE in spec.traits and len(data_inputs(op)) == 1
        return (labels, power * spec.degree) if alone and spec.degree is not None else None

    def _of_two(self, op: Operator) -> tuple[np.ndarray, float] | None:
        shape, operands = self.graph.tensors[op.outputs[0]].shape, data_inputs(op)
        known = [self._known.get(name) for name in operands]
        spread = [(np.broadcast_to(each[0], shape), each[1]) for each in known if each is not None]
        labels, power = spread[0]
        if len(spread) == 2:
            other, second = spread[1]
            if op.op != "MUL" and power != second:
                return None
            self._tie(labels, other)
            return labels, power + second if op.op == "MUL" else power
        place = 0 if known[0] is None else 1
        if op.op == "MUL":
            return labels, power
        if self.graph.tensors[operands[place]].data is None or not is_real(self.graph, operands[place]):
            return None
        own = known[1 - place]
        assert own is not None
        if own[0].shape != shape:
            return None
        self._summands.append((op, place, own[0], power))
        return labels, power

    def _tie(self, one: np.ndarray, other: np.ndarray) -> None:
        count = len(self._parents)
        for code in np.unique(one.astype(np.int64) * count + other):
            a, b = self._root(int(code) // count), self._root(int(code) % count)
            self._parents[max(a, b)] = min(a, b)

    def _root(self, channel: int) -> int:
        while self._parents[channel] != channel:
            channel = int(self._parents[channel])
        return channel

    def _divide_summand(self, op: Operator, place: int, factors: np.ndarray) -> None:
        constant = self.graph.tensors[op.inputs[place]]
        assert constant.data is not None
        values = constant.data.astype(np.float64) / factors
        for axis in range(values.ndim):
            first = values.take([0], axis)
            values = first if np.all(values == first) else values
        op.inputs[place] = add_constant(self.graph, f"{constant.name}/even", values, constant.dtype)
