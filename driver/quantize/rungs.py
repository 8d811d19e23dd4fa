"""Rungs to 16 bits: what each layer's rounding to 8 costs at the outputs, and what 16 bits cost in cycles of the array.

Every rung (a layer's weights, or what layers read) is rounded alone, in the float graph: all else is in floats, and
only what is computed from it runs again. Noise of different rungs adds up. A layer takes twice the cycles for 16-bit
activations, and twice for weights of two bytes: four times for both.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.quantizer import Finer, Plan
from tosaic.compiler.quantizer.canonical import MACS, PRODUCTS, channels_of
from tosaic.compiler.quantizer.groups import group_grid, rounded_in_groups, takes_groups
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

from .prepared import Prepared, Progress
from .samples import Samples

_ATTRIBUTED = 2
"""Samples that the noise of each rung is found on."""
_WEIGHT_MAX = 127
_MACHINE = "base"
"""Whose cycles are predicted: what counts is how layers compare."""
_DEPTHWISE_SIDE = 3
"""Taps in a row that its depthwise mode takes at a time, about."""


@dataclass(frozen=True)
class Choice:
    """Something that may get 16 bits, and the noise that it takes away at each output, as a share of its power."""

    finer: Finer
    noise: np.ndarray


def attribute(
    prepared: Prepared, kept: Finer, judges: Samples, progress: Progress | None = None
) -> list[Choice]:
    """Everything that may get 16 bits and makes noise."""
    graph, plan = prepared.canonical, prepared.plan(kept)
    options = list(options_of(graph, kept))
    totals = [np.zeros(len(graph.outputs)) for _ in options]
    samples = judges[:_ATTRIBUTED]
    for turn, sample in enumerate(samples):
        floats = {**sample, **evaluate(graph, sample, keep=True)}
        for index, finer in enumerate(options):
            if progress is not None:
                progress("attribute", turn * len(options) + index, len(samples) * len(options))
            totals[index] += _noise(graph, plan, finer, floats) / len(samples)
    return [Choice(finer, total) for finer, total in zip(options, totals, strict=True) if total.any()]


def options_of(graph: Graph, kept: Finer) -> Iterator[Finer]:
    """Everything that may get 16 bits, alone: weights of a layer, what layers read, outputs."""
    operands = list[tuple[str, ...]]()
    for op in graph.operators:
        if op.op not in PRODUCTS:
            continue
        operands.append(operands_of(op))
        if weight_of(graph, op) is not None and op.outputs[0] not in kept.weights:
            yield Finer(weights=frozenset(op.outputs))
    operands += [(name,) for name in graph.outputs if graph.tensors[name].dtype.is_float]
    for names in dict.fromkeys(operands):
        if not kept.operands.issuperset(names):
            yield Finer(operands=frozenset(names))


def _noise(graph: Graph, plan: Plan, finer: Finer, floats: Mapping[str, np.ndarray]) -> np.ndarray:
    """Noise by output when one thing alone is on its 8-bit grid, as a share of the output's power."""
    changed: dict[str, np.ndarray] = {}
    for name in finer.operands:
        encoding = plan.encoding(name)
        changed[name] = encoding.dequantize(encoding.quantize(floats[name])).astype(np.float32)
    for op in graph.operators:
        weight = weight_of(graph, op) if op.outputs[0] in finer.weights else None
        if weight is not None:
            changed[op.inputs[1]] = _rounded(graph, op, weight, plan.group)
    got = _downstream(graph, changed, floats)
    noise = []
    for name in graph.outputs:
        wanted = np.asarray(floats[name], np.float64)
        error = np.asarray(got.get(name, floats[name]), np.float64) - wanted
        noise.append(float((error * error).sum()) / max(float((wanted * wanted).sum()), 1e-300))
    return np.array(noise)


