"""Inputs that span decades: their integers stand for a logarithm or a root, which the accelerator undoes."""

import json

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, worst_db

from tosaic import InputError, Session, dequantize, quantize
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import CurvedEncoding, DType, Encoding, EncodingCurve, Graph
from tosaic.driver.encodings import encodings_text, parse_encodings

SHAPE = (1, 24, 16)


def _levels(low: Floats, x: str) -> str:
    """A convolution's results, of which small ones count as much as large ones."""
    y = matmul(low, x, low.constant(np.eye(16), DType.FP32))
    return low.op("LOG", low.plus(low.op("ABS", y), 1e-4))


def _behind_a_product(low: Floats) -> Graph:
    return low.finish(_levels(low, low.input("x", SHAPE)))


def _behind_a_move(low: Floats) -> Graph:
    return low.finish(_levels(low, low.transpose(low.slice_axis(low.input("x", SHAPE), 1, 4, 16), [0, 2, 1])))


def _shares(low: Floats) -> Graph:
    """Parts of one number in the sum of two, which no product reads."""
    x = low.input("x", SHAPE)
    a, b = (low.slice_axis(x, 1, start, 12) for start in (0, 12))
    return low.finish(low.mul(a, low.op("RECIPROCAL", low.add(a, b))))


def _logarithm(low: Floats) -> Graph:
    return low.finish(matmul(low, low.op("LOG", low.plus(low.input("x", SHAPE), 1e-6)), low.normal(16, 8)))


NETWORKS = {each.__name__: each for each in (_behind_a_product, _behind_a_move, _shares, _logarithm)}


def _samples(signed: bool = False) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    values = 10.0 ** random.uniform(-5, 1, (16, *SHAPE))
    return {"x": (values * random.choice([-1, 1], values.shape) if signed else values).astype(np.float32)}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_curve_is_chosen_where_it_pays(name: str) -> None:
    graph = NETWORKS[name](Floats())
    plain = quantize_graph(graph, _samples(), input_curve="none")
    curved = quantize_graph(graph, _samples())
    assert worst_db(plain) < 20 and worst_db(curved) > 30
    (encoding,) = curved.result.inputs.values()
    assert isinstance(encoding, CurvedEncoding) and encoding.dtype is DType.INT8 and encoding.scale == 0
    run_everywhere(curved)


def test_signed_numbers_and_roots() -> None:
    graph = _behind_a_product(Floats())
    for kind in ("log", "sqrt"):
        found = quantize_graph(graph, _samples(signed=True), input_curve=kind)
        (encoding,) = found.result.inputs.values()
        assert isinstance(encoding, CurvedEncoding) and encoding.curve.kind == kind
        run_everywhere(found)
    assert worst_db(quantize_graph(graph, _samples(signed=True), input_curve="log")) > 30


def test_even_inputs_have_none() -> None:
    graph = _behind_a_product(Floats())
    even = {"x": np.random.default_rng(0).standard_normal((16, *SHAPE)).astype(np.float32)}
    assert type(quantize_graph(graph, even).result.inputs["x"]) is Encoding


def test_an_unknown_curve_is_refused() -> None:
    with pytest.raises(InputError, match="an input curve cannot be 'cube'; use one of auto, none, log, sqrt"):
        quantize_graph(_behind_a_product(Floats()), _samples(), input_curve="cube")


def test_integers_of_a_logarithm() -> None:
    encoding = CurvedEncoding.of(Encoding(DType.INT8, 0.5, -128), EncodingCurve("log", 0.25))
    reals = 0.25 * np.expm1(0.5 * np.arange(0, 9))
    np.testing.assert_array_equal(encoding.quantize(reals), np.arange(-128, -119))
    np.testing.assert_allclose(encoding.dequantize(np.arange(-128, -119)), reals)
    assert encoding.ends == pytest.approx((0.0, 0.25 * np.expm1(127.5)))
    root = CurvedEncoding.of(Encoding(DType.INT8, 0.5), EncodingCurve("sqrt"))
    np.testing.assert_array_equal(root.quantize([-4.0, -1.0, 0.0, 2.25]), [-4, -2, 0, 3])
    np.testing.assert_array_equal(root.dequantize([-4, -2, 0, 3]), [-4.0, -1.0, 0.0, 2.25])


def test_the_file_of_encodings_has_the_curve_and_no_scale() -> None:
    curved = CurvedEncoding.of(Encoding(DType.INT8, 0.5, -128), EncodingCurve("log", 0.25))
    text = encodings_text({"x": curved}, {"y": Encoding(DType.INT8, 2.0)})
    assert json.loads(text)["inputs"]["x"] == {
        "dtype": "int8",
        "curve": "log",
        "unit": 0.25,
        "step": 0.5,
        "zero_point": -128,
    }
    assert parse_encodings(text, "f")["x"] == curved
    with pytest.raises(InputError, match="'cube' with the unit 0.25 is no curve"):
        parse_encodings(text.replace('"log"', '"cube"'), "f")


def test_nobody_takes_a_curve_for_a_scale() -> None:
    found = quantize_graph(_logarithm(Floats()), _samples())
    session = Session(found.result, target="golden")
    encoding, sample = session.inputs[0].encoding, found.samples[0]["x"]
    for function in (quantize, dequantize):
        with pytest.raises(
            InputError, match="an input with a curve has none: use its encoding's quantize and"
        ):
            function(sample, encoding.scale, encoding.zero_point)
    with pytest.raises(InputError, match=r"give the input's encoding\.quantize\(x\)$"):
        session.run({"x": sample})
    session.run({"x": encoding.quantize(sample)})
