"""The text's own networks and recurrent cells, thinned, run on golden against the text's formulas."""

import math
import pathlib
import re

import numpy as np
import pytest
from nnef_model_files import write_model
from nnef_reference import Arrays
from nnef_reference import evaluate as reference

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.graph import FlatGraph
from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.sim.golden import evaluate

DOCUMENTS = pathlib.Path(__file__).parent / "documents"


def thinned(name: str, by: int, least: int) -> str:
    """A document with fewer channels: numbers from `least` on, but the input's extents, are divided."""
    text = (DOCUMENTS / f"{name}.nnef").read_text()
    head, graph = text.split("graph ", 1)
    before, after = graph.split("external", 1)
    inputs, body = after.split(";", 1)

    def thin(part: str) -> str:
        return re.sub(
            r"(?<![\w.'])\d+(?![\w.'])", lambda m: str(int(m[0]) // by if int(m[0]) >= least else m[0]), part
        )

    return f"{thin(head)}graph {before}external{inputs};{thin(body)}"


def data_of(graph: FlatGraph, seed: int = 1) -> Arrays:
    """Returns data by label: weights that keep the size of the values, and positive statistics of batch
    normalizations."""
    random = np.random.default_rng(seed)
    found = {}
    for variable, *_ in graph.variables.values():
        assert variable.producer is not None
        label = str(variable.producer.arguments["label"])
        fan = math.prod(variable.shape[1:])
        values = random.standard_normal(variable.shape) * math.sqrt(2 / fan)
        if label.endswith(("variance", "gamma")):
            values = random.uniform(0.5, 1.5, variable.shape)
        found[label] = values.astype(np.float32)
    return found


def exact(arrays: Arrays) -> Arrays:
    """Returns the arrays in float64, by labels in lower case too."""
    found = {name: value.astype(np.float64) for name, value in arrays.items()}
    return found | {name.lower(): value for name, value in found.items()}


@pytest.mark.parametrize(
    ("name", "logits", "by", "least", "shape"),
    [
        ("alexnet", "conv8", 16, 64, (1, 3, 224, 224)),
        ("alexnet_flat", "conv8", 16, 64, (1, 3, 224, 224)),
        ("googlenet", "conv4", 8, 16, (1, 3, 96, 80)),
        ("resnet101", "logits", 16, 64, (1, 3, 64, 96)),
    ],
)
def test_network(
    name: str, logits: str, by: int, least: int, shape: tuple[int, ...], tmp_path: pathlib.Path
) -> None:
    text = thinned(name, by, least).replace(
        "( output )\n{\n    input", f"( output, {logits} )\n{{\n    input"
    )
    flat = expand_document(text, shapes={"input": shape})
    data = data_of(flat)
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    graph = import_nnef(write_model(tmp_path, text, data), {"input": shape})
    got = evaluate(graph, {"input": x})
    wanted, _ = reference(flat, exact({"input": x}), exact(data))
    for output in ("output", logits):
        scale = np.abs(wanted[output]).max()
        assert scale > 0 and np.ptp(wanted[output]) > 1e-3 * scale
        assert np.abs(got[output] - wanted[output]).max() < 1e-4 * scale


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_recurrent_cell_over_four_steps(name: str, tmp_path: pathlib.Path) -> None:
    text = (DOCUMENTS / f"{name}.nnef").read_text()
    flat = expand_document(text)
    data = data_of(flat)
    graph = import_nnef(write_model(tmp_path, text, data))
    states = {name: state.initial for name, state in graph.states.items()}
    assert len(states) == (2 if name == "lstm" else 1)
    assert all(np.array_equal(value, data[n.removesuffix(".state")]) for n, value in states.items())
    known = exact(data)
    random = np.random.default_rng(3)
    for _ in range(4):
        (given,) = flat.inputs
        x = random.standard_normal(flat.tensors[given].shape).astype(np.float32)
        got = evaluate(graph, {given: x, **states})
        states = {n: got[state.output] for n, state in graph.states.items()}
        wanted, updates = reference(flat, exact({given: x}), known)
        known |= updates
        for output, value in wanted.items():
            assert np.allclose(got[output], value, atol=1e-5)
        for label, value in updates.items():
            assert np.allclose(states[f"{label}.state"], value, atol=1e-5)
