"""Calibration data: arrays of many samples, cut to what one run of the graph takes."""

import itertools
import math
import pathlib
import warnings
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from tosaic.compiler.ir import Graph, unsigned_ports
from tosaic.compiler.quantizer import masking_inputs
from tosaic.driver.arguments import NodeArg, argument, held
from tosaic.driver.shape_advice import samples_advice
from tosaic.errors import InputError, in_words

Samples = list[dict[str, np.ndarray]]
NAMELESS = ("", "arr_0")
"""Names of an array that was stored without one: in an .npy file, and by numpy.savez(FILE, array)."""


def load_samples(path: str | pathlib.Path, what: str = "calibration data") -> dict[str, np.ndarray]:
    """The arrays of an .npz file, or of an .npy file under the name ""; `what` they are, for the error."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"its member {name!r} is no array")
        return arrays
    except Exception as error:  # NumPy parses headers as Python, and raises what its parser and zipfile raise
        reason = getattr(error, "strerror", None) or in_words(error)
        raise InputError(
            f"{path}: cannot be read as {what}: {reason}; write it by numpy.savez(FILE, INPUT=array)"
        ) from None


def split_samples(graph: Graph, arrays: Mapping[str, np.ndarray], *, calibration: bool = True) -> Samples:
    """One entry per run of `graph`, whose inputs have static shapes.

    An array holds samples along its first axis: [runs * N, ...] or [runs, N, ...] for an input [N, ...], or [samples,
    ...] without the batch axis if N is 1. A last run that is not full is filled up with the first samples. An array
    without a name (`NAMELESS`) belongs to the only input. InputError for missing inputs, names that are no input's,
    shapes that do not fit, no samples, and float inputs that are all zero, where ranges are to be learnt from them
    (`calibration`). A UserWarning names one input that is.
    """
    runs = _runs_by_input(graph, arrays)
    if calibration:
        _refuse_zeros(graph, runs)
    return [dict(zip(runs, values, strict=True)) for values in zip(*runs.values(), strict=True)]


def _runs_by_input(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """What each run takes, by input; equally many for each."""
    if not graph.inputs:
        raise InputError(f"graph {graph.name!r} has no inputs: there is nothing to calibrate")
    named = _named(graph, arrays)
    for name in named:
        if name not in graph.inputs:
            raise InputError(
                f"the calibration data has an array {name!r}, the model has no such input; its inputs are "
                + ", ".join(map(repr, graph.inputs))
            )
    runs = {name: list(_runs(graph, name, named)) for name in graph.inputs}
    counts = {name: len(found) for name, found in runs.items()}
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise InputError(f"the calibration data has different numbers of samples: {listed}")
    return runs


def check_labels(graph: Graph, arrays: Mapping[str, np.ndarray], labels: np.ndarray) -> None:
    """Raises InputError unless there is a label for each row that a classifier's output gives for the
    samples.

    `arrays` are those of `split_samples`. A graph without such an output takes any labels; they say nothing.
    """
    wanted = label_counts(graph, arrays)
    count = np.asarray(labels).size
    if wanted and count not in wanted.values():
        listed = ", ".join(f"{rows} of output {name!r}" for name, rows in wanted.items())
        raise InputError(
            f"the calibration data has {count} labels, the samples give rows to label: {listed}; "
            "give one label for each, or leave `labels` out"
        )


def label_counts(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Returns the number of rows for the samples in `arrays` by output, for outputs with two classes or more
    along the last axis.
    """
    first = graph.inputs[0]
    array = np.asarray(_named(graph, arrays)[first])
    unit = _entries(graph, first, array)
    runs = -(-len(array) // unit)
    share = len(array) / (runs * unit)
    shapes = {name: graph.tensors[name].shape for name in graph.outputs}
    return {
        name: round(runs * math.prod(rows) * share)
        for name, (*rows, classes) in ((name, sizes) for name, sizes in shapes.items() if sizes)
        if classes >= 2
    }


def blocks(samples: Samples, count: int) -> list[Samples]:
    """Samples in `count` runs of neighbours: those of one time, speaker or place mostly stay together."""
    edges = [len(samples) * index // count for index in range(count + 1)]
    return [samples[first:last] for first, last in itertools.pairwise(edges)]


def hold_out(
    graph: Graph, arrays: Mapping[str, np.ndarray], labels: np.ndarray | None, share: float
) -> tuple[tuple[dict[str, np.ndarray], np.ndarray | None], ...]:
    """Arrays as those of `split_samples` with their labels: what stays for the calibration, and what is kept out of it.

    The last of every 1 / `share` runs is held out, so that samples in an order are spread; none where there are fewer.
    Where that is no whole number the runs are spread as evenly as they can be: 2 of every 5 for 0.4.
    InputError for what `split_samples` and `check_labels` refuse, and for a share that is none.
    """
    if not 0 <= share <= 0.5:
        raise InputError(f"the share of samples that is held out must be in 0..0.5, not {share}")
    runs = _runs_by_input(graph, arrays)
    exact = Fraction(share).limit_denominator(1000)
    if len(next(iter(runs.values()))) * exact < 1:
        return (dict(arrays), labels), ({}, None)
    stay, out = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name, given in _named(graph, arrays).items():
        array = np.asarray(given)
        unit = _entries(graph, name, array)
        chosen = _is_held_out(len(array), len(array), unit, exact)
        stay[name], out[name] = array[~chosen], array[chosen]
    if labels is None or not np.size(labels):
        return (stay, labels), (out, labels)
    check_labels(graph, arrays, labels)
    flat = np.asarray(labels).reshape(-1)
    # One label may be that of an entry, of one row in many of it, or of a whole run.
    chosen = _is_held_out(flat.size, len(array), unit, exact)
    return (stay, flat[~chosen]), (out, flat[chosen])


def kept_numbers(graph: Graph, arrays: Mapping[str, np.ndarray], share: float) -> list[int]:
    """The numbers of the runs that `hold_out` leaves for the calibration."""
    count = len(next(iter(_runs_by_input(graph, arrays).values())))
    exact = Fraction(share).limit_denominator(1000)
    if count * exact < 1:
        return list(range(count))
    return [int(number) for number in np.flatnonzero(~_is_held_out(count, count, 1, exact))]


def _is_held_out(count: int, entries: int, unit: int, share: Fraction) -> np.ndarray:
    """Returns whether each of `count` things, which lie evenly along `entries` of an array, belongs to a run
    that is held out.
    """
    run = np.arange(count) * entries // count // unit
    parts, whole = share.as_integer_ratio()
    return (run + 1) * parts // whole > run * parts // whole


def _entries(graph: Graph, name: str, array: np.ndarray) -> int:
    """How many entries along the array's first axis one run of the graph takes."""
    shape = graph.tensors[name].shape
    return 1 if array.ndim == len(shape) + 1 or not shape else shape[0]


def _named(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays; one without a name gets that of the only input."""
    named = dict(arrays)
    if len(graph.inputs) == 1 and len(named) == 1 and (name := next(iter(named))) in NAMELESS:
        named = {graph.inputs[0]: named[name]}
    return named


def _refuse_zeros(graph: Graph, runs: Mapping[str, list[np.ndarray]]) -> None:
    floats = [name for name in runs if graph.tensors[name].dtype.is_float]
    zeros = [name for name in floats if not any(np.any(sample) for sample in runs[name])]
    for name in zeros:
        text = f"the calibration data for input {name!r} is zero everywhere, which tells nothing of its range"
        if len(zeros) == len(floats):
            raise InputError(f"{text}; give samples such as the model will see")
        warnings.warn(f"{text}: its scale is 1", stacklevel=3)


def _runs(graph: Graph, name: str, arrays: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    tensor = graph.tensors[name]
    if name not in arrays:
        listed = ", ".join(map(repr, arrays)) or "none"
        raise InputError(f"the calibration data has no array for input {tensor}; its arrays: {listed}")
    array, shape = np.asarray(arrays[name]), tensor.shape
    if tensor.dtype.is_float and not np.all(np.isfinite(array.astype(np.float64))):
        masks = name in masking_inputs(graph)
        if not masks or np.any(np.isnan(array)) or np.any(array == np.inf):
            raise InputError(f"the calibration data for input {name!r} has values that are not finite")
    if array.shape[1:] == shape and array.ndim == len(shape) + 1:
        pass
    elif not shape and array.ndim and array.size == len(array):
        array = array.reshape(-1)
    elif shape and shape[0] == 1 and array.shape[1:] == shape[1:]:
        array = array[:, None]
    elif shape and array.shape[1:] == shape[1:] and len(array):
        full = -(-len(array) // shape[0]) * shape[0]
        array = np.resize(array, (full, *shape[1:])).reshape(-1, *shape)
    else:
        raise InputError(
            f"the calibration data for input {tensor} has shape {list(array.shape)}; wanted is "
            f"[{', '.join(['samples', *map(str, shape[1:])])}]{samples_advice(array.shape, shape)}"
        )
    if not len(array):
        raise InputError(f"the calibration data for input {name!r} has no samples")
    if not tensor.dtype.is_float:
        array = _exactly(argument(tensor, {}, unsigned_ports(graph)), array)
    for sample in array:
        # A rank of 0 stays one: ascontiguousarray would make it 1.
        yield np.array(sample, tensor.dtype.numpy, order="C")


def _exactly(port: NodeArg, array: np.ndarray) -> np.ndarray:
    """Integers or truth values as the graph holds them; InputError where that would change one."""
    if array.dtype == port.numpy:
        return array
    with np.errstate(invalid="ignore"):
        own = array.astype(port.own)
    if not np.array_equal(own, array):
        limits = None if port.own == np.bool_ else np.iinfo(port.own)
        wanted = (
            "False and True, or 0 and 1" if limits is None else f"integers from {limits.min} to {limits.max}"
        )
        raise InputError(
            f"the calibration data for input {port.name!r} has {array.dtype} values that {port.own}, the model's type, "
            f"does not hold: give {wanted}"
        )
    return held(port, own)
