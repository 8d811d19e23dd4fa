"""Outputs that hold boxes beside scores: a warning names the parts, and what it advises works."""

import warnings

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, samples, worst_db
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.models import open_model
from tosaic.driver.quantize import Quantization
from tosaic.errors import ModelWarning

CASES = SHARED / "cases/models"
BOXES = (1, 6, 4)


def _boxes(low: Floats, times: float = 300.0) -> str:
    return low.times(low.op("EXP", low.input("x", BOXES)), times)


def _scores(low: Floats) -> str:
    return low.op("SIGMOID", low.input("s", BOXES))


def _both(low: Floats, axis: int = 2, times: float = 300.0) -> str:
    return low.concat([_boxes(low, times), _scores(low)], axis)


def _assigned(low: Floats) -> str:
    """Computes `y[..., 2:] = scores` of a tensor of boxes."""
    return low.select(low.constant(np.arange(4).reshape(1, 1, 4) < 2, DType.BOOL), _boxes(low), _scores(low))


def _of_three_scales(low: Floats) -> str:
    rows = [low.slice_axis(_both(low), 1, 0, 2), low.normal(1, 2, 8)]
    return low.concat(rows, 1)


def _strided(low: Floats) -> str:
    """Boxes in cells, times a line of constants that is 1 for scores."""
    line = low.constant(np.repeat([300.0, 1.0], 4).reshape(1, 1, 8), DType.FP32)
    return low.mul(_both(low, times=1.0), line)


def _told(graph: Graph, arrays: dict[str, np.ndarray], **options: str) -> tuple[Quantization, list[str]]:
    """The integers, and the warnings of unlike parts."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = quantize_graph(graph, arrays, **options)
    texts = [str(each.message) for each in warned if issubclass(each.category, ModelWarning)]
    return found, [text for text in texts if "one scale for parts" in text]


FORMS = {
    "along the last axis": _both,
    "along the first": lambda low: _both(low, 1),
    "transposed": lambda low: low.transpose(_both(low), [0, 2, 1]),
    "flattened and cut": lambda low: low.slice_axis(low.reshape(_both(low), (1, 48)), 1, 3, 40),
    "strided": _strided,
    "moved by a constant": lambda low: low.plus(_both(low), -0.5),
    "assigned": _assigned,
    "of several scales": _of_three_scales,
}


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("form", FORMS)
def test_a_warning_names_output_and_parts(form: str, activations: str) -> None:
    low = Floats()
    graph = low.finish(FORMS[form](low))
    for op in graph.operators:
        op.name = {"EXP": "boxes:EXP", "MUL": "boxes:MUL", "SIGMOID": "scores:SIGMOID"}.get(op.op, op.name)
    arrays = samples(graph)
    if activations == "int16":
        arrays["x"] += 5.0
    found, (said,) = _told(graph, arrays, activations=activations)
    scale = found.result.outputs[graph.outputs[0]].scale
    assert said.startswith(
        f"output {graph.outputs[0]!r} has one scale for parts of very different ranges: in steps of {scale:.3g}, which "
        "'boxes' ("
    )
    assert "needs, hardly anything is left of 'scores' (" in said
    assert said.endswith("); make each part an output of its own")


def test_the_advice_works() -> None:
    low = Floats()
    graph = low.finish(_boxes(low), _scores(low))
    found, told = _told(graph, samples(graph))
    assert not told and worst_db(found) > 35


def test_parts_that_are_alike_are_no_fault() -> None:
    low = Floats()
    x = low.input("x", BOXES)
    parts = [x, low.times(x, 6.0), low.constant(np.zeros(BOXES), DType.FP32)]
    graph = low.finish(low.concat(parts, 2), low.pad(low.times(x, 300.0), [(0, 0), (0, 0), (0, 1)], 1.0))
    assert not _told(graph, samples(graph))[1]


def test_case_of_boxes_and_scores() -> None:
    path = CASES / "yolo_boxes_and_scores.onnx"
    if not path.exists():
        pytest.skip(ABSENT)
    graph = open_model(str(path))
    (said,) = _told(graph, samples(graph))[1]
    assert said.startswith("output 'y' has one scale for parts of very different ranges: in steps of ")
    assert "which 'bk' (" in said and "hardly anything is left of 'ss' (" in said


@pytest.mark.parametrize("op", ["GATHER", "SCATTER"])
def test_parts_whose_places_the_model_computes_are_not_told(op: str) -> None:
    low = Floats()
    both, places = _both(low), low.input("places", (1, 6), DType.INT32)
    operands = [both, places, low.op("ABS", both)] if op == "SCATTER" else [both, places]
    graph = low.finish(low.op(op, *operands))
    arrays = samples(graph)
    arrays["places"] = np.broadcast_to(np.arange(6, dtype=np.int32), arrays["places"].shape)
    found, said = _told(graph, arrays)
    assert said == []
    assert worst_db(found) > 30
