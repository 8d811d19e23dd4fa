"""Floats against TOSA's reference model in float64: the golden result is that number, rounded once."""

import json
import shutil
import subprocess
import zlib

import numpy as np
import pytest
from float_cases import CASES, cases_of
from operator_cases import graph_of

from tosaic.compiler.ir import DType, nearest, write_tosa

REFERENCE_MODEL = shutil.which("tosa_reference_model")
SIGNIFICAND_BITS = {DType.FP16: 11, DType.BF16: 8, DType.FP32: 24, DType.FP8E4M3: 4, DType.FP8E5M2: 3}
LOWEST_EXPONENT = {DType.FP16: -14, DType.BF16: -126, DType.FP32: -126, DType.FP8E4M3: -6, DType.FP8E5M2: -14}


def run_in_float64(folder, graph):
    """The outputs of a graph without inputs, as the reference model computes them in its precise mode."""
    write_tosa(graph, folder / "graph.tosa")
    names = {"ofm_name": graph.outputs, "ofm_file": [f"{name}.npy" for name in graph.outputs]}
    nothing = {"ifm_name": [], "ifm_file": [], "expected_failure": False}
    (folder / "desc.json").write_text(json.dumps({"tosa_file": "graph.tosa", **names, **nothing}))
    command = [REFERENCE_MODEL, f"--test_desc={folder / 'desc.json'}", "--precise_mode=1"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return {name: np.load(folder / f"{name}.npy") for name in graph.outputs}


def half_units(got, reference, dtype):
    """Distance from `reference` in units in the last place of `dtype`; 0 where both are NaN or the same infinity."""
    wanted = nearest(reference, dtype)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    exponent = np.maximum(np.frexp(reference)[1] - 1, LOWEST_EXPONENT[dtype])
    unit = np.ldexp(1.0, exponent - (SIGNIFICAND_BITS[dtype] - 1))
    with np.errstate(all="ignore"):
        return np.where(same, 0.0, np.abs(got.astype(np.float64) - reference) / unit)


@pytest.mark.skipif(
    REFERENCE_MODEL is None, reason="needs tosa_reference_model on PATH, of tosa-tools (the extra dev)"
)
@pytest.mark.parametrize("op", CASES)
def test_floats_equal_the_reference_model_rounded_once(op, tmp_path):
    cases = cases_of(op, np.random.default_rng(zlib.crc32(op.encode())))
    graph, _ = graph_of(cases)
    expected = run_in_float64(tmp_path, graph)
    for name, case in zip(graph.outputs, cases, strict=True):
        computed = case.golden()
        assert computed.dtype == case.out_dtype.numpy
        assert computed.shape == expected[name].shape, case
        if case.out_dtype.is_float:
            # The two sum in different orders, so that a tie may fall to either side.
            distance = half_units(computed, expected[name], case.out_dtype)
            assert np.all(distance <= 0.5 + 1e-6), (case, computed, expected[name])
        else:
            np.testing.assert_array_equal(computed, expected[name], err_msg=str(case))
