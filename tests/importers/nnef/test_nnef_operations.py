"""Every operation of NNEF, imported and run on golden, against the text's formulas."""

import pathlib

import numpy as np
import pytest
from nnef_model_files import write_model
from nnef_operations import CASES, Case
from nnef_reference import evaluate as reference

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.standard_library import standard_operations
from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.sim.golden import evaluate

IDENTIFIERS = [f"{case.operation}-{number}" for number, case in enumerate(CASES)]


def regions(case: Case, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Random regions lie inside of the feature map."""
    if "r" in case.operands:
        values["r"] = np.array([[0.2, 1.0, 4.9, 4.6], [1.4, 0.0, 5.0, 3.0], [2.0, 1.0, 5.8, 5.0]], np.float32)
    return values


@pytest.mark.parametrize("baked", [False, True], ids=["run-time", "constant"])
@pytest.mark.parametrize("case", CASES, ids=IDENTIFIERS)
def test_operation(case: Case, baked: bool, tmp_path: pathlib.Path) -> None:
    if case.operation == "update" and not baked:
        return
    values = regions(case, case.values())
    text = case.text(baked)
    variables = {name: value for name, value in values.items() if baked and name != "x"}
    graph = import_nnef(write_model(tmp_path, text, variables))
    feeds = {
        name: value.astype(np.int32) if value.dtype == np.int64 else value
        for name, value in values.items()
        if name in graph.inputs
    }
    feeds |= {f"{n}.state": value for n, value in variables.items() if f"{n}.state" in graph.inputs}
    got = evaluate(graph, feeds)
    exact = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in values.items()}
    wanted, updates = reference(expand_document(text), exact, exact)
    wanted |= {f"{name}.next": value for name, value in updates.items()}
    assert set(got) == set(wanted)
    for name, expected in wanted.items():
        assert got[name].shape == expected.shape
        if expected.dtype == np.float64:
            scale = np.abs(expected).max()
            assert np.allclose(got[name], expected, rtol=2e-5, atol=2e-6 * scale), name
        else:
            assert np.array_equal(got[name], expected), name


def test_every_operation_has_a_case() -> None:
    names = {name for name in standard_operations() if not name.startswith("_")}
    assert len(names) == 96
    assert {case.operation for case in CASES} == names
