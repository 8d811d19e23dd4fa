"""Passes over float graphs keep their meaning; what has no integer form is refused by name."""

import numpy as np
import pytest
from float_networks import IMAGE, Floats, activations, quantize_graph, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType, validate
from tosaic.compiler.quantizer import Statistics, canonical, equalize, wanted_channels
from tosaic.driver.quantize.quantization import calibrate, evaluate_constant
from tosaic.driver.quantize.samples import split_samples
from tosaic.errors import InputError, UnsupportedError
from tosaic.sim.golden import evaluate

POINT = [AxisWindow(1)] * 2


def stretched_network():
    """Convolutions whose channels differ by factors of up to 1,000, an attention-like product, flattened rows."""
    low = Floats()
    factors = 10.0 ** low.random.uniform(-1.5, 1.5, 8)
    x = low.input("x", IMAGE)
    first = low.random.standard_normal((8, 1, 1, 8)) * factors[:, None, None, None]
    x = activations.relu(low, convolution.convolve(low, x, low.constant(first, low.dtype(x)), None, POINT))
    second = low.random.standard_normal((8, 1, 1, 8)) / factors
    x = convolution.convolve(low, x, low.constant(second, low.dtype(x)), None, POINT)
    rows = low.reshape(x, (1, 36, 8))
    a, b = (
        matmul(low, rows, low.constant(low.random.standard_normal((8, 8)) * f, low.dtype(x)))
        for f in (factors, 1 / factors)
    )
    product = matmul(low, a, low.transpose(b, (0, 2, 1)))
    return low.finish(product)


def test_tokens_are_looked_up():
    """Embeddings: no input is a float, and everything behind the table is."""
    low = Floats()
    tokens = low.input("tokens", (2, 6), DType.INT32)
    table = low.reshape(low.normal(10, 8), (1, 10, 8))
    rows = low.op("GATHER", table, low.reshape(tokens, (1, 12)))
    hidden = activations.relu(low, matmul(low, low.reshape(rows, (2, 6, 8)), low.normal(8, 5)))
    graph = low.finish(matmul(low, hidden, low.normal(5, 3)))
    quantization = quantize_graph(graph, samples(graph))
    assert worst_db(quantization) > 30 and not quantization.result.inputs
    run_everywhere(quantization)


def test_graph_without_floats_is_refused():
    low = Floats()
    tokens = low.input("tokens", (2, 6), DType.INT32)
    graph = low.finish(low.add(tokens, tokens))
    with pytest.raises(InputError, match="computes no floats"):
        quantize_graph(graph, samples(graph))


def test_canonical_graph_means_the_same():
    low = Floats()
    x = low.input("x", IMAGE)
    y = convolution.convolve(low, x, low.normal(4, 1, 1, 8), low.normal(4), POINT)
    y = low.add(low.mul(y, low.normal(1, 1, 1, 4)), low.normal(1, 1, 1, 4))
    y = low.sub(
        low.add(matmul(low, low.reshape(y, (36, 4)), low.normal(4, 5)), low.normal(5)),
        low.scalar(2, low.normal(1, 1)),
    )
    graph = low.finish(y)
    work = canonical(graph, evaluate_constant)
    validate(work)
    assert [op.op for op in work.operators if op.op not in ("RESHAPE",)] == ["CONV2D", "CONV2D"]
    sample = {"x": low.random.standard_normal(IMAGE).astype(np.float32)}
    np.testing.assert_allclose(
        evaluate(work, sample)[work.outputs[0]],
        evaluate(graph, sample)[graph.outputs[0]],
        rtol=1e-4,
        atol=1e-4,
    )


def test_equalized_graph_means_the_same_and_is_even():
    graph = stretched_network()
    work = canonical(graph, evaluate_constant)
    runs = split_samples(work, samples(graph))
    assert equalize(work, calibrate(work, runs))
    validate(work)
    for run in runs[:2]:
        wanted, got = evaluate(graph, run)[graph.outputs[0]], evaluate(work, run)[work.outputs[0]]
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    # A graph that names no operators of a model: what is inserted is named after the tensor that it evens out.
    inserted = [op for op in work.operators if op.outputs[0].endswith("/even")]
    assert inserted and all(op.source == op.inputs[0] for op in inserted)
    # Once is enough.
    assert not equalize(work, calibrate(work, runs))


def test_equalization_is_worth_it():
    graph = stretched_network()
    from float_networks import worst_db

    plain = quantize_graph(graph, samples(graph), equalization=False)
    even = quantize_graph(graph, samples(graph))
    assert worst_db(even) >= worst_db(plain) + 10
    assert worst_db(even) >= 28


