"""Quantizes a float graph: calibration on golden, then the rewriting to integers."""

import functools
import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tosaic.compiler.ir import Graph, Operator, validate
from tosaic.compiler.quantizer import (
    METHODS,
    Covariances,
    Finer,
    Statistics,
    bend_inputs,
    canonical,
    drop_nan_tests,
    equalize,
    equalize_norms,
    keep_grids,
    part_outliers,
    refuse_infinite,
    refuse_nan,
    soften_masks,
    steps_of_recurrences,
    take_grids,
    wanted_channels,
)
from tosaic.compiler.quantizer.calibration import FOLDS
from tosaic.compiler.quantizer.canonical import PRODUCTS
from tosaic.compiler.quantizer.equalize import EVEN
from tosaic.compiler.quantizer.groups import GROUPS, LEAST_DEPTH, MOST_ROWS, takes_groups
from tosaic.driver.float_graphs import computes_floats
from tosaic.errors import InputError, ModelWarning
from tosaic.sim.golden import evaluate, evaluate_operator

from .advice import Extremes, warn_of_samples
from .input_curves import INPUT_CURVES, choose_curves
from .mixed_precision import LEAVES, Trial, all_weights, named, reach_sqnr, results
from .output_parts import warn_of_unlike_parts
from .prepared import ACTIVATIONS, WEIGHTS, Prepared, Progress, Quantization, largest_of, way_out
from .samples import Samples, blocks, check_labels, split_samples

_BLOCKS = 4
"""Blocks of neighbouring samples: each is kept out once; the last says whether 16-bit layers are enough."""
_ENOUGH = FOLDS
"""Of fewer samples some parts would be empty."""


