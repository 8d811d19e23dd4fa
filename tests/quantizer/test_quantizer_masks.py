"""Masks in every form, and comparisons of whole numbers: integers against the network as it came."""

import numpy as np
import pytest
from float_networks import Floats, run_everywhere
from masked_networks import FORMS, LEAST, NETWORKS, Masked, masked_samples, network
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.quantizer import soften_masks
from tosaic.driver.models import open_model
from tosaic.driver.quantize import Quantization, load_samples, quantize_graph
from tosaic.driver.quantize.quantization import calibrate
from tosaic.driver.quantize.samples import split_samples
from tosaic.errors import InputError
from tosaic.sim.golden import evaluate

CASES = SHARED / "cases/models"
GOOD_DB = 25


def source_db(graph: Graph, arrays: dict[str, np.ndarray], found: Quantization) -> float:
    """SQNR of the integers against the float graph as it was imported, masks and all."""
    signal = noise = 0.0
    for sample in split_samples(graph, arrays):
        encodings = found.result.inputs
        given = {name: encodings[name].quantize(v) if name in encodings else v for name, v in sample.items()}
        wanted, got = evaluate(graph, sample), evaluate(found.graph, given)
        for name, encoding in found.result.outputs.items():
            signal += float((wanted[name].astype(np.float64) ** 2).sum())
            noise += float(((encoding.dequantize(got[name]) - wanted[name]) ** 2).sum())
    return 10 * np.log10(signal / noise)


def quantized_db(name: str, activations: str = "int8", **options) -> float:
    graph = network(name)
    arrays = masked_samples(graph, **options)
    return source_db(graph, arrays, quantize_graph(graph, arrays, activations=activations))


@pytest.mark.parametrize("name", [*FORMS, *NETWORKS])
def test_masks_cost_no_precision(name: str) -> None:
    assert quantized_db(name) >= GOOD_DB


@pytest.mark.parametrize(
    "name", [f"(1 - i) * {LEAST:g}", "(1 - f) * -1e+09", "logarithm", "m + m2 == 2", "gates"]
)
def test_masks_in_int16(name: str) -> None:
    assert quantized_db(name, "int16") >= 40


@pytest.mark.parametrize("hidden", [LEAST, -np.inf])
@pytest.mark.parametrize("name", ["added_input", "added_input_expanded"])
@pytest.mark.parametrize("activations", ["int8", "int16"])
def test_inputs_of_minus_infinity(name: str, hidden: float, activations: str) -> None:
    assert quantized_db(name, activations, hidden=hidden) >= 30


@pytest.mark.parametrize(
    "name",
    [
        *(f"(1 - {kind}) * {factor:g}" for kind in "if" for factor in (LEAST, -1e9, -65504.0, -1e4)),
        "scores_less_a_product",
        "inverted_mask_filled",
        "scores_filled",
        "added_input",
        "causal_and_padding",
        "two_layers_of_one_mask",
    ],
)
def test_rows_that_are_masked_as_a_whole(name: str) -> None:
    """Floats absorb the scores where the mask is huge: all keys weigh the same. Beside -10,000 scores still count."""
    assert quantized_db(name, whole=True) >= GOOD_DB


@pytest.mark.parametrize("name", ["mask_mul_float_min", "mask_mul_1e9", "cast_mask_equal_one"])
def test_cases_of_masks(name: str) -> None:
    path = CASES / f"{name}.onnx"
    if not path.exists():
        pytest.skip(ABSENT)
    graph, stored = open_model(str(path)), load_samples(path.with_suffix(".npz"))
    random = np.random.default_rng(1)
    kept = random.random((16, *graph.tensors["m"].shape)) < 0.6
    kept[..., :1] = True
    arrays = {"x": random.standard_normal((16, *graph.tensors["x"].shape)).astype(np.float32), "m": kept}
    arrays = {name: np.concatenate([stored[f"in_{name}"][None], value]) for name, value in arrays.items()}
    assert source_db(graph, arrays, quantize_graph(graph, arrays)) >= GOOD_DB


@pytest.mark.parametrize(
    "name", [f"(1 - i) * {LEAST:g}", "added_input", "inverted_mask_filled", "|m - 1| == 0"]
)
def test_masks_on_the_accelerator(name: str) -> None:
    graph = network(name)
    run_everywhere(quantize_graph(graph, masked_samples(graph, whole=True)))


@pytest.mark.parametrize("number", [2, 100, 32767, 32768])
def test_comparisons_beyond_what_was_seen(number: int) -> None:
    """Ids compared with one that no sample had: exact for any int32."""
    net = Masked()
    ids = net.input("m", "i", (1, 6, 1))
    graph = net.graph(net("Where", net("Equal", net.real(ids), float(number)), net.x, -5.0))
    found = quantize_graph(graph, masked_samples(graph))
    given = np.array([number, number - 1, 0, 1, number + 1, -number], np.int32).reshape(1, 6, 1)
    x = np.zeros((1, 6, 8), np.float32)
    got = evaluate(found.graph, {"x": found.result.inputs["x"].quantize(x), "m": given})["y"]
    hidden = np.abs(found.result.outputs["y"].dequantize(got) + 5.0).max(-1).reshape(-1) < 0.1
    assert hidden.tolist() == [False, True, True, True, True, True]


def test_functions_of_whole_numbers_are_exact() -> None:
    """A table has an entry for each: nothing is interpolated between two of them."""
    low = Floats()
    ids = low.cast(low.input("ids", (1, 8), DType.INT32), DType.FP32)
    jump = low.select(
        low.equal(ids, low.scalar(3.0, ids)), low.scalar(7.0, ids), low.op("LOG", low.plus(ids, 1.0))
    )
    graph = low.finish(jump)
    arrays = {"ids": np.arange(8, dtype=np.int32).reshape(1, 1, 8)}
    assert source_db(graph, arrays, quantize_graph(graph, arrays, activations="int16")) > 80


def test_a_graph_without_masks_stays_as_it_is() -> None:
    """Scores far below zero are none, nor is a mask that leaves the model."""
    net = Masked()
    shown = net("Mul", net.inverted(net.mask()), -1e9)
    graph = net.graph(net("Add", net.scores, shown))
    arrays = masked_samples(graph)
    before = [(op.op, list(op.inputs)) for op in graph.operators]
    assert not soften_masks(graph, calibrate(graph, split_samples(graph, arrays)))
    assert [(op.op, op.inputs) for op in graph.operators] == before


def test_an_infinite_input_that_is_no_mask_is_refused() -> None:
    graph = network("added_input")
    arrays = masked_samples(graph)
    arrays["x"][0, 0, 0, 0] = -np.inf
    with pytest.raises(InputError, match="input 'x' has values that are not finite"):
        quantize_graph(graph, arrays)
    for value in (np.inf, np.nan):
        arrays = masked_samples(graph)
        arrays["bias"][0, 0, 0, 0] = value
        with pytest.raises(InputError, match="input 'bias' has values that are not finite"):
            quantize_graph(graph, arrays)
