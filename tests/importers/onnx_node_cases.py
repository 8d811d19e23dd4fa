"""The node tests of the package onnx: models, inputs and expected outputs, run through the importer and golden."""

import functools
import pathlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.importers.onnx_models.errors import RunTimeValueError
from tosaic.compiler.ir import Graph
from tosaic.sim.golden import evaluate

_CARRIED = {"uint8": "int8", "uint16": "int16"}


@functools.cache
def cases() -> dict[str, Any]:
    """Every node test that is not the expansion of another one, by name without `test_`."""
    return {
        case.name.removeprefix("test_"): case
        for case in load_model_tests(kind="node")
        if "expanded" not in case.name
    }


@dataclass
class Result:
    """What golden computed and what ONNX expects, by output."""

    graph: Graph
    baked: list[str]
    got: dict[str, np.ndarray]
    wanted: dict[str, np.ndarray]


def first_data_set(case: Any) -> tuple[Any, list[Any], list[Any]]:
    """Model, inputs and expected outputs of the first data set."""
    return next(_data_sets(case))


def _data_sets(case: Any) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Model, inputs and expected outputs: from memory, or (before onnx 1.23) from the package's files."""
    if case.model is not None:
        for inputs, outputs in case.data_sets:
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            yield model, [_numbers(value) for value in inputs], [_numbers(value) for value in outputs]
        return
    folder = pathlib.Path(case.model_dir)
    for data in sorted(folder.glob("test_data_set_*")):
        model = onnx.load(folder / "model.onnx")
        inputs = [_array(data / f"input_{i}.pb") for i in range(len(model.graph.input))]
        yield model, inputs, [_array(data / f"output_{i}.pb") for i in range(len(model.graph.output))]


def _numbers(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _array(path: pathlib.Path) -> Any:
    """The tensor in a file; None for a sequence or an optional, which TOSA does not have."""
    try:
        return numpy_helper.to_array(onnx.load_tensor(str(path)))
    except Exception:
        return None


def run_case(name: str) -> list[Result]:
    """The results of a node test."""
    return run_model(cases()[name])


def run_model(case: Any) -> list[Result]:
    """Imports the model and evaluates every data set. Inputs that decide shapes are made initializers."""
    results = []
    for model, given, expected in _data_sets(case):
        inputs = dict(zip((value.name for value in model.graph.input), given, strict=True))
        wanted = dict(zip((value.name for value in model.graph.output), expected, strict=True))
        graph, baked = imported(model, inputs)
        feeds = {n: _carried(inputs[n], graph, n) for n in graph.inputs}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = evaluate(graph, feeds)
        got = {n: _uncarried(value, wanted[n]) for n, value in got.items()}
        results.append(Result(graph, baked, got, wanted))
    assert results
    return results


def imported(model: Any, inputs: dict[str, np.ndarray]) -> tuple[Graph, list[str]]:
    """The graph, and the names of the inputs that had to become constants."""
    baked: list[str] = []
    while True:
        try:
            return import_onnx(
                model, {n: a.shape for n, a in inputs.items() if n not in baked and isinstance(a, np.ndarray)}
            ), baked
        except RunTimeValueError as error:
            if error.tensor not in inputs or error.tensor in baked:
                raise
            baked.append(error.tensor)
            model.graph.initializer.append(numpy_helper.from_array(inputs[error.tensor], error.tensor))


def _carried(array: np.ndarray, graph: Graph, name: str) -> np.ndarray:
    """An input as the TOSA graph takes it: int64 as int32, unsigned ones as bit patterns."""
    if array.dtype.name in _CARRIED:
        return array.view(_CARRIED[array.dtype.name])
    if array.dtype == np.int64:
        return array.astype(np.int32)
    return array.astype(graph.tensors[name].dtype.numpy)


def _uncarried(array: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return array.view(wanted.dtype) if wanted.dtype.name in _CARRIED else array


def differs(result: Result, rtol: float, atol: float) -> str | None:
    """What is wrong with a result; None if it is within the test's tolerance."""
    for name, wanted in result.wanted.items():
        got = result.got[name]
        if got.shape != wanted.shape:
            return f"{name}: shape {got.shape}, not {wanted.shape}"
        if wanted.dtype.kind in "fV" or wanted.dtype.name == "bfloat16":
            if not np.allclose(got.astype(np.float64), wanted.astype(np.float64), rtol, atol, equal_nan=True):
                return f"{name}: off by {np.abs(got.astype(np.float64) - wanted.astype(np.float64)).max()}"
        elif not np.array_equal(got, wanted):
            return f"{name}: {(got != wanted).sum()} of {got.size} elements differ"
    return None
