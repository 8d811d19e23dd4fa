"""Each operator on random shapes, options and encodings: bit for bit what LiteRT's reference kernels give."""

import numpy as np
import pytest
from tflite_moves import MOVES
from tflite_operator_cases import CASES, Case, Tensor, bits, both, feeds_of, model_of, reference

import tosaic
from tosaic.compiler.importers import import_model
from tosaic.sim.golden import evaluate

_EACH = 3
_SEED = 7


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, (_, dtypes) in CASES.items() for d in dtypes])
def test_equal_to_the_reference_kernel(name: str, dtype: str, tmp_path) -> None:
    for number in range(_EACH):
        random = np.random.default_rng([_SEED, number])
        made = CASES[name][0](random, dtype)
        for found, wanted in both(made, feeds_of(made, random), tmp_path):
            np.testing.assert_array_equal(found, wanted, f"case {number}: {made.fields}")


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, (_, dtypes) in MOVES.items() for d in dtypes])
def test_equal_to_the_interpreter(name: str, dtype: str, tmp_path) -> None:
    for number in range(_EACH):
        random = np.random.default_rng([_SEED, number])
        made = MOVES[name][0](random, dtype)
        for found, wanted in both(made, feeds_of(made, random), tmp_path):
            assert found.shape == wanted.shape
            if found.dtype.kind == "f":
                np.testing.assert_allclose(
                    found, wanted, atol=3e-5, rtol=3e-6, err_msg=f"case {number}: {made}"
                )
            else:
                np.testing.assert_array_equal(found, wanted, f"case {number}: {made}")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_reals_saturate(dtype: str, tmp_path) -> None:
    """Arm's converter wraps what lies outside of the grid."""
    scale, zero = 0.08453, {"int8": -123, "uint8": 5, "int16": 0}[dtype]
    x = np.array([[-0.465, -1e6, -3.0, 0.0, 0.5, 7.0, 30.0, 1e6]], np.float32)
    case = Case("QUANTIZE", "", {}, [Tensor([1, 8], "float32")], [Tensor([1, 8], dtype, scale, zero)])
    ((found, wanted),) = both(case, [x], tmp_path)
    np.testing.assert_array_equal(found, wanted)


def test_sum_of_int8_is_that_of_uint8(tmp_path) -> None:
    """LiteRT 2.3's reference kernel reads int8 as uint8, so that its result for uint8 is the oracle."""
    random = np.random.default_rng(3)
    x = random.integers(0, 256, (3, 7)).astype(np.uint8)
    axis = Tensor([1], "int32", data=[1])
    unsigned = Case(
        "SUM",
        "ReducerOptions",
        {},
        [Tensor([3, 7], "uint8", 0.1, 130), axis],
        [Tensor([3], "uint8", 0.3, 90)],
    )
    signed = Case(
        "SUM", "ReducerOptions", {}, [Tensor([3, 7], "int8", 0.1, 2), axis], [Tensor([3], "int8", 0.3, -38)]
    )
    (wanted,) = reference(model_of(unsigned), [x])
    ((found, _),) = both(signed, [(x.astype(int) - 128).astype(np.int8)], tmp_path)
    np.testing.assert_array_equal(found.astype(int) + 128, wanted)


def test_resizing_uint8_is_a_step_off_at_most(tmp_path) -> None:
    """TFLite resizes uint8 in floats; ours is the fixed point of its int8 kernel."""
    make = CASES["RESIZE_BILINEAR"][0]
    for number in range(8):
        random = np.random.default_rng([_SEED, number])
        made = make(random, "uint8")
        for found, wanted in both(made, feeds_of(made, random), tmp_path):
            apart = np.abs(found.view(np.uint8).astype(int) - wanted.view(np.uint8).astype(int))
            assert apart.max() <= 1


def _leaky_island(dtype: str) -> bytes:
    """DEQUANTIZE, LEAKY_RELU in floats, QUANTIZE: what quantizers leave of an operator that they do not quantize."""
    zero = 128 if dtype == "uint8" else 0
    given, real = Tensor([2, 300], dtype, 0.07, zero - 20), Tensor([2, 300], "float32")
    made = Tensor([2, 300], dtype, 0.05, zero - 60)
    leaky = Case("LEAKY_RELU", "LeakyReluOptions", {"alpha": 0.2}, [], [real])
    return model_of(Case("DEQUANTIZE", "", {}, [given], [real]), leaky, Case("QUANTIZE", "", {}, [], [made]))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_floats_between_integers_are_a_table(dtype: str, tmp_path) -> None:
    path, data = tmp_path / "island.tflite", _leaky_island(dtype)
    path.write_bytes(data)
    graph = import_model(path)
    assert [op.op for op in graph.operators if op.op != "RESCALE"] == ["TABLE"]
    x = np.arange(600).reshape(2, 300).astype(dtype)
    (wanted,) = reference(data, [x])
    np.testing.assert_array_equal(evaluate(graph, {graph.inputs[0]: bits(x)})[graph.outputs[0]], bits(wanted))


def test_integers_at_float_borders(tmp_path) -> None:
    """A model with float inputs and outputs runs on the accelerator, and tells their encodings."""
    path = tmp_path / "borders.tflite"
    real, held = Tensor([1, 40], "float32"), Tensor([1, 40], "int8", 0.1, 3)
    relu = Case("RELU", "", {}, [], [Tensor([1, 40], "int8", 0.05, -128)])
    path.write_bytes(
        model_of(Case("QUANTIZE", "", {}, [real], [held]), relu, Case("DEQUANTIZE", "", {}, [], [real]))
    )
    session = tosaic.Session(path, target="emulator")
    encodings = [
        (a.type.name, a.encoding.scale, a.encoding.zero_point) for a in (*session.inputs, *session.outputs)
    ]
    assert encodings == [("INT8", float(np.float32(0.1)), 3), ("INT8", float(np.float32(0.05)), -128)]
    x = np.random.default_rng(2).normal(0, 5, (1, 40)).astype(np.float32)
    (wanted,) = reference(path.read_bytes(), [x])
    found = session.run({session.inputs[0].name: session.inputs[0].encoding.quantize(x)}, check=True)
    real_result = session.outputs[0].encoding.dequantize(found[session.outputs[0].name]).astype(np.float32)
    np.testing.assert_array_equal(real_result, wanted)
