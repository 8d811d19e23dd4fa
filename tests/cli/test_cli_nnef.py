"""NNEF models given to the verbs: folder, graph.nnef, archives."""

import tarfile

import numpy as np
import pytest

from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, write_tensor
from tosaic.compiler.ir import read_tosa
from tosaic.driver.session import Session

TEXT = """version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1,3,4,4]);
    f = variable(shape = [2,3,1,1], label = 'conv/filter');
    c = conv(x, f, stride = [2,2]);
    y = softmax(c);
}
"""
FILTER = np.arange(6, dtype=np.float32).reshape(2, 3, 1, 1) / 4


@pytest.fixture
def model(here):
    """The folder net: 1x1 convolution with stride 2 and softmax over channels."""
    (here / "net" / "conv").mkdir(parents=True)
    (here / "net" / "graph.nnef").write_text(TEXT)
    (here / "net" / "conv" / "filter.dat").write_bytes(
        write_tensor(FILTER, ItemEncoding(Algorithm.FLOAT, 32))
    )
    return here / "net"


def packed(folder, name, mode):
    with tarfile.open(folder.parent / name, mode) as archive:
        for file in ("graph.nnef", "conv/filter.dat"):
            archive.add(folder / file, file)
    return folder.parent / name


@pytest.mark.parametrize("given", ["folder", "file", "tar", "tgz", "tar.gz", "nnef", "tar.xz"])
def test_every_container_runs(tosaic, model, given):
    modes = {"tar": "w", "tgz": "w:gz", "tar.gz": "w:gz", "nnef": "w:gz", "tar.xz": "w:xz"}
    path = {"folder": model, "file": model / "graph.nnef"}.get(given) or packed(
        model, f"net.{given}", modes[given]
    )
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype(np.float32)
    np.save("x.npy", x)
    outcome = tosaic("run", path, "-i", "x=x.npy", "-o", "out", "--on", "golden")
    assert (outcome.code, outcome.err) == (0, "")
    powers = np.exp(np.einsum("nchw,kc->nkhw", x[:, :, ::2, ::2], FILTER[:, :, 0, 0]))
    assert np.allclose(np.load("out/y.npy"), powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_import_keeps_names_and_takes_shapes(tosaic, model):
    outcome = tosaic("import", model, "-o", "net.tosa", "--shape", "x=2,3,6,6")
    assert (outcome.code, outcome.err) == (0, "")
    graph = read_tosa((model.parent / "net.tosa").read_bytes())
    assert (graph.inputs, graph.outputs) == (["x"], ["y"])
    assert graph.tensors["x"].shape == (2, 3, 6, 6) and graph.tensors["y"].shape == (2, 2, 3, 3)


def test_check_names_the_operations_of_the_document(tosaic, model):
    outcome = tosaic("check", model)
    assert outcome.out.splitlines()[1:6] == [
        "direct            external x nothing at run time",
        "direct            variable f nothing at run time",
        "direct            conv     c SLICE, CONV2D",
        "composite         softmax  y REDUCE_MAX, SUB, EXP, REDUCE_SUM, RECIPROCAL, MUL",
        "4 operators in the source: 3 direct, 1 composite",
    ]
    assert "c:CONV2D_0" in outcome.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y = softmax(q);", "q is used before it is assigned"),
        ("y = softmax(c, axes = [4]);", "axes is [4] for the rank 4"),
    ],
)
def test_errors_name_the_place(tosaic, model, text, message):
    (model / "graph.nnef").write_text(TEXT.replace("y = softmax(c);", text))
    outcome = tosaic("run", "net", "--on", "golden", "--random", "1")
    assert outcome.code == 1
    assert outcome.err.startswith("tosaic: error: net/graph.nnef:7:") and message in outcome.err
    assert outcome.err.count("\n") == 1


def test_missing_model(tosaic, here):
    (here / "empty").mkdir()
    for name, message in (
        ("empty", "empty: cannot be read: it is a directory; give a model file"),
        ("none.tgz", "none.tgz: cannot be read: there is no such file; give a model file"),
    ):
        outcome = tosaic("import", name, "-o", "out.tosa")
        assert (outcome.code, outcome.err) == (1, f"tosaic: error: {message}\n")


COUNTER = """version 1.0;
graph counter( x ) -> ( y )
{
    x = external(shape = [2]);
    v = variable(shape = [2], label = 'Total');
    s = add(v, x);
    y = update(v, s);
}
"""


@pytest.fixture
def counter(here):
    """The folder counter, which sums its inputs, from 10 on."""
    (here / "counter").mkdir()
    (here / "counter" / "graph.nnef").write_text(COUNTER)
    start = np.full(2, 10, np.float32)
    (here / "counter" / "Total.dat").write_bytes(write_tensor(start, ItemEncoding(Algorithm.FLOAT, 32)))
    np.save(here / "x.npy", np.array([1, 2], np.float32))
    return here / "counter"


def test_session_carries_variables_from_run_to_run(counter):
    session = Session(counter, "golden")
    x = np.array([1, 2], np.float32)
    assert np.array_equal(session.run({"x": x})["y"], [11, 12])
    assert np.array_equal(session.run({"x": x})["y"], [12, 14])
    assert np.array_equal(session.state["Total.state"], [12, 14])
    session.state["Total.state"] = x
    assert np.array_equal(session.run({"x": x})["y"], [2, 4])
    assert np.array_equal(session.run({"x": x}, check=True)["y"], [3, 6])


def test_run_starts_from_the_data_file(tosaic, counter):
    outcome = tosaic("run", counter, "-i", "x=x.npy", "-o", "out", "--on", "golden")
    assert (outcome.code, outcome.err) == (0, "")
    assert np.array_equal(np.load("out/y.npy"), [11, 12])
    outcome = tosaic("import", counter, "-o", "counter.tosa")
    assert "state 'Total.state' fp32[2]\n" in outcome.out
    options = ("-i", "x=x.npy", "-i", "Total.state=x.npy", "-o", "out", "--on", "golden")
    outcome = tosaic("run", "counter.tosa", *options)
    assert (outcome.code, outcome.err) == (0, "")
    assert np.array_equal(np.load("out/y.npy"), [2, 4])


def test_one_size_is_no_shape(tosaic, model):
    outcome = tosaic("import", model, "-o", "net.tosa", "--shape", "x=2")
    assert outcome.code == 1
    assert "NNEF has no open dimensions; give an input its whole shape" in outcome.err
