"""The second reader of TOSA computes what golden computes on the conformance suite's own graphs and inputs."""

import pytest
from reading import assert_as_golden, is_integer
from suite_sample import generate, sampled_operators

from tosaic.compiler.ir import DType, read_tosa
from tosaic.driver.conformance import bake, find_cases
from tosaic.driver.conformance.float_files import load_input
from tosaic.sim.terms import READERS, UndecidedError

ONE = "clz"
"""The operator that is read for every change; the others are nightly."""


@pytest.mark.parametrize(
    "operator",
    [
        name if name == ONE else pytest.param(name, marks=pytest.mark.nightly)
        for name in sampled_operators()
        if name.upper() in READERS
    ],
)
def test_the_suite_as_golden(operator: str, tmp_path) -> None:
    generate(operator, tmp_path, 1 if operator == ONE else 4)
    cases = [case for case in find_cases(tmp_path) if not case.negative]
    bake(cases)
    compared = 0
    for case in cases:
        graph = read_tosa(case.folder / case.graph)
        if not is_integer(graph):
            continue
        types = {name: graph.tensor(name).dtype for name in graph.inputs}
        values = {
            name: load_input(case.folder / file, types[name]).astype(
                bool if types[name] is DType.BOOL else types[name].numpy
            )
            for name, file in case.inputs
            if name in types
        }
        try:
            compared += assert_as_golden(graph, values)
        except UndecidedError:
            # Operands that are computed at run time.
            assert operator in (
                "table",
                "mul",
                "rescale",
                "gather",
                "scatter",
                "resize",
                "pad",
                "slice",
                "tile",
            )
    assert compared > 0