def test_statistics_join_runs():
    low = Floats()
    graph = low.finish(matmul(low, low.input("x", (4, 3)), low.normal(3, 2)))
    work = canonical(graph, evaluate_constant)
    runs = split_samples(work, samples(graph, 5))
    statistics = calibrate(work, runs, "mse")
    assert isinstance(statistics, Statistics)
    whole = np.stack([run["x"] for run in runs])
    assert statistics.range_seen("x") == (whole.min(), whole.max())
    assert statistics.histograms["x"].sum() == whole.size
    (name,) = [name for name in wanted_channels(work) if statistics.channels.get((name, (3,)))]
    np.testing.assert_allclose(statistics.channels[name, (3,)].mean, whole.mean((0, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "runs"), [((7, 2, 3), 4), ((4, 2, 3), 2), ((1, 2, 3), 1), ((5, 2, 2, 3), 5)]
)
def test_samples_are_batched(shape, runs):
    low = Floats()
    graph = low.finish(low.op("TANH", low.input("x", (2, 2, 3))))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = split_samples(graph, {"x": array})
    assert len(found) == runs
    flat = np.concatenate([run["x"].reshape(-1) for run in found])
    assert set(flat) == set(array.reshape(-1))


def test_samples_of_different_number_are_refused():
    low = Floats()
    graph = low.finish(low.add(low.input("x", (1, 3)), low.input("y", (1, 3))))
    with pytest.raises(InputError, match="different numbers of samples: 2 of 'x', 3 of 'y'"):
        split_samples(graph, {"x": np.zeros((2, 3)), "y": np.zeros((3, 3))})


def test_unsupported_operators_are_named():
    low = Floats()
    graph = low.finish(low.binary("POW", low.input("x", (1, 4, 4)), low.input("y", (1, 4, 4))))
    with pytest.raises(UnsupportedError, match=r"POW_0 \(tensor 'pow_0' fp32\[1, 4, 4\]\)"):
        quantize_graph(graph, samples(graph))


@pytest.mark.parametrize(("shape", "axis"), [((4, 5), 1), ((2, 3, 7), 2), ((6, 2), 0), ((4, 1), 1)])
def test_products_over_an_axis(shape, axis):
    low = Floats()
    graph = low.finish(low.op("REDUCE_PRODUCT", low.input("x", shape), axis=axis))
    quantization = quantize_graph(graph, samples(graph))
    assert worst_db(quantization) > 30
    run_everywhere(quantization)


_READERS = {
    "MUL": lambda low, x, c: low.mul(x, c),
    "ADD": lambda low, x, c: low.op("ABS", low.add(x, c)),
    "SELECT": lambda low, x, c: low.select(low.greater(x, low.scalar(0.0, x)), x, c),
    "CONV2D": lambda low, x, c: matmul(low, x, low.transpose(c, [1, 0])),
    "CONCAT": lambda low, x, c: low.concat([x, c], 1),
    "MAXIMUM": lambda low, x, c: low.maximum(x, c),
}


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("reader", _READERS)
def test_constants_that_are_no_numbers_are_named(activations, reader):
    """Weights with NaN, above all; infinite ones do as bounds and where they are only moved."""
    for value, said in (
        (np.nan, "holds NaN, which is no number; give the model other weights"),
        (-np.inf, "infinite"),
    ):
        low = Floats()
        x, constant = low.input("x", (1, 3)), low.constant([[1.0, value, 2.0]], DType.FP32)
        graph = low.finish(_READERS[reader](low, x, constant))
        if value == -np.inf and reader in ("CONCAT", "MAXIMUM"):
            found = quantize_graph(graph, samples(graph), activations=activations)
            run_everywhere(found)
            assert reader == "CONCAT" or worst_db(found) > 35
            continue
        with pytest.raises(
            UnsupportedError, match=rf"(MATMUL|{reader})_0 \(tensor 'constant_.* fp32.*{said}"
        ):
            quantize_graph(graph, samples(graph), activations=activations)


def test_outputs_that_are_never_numbers_are_named():
    low = Floats()
    x = low.input("x", (1, 3))
    graph = low.finish(low.op("LOG", low.op("NEGATE", low.op("ABS", x), *[low.zero_point(x)] * 2)))
    with pytest.raises(
        InputError, match="^output 'log_0' is NaN or infinite in all of the calibration data, in floats"
    ):
        quantize_graph(graph, samples(graph))


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("threshold", [0.0, 0.31])
def test_an_input_that_is_only_compared(activations, threshold):
    """A jump is a table of two values, at the step of the input where it is."""
    low = Floats()
    x = low.input("x", (1, 64))
    ones, zeros = (low.constant(np.full((1, 1), value), DType.FP32) for value in (1.0, 0.0))
    graph = low.finish(low.select(low.greater(x, low.scalar(threshold, x)), ones, zeros))
    arrays = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 64)}
    found = quantize_graph(graph, arrays, activations=activations)
    encoding = found.result.inputs["x"]
    given = encoding.quantize(arrays["x"][0])
    got = found.result.outputs["select_0"].dequantize(evaluate(found.graph, {"x": given})["select_0"])
    beside = np.abs(encoding.dequantize(given) - threshold) > encoding.scale / 2
    assert np.array_equal((got > 0.5)[beside], (arrays["x"][0] > threshold)[beside])
    run_everywhere(found)


@pytest.mark.parametrize("option", [{"method": "best"}, {"activations": "int4"}])
def test_unknown_options(option):
    low = Floats()
    graph = low.finish(low.op("TANH", low.input("x", (2, 3))))
    with pytest.raises(InputError, match="use one of"):
        quantize_graph(graph, samples(graph), **option)


def test_inputs_keep_names_that_the_quantizer_would_give():
    low = Floats()
    x, y = low.input("rescale_0", (2, 3)), low.input("constant_0", (2, 3))
    graph = low.finish(low.op("TANH", low.add(x, low.times(y, 0.5))))
    quantization = quantize_graph(graph, samples(graph))
    assert quantization.graph.inputs == ["rescale_0", "constant_0"]


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_a_scalar_input_is_calibrated(shape):
    low = Floats()
    graph = low.finish(low.mul(low.input("x", (4, 6)), low.reshape(low.input("gain", ()), (1, 1))))
    arrays = {"x": samples(graph, 3)["x"], "gain": np.array([0.5, -1, 2], np.float32).reshape(shape)}
    quantization = quantize_graph(graph, arrays)
    assert quantization.graph.tensors["gain"].shape == () and worst_db(quantization) > 35
    run_everywhere(quantization)
