"""Quantizes a float graph: calibration on golden, then the rewriting to integers."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from tosaic.compiler.ir import Graph, Operator, validate
from tosaic.compiler.quantizer import (
    METHODS,
    Finer,
    Statistics,
    canonical,
    equalize,
    keep_grids,
    soften_masks,
    steps_of_recurrences,
    take_grids,
    wanted_channels,
)
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate, evaluate_operator

from .mixed_precision import Trial, all_weights, named, reach_sqnr
from .prepared import ACTIVATIONS, Prepared, Progress, Quantization, way_out
from .samples import Samples, check_labels, hold_out, split_samples

_JUDGES = 0.2
"""Share of the samples that say whether 16-bit layers are enough."""
PRODUCTS = (*MACS, "MATMUL")


def quantize_graph(
    graph: Graph,
    calibration: Mapping[str, np.ndarray],
    *,
    method: str = "minmax",
    activations: str = "int8",
    equalization: bool = True,
    correct_bias: bool = True,
    weights: str = "int8",
    target_sqnr: float | None = None,
    keep_int16: Iterable[str] = (),
    labels: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Quantization:
    """An integer graph of the same meaning as a float one, for the range of values in `calibration`.

    `calibration` maps each input to an array of samples (`split_samples`). `method` chooses the ranges of activations:
    minmax, percentile, entropy or mse. `activations` is int8, or int16 (with int48 sums); `weights` of int16 are two
    bytes, each with a convolution of its own. `keep_int16` names layers that have both in 16 bits, by the operators'
    names as reports show them, or by tensors. `target_sqnr` in dB gives 16 bits to as many more layers as it takes,
    judged on a fifth of the samples that is kept out of the calibration while layers are chosen; the result's ranges
    are those of all samples.
    `labels` are those that `measure` will get: it is told here, before the work, when their number is wrong.
    InputError for data that does not fit or whose numbers are too large, UnsupportedError for what has no integer form.
    """
    if method not in METHODS:
        raise InputError(f"there is no calibration method {method!r}; use one of {', '.join(METHODS)}")
    if activations not in ACTIVATIONS:
        raise InputError(f"activations cannot be {activations!r}; use one of {', '.join(ACTIVATIONS)}")
    if weights not in ACTIVATIONS:
        raise InputError(f"weights cannot be {weights!r}; use one of {', '.join(ACTIVATIONS)}")
    check_floats(graph)
    if labels is not None:
        check_labels(graph, calibration, labels)
    samples = split_samples(graph, calibration)
    work = canonical(graph, evaluate_constant)
    forced = take_grids(work)
    keep_grids(work, forced)
    statistics = calibrate(work, samples, method, progress)
    if soften_masks(work, statistics):
        statistics = calibrate(work, samples, method, progress)
    # Grids that the model brings must keep their scales.
    if equalization and not forced and equalize(work, statistics, ACTIVATIONS[activations]):
        statistics = calibrate(work, samples, method, progress)
    finer = (all_weights(work) if weights == "int16" else Finer()) | named(work, keep_int16)
    prepared = Prepared(
        graph, work, samples, calibration, statistics, activations, method, forced, correct_bias
    )
    if target_sqnr is None:
        return prepared.quantization(finer)
    (others, _), (judges, _) = hold_out(graph, calibration, None, _JUDGES)
    trial = Trial(prepared, {})
    if judges:
        seen, kept_out = (split_samples(graph, part, calibration=False) for part in (others, judges))
        of_others = calibrate(work, seen, method, progress)
        leaving = of_others.overshoot(calibrate(work, kept_out, progress=progress))
        part = replace(prepared, samples=seen, calibration=others, statistics=of_others)
        trial = Trial(part, judges, leaving)
    return reach_sqnr(prepared, target_sqnr, finer, trial, progress)


def check_floats(graph: Graph) -> None:
    """InputError unless a legal graph computes floats."""
    validate(graph)
    if not computes_floats(graph):
        raise InputError(
            f"graph {graph.name!r} computes no floats: it is quantized already, or has nothing to quantize"
        )


def computes_floats(graph: Graph) -> bool:
    """Whether there is something to quantize."""
    computed = [*graph.inputs, *(name for op in graph.operators for name in op.outputs)]
    return any(graph.tensors[name].dtype.is_float for name in computed)


def calibrate(
    graph: Graph, samples: Samples, method: str = "minmax", progress: Progress | None = None
) -> Statistics:
    """Runs every sample on golden and gathers what each tensor holds. InputError where a product overflows."""
    statistics, wanted, groups = Statistics(), wanted_channels(graph), list[list[str]]()
    rounds = 1 if method == "minmax" else 2
    for turn in range(rounds):
        for index, sample in enumerate(samples):
            if progress is not None:
                progress("calibrate", turn * len(samples) + index, rounds * len(samples))
            values = {**sample, **evaluate(graph, sample, keep=True)}
            _refuse_overflow(graph, values, samples)
            if turn == 0:
                statistics.observe(values, wanted)
            else:
                statistics.count(values)
        if turn == 0:
            groups = steps_of_recurrences(graph, statistics)
            statistics.pool(groups)
    statistics.pool_histograms(groups)
    return statistics


def _refuse_overflow(graph: Graph, values: Mapping[str, np.ndarray], samples: Samples) -> None:
    """Other operators may give infinities on purpose (masks, logarithms); a product of finite numbers does not."""
    for op in graph.operators:
        if op.op not in PRODUCTS:
            continue
        operands = [values.get(name, graph.tensors[name].data) for name in op.inputs]
        result = op.outputs[0]
        if not _is_finite(values[result]) and all(_is_finite(each) for each in operands if each is not None):
            raise InputError(f"tensor {graph.tensors[result]} overflows in {op.name}: {way_out(samples)}")


def _is_finite(values: np.ndarray) -> bool:
    return values.dtype.kind != "f" or bool(np.all(np.isfinite(values)))


def evaluate_constant(graph: Graph, op: Operator) -> list[np.ndarray]:
    """The results of an operator whose operands are all constants."""
    operands = [graph.tensors[name].data for name in op.inputs]
    dtypes = [graph.tensors[name].dtype for name in op.outputs]
    return evaluate_operator(
        op.op, [value for value in operands if value is not None], op.attributes, dtypes, label=str(op)
    )
