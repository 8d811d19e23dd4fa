"""PyTorch's networks, converted by Apple's converter: golden agrees with PyTorch. `make_networks.py` made the files."""

import collections
import pathlib

import numpy as np
import pytest

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.driver.session import Session

FOLDER = pathlib.Path(__file__).parent / "networks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.mlmodel"))


def test_the_networks_are_there():
    assert NAMES == ["classifier", "gated", "indices", "recurrent", "residual", "transformer", "unet"]


@pytest.mark.parametrize("name", NAMES)
def test_network(name):
    arrays = np.load(FOLDER / f"{name}.npz")
    session = Session(FOLDER / f"{name}.mlmodel", "golden")
    x = arrays["in_x"]
    got = session.run({"x": x.astype(session.inputs[0].numpy)})
    wanted = {key.removeprefix("out_"): arrays[key] for key in arrays.files if key.startswith("out_")}
    assert set(got) == set(wanted)
    for key, value in wanted.items():
        found = got[key].reshape(value.shape)
        scale = np.abs(value).max()
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4 * scale, err_msg=key)


def test_class_labels():
    session = Session(FOLDER / "classifier.mlmodel", "golden")
    assert list(session.labels.values()) == [["ant", "bee", "cat", "dog", "eel"]]
    assert set(session.labels) == {output.name for output in session.outputs}


@pytest.mark.parametrize(("name", "transposes"), [("residual", 1), ("classifier", 1)])
def test_transposes_stand_at_the_borders_only(name, transposes):
    graph = import_coreml(FOLDER / f"{name}.mlmodel")
    assert collections.Counter(op.op for op in graph.operators)["TRANSPOSE"] == transposes
