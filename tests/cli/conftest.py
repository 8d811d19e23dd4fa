"""The command line in process, in a directory of its own."""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.cli import app

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a call of `tosaic` did."""

    code: int
    out: str
    err: str

    @property
    def told(self):
        """What was printed, but for the command that comes next."""
        return re.sub(r"^next: .*\n", "", self.out, flags=re.M)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory: tiny.tosa with the input `image` int8[1, 8, 8, 1], and x.npy that fits it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.tosa").write_bytes((DIGITS / "digits_tiny.tosa").read_bytes())
    with np.load(DIGITS / "images.npz") as images:
        np.save("x.npy", images["inputs"][0].reshape(1, 8, 8, 1))
    return tmp_path


@pytest.fixture
def tosaic(here, monkeypatch, capsys):
    """A function tosaic(*arguments) -> Outcome that goes through the entry point."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tosaic", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        output = capsys.readouterr()
        return Outcome(ended.value.code, output.out, output.err)

    return call


@pytest.fixture
def refused(tosaic):
    """A function refused(*arguments, code=1) -> the one line on stderr, without `tosaic: error: `."""

    def call(*arguments, code=1):
        outcome = tosaic(*arguments)
        assert outcome.code == code, outcome
        prefix, message, rest = outcome.err.partition("tosaic: error: ")
        assert (prefix, message) == ("", "tosaic: error: ")
        assert rest.endswith("\n")
        assert rest.count("\n") == 1
        return rest[:-1]

    return call


@pytest.fixture
def classifier(here):
    """net.onnx: three scores of x[N, 4]; calib.npz with 30 samples and labels."""
    random = np.random.default_rng(2)
    weight = random.standard_normal((4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["y"])],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    x = random.standard_normal((30, 4)).astype(np.float32)
    np.savez("calib.npz", x=x, labels=(x @ weight).argmax(1))
    return x, np.tanh(x @ weight)