def _downstream(
    graph: Graph, changed: Mapping[str, np.ndarray], floats: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The outputs that follow from changed tensors; all else is as it was."""
    touched, operators = set(changed), []
    for op in graph.operators:
        if touched & set(op.inputs) and not set(op.outputs) & set(changed):
            operators.append(op)
            touched.update(op.outputs)
    made = {name for op in operators for name in op.outputs}
    read = {name for op in operators for name in op.inputs} - made
    tensors = dict(graph.tensors)
    for name in changed:
        tensors[name] = type(tensors[name])(name, tensors[name].shape, tensors[name].dtype)
    sources = [name for name in read if tensors[name].data is None]
    outputs = [name for name in graph.outputs if name in made]
    part = Graph(graph.name, sources, outputs, tensors, operators)
    results = (
        evaluate(part, {name: changed[name] if name in changed else floats[name] for name in sources})
        if outputs
        else {}
    )
    return {**{name: value for name, value in changed.items() if name in graph.outputs}, **results}


def _rounded(graph: Graph, op: Operator, weight: np.ndarray, group: int | None) -> np.ndarray:
    """Weights with 8 bits for each output channel, or with 4 in groups."""
    kind, channels = op.op, channels_of(weight, op.op).astype(np.float64)
    if takes_groups(graph, op) and group_grid(channels) is not None:
        return weight
    if takes_groups(graph, op) and group is not None:
        return rounded_in_groups(channels, group, None).reals.reshape(weight.shape).astype(weight.dtype)
    largest = np.abs(channels).max(1, keepdims=True)
    step = np.where(largest > 0, largest, 1.0) / _WEIGHT_MAX
    rounded = np.rint(channels / step) * step
    return (rounded.T if kind == "DEPTHWISE_CONV2D" else rounded).reshape(weight.shape).astype(weight.dtype)


def operands_of(op: Operator) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op.inputs[:2] if op.op == "MATMUL" else op.inputs[:1]))


def weight_of(graph: Graph, op: Operator) -> np.ndarray | None:
    return graph.tensors[op.inputs[1]].data if op.op in MACS else None


def in_order(graph: Graph, kept: Finer, choices: list[Choice], budget: float) -> list[Choice]:
    """Choices by the noise above a budget that they take away for a predicted cycle, with those before them taken."""
    cycles, order, taken = Cycles(graph), list[Choice](), kept
    left = np.sum([choice.noise for choice in choices], axis=0) if choices else np.zeros(1)
    pending = list(choices)
    costs = [cycles.more(taken, choice.finer) for choice in pending]
    while pending:
        above = np.maximum(left - budget, 0.0)
        # Within the budget the rest is in the order of all its noise.
        limit = above if above.any() else np.full(left.shape, np.inf)
        gains = [float(np.minimum(choice.noise, limit).sum()) for choice in pending]
        best = max(range(len(pending)), key=lambda n: gains[n] / costs[n])
        choice = pending.pop(best)
        costs.pop(best)
        order.append(choice)
        left, taken = left - choice.noise, taken | choice.finer
        for place in cycles.beside(choice.finer, pending):
            costs[place] = cycles.more(taken, pending[place].finer)
    return order


class Cycles:
    """Cycles of the array that 16 bits are predicted to cost."""

    def __init__(self, graph: Graph) -> None:
        self._layers = [(op, _cycles(graph, op)) for op in graph.operators if op.op in PRODUCTS]
        self._touched: dict[str, set[int]] = {}
        for place, (op, _) in enumerate(self._layers):
            for name in (*operands_of(op), *op.outputs):
                self._touched.setdefault(name, set()).add(place)

    def more(self, taken: Finer, finer: Finer) -> float:
        """What `finer` costs beside what is taken; at least a cycle."""
        both = taken | finer
        places = self._places(finer)
        return 1.0 + sum(self._of(place, both) - self._of(place, taken) for place in places)

    def beside(self, finer: Finer, choices: list[Choice]) -> list[int]:
        """The choices of the same layers."""
        places = self._places(finer)
        return [n for n, choice in enumerate(choices) if places & self._places(choice.finer)]

    def _places(self, finer: Finer) -> set[int]:
        return set().union(*(self._touched.get(name, set()) for name in finer.operands | finer.weights))

    def _of(self, place: int, finer: Finer) -> float:
        op, cycles = self._layers[place]
        wide = not finer.operands.isdisjoint(operands_of(op))
        return cycles * (2 if wide else 1) * (2 if op.outputs[0] in finer.weights else 1)


def _cycles(graph: Graph, op: Operator) -> float:
    """Cycles of a layer in int8: those of whole tiles of pixels and output channels."""
    config = get_config(_MACHINE)
    *rows, width = graph.tensors[op.outputs[0]].shape
    if op.op == "MATMUL":
        depth = graph.tensors[op.inputs[0]].shape[2]
        return float(rows[0] * -(-rows[1] // config.rows) * -(-width // config.columns) * depth)
    weight = graph.tensors[op.inputs[1]].shape
    if op.op == "DEPTHWISE_CONV2D":
        return float(
            math.prod(rows) * -(-width // config.columns) * weight[0] * -(-weight[1] // _DEPTHWISE_SIDE)
        )
    return float(-(-math.prod(rows) // config.rows) * -(-width // config.columns) * math.prod(weight[1:]))
