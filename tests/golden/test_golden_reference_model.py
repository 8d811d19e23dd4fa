"""Random cases of every operator against `tosa_reference_model` of tosa-tools, an independent oracle."""

import shutil
import subprocess
import zlib

import numpy as np
import pytest
from control_flow_graphs import choice, countdown
from operator_cases import CASES, graph_of

from tosaic.compiler.ir import write_tosa
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.sim.golden import evaluate

REFERENCE_MODEL = shutil.which("tosa_reference_model")
needs_model = pytest.mark.skipif(
    REFERENCE_MODEL is None, reason="needs tosa_reference_model on PATH, of tosa-tools (the extra dev)"
)
CASES_PER_OPERATOR = 24
KNOWN = [op for op in CASES if OPERATORS[op].clause]
"""Operators with a clause of the specification: the model knows no others."""


def run_reference_model(folder, graph, inputs):
    """The outputs of `graph` by name, as the reference model computes them."""
    write_tosa(graph, folder / "graph.tosa")
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
    command = [
        REFERENCE_MODEL,
        f"--tosa_file={folder / 'graph.tosa'}",
        f"--ifm_name={','.join(inputs)}",
        f"--ifm_file={','.join(str(folder / f'{name}.npy') for name in inputs)}",
        f"--ofm_name={','.join(graph.outputs)}",
        f"--ofm_file={','.join(str(folder / f'{name}.npy') for name in graph.outputs)}",
        "--tosa_level=EIGHTK",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return {name: np.load(folder / f"{name}.npy") for name in graph.outputs}


@pytest.mark.skipif(
    REFERENCE_MODEL is None, reason="needs tosa_reference_model on PATH, of tosa-tools (the extra dev)"
)
@pytest.mark.parametrize("op", KNOWN)
def test_operator_equals_the_reference_model(op, tmp_path):
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    cases = [CASES[op](rng) for _ in range(CASES_PER_OPERATOR)]
    graph, inputs = graph_of(cases)
    expected = run_reference_model(tmp_path, graph, inputs)
    computed = evaluate(graph, inputs)
    for name, case in zip(graph.outputs, cases, strict=True):
        assert computed[name].dtype == expected[name].dtype, case
        np.testing.assert_array_equal(computed[name], expected[name], err_msg=str(case))


@needs_model
@pytest.mark.parametrize("start", [-3, 0, 7])
def test_while_loop_equals_the_reference_model(start, tmp_path):
    inputs = {"n": np.array([start], dtype=np.int32)}
    np.testing.assert_equal(evaluate(countdown(), inputs), run_reference_model(tmp_path, countdown(), inputs))


@needs_model
@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("flag", [False, True])
def test_cond_if_equals_the_reference_model(flag, shape, tmp_path):
    inputs = {"flag": np.full(shape, flag), "a": np.array([5, -7], dtype=np.int32)}
    graph = choice(shape)
    np.testing.assert_equal(evaluate(graph, inputs), run_reference_model(tmp_path, graph, inputs))
