"""Which layers need 16 bits: what rounding each of them to 8 costs at the outputs, and what 16 bits cost in products.

Every layer is switched alone, in the float graph: its operand (or its weights) on the 8-bit grid, all else in floats,
and only what is computed from it runs again. Noise of different layers adds up. Layers get 16 bits in the order of
noise by products until the sum meets the target. Where what is measured falls short in the noisiest of the samples kept
out, the number of layers is found by halving. Activations that leave, in any block of samples, the range of all others
have 16 bits first: data that nobody kept out leaves it, too.
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
from .samples import Samples

_ATTRIBUTED = 2
"""Samples that the noise of each layer is found on."""
_FINENESS = 16
"""The number of layers is found to a part of this size of all."""
LEAVES = 1.25
"""Activations that reach further than this many times their range on any block of samples kept out have 16 bits."""
_MARGIN_DB = 2.0
"""The samples kept out must have this much more than the target: others will be further from them."""
_WEIGHT_MAX = 127


@dataclass(frozen=True)
class Choice:
    """Something that may get 16 bits, the noise at the outputs that it takes away, and the products that it costs."""

    finer: Finer
    noise: np.ndarray
    """Noise by output, as a share of its power."""
    products: float


def named(graph: Graph, names: Iterable[str]) -> Finer:
    """Operands and weights of the layers `names`: their operators' names as they are shown, or tensors; and inputs and
    outputs of the graph.

    InputError for a name that none of them has.
    """
    found = Finer()
    layers = [op for op in graph.operators if op.op in (*MACS, "MATMUL")]
    for name in names:
        # A product whose result goes on to others in the canonical graph is called after their result, with "'"; one
        # whose outliers were taken apart twice so.
        chosen = [op for op in layers if name in (op.source, op.name, *op.outputs, *_stems(op))]
        if name in (*graph.inputs, *graph.outputs) and graph.tensors[name].dtype.is_float:
            found |= Finer(frozenset([name]))
        elif not chosen:
            shown = ", ".join(repr(op.source or op.outputs[0]) for op in layers[:5])
            raise InputError(f"no layer with products is called {name!r}; the model's begin with {shown}")
        for op in chosen:
            weights = frozenset(op.outputs if _weight(graph, op) is not None else ())
            found |= Finer(frozenset(_operands(op)), weights)
    return found


def _stems(op: Operator) -> Iterable[str]:
    """What results are called after."""
    for name in op.outputs:
        yield from (name.rpartition("'")[0], name.partition("'")[0])


def all_weights(graph: Graph) -> Finer:
    """All constant weights of a canonical graph in 16 bits."""
    constant = [
        op.outputs[0]
        for op in graph.operators
        if op.op in MACS and graph.tensors[op.inputs[1]].data is not None
    ]
    return Finer(weights=frozenset(constant))


def results(graph: Graph) -> Finer:
    """The outputs of reals in 16 bits; what is left for the next run stays as it is."""
    left = {state.output for state in graph.states.values()}
    reals = [name for name in graph.outputs if graph.tensors[name].dtype.is_float]
    return Finer(frozenset(name for name in reals if name not in left))


@dataclass(frozen=True)
class Trial:
    """What layers are chosen with."""

    part: Prepared
    """The quantization that is calibrated without the judges."""
    judges: Samples
    """Samples that judge; None: the calibration's own samples."""
    leaving: Mapping[str, float] = field(default_factory=dict)
    """How far tensors leave the range of all samples but one block (`Statistics.overshoot`)."""


def reach_sqnr(
    prepared: Prepared, target_db: float, kept: Finer, trial: Trial, progress: Progress | None = None
) -> Quantization:
    """Integers whose worst output has the SQNR `target_db` in the trial, in its noisiest sample and with a margin, with
    few layers in 16 bits.

    Layers are chosen by the trial; the ranges are those of all samples in `prepared`, those of 16 bits with room for
    what left the trial's. In the trial the result is no worse than without a choice, or there is none.
    InputError if no choice of 16 bits is enough: it tells what all of them give.
    """
    chosen, judged, without = _choose(target_db, kept, trial, progress)
    count = len(trial.judges or prepared.samples)
    reached = Reached(target_db, judged.db, judged.step_db, judged.output, count, bool(trial.judges))
    plain = prepared.quantization(kept)
    if chosen == kept:
        return replace(plain, reached=reached)
    if without.db > judged.db:
        return replace(plain, reached=replace(reached, plain_taken=True))
    roomy = replace(prepared.statistics, room=dict(trial.leaving))
    return replace(replace(prepared, statistics=roomy).quantization(chosen), reached=reached)


@dataclass(frozen=True)
class Judgement:
    """The SQNR of the worst output, and that of the noisiest sample, which is at `output`."""

    db: float
    step_db: float
    output: str


def judge(found: Quantization, samples: Samples) -> Judgement:
    """What integers have on some samples."""
    outputs = measure(replace(found, samples=samples)).outputs
    if not outputs:
        return Judgement(np.inf, np.inf, "")
    worst = min(outputs, key=lambda each: each.step_db)
    return Judgement(min(each.sqnr_db for each in outputs), worst.step_db, worst.name)


def _choose(
    target_db: float, kept: Finer, trial: Trial, progress: Progress | None
) -> tuple[Finer, Judgement, Judgement]:
    """What is held in 16 bits, and what the judges have with it and without: enough in the noisiest of them, or, where
    no choice gives that, all that there is."""
    part, judges = trial.part, trial.judges or trial.part.samples
    goal = target_db + (_MARGIN_DB if trial.judges else 0.0)
    plain = reached = judge(part.quantization(kept), judges)
    leaving = _saturating(part.canonical, kept, trial.leaving)
    if leaving.operands:
        kept |= leaving
        reached = judge(part.quantization(kept), judges)
    if reached.step_db >= goal:
        return kept, reached, plain
    choices = attribute(part, kept, judges, progress)

    def taken(count: int) -> tuple[Finer, Judgement]:
        finer = functools.reduce(operator.or_, (choice.finer for choice in choices[:count]), kept)
        return finer, judge(part.quantization(finer), judges)

    few, many = _predicted(choices, 10 ** (-goal / 10)), len(choices)
    found, reached = taken(few)
    if reached.step_db >= goal:
        return found, reached, plain
    found, reached = taken(many)
    if reached.db < target_db:
        raise InputError(
            f"no choice of 16-bit layers reaches {target_db:g} dB: all of them give {reached.db:.1f} dB on samples "
            "that were not calibrated with; ask for less, or calibrate with more samples"
        )
    if reached.step_db < goal:
        return found, reached, plain
    while many - few > max(1, len(choices) // _FINENESS):
        middle = (few + many) // 2
        made, judgement = taken(middle)
        if judgement.step_db >= goal:
            found, reached, many = made, judgement, middle
        else:
            few = middle
    return found, reached, plain


def _saturating(graph: Graph, kept: Finer, leaving: Mapping[str, float]) -> Finer:
    """The activations that may get 16 bits whose values leave their range by more than `LEAVES`."""
    found = Finer()
    for finer, _ in _options(graph, kept):
        if any(leaving.get(name, 1.0) > LEAVES for name in finer.operands):
            found |= finer
    return found


def attribute(
    prepared: Prepared, kept: Finer, judges: Samples, progress: Progress | None = None
) -> list[Choice]:
    """What may get 16 bits, the most noise for its products first."""
    graph, plan = prepared.canonical, prepared.plan(kept)
    options = list(_options(graph, kept))
    totals = [np.zeros(len(graph.outputs)) for _ in options]
    samples = judges[:_ATTRIBUTED]
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
