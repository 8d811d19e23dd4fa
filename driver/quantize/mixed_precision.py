"""Which layers need 16 bits: what rounding each of them to 8 costs at the outputs, and what 16 bits cost in products.

Every layer is switched alone, in the float graph: its operand (or its weights) on the 8-bit grid, all else in floats,
and only what is computed from it runs again. Noise of different layers adds up. Layers get 16 bits in the order of
noise by products until the sum meets the target. Where what is measured falls short, the number of layers is found by
halving. Activations that leave the calibrated range have 16 bits first: data that nobody kept out leaves it, too.
"""

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.quantizer import Finer, Plan
from tosaic.compiler.quantizer.canonical import MACS, channels_of
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate

from .measurement import measure
from .prepared import Prepared, Progress, Quantization, Reached
from .samples import Samples, split_samples

_ATTRIBUTED = 2
"""Samples that the noise of each layer is found on."""
_FINENESS = 16
"""The number of layers is found to a part of this size of all."""
_LEAVES = 1.1
"""Activations that reach further than this many times their range on samples kept out have 16 bits."""
_WEIGHT_MAX = 127


@dataclass(frozen=True)
class Choice:
    """Something that may get 16 bits, the noise at the outputs that it takes away, and the products that it costs."""

    finer: Finer
    noise: np.ndarray
    """By output, as a share of its power."""
    products: float


def named(graph: Graph, names: Iterable[str]) -> Finer:
    """Operands and weights of the layers `names`: their operators' names as they are shown, or tensors.

    InputError for a name that no convolution or MATMUL has.
    """
    found = Finer()
    layers = [op for op in graph.operators if op.op in (*MACS, "MATMUL")]
    for name in names:
        chosen = [op for op in layers if name in (op.source, op.name, *op.outputs)]
        if not chosen:
            shown = ", ".join(repr(op.source or op.outputs[0]) for op in layers[:5])
            raise InputError(f"no layer with products is called {name!r}; the model's begin with {shown}")
        for op in chosen:
            weights = frozenset(op.outputs if _weight(graph, op) is not None else ())
            found |= Finer(frozenset(_operands(op)), weights)
    return found


def all_weights(graph: Graph) -> Finer:
    """All constant weights of a canonical graph in 16 bits."""
    constant = [
        op.outputs[0]
        for op in graph.operators
        if op.op in MACS and graph.tensors[op.inputs[1]].data is not None
    ]
    return Finer(weights=frozenset(constant))


@dataclass(frozen=True)
class Trial:
    """What layers are chosen with."""

    part: Prepared
    """Calibrated without the judges."""
    judges: Mapping[str, np.ndarray]
    """Arrays as the calibration's; none: the calibration's own samples judge."""
    leaving: Mapping[str, float] = field(default_factory=dict)
    """How far tensors leave, with the judges, the range that `part` knows (`Statistics.overshoot`)."""


def reach_sqnr(
    prepared: Prepared, target_db: float, kept: Finer, trial: Trial, progress: Progress | None = None
) -> Quantization:
    """Integers whose worst output has the SQNR `target_db` in the trial, with few layers in 16 bits.

    Layers are chosen by the trial; the ranges are those of all samples in `prepared`, those of 16 bits with room for
    what left the trial's. On all samples the result is no worse than without a choice, or there is none.
    InputError if no choice of 16 bits is enough: it tells what all of them give.
    """
    chosen, reached_db = _choose(target_db, kept, trial, progress)
    count = len(measured_samples(prepared, trial.judges))
    reached = Reached(target_db, reached_db, count, bool(trial.judges))
    plain = prepared.quantization(kept)
    if chosen == kept:
        return replace(plain, reached=reached)
    roomy = replace(prepared.statistics, room=dict(trial.leaving))
    found = replace(prepared, statistics=roomy).quantization(chosen)
    if worst_db(plain, {}) > worst_db(found, {}):
        return replace(plain, reached=replace(reached, plain_taken=True))
    return replace(found, reached=reached)


