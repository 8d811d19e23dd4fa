"""Weights of four bits in groups: found in models that bring them, or made of reals; four bits up to the memory."""

import numpy as np
import onnx
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, samples
from onnx_groups import DEPTH, EXPORTS, WIDTH, GroupedWeights, blocked_between_pairs

import tosaic
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.quantize import measure
from tosaic.errors import InputError, ModelWarning


def levels(graph: Graph, least: int = WIDTH) -> list[np.ndarray]:
    """The int8 constants of products, but for those that only add up."""
    weights = [graph.tensors[op.inputs[1]].data for op in graph.operators if op.op in ("MATMUL", "CONV2D")]
    return [each for each in weights if each is not None and each.size > least and each.max() > 1]


def held_out(graph: Graph, **options: object) -> float:
    """SQNR on samples that calibration did not see, in dB."""
    found = quantize_graph(graph, samples(graph, 64), **options)
    run_everywhere(found)
    return measure(found, held_out=samples(graph, 16, seed=6)).outputs[0].sqnr_db


@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("export", EXPORTS)
def test_groups_of_a_model_stay_four_bits(export: str, size: int, zero_points: bool) -> None:
    graph = import_onnx(EXPORTS[export](GroupedWeights(size, zero_points)))
    found = quantize_graph(graph, samples(graph, 32))
    weights = levels(found.graph)
    assert [each.shape for each in weights] == [(1, size, WIDTH)] * (DEPTH // size)
    assert all(-8 <= each.min() and each.max() <= 7 for each in weights)
    run_everywhere(found)
    # Activations of 16 bits show that the weights are exact: those of 8 bits have 45 dB.
    assert held_out(graph, activations="int16", outputs="int16") > 65


@pytest.mark.parametrize("zero_points", [False, True])
def test_groups_between_pairs_are_as_the_model_computes_them(tmp_path, zero_points: bool) -> None:
    weights, scales = GroupedWeights(64, zero_points), (0.03, 0.05)
    onnx.save(blocked_between_pairs(weights, *scales), tmp_path / "net.onnx")
    session = tosaic.Session(tmp_path / "net.onnx", "emulator")
    x = np.random.default_rng(1).integers(-128, 128, (1, DEPTH), np.int8)
    y = session.run({"x": x}, check=True)["y"]
    exact = (x.astype(float) - 3) * scales[0] @ weights.reals / scales[1]
    assert np.abs(y - np.clip(np.rint(exact) + 3, -128, 127)).max() <= 1


def correlated(rows: int = 1, depth: int = 200) -> Graph:
    """Products of what varies together: 200 channels of 12 sources, and a bias."""
    low = Floats()
    mixed = matmul(low, low.input("x", (1, rows, 12)), low.normal(12, depth))
    x = low.op("TANH", low.times(mixed, 0.2))
    return low.finish(low.add(matmul(low, x, low.normal(depth, 64)), low.normal(1, 1, 64)))


@pytest.mark.parametrize(("group", "least_db"), [(32, 27), (64, 27), (128, 26)])
def test_reals_are_rounded_to_four_bits_with_error_feedback(group: int, least_db: float) -> None:
    """Nearest levels alone give 21 dB in groups of 64, whatever varies together."""
    graph = correlated()
    assert held_out(graph, weights="int4", group=group) > least_db
    found = quantize_graph(graph, samples(graph, 64), weights="int4", group=group)
    weights = [each for each in levels(found.graph) if each.shape[1] != 12 and each.shape[-1] != 12]
    assert [each.shape[1] for each in weights] == [min(group, 200 - k) for k in range(0, 200, group)]


def test_few_samples_do_little_harm() -> None:
    low = Floats()
    graph = low.finish(matmul(low, low.input("x", (1, 1, 128)), low.normal(128, 64)))
    found = quantize_graph(graph, samples(graph, 16), weights="int4")
    assert measure(found, held_out=samples(graph, 32, seed=8)).outputs[0].sqnr_db > 19.5


def test_channels_of_zeros_and_of_bias_alone() -> None:
    low = Floats()
    weights = GroupedWeights(64, True).reals
    weights[:, :3] = 0
    weights[64:128] = 0
    bias = np.where(np.arange(WIDTH) % 2, 100.0, 0.001)
    y = matmul(low, low.input("x", (1, 2, DEPTH)), low.constant(weights, DType.FP32))
    graph = low.finish(low.add(y, low.constant(bias[None, None], DType.FP32)))
    assert held_out(graph, activations="int16", outputs="int16") > 65
    assert held_out(graph) > 40


def test_one_kernel_for_each_group_loads_half_of_the_bytes() -> None:
    """At 8 bytes a cycle int8 weights are bound by the memory."""
    low = Floats()
    graph = low.finish(matmul(low, low.input("x", (1, 1, 512)), low.normal(512, 512)))
    stats = {}
    for weights in ("int8", "int4"):
        found = quantize_graph(graph, samples(graph, 16), weights=weights)
        session = tosaic.Session(found.graph, "emulator", "base", memory_bandwidth=8, compress="fast")
        session.run({"x": np.ones((1, 1, 512), np.int8)}, check=True)
        stats[weights] = session.stats
    assert stats["int4"]["dram_read_bytes"] < 0.6 * stats["int8"]["dram_read_bytes"]
    assert stats["int4"]["cycles"] < 0.6 * stats["int8"]["cycles"]


def test_more_rows_keep_eight_bits() -> None:
    graph = correlated(rows=16)
    with pytest.warns(ModelWarning, match="no matrix .* int4 .* 4 rows"):
        found = quantize_graph(graph, samples(graph, 16), weights="int4")
    assert len(levels(found.graph)) == 2
    low = Floats()
    y = matmul(low, low.input("x", (1, 16, DEPTH)), low.constant(GroupedWeights(64, True).reals, DType.FP32))
    assert held_out(low.finish(y)) > 35


def test_groups_that_there_are_not() -> None:
    with pytest.raises(InputError, match="groups of 48; use one of 32, 64, 128"):
        quantize_graph(correlated(), samples(correlated(), 8), weights="int4", group=48)