def quantize_graph(
    graph: Graph,
    calibration: Mapping[str, np.ndarray],
    *,
    method: str = "minmax",
    activations: str = "int8",
    equalization: bool = True,
    correct_bias: bool = True,
    weights: str = "int8",
    group: int = 64,
    outputs: str = "int8",
    input_curve: str = "auto",
    error_feedback: bool = False,
    target_sqnr: float | None = None,
    keep_int16: Iterable[str] = (),
    labels: np.ndarray | None = None,
    numbers: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Quantization:
    """An integer graph of the same meaning as a float one, for the range of values in `calibration`.

    `calibration` maps each input to an array of samples (`split_samples`). `method` chooses the ranges of activations:
    minmax, percentile, entropy or mse. `activations` is int8, or int16 (with int48 sums); `weights` of int16 are two
    bytes, each with a convolution of its own; those of int4 have a scale for each `group` of input channels, in
    matrices, and error feedback; `error_feedback` rounds those of 8 bits so that the errors of a row's
    weights make up for each other; `input_curve` of log or sqrt makes inputs that span decades even, auto where it
    pays, none nowhere; `outputs` of int16 are not rounded to 8 bits at the end. `keep_int16`
    names layers that have activations and weights in 16 bits, by the operators' names as reports show them, or by
    their results; and tensors that layers read, which alone then have 16 bits. `target_sqnr` in dB gives 16 bits to
    as many more layers as it takes, judged on the last quarter of the samples, which is kept out of the calibration
    (that of equalization, too) while layers are chosen; the result's ranges are those of all samples.
    `labels` are those that `measure` will get: it is told here, before the work, when their number is wrong.
    `numbers` are what warnings call the samples (default: their places). A ModelWarning tells of too few samples, and
    of one that sets a range alone.
    InputError for data that does not fit or whose numbers are too large, UnsupportedError for what has no integer form.
    """
    if method not in METHODS:
        raise InputError(f"there is no calibration method {method!r}; use one of {', '.join(METHODS)}")
    _check_words(activations=activations, outputs=outputs, input_curve=input_curve, weights=weights)
    if group not in GROUPS:
        raise InputError(f"weights cannot have groups of {group}; use one of {', '.join(map(str, GROUPS))}")
    check_floats(graph)
    if labels is not None:
        check_labels(graph, calibration, labels)
    samples = split_samples(graph, calibration)
    work = canonical(graph, evaluate_constant)
    forced = take_grids(work)
    keep_grids(work, forced)
    curves = {} if forced else choose_curves(work, samples, input_curve, ACTIVATIONS[activations])
    finer = Finer(bend_inputs(work, curves, largest_of(samples)))
    parts = blocks(samples, _BLOCKS) if target_sqnr is not None and len(samples) >= _BLOCKS else []
    # With a target, whatever is learnt from samples is learnt without the judges, so that they judge it.
    seen = list(itertools.chain(*parts[:-1])) or samples
    extremes = Extremes()
    statistics = calibrate(work, seen, method, progress, extremes)
    warn_of_samples(work, seen, extremes, numbers)
    if soften_masks(work, statistics):
        statistics = calibrate(work, seen, method, progress)
    drop_nan_tests(work, statistics)
    refuse_infinite(work)
    # Grids that the model brings must keep their scales.
    if equalization and not forced:
        if apart := part_outliers(work, statistics, ACTIVATIONS[activations]):
            finer |= Finer(apart)
            statistics = calibrate(work, seen, method, progress)
        if equalize_norms(work, statistics):
            statistics = calibrate(work, seen, method, progress)
        kept = _silent(work, statistics, activations, parts) if parts else frozenset()
        if equalize(work, statistics, ACTIVATIONS[activations], kept):
            statistics = calibrate(work, seen, method, progress)
    finer |= (all_weights(work) if weights == "int16" else Finer()) | named(work, keep_int16)
    finer |= results(work) if outputs == "int16" else Finer()
    four_bits = weights == "int4"
    if four_bits:
        _warn_of_many_rows(work)
    covariances = _covariances(work, seen, progress) if error_feedback or four_bits else Covariances()
    prepared = Prepared(
        graph,
        work,
        seen,
        calibration,
        statistics,
        activations,
        method,
        forced,
        correct_bias,
        covariances,
        curves,
        group if four_bits else None,
    )
    if target_sqnr is None:
        found = prepared.quantization(finer)
    elif not parts:
        found = reach_sqnr(prepared, target_sqnr, finer, Trial(prepared, []), progress)
    else:
        found = _reached(prepared, samples, parts, target_sqnr, finer, progress)
    _refuse_nothing_finite(work, statistics)
    warn_of_unlike_parts(work, found.result.outputs, seen)
    return found


def _check_words(**given: str) -> None:
    """InputError for a word that an option does not know."""
    known = dict(activations=ACTIVATIONS, outputs=ACTIVATIONS, input_curve=INPUT_CURVES, weights=WEIGHTS)
    for option, word in given.items():
        if word not in known[option]:
            what = "an input curve" if option == "input_curve" else option
            raise InputError(f"{what} cannot be {word!r}; use one of {', '.join(known[option])}")


def _reached(
    prepared: Prepared,
    samples: Samples,
    parts: list[Samples],
    target_sqnr: float,
    finer: Finer,
    progress: Progress | None,
) -> Quantization:
    """The integers with as many 16-bit layers as a target takes, judged on the last of the parts."""
    work, method, statistics = prepared.canonical, prepared.method, prepared.statistics
    seen_of = [calibrate(work, part, progress=progress) for part in parts]
    # Room for the judges is learnt without them, that of the result with them.
    part = replace(prepared, statistics=replace(statistics, room=_leaving(seen_of[:-1])))
    trial = Trial(part, parts[-1], _leaving(seen_of))
    whole = replace(prepared, samples=samples, statistics=calibrate(work, samples, method, progress))
    return reach_sqnr(whole, target_sqnr, finer, trial, progress)


def _silent(graph: Graph, statistics: Statistics, activations: str, parts: list[Samples]) -> frozenset[str]:
    """Tensors that must not be evened out: a channel that is silent in most blocks speaks in another, and its factor
    would make it saturate."""
    trial = graph.copy()
    made = equalize(trial, statistics, ACTIVATIONS[activations])
    leaving = _leaving([calibrate(trial, part) for part in parts]) if made else {}
    ends = frozenset(name for name, times in leaving.items() if times > LEAVES)
    return frozenset(name for name in graph.tensors if f"{name}{EVEN}" in ends)


def _leaving(parts: list[Statistics]) -> dict[str, float]:
    """How far tensors go, in any block of samples, beyond the range that all others have."""
    found: dict[str, float] = {}
    for index, part in enumerate(parts):
        others = functools.reduce(Statistics.extremes_with, parts[:index] + parts[index + 1 :])
        for name, times in others.overshoot(part).items():
            found[name] = max(times, found.get(name, 1.0))
    return found


def check_floats(graph: Graph) -> None:
    """Raises InputError unless a legal graph computes floats; UnsupportedError where a constant of them is no
    number.
    """
    validate(graph)
    for part in graph.walk():
        refuse_nan(part)
    if not computes_floats(graph):
        raise InputError(
            f"graph {graph.name!r} computes no floats: it is quantized already, or has nothing to quantize"
        )


def calibrate(
    graph: Graph,
    samples: Samples,
    method: str = "minmax",
    progress: Progress | None = None,
    extremes: Extremes | None = None,
) -> Statistics:
    """Runs every sample on golden and gathers what each tensor holds; `extremes` learns which sample made it.
    InputError where a product overflows."""
    statistics, wanted, groups = Statistics(), wanted_channels(graph), list[list[str]]()
    rounds = 1 if method == "minmax" else 2
    for turn in range(rounds):
        for index, sample in enumerate(samples):
            if progress is not None:
                progress("calibrate", turn * len(samples) + index, rounds * len(samples))
            statistics.fold = index % FOLDS if len(samples) >= _ENOUGH else 0
            values = {**sample, **evaluate(graph, sample, keep=True)}
            _refuse_overflow(graph, values, samples)
            if turn == 0:
                statistics.observe(values, wanted)
                if extremes is not None:
                    extremes.observe(values)
            else:
                statistics.count(values)
        if turn == 0:
            groups = steps_of_recurrences(graph, statistics)
            # What a run leaves is what the next one reads.
            groups += [[name, state.output] for name, state in graph.states.items()]
            statistics.pool(groups)
    statistics.pool_histograms(groups)
    return statistics


def _warn_of_many_rows(graph: Graph) -> None:
    if not any(takes_groups(graph, op) for op in graph.operators):
        warnings.warn(
            f"no matrix of the model gets int4 weights: these are for products with at most {MOST_ROWS} rows, of at "
            f"least {LEAST_DEPTH} channels; the weights are int8",
            ModelWarning,
            stacklevel=3,
        )


def _covariances(graph: Graph, samples: Samples, progress: Progress | None) -> Covariances:
    """Returns the covariances of what convolutions read."""
    found = Covariances()
    for index, sample in enumerate(samples):
        if progress is not None:
            progress("calibrate", index, len(samples))
        found.observe(graph, {**sample, **evaluate(graph, sample, keep=True)})
    return found


def _refuse_overflow(graph: Graph, values: Mapping[str, np.ndarray], samples: Samples) -> None:
    """Other operators may give infinities on purpose (masks, logarithms); a product of finite numbers does not."""
    for op in graph.operators:
        if op.op not in PRODUCTS:
            continue
        operands = [values.get(name, graph.tensors[name].data) for name in op.inputs]
        result = op.outputs[0]
        if not _is_finite(values[result]) and all(_is_finite(each) for each in operands if each is not None):
            raise InputError(f"tensor {graph.tensors[result]} overflows in {op.name}: {way_out(samples)}")


def _refuse_nothing_finite(graph: Graph, statistics: Statistics) -> None:
    for name in graph.outputs:
        if name in statistics.infinite and name not in statistics.low:
            raise InputError(
                f"output {name!r} is NaN or infinite in all of the calibration data, in floats already; give samples "
                "such as the model will see"
            )


def _is_finite(values: np.ndarray) -> bool:
    return values.dtype.kind != "f" or bool(np.all(np.isfinite(values)))


def evaluate_constant(graph: Graph, op: Operator) -> list[np.ndarray]:
    """The results of an operator whose operands are all constants."""
    operands = [graph.tensors[name].data for name in op.inputs]
    dtypes = [graph.tensors[name].dtype for name in op.outputs]
    return evaluate_operator(
        op.op, [value for value in operands if value is not None], op.attributes, dtypes, label=str(op)
    )
