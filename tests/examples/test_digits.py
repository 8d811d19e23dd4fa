"""The digits example as committed: its files are what the scripts write, its accuracy is as stated."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tosaic.compiler.ir import DType, read_tosa, validate
from tosaic.sim.golden import evaluate

DIGITS = Path(__file__).parents[2] / "examples" / "digits"

# What README.md states: correct of 450 held-out images, in int8 by the golden model.
CORRECT = {"digits": 448, "digits_tiny": 441}
SCORES_SHA256 = {
    "digits": "075683505d3fb2482acd1d24fbe0b57d96ea31a4737fa5b242c4c6d22dc39807",
    "digits_tiny": "0db505687313f43734455c8fdd7afe47c8f403d1f618d20097a0e4d226654117",
}


@pytest.fixture(scope="module")
def images():
    with np.load(DIGITS / "images.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module", params=sorted(CORRECT))
def model(request):
    return request.param, read_tosa(DIGITS / f"{request.param}.tosa")


def test_graph_is_legal_and_its_boundary_is_int8(model):
    _, graph = model
    validate(graph)
    assert graph.version == (1, 0, 0)
    assert (graph.inputs, graph.outputs) == (["image"], ["scores"])
    image, scores = graph.tensor("image"), graph.tensor("scores")
    assert (image.shape, image.dtype) == ((1, 8, 8, 1), DType.INT8)
    assert (scores.shape, scores.dtype) == ((1, 10), DType.INT8)


def test_every_rescale_is_single_round_and_normalised(model):
    name, graph = model
    rescales = [op for op in graph.operators if op.op == "RESCALE"]
    assert len(rescales) == {"digits": 9, "digits_tiny": 3}[name]
    for op in rescales:
        assert op.attributes["scale32"] is True
        assert op.attributes["rounding_mode"] == "SINGLE_ROUND"
        multiplier, shift = graph.operand_value(op, "multiplier"), graph.operand_value(op, "shift")
        assert multiplier.min() >= 2**30
        assert 2 <= shift.min() <= shift.max() <= 62


def test_golden_accuracy_is_the_stated_one(model, images):
    name, graph = model
    scores = np.concatenate([evaluate(graph, {"image": image[None]})["scores"] for image in images["inputs"]])
    assert scores.shape == (450, 10)
    assert scores.dtype == np.int8
    assert int((scores.argmax(axis=1) == images["labels"]).sum()) == CORRECT[name]
    assert hashlib.sha256(scores.tobytes()).hexdigest() == SCORES_SHA256[name]


def test_readme_states_the_accuracy(model):
    name, _ = model
    lines = (DIGITS / "README.md").read_text().splitlines()
    row = next(line for line in lines if line.startswith(f"| `{name}.tosa`"))
    assert f" {CORRECT[name]} of 450 " in row
    assert f" {(DIGITS / f'{name}.tosa').stat().st_size:,} " in row


def test_quantize_reproduces_the_committed_files(tmp_path):
    subprocess.run([sys.executable, DIGITS / "quantize.py", "-o", tmp_path], check=True, timeout=60)
    for name in CORRECT:
        assert (tmp_path / f"{name}.tosa").read_bytes() == (DIGITS / f"{name}.tosa").read_bytes()
