"""Quantizes a float graph: calibration on golden, then the rewriting to integers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, validate
from tosaic.compiler.quantizer import (
    METHODS,
    Plan,
    Quantized,
    ScaleError,
    Statistics,
    canonical,
    equalize,
    rewrite,
    soften_masks,
    steps_of_recurrences,
    take_grids,
    wanted_channels,
)
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate, evaluate_operator

from .samples import Samples, check_labels, split_samples

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""
PRODUCTS = (*MACS, "MATMUL")
ACTIVATIONS = {"int8": DType.INT8, "int16": DType.INT16}


@dataclass
class Quantization:
    """The integer graph with its encodings, and what it was made from."""

    source: Graph
    """The float graph, as the importer made it."""
    canonical: Graph
    """The float graph whose tensors `result.layers` speaks of."""
    result: Quantized
    samples: Samples
    calibration: Mapping[str, np.ndarray]
    """The arrays that the samples were cut from."""

    @property
    def graph(self) -> Graph:
        """The integer graph."""
        return self.result.graph


def quantize_graph(
    graph: Graph,
    calibration: Mapping[str, np.ndarray],
    *,
    method: str = "minmax",
    activations: str = "int8",
    equalization: bool = True,
    correct_bias: bool = True,
    labels: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Quantization:
    """An integer graph of the same meaning as a float one, for the range of values in `calibration`.

    `calibration` maps each input to an array of samples (`split_samples`). `method` chooses the ranges of activations:
    minmax, percentile, entropy or mse. `activations` is int8, or int16 (with int8 weights and int48 sums).
    `labels` are those that `measure` will get: it is told here, before the work, when their number is wrong.
    InputError for data that does not fit or whose numbers are too large, UnsupportedError for what has no integer form.
    """
    if method not in METHODS:
        raise InputError(f"there is no calibration method {method!r}; use one of {', '.join(METHODS)}")
    if activations not in ACTIVATIONS:
        raise InputError(f"activations cannot be {activations!r}; use one of {', '.join(ACTIVATIONS)}")
    check_floats(graph)
    samples = split_samples(graph, calibration)
    if labels is not None:
        check_labels(graph, calibration, labels)
    work = canonical(graph, evaluate_constant)
    forced = take_grids(work)
    statistics = calibrate(work, samples, method, progress)
    if soften_masks(work, statistics):
        statistics = calibrate(work, samples, method, progress)
    # Grids that the model brings must keep their scales.
    if equalization and not forced and equalize(work, statistics, ACTIVATIONS[activations]):
        statistics = calibrate(work, samples, method, progress)
    plan = Plan(work, statistics, ACTIVATIONS[activations], method, forced, correct_bias)
    try:
        result = rewrite(plan)
    except ScaleError as error:
        raise InputError(f"{error}: {_way_out(samples)}") from None
    return Quantization(graph, work, result, samples, calibration)


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
            raise InputError(f"tensor {graph.tensors[result]} overflows in {op.name}: {_way_out(samples)}")


def _is_finite(values: np.ndarray) -> bool:
    return values.dtype.kind != "f" or bool(np.all(np.isfinite(values)))


def _way_out(samples: Samples) -> str:
    """Names the input with the largest calibration values."""
    largest = {
        name: max(float(np.abs(sample[name]).max(initial=0)) for sample in samples) for name in samples[0]
    }
    name = max(largest, key=lambda each: largest[each])
    return (
        f"the calibration data for input {name!r} goes up to {largest[name]:.3g}; "
        "give samples such as the model will see"
    )


def evaluate_constant(graph: Graph, op: Operator) -> list[np.ndarray]:
    """The results of an operator whose operands are all constants."""
    operands = [graph.tensors[name].data for name in op.inputs]
    dtypes = [graph.tensors[name].dtype for name in op.outputs]
    return evaluate_operator(
        op.op, [value for value in operands if value is not None], op.attributes, dtypes, label=str(op)
    )
