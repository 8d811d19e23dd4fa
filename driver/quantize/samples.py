"""Calibration data: arrays of many samples, cut to what one run of the graph takes."""

import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.errors import InputError

Samples = list[dict[str, np.ndarray]]


def load_samples(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, or of an .npy file under the name ""."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path}: cannot be read as calibration data: {reason}; write it by numpy.savez(FILE, INPUT=array)"
        ) from None
    if isinstance(loaded, np.ndarray):
        return {"": loaded}
    with loaded:
        return {name: loaded[name] for name in loaded.files}


def split_samples(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Samples:
    """One entry per run of `graph`, whose inputs have static shapes.

    An array holds samples along its first axis: [runs * N, ...] or [runs, N, ...] for an input [N, ...], or [samples,
    ...] without the batch axis if N is 1. A last run that is not full is filled up with the first samples. An array
    without a name belongs to the only input. InputError for missing inputs, shapes that do not fit, no samples.
    """
    if not graph.inputs:
        raise InputError(f"graph {graph.name!r} has no inputs: there is nothing to calibrate")
    named = dict(arrays)
    if len(graph.inputs) == 1 and len(named) == 1 and graph.inputs[0] not in named:
        named = {graph.inputs[0]: next(iter(named.values()))}
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
    return [dict(zip(runs, values, strict=True)) for values in zip(*runs.values(), strict=True)]


def _runs(graph: Graph, name: str, arrays: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    tensor = graph.tensors[name]
    if name not in arrays:
        raise InputError(
            f"the calibration data has no array for input {tensor}; its arrays: {', '.join(arrays)}"
        )
    array, shape = np.asarray(arrays[name]), tensor.shape
    if tensor.dtype.is_float and not np.all(np.isfinite(array.astype(np.float64))):
        raise InputError(f"the calibration data for input {name!r} has values that are not finite")
    if array.shape[1:] == shape and array.ndim == len(shape) + 1:
        pass
    elif shape and shape[0] == 1 and array.shape[1:] == shape[1:]:
        array = array[:, None]
    elif shape and array.shape[1:] == shape[1:] and len(array):
        full = -(-len(array) // shape[0]) * shape[0]
        array = np.resize(array, (full, *shape[1:])).reshape(-1, *shape)
    else:
        raise InputError(
            f"the calibration data for input {tensor} has shape {list(array.shape)}; wanted is "
            f"[samples, {', '.join(map(str, shape[1:]))}]"
        )
    if not len(array):
        raise InputError(f"the calibration data for input {name!r} has no samples")
    for sample in array:
        yield np.ascontiguousarray(sample).astype(tensor.dtype.numpy)
