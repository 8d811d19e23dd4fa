"""Each operator on random shapes, options and encodings: bit for bit what LiteRT's reference kernels give."""

import re

import numpy as np
import pytest
from shared_files import ABSENT, SHARED
from tflite_integer_cases import FUNCTIONS, INTEGER_CASES, every_value
from tflite_moves import MOVES
from tflite_operator_cases import CASES, Case, Make, Tensor, bits, both, feeds_of, model_of, reference

import tosaic
from tosaic.compiler.importers import import_model
from tosaic.sim.golden import evaluate

_EACH = 3
_SEED = 7


_MAKERS = [(make, n, d) for cases in (CASES, INTEGER_CASES) for n, (make, ds) in cases.items() for d in ds]


@pytest.mark.parametrize(("make", "dtype"), [pytest.param(m, d, id=f"{n}-{d}") for m, n, d in _MAKERS])
def test_equal_to_the_reference_kernel(make: Make, dtype: str, tmp_path) -> None:
    for number in range(_EACH):
        random = np.random.default_rng([_SEED, number])
        made = make(random, dtype)
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


@pytest.mark.parametrize(("kind", "dtype"), [(k, d) for k, (_, dtypes) in FUNCTIONS.items() for d in dtypes])
def test_every_value_of_a_function(kind: str, dtype: str, tmp_path) -> None:
    for made in every_value(kind, dtype, 3 if dtype == "int16" else 12):
        ((found, wanted),) = both(made, [made.every], tmp_path)
        np.testing.assert_array_equal(found, wanted, f"{made.inputs} {made.outputs} {made.fields}")


def test_every_quotient_of_8_bits(tmp_path) -> None:
    a, b = np.meshgrid(np.arange(-128, 128), [n for n in range(-128, 128) if n != 5], indexing="ij")
    tensors = [Tensor(a.shape, "int8", s, z) for s, z in ((0.04, -3), (0.05, 5), (0.02, 17))]
    case = Case("DIV", "DivOptions", {}, tensors[:2], tensors[2:])
    ((found, wanted),) = both(case, [a.astype(np.int8), b.astype(np.int8)], tmp_path)
    np.testing.assert_array_equal(found, wanted)


def test_tanh_of_a_scale_that_softmax_writes() -> None:
    case = SHARED / "cases/models/tanh_int8_scale_1_256"
    if not case.with_suffix(".tflite").is_file():
        pytest.skip(ABSENT)
    graph, arrays = import_model(case.with_suffix(".tflite")), np.load(case.with_suffix(".npz"))
    ((given, wanted),) = [(arrays[f"in_{graph.inputs[0]}"], arrays[f"out_{graph.outputs[0]}"])]
    np.testing.assert_array_equal(evaluate(graph, {graph.inputs[0]: given})[graph.outputs[0]], wanted)


@pytest.mark.parametrize(
    ("kind", "dtype", "reason"),
    [
        ("CEIL", "int8", "TFLite's kernels of it are for reals only; leave it in float32"),
        ("SIN", "int16", "TFLite's kernels of it are for reals only; leave it in float32"),
        (
            "SQRT",
            "uint8",
            "TFLite has no kernel of it for uint8; quantize it to int8, or leave it in float32",
        ),
        ("NEG", "uint8", "TFLite has no kernel of it for uint8; use int8, or leave it in float32"),
        (
            "HARD_SWISH",
            "int16",
            "TFLite has no kernel of it for int16; quantize it to int8, or leave it in float32",
        ),
        (
            "LOG_SOFTMAX",
            "int16",
            "TFLite has no kernel of it for int16; quantize it to int8, or leave it in float32",
        ),
    ],
)
def test_no_kernel_is_denied_that_is_there(kind: str, dtype: str, reason: str, tmp_path) -> None:
    case = Case(kind, "", {}, [Tensor([1, 8], dtype, 0.01, 0)], [Tensor([1, 8], dtype, 0.01, 0)])
    path = tmp_path / "case.tflite"
    path.write_bytes(model_of(case))
    with pytest.raises(tosaic.Error, match=f"{re.escape(reason)}$"):
        import_model(path)
    with pytest.raises((RuntimeError, ValueError)):
        reference(model_of(case), [np.zeros((1, 8), dtype)])


def test_slopes_of_16_bits_are_refused(tmp_path) -> None:
    """LiteRT reads them as int8."""
    x, slopes = (
        Tensor([1, 8], "int16", 0.01, 0),
        Tensor([1, 8], "int16", 0.01, 0, data=np.arange(8).reshape(1, 8)),
    )
    path = tmp_path / "case.tflite"
    path.write_bytes(model_of(Case("PRELU", "", {}, [x, slopes], [x])))
    reason = "TFLite's kernel of 16 bits reads its slopes as int8, and they are int16; give int8 slopes"
    with pytest.raises(tosaic.Error, match=reason):
        import_model(path)


def test_dense_sums_beyond_32_bits_are_refused(tmp_path) -> None:
    weights = Tensor([1, 8], "int8", 0.9, 0, data=np.full((1, 8), 127))
    given, out = Tensor([1, 8], "int16", 0.004, 0), Tensor([1, 1], "int16", 1e-6, 0)
    path = tmp_path / "case.tflite"
    path.write_bytes(
        model_of(Case("FULLY_CONNECTED", "FullyConnectedOptions", {}, [given, weights, None], [out]))
    )
    with pytest.raises(
        tosaic.Error, match="results of more than 32 bits, which wrap in TFLite's kernel; quantize"
    ):
        import_model(path)


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


_ISLANDS: dict[str, list[tuple[str, str, float | None]]] = {
    "quotient": [("DIV", "DivOptions", 3.0)],
    "curve": [("ADD", "AddOptions", 0.5), ("TANH", "", None), ("MUL", "MulOptions", -1.5)],
    "gate": [("LOGISTIC", "", None), ("SQUARE", "SquareOptions", None)],
    "root": [("MAXIMUM", "MaximumMinimumOptions", 0.1), ("RSQRT", "", None)],
    "logarithm of what is negative": [("LOG", "", None)],
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("name", list(_ISLANDS))
def test_float_chains_are_what_float_kernels_give(name: str, dtype: str, tmp_path) -> None:
    info = np.iinfo(dtype)
    x = np.arange(info.min, info.max + 1).astype(dtype).reshape(1, -1)
    scale = 2.0**-6 if info.bits == 8 else 2.0**-13
    ends = [Tensor(x.shape, dtype, s, 0 if info.min < 0 else 128) for s in (scale, scale / 2)]
    real = Tensor(x.shape, "float32")
    chain = [
        Case(kind, options, {}, [] if value is None else [Tensor([1], "float32", data=[value])], [real])
        for kind, options, value in _ISLANDS[name]
    ]
    first, last = Case("DEQUANTIZE", "", {}, ends[:1], [real]), Case("QUANTIZE", "", {}, [], ends[1:])
    path, data = tmp_path / "island.tflite", model_of(first, *chain, last)
    path.write_bytes(data)
    graph = import_model(path)
    assert not any(tensor.dtype.is_float for tensor in graph.tensors.values())
    (wanted,) = reference(data, [x])
    found = evaluate(graph, {graph.inputs[0]: bits(x)})[graph.outputs[0]]
    if dtype == "int16":
        # C's tanh and exponential are not the same everywhere.
        assert (found != wanted).sum() <= 8 and np.abs(found.astype(int) - wanted).max() <= 1
    else:
        np.testing.assert_array_equal(found, bits(wanted))


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