def _choose(target_db: float, kept: Finer, trial: Trial, progress: Progress | None) -> tuple[Finer, float]:
    """What is held in 16 bits, and the SQNR that the trial has with it."""
    part, judges = trial.part, trial.judges
    kept |= _saturating(part.canonical, kept, trial.leaving)
    reached = worst_db(part.quantization(kept), judges)
    if reached >= target_db:
        return kept, reached
    choices = attribute(part, kept, judges, progress)

    def taken(count: int) -> tuple[Finer, float]:
        finer = functools.reduce(operator.or_, (choice.finer for choice in choices[:count]), kept)
        return finer, worst_db(part.quantization(finer), judges)

    few, many = _predicted(choices, 10 ** (-target_db / 10)), len(choices)
    found, reached = taken(few)
    if reached >= target_db:
        return found, reached
    found, reached = taken(many)
    if reached < target_db:
        raise InputError(
            f"no choice of 16-bit layers reaches {target_db:g} dB: all of them give {reached:.1f} dB on samples that "
            "were not calibrated with; ask for less, or calibrate with more samples"
        )
    while many - few > max(1, len(choices) // _FINENESS):
        middle = (few + many) // 2
        made, decibels = taken(middle)
        if decibels >= target_db:
            found, reached, many = made, decibels, middle
        else:
            few = middle
    return found, reached


def _saturating(graph: Graph, kept: Finer, leaving: Mapping[str, float]) -> Finer:
    """The activations that may get 16 bits whose values leave their range by more than `_LEAVES`."""
    found = Finer()
    for finer, _ in _options(graph, kept):
        if any(leaving.get(name, 1.0) > _LEAVES for name in finer.operands):
            found |= finer
    return found


def measured_samples(prepared: Prepared, judges: Mapping[str, np.ndarray]) -> Samples:
    """The judges, or the calibration's own samples where there are none."""
    return split_samples(prepared.source, judges, calibration=False) if judges else prepared.samples


def worst_db(found: Quantization, judges: Mapping[str, np.ndarray]) -> float:
    """The least SQNR of the outputs."""
    return min((output.sqnr_db for output in measure(found, held_out=judges).outputs), default=np.inf)


def attribute(
    prepared: Prepared, kept: Finer, judges: Mapping[str, np.ndarray], progress: Progress | None = None
) -> list[Choice]:
    """What may get 16 bits, the most noise for its products first."""
    graph, plan = prepared.canonical, prepared.plan(kept)
    options = list(_options(graph, kept))
    totals = [np.zeros(len(graph.outputs)) for _ in options]
    samples = measured_samples(prepared, judges)[:_ATTRIBUTED]
    for turn, sample in enumerate(samples):
        floats = {**sample, **evaluate(graph, sample, keep=True)}
        for index, (finer, _) in enumerate(options):
            if progress is not None:
                progress("attribute", turn * len(options) + index, len(samples) * len(options))
            totals[index] += _noise(graph, plan, finer, floats) / len(samples)
    choices = [
        Choice(finer, total, cost)
        for (finer, cost), total in zip(options, totals, strict=True)
        if total.any()
    ]
    return sorted(choices, key=lambda choice: -float(choice.noise.max()) / choice.products)


def _options(graph: Graph, kept: Finer) -> Iterable[tuple[Finer, float]]:
    """Everything that may get 16 bits, alone, with the products that are computed with it."""
    operands: dict[tuple[str, ...], float] = {}
    for op in graph.operators:
        if op.op not in (*MACS, "MATMUL"):
            continue
        products = _products(graph, op)
        operands[_operands(op)] = operands.get(_operands(op), 0.0) + products
        if _weight(graph, op) is not None and op.outputs[0] not in kept.weights:
            yield Finer(weights=frozenset(op.outputs)), products
    for names, products in operands.items():
        if not kept.operands.issuperset(names):
            yield Finer(operands=frozenset(names)), products
    for name in graph.outputs:
        if graph.tensors[name].dtype.is_float and name not in kept.operands:
            yield Finer(operands=frozenset([name])), float(np.prod(graph.tensors[name].shape))


def _noise(graph: Graph, plan: Plan, finer: Finer, floats: Mapping[str, np.ndarray]) -> np.ndarray:
    """Noise by output when one thing alone is on its 8-bit grid, as a share of the output's power."""
    changed: dict[str, np.ndarray] = {}
    for name in finer.operands:
        encoding = plan.encoding(name)
        changed[name] = encoding.dequantize(encoding.quantize(floats[name])).astype(np.float32)
    for op in graph.operators:
        weight = _weight(graph, op) if op.outputs[0] in finer.weights else None
        if weight is not None:
            changed[op.inputs[1]] = _rounded(weight, op.op)
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


def _predicted(choices: list[Choice], budget: float) -> int:
    """How many of the first choices leave no output more noise than the budget, if only rounding made noise."""
    left = np.sum([choice.noise for choice in choices], axis=0) if choices else np.zeros(1)
    count = 0
    while count < len(choices) and left.max() > budget:
        left = left - choices[count].noise
        count += 1
    return count


def _rounded(weight: np.ndarray, kind: str) -> np.ndarray:
    """Weights with 8 bits for each output channel."""
    channels = channels_of(weight, kind).astype(np.float64)
    largest = np.abs(channels).max(1, keepdims=True)
    step = np.where(largest > 0, largest, 1.0) / _WEIGHT_MAX
    rounded = np.rint(channels / step) * step
    return (rounded.T if kind == "DEPTHWISE_CONV2D" else rounded).reshape(weight.shape).astype(weight.dtype)


def _operands(op: Operator) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op.inputs[:2] if op.op == "MATMUL" else op.inputs[:1]))


def _weight(graph: Graph, op: Operator) -> np.ndarray | None:
    return graph.tensors[op.inputs[1]].data if op.op in MACS else None


def _products(graph: Graph, op: Operator) -> float:
    """Multiplications of a layer."""
    result = graph.tensors[op.outputs[0]].shape
    if op.op == "MATMUL":
        return float(np.prod(result)) * graph.tensors[op.inputs[0]].shape[2]
    weight = graph.tensors[op.inputs[1]].shape
    depthwise = op.op == "DEPTHWISE_CONV2D"
    taps = np.prod(weight[:2]) if depthwise else np.prod(weight[1:])
    return float(np.prod(result)) * float(taps)
