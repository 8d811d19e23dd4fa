"""Conformance tests of floats: baked in float64, judged by the tolerance that the test states."""

import json

import numpy as np
import pytest

from tosaic.compiler.ir import DType, GraphBuilder, nearest, write_tosa
from tosaic.driver.conformance import Verdict, bake, find_cases
from tosaic.driver.conformance.bake import MODEL, find_model
from tosaic.driver.conformance.compare import difference
from tosaic.driver.conformance.execute import run_case
from tosaic.driver.conformance.float_files import as_bits, load_input
from tosaic.errors import InputError

FLOATS = [DType.FP16, DType.BF16, DType.FP32]


def has_model() -> bool:
    try:
        return bool(find_model())
    except InputError:
        return False


@pytest.fixture
def model() -> None:
    assert has_model(), f"install tosa-tools, which has {MODEL}"


def make_test(folder, graph, inputs, operator, compliance, bounded):
    """A test's folder as the generator writes it, not baked."""
    folder.mkdir()
    write_tosa(graph, folder / "test.tosa")
    for name, value in inputs.items():
        file = folder / f"{name}.npy"
        np.save(file, value.view("V2") if value.dtype == np.uint16 else value)
        # How the generator writes bf16, and all that the reference model takes.
        file.write_bytes(file.read_bytes().replace(b"|V2", b"<V2"))
    (output,) = graph.outputs
    stated = {"data_type": graph.tensors[output].dtype.name, "shape": list(graph.tensors[output].shape)}
    text = {
        "tosa_file": "test.tosa",
        "ifm_name": list(inputs),
        "ifm_file": [f"{name}.npy" for name in inputs],
        "ofm_name": [output],
        "ofm_file": [f"{output}.npy"],
        "expected_failure": False,
        "meta": {"compliance": {"version": "1.2", "tensors": {output: stated | compliance}}},
        "test_requirements": {"profiles_supported": ["tosa-pro-fp"], "bounds_file_required": bounded},
        "test_details": {"operator": operator},
    }
    (folder / "desc.json").write_text(json.dumps(text))
    (case,) = find_cases(folder)
    assert not case.baked()
    bake([case])
    assert case.baked()
    return case


def reciprocal(dtype, shape=(5,)):
    build = GraphBuilder()
    build.output(build.add("RECIPROCAL", [build.input("x", shape, dtype)], output="y"))
    return build.finish()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5,), ()])
def test_units_in_the_last_place(model, tmp_path, dtype, shape):
    x = nearest(np.full(shape, 3.0), dtype)
    case = make_test(
        tmp_path / "t",
        reciprocal(dtype, shape),
        {"x": as_bits(x, dtype)},
        "RECIPROCAL",
        {"mode": "ULP", "ulp_info": {"ulp": 1.0}},
        False,
    )
    assert (case.floats, case.precise, case.bounded) == (("y",), True, False)
    assert np.load(case.expected("y")).dtype == np.float64
    result = run_case(case, "golden", "base")
    assert (result.verdict, result.reason) == (Verdict.PASS, "")
    third = nearest(np.full(shape, 1 / 3), dtype)
    near, far = (nearest(third * (1 + units * 2.0**-bits), dtype) for units, bits in ((1, 30), (8, 8)))
    assert difference(case, {"y": near}) is None
    found = difference(case, {"y": far})
    assert found is not None and found.startswith("output 'y' (ULP) is out of tolerance: [Verifier]")


def test_a_sum_is_judged_by_its_bounds(model, tmp_path):
    build = GraphBuilder()
    build.output(build.add("REDUCE_SUM", [build.input("x", (1, 64), DType.FP32)], output="y", axis=1))
    x = np.random.default_rng(0).normal(size=(1, 64)).astype(np.float32)
    info = {"s": 0, "ksb": 64, "abs_bound": 64, "variance_error_bound": 1e9}
    case = make_test(
        tmp_path / "t",
        build.finish(),
        {"x": x},
        "REDUCE_SUM",
        {"mode": "DOT_PRODUCT", "dot_product_info": info},
        True,
    )
    assert case.bounded and case.bounds("y").is_file()
    assert run_case(case, "golden", "base").verdict is Verdict.PASS
    total = np.load(case.expected("y")).astype(np.float32)
    assert difference(case, {"y": total + np.float32(1e-6)}) is None
    found = difference(case, {"y": total + np.float32(0.01)})
    assert found is not None and "(DOT_PRODUCT) is out of tolerance" in found


def test_shape_and_type_are_compared_first(model, tmp_path):
    case = make_test(
        tmp_path / "t",
        reciprocal(DType.BF16),
        {"x": as_bits(np.ones(5, np.float32), DType.BF16)},
        "RECIPROCAL",
        {"mode": "EXACT"},
        False,
    )
    assert difference(case, {"y": np.ones(4, np.float32)}) == (
        "output 'y' is float32[4], the reference model gives bf16[5]"
    )
    assert difference(case, {"y": np.ones(5, np.float16)}) == (
        "output 'y' is float16[5], the reference model gives bf16[5]"
    )


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8E4M3, DType.FP8E5M2])
def test_types_that_numpy_lacks_are_stored_as_bits(tmp_path, dtype):
    values = nearest(np.array([[0.0, -0.0, 1.5], [-2.0, 0.0625, np.nan]]), dtype)
    bits = as_bits(values, dtype)
    assert bits.dtype.itemsize == dtype.bits // 8
    for number, stored in enumerate((bits, bits.view(f"V{dtype.bits // 8}"))):
        np.save(tmp_path / f"{number}.npy", stored)
        loaded = load_input(tmp_path / f"{number}.npy", dtype)
        np.testing.assert_array_equal(loaded, values)
        assert loaded.dtype == np.float32
