"""A quantized ONNX model is turned into integers once, and read from the cache afterwards."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic import Session
from tosaic.driver.quantize import kept_models


def save(path, scale: float) -> None:
    """A Relu between two pairs."""
    constants = {"s": np.float32(scale), "z": np.int8(-3)}
    nodes, name = [], "x"
    for number, op in enumerate(("QuantizeLinear", "DequantizeLinear", "Relu") * 2):
        inputs = [name] if op == "Relu" else [name, "s", "z"]
        name = f"t{number}"
        nodes.append(helper.make_node(op, inputs, [name]))
    del nodes[-1]
    graph = helper.make_graph(
        nodes,
        "pairs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("t4", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOSAIC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def outputs(path) -> tuple[float, np.ndarray]:
    session = Session(path, target="golden")
    return session.outputs[0].encoding.scale, session.run({"x": np.arange(-8, 8, 2, np.int8)[None]})["t4"]


def test_a_model_is_imported_once(tmp_path, cache, monkeypatch):
    path = tmp_path / "net 1.onnx"
    save(path, 0.25)
    first = outputs(path)
    assert {file.suffix for file in (cache / "models").iterdir()} == {".json", ".tosa", ".sha256"}
    monkeypatch.setattr(kept_models, "import_encoded", None)
    again = outputs(path)
    assert first[0] == again[0] == 0.25
    assert np.array_equal(first[1], again[1])
    assert again[1].tolist() == [[-3, -3, -3, -2, 0, 2, 4, 6]]


def test_another_content_is_another_model(tmp_path, cache):
    path = tmp_path / "net.onnx"
    save(path, 0.25)
    assert outputs(path)[0] == 0.25
    save(path, 0.5)
    assert outputs(path)[0] == 0.5


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, cache):
    cache.write_text("a file where the folder should be")
    path = tmp_path / "net.onnx"
    save(path, 0.25)
    assert outputs(path)[0] == 0.25
