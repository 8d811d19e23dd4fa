"""Which layers need 16 bits for a target.

Rungs (`rungs`) get 16 bits in the order of noise by cycles; how many are needed is found by halving, on the noisiest of
the samples kept out. Activations that leave, in any block of samples, the range of all others have 16 bits first: data
that nobody kept out leaves it, too.
"""

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.quantizer import Finer
from tosaic.compiler.quantizer.canonical import MACS, PRODUCTS
from tosaic.compiler.quantizer.plan import REORDERING
from tosaic.errors import InputError

from .measurement import measure
from .prepared import Prepared, Progress, Quantization, Reached
from .rungs import Choice, Cycles, attribute, in_order, operands_of, options_of, weight_of
from .samples import Samples

_FINENESS = 16
"""The number of layers is found to a part of this size of all."""
_DROPPED = 8
"""Of the layers found, this many at most are tried to do without."""
LEAVES = 1.25
"""Activations that reach further than this many times their range on any block of samples kept out have 16 bits."""
_MARGIN_DB = 2.0
"""The samples kept out must have this much more than the target: others will be further from them."""


def named(graph: Graph, names: Iterable[str]) -> Finer:
    """Operands and weights of the layers `names`: their operators' names as they are shown, or their results; and, of
    other tensors, those that layers read, inputs and outputs of the graph.

    InputError for a name that none of them has.
    """
    found = Finer()
    layers = [op for op in graph.operators if op.op in PRODUCTS]
    read = _read_by(graph, layers)
    for name in names:
        # A product whose result goes on to others in the canonical graph is called after their result, with "'"; one
        # whose outliers were taken apart twice so.
        chosen = [op for op in layers if name in (op.source, op.name, *op.outputs, *_stems(op))]
        ends = name in (*graph.inputs, *graph.outputs) and graph.tensors[name].dtype.is_float
        if ends or (not chosen and name in read):
            found |= Finer(frozenset([name]))
        elif not chosen:
            shown = ", ".join(repr(op.source or op.outputs[0]) for op in layers[:5])
            raise InputError(f"no layer with products is called {name!r}; the model's begin with {shown}")
        for op in chosen:
            weights = frozenset(op.outputs if weight_of(graph, op) is not None else ())
            found |= Finer(frozenset(operands_of(op)), weights)
    return found


def _read_by(graph: Graph, layers: Iterable[Operator]) -> set[str]:
    """The activations that layers read, and what those only have in another order."""
    index, found = graph.index(), set[str]()
    pending = [name for op in layers for name in operands_of(op)]
    while pending:
        name = pending.pop()
        producer = index.producer(name)
        if name not in found and graph.tensors[name].data is None:
            found.add(name)
            pending += producer.inputs[:1] if producer is not None and producer.op in REORDERING else []
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
    budget = 10 ** (-goal / 10)
    choices = in_order(part.canonical, kept, attribute(part, kept, judges, progress), budget)

    def taken(chosen: Sequence[Choice]) -> tuple[Finer, Judgement]:
        finer = functools.reduce(operator.or_, (choice.finer for choice in chosen), kept)
        return finer, judge(part.quantization(finer), judges)

    few, many = 0, _predicted(choices, budget)
    found, reached = taken(choices[:many])
    if reached.step_db < goal:
        few, many = many, len(choices)
        found, reached = taken(choices)
        if reached.step_db < goal and reached.db < target_db:
            raise InputError(
                f"no choice of 16-bit layers reaches {target_db:g} dB: all of them give {reached.db:.1f} dB on samples "
                "that were not calibrated with; ask for less, or calibrate with more samples"
            )
        if reached.step_db < goal:
            return found, reached, plain
    while many - few > max(1, len(choices) // _FINENESS):
        middle = (few + many) // 2
        made, judgement = taken(choices[:middle])
        if judgement.step_db >= goal:
            found, reached, many = made, judgement, middle
        else:
            few = middle
    chosen = choices[:many]
    for _ in range(_DROPPED):
        choice = _to_spare(part.canonical, kept, chosen, budget * (1 - 10 ** ((goal - reached.step_db) / 10)))
        if choice is None:
            break
        chosen = [each for each in chosen if each is not choice]
        made, judgement = taken(chosen)
        if judgement.step_db < goal:
            break
        found, reached = made, judgement
    return found, reached, plain


def _to_spare(graph: Graph, kept: Finer, chosen: Sequence[Choice], room: float) -> Choice | None:
    """The choice that costs most of those whose noise there is room for."""
    cycles = Cycles(graph)
    others = {
        id(choice): functools.reduce(
            operator.or_, (each.finer for each in chosen if each is not choice), kept
        )
        for choice in chosen
        if choice.noise.max() <= room
    }
    fit = [choice for choice in chosen if id(choice) in others]
    return max(fit, key=lambda choice: cycles.more(others[id(choice)], choice.finer), default=None)


def _saturating(graph: Graph, kept: Finer, leaving: Mapping[str, float]) -> Finer:
    """The activations that may get 16 bits whose values leave their range by more than `LEAVES`."""
    found = Finer()
    for finer in options_of(graph, kept):
        if any(leaving.get(name, 1.0) > LEAVES for name in finer.operands):
            found |= finer
    return found


def _predicted(choices: list[Choice], budget: float) -> int:
    """How many of the first choices leave no output more noise than the budget, if only rounding made noise."""
    left = np.sum([choice.noise for choice in choices], axis=0) if choices else np.zeros(1)
    count = 0
    while count < len(choices) and left.max() > budget:
        left = left - choices[count].noise
        count += 1
    return count
