"""Whole networks: every tensor of every shared model against the checksums of TOSA's reference model."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from shared_files import SHARED, found

from tosaic.compiler.ir import Graph, read_tosa
from tosaic.sim.golden import evaluate

MODELS = sorted(path.parent for path in SHARED.glob("models/*/layers.json"))
LOGITS = sorted(SHARED.glob("models/*/model_logits.tosa"))


def inputs_of(graph: Graph, folder: Path, index: int) -> dict[str, np.ndarray]:
    (name,) = graph.inputs
    return {name: np.load(folder / f"inputs_{index}.npy")}


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("folder", found(MODELS), ids=lambda folder: folder.name)
def test_every_tensor_of_a_model(folder, index):
    graph = read_tosa(folder / "model.tosa")
    tensors = evaluate(graph, inputs_of(graph, folder, index), keep=True)
    (output,) = graph.outputs
    np.testing.assert_array_equal(tensors[output], np.load(folder / f"outputs_{index}.npy"))
    layers = json.loads((folder / "layers.json").read_text())[f"inputs_{index}.npy"]
    computed = [
        (layer["tensor"], list(value.shape), str(value.dtype), f"{zlib.crc32(value.tobytes()):08x}")
        for layer in layers
        for value in [tensors[layer["tensor"]]]
    ]
    assert computed == [(x["tensor"], x["shape"], x["dtype"], x["crc32"]) for x in layers]


@pytest.mark.filterwarnings("ignore:a constant of shape:tosaic.ModelWarning")
@pytest.mark.parametrize(
    "path", found(sorted(SHARED.glob("models/*/io.npz"))), ids=lambda path: path.parent.name
)
def test_models_with_several_inputs(path):
    """`io.npz` holds `in:NAME` and `out:NAME`, the reference model's outputs."""
    with np.load(path) as archive:
        arrays = dict(archive)
    graph = read_tosa(path.parent / "model.tosa")
    for name, value in evaluate(graph, {name: arrays[f"in:{name}"] for name in graph.inputs}).items():
        np.testing.assert_array_equal(value, arrays[f"out:{name}"])


@pytest.mark.parametrize("path", found(LOGITS), ids=lambda path: path.parent.name)
def test_models_without_their_softmax(path):
    graph = read_tosa(path)
    (output,) = graph.outputs
    for index in range(4):
        outputs = evaluate(graph, inputs_of(graph, path.parent, index))
        np.testing.assert_array_equal(outputs[output], np.load(path.parent / f"logits_{index}.npy"))
