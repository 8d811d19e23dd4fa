"""One network in every format: the same float TOSA outputs and, with the same calibration, the same integers."""

import pathlib
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers import import_model
from tosaic.compiler.importers.coreml.schema import messages
from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, write_tensor
from tosaic.driver.quantize import quantize_graph
from tosaic.sim.golden import evaluate

NNEF = """version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [1,3,12,10]);
    f1 = variable(shape = [8,3,3,3], label = 'f1');
    b1 = variable(shape = [1,8], label = 'b1');
    c1 = conv(x, f1, b1, padding = [(1,1),(1,1)], stride = [2,2]);
    r1 = relu(c1);
    f2 = variable(shape = [8,1,3,3], label = 'f2');
    b2 = variable(shape = [1,8], label = 'b2');
    c2 = conv(r1, f2, b2, padding = [(1,1),(1,1)], groups = 0);
    r2 = relu(c2);
    p = max_pool(r2, size = [1,1,2,2], stride = [1,1,2,2], padding = [(0,0),(0,0),(0,0),(0,0)], border = 'ignore');
    s = sigmoid(p);
    m = mul(p, s);
    g = mean_reduce(m, axes = [2,3]);
    v = squeeze(g, axes = [2,3]);
    f3 = variable(shape = [5,8], label = 'f3');
    b3 = variable(shape = [1,5], label = 'b3');
    l = linear(v, f3, b3);
    y = softmax(l);
}
"""


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(11)
    shapes = {"f1": (8, 3, 3, 3), "b1": (1, 8), "f2": (8, 1, 3, 3), "b2": (1, 8), "f3": (5, 8), "b3": (1, 5)}
    return {name: (random.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}


def nnef_model(folder: pathlib.Path, weights: dict[str, np.ndarray]) -> pathlib.Path:
    (folder / "graph.nnef").write_text(NNEF)
    for name, values in weights.items():
        (folder / f"{name}.dat").write_bytes(write_tensor(values, ItemEncoding(Algorithm.FLOAT, 32)))
    return folder


def onnx_model(path: pathlib.Path, weights: dict[str, np.ndarray]) -> pathlib.Path:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "f1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "f2", "b2"], ["c2"], pads=[1, 1, 1, 1], group=8),
        node("Relu", ["c2"], ["r2"]),
        node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Sigmoid", ["p"], ["s"]),
        node("Mul", ["p", "s"], ["m"]),
        node("ReduceMean", ["m"], ["g"], axes=[2, 3], keepdims=0),
        node("Gemm", ["g", "f3", "b3"], ["l"], transB=1),
        node("Softmax", ["l"], ["y"], axis=1),
    ]
    flat = {n: v.reshape(-1) if n.startswith("b") else v for n, v in weights.items()}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(value, name) for name, value in flat.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def coreml_model(path: pathlib.Path, weights: dict[str, np.ndarray]) -> pathlib.Path:
    def floats(name: str) -> dict[str, Any]:
        return {"floatValue": [weights[name].astype("<f4").tobytes()]}

    around = {"paddingAmounts": {"borderAmounts": [{"startEdgeSize": 1, "endEdgeSize": 1}] * 2}}

    def convolution(filters: str, bias: str, **more: Any) -> dict[str, Any]:
        outputs, channels = weights[filters].shape[:2]
        kernel = {"outputChannels": outputs, "kernelChannels": channels, "kernelSize": [3, 3]}
        params = {"weights": floats(filters), "hasBias": True, "bias": floats(bias), "valid": around}
        return {"convolution": {**kernel, **params, **more}}

    window = {"type": 0, "kernelSize": [2, 2], "stride": [2, 2], "valid": {}}
    dense = {
        "inputChannels": 8,
        "outputChannels": 5,
        "weights": floats("f3"),
        "hasBias": True,
        "bias": floats("b3"),
    }
    layers: list[tuple[list[str], str, dict[str, Any]]] = [
        (["x"], "c1", convolution("f1", "b1", stride=[2, 2])),
        (["c1"], "r1", {"activation": {"ReLU": {}}}),
        (["r1"], "c2", convolution("f2", "b2", nGroups=8)),
        (["c2"], "r2", {"activation": {"ReLU": {}}}),
        (["r2"], "p", {"pooling": window}),
        (["p"], "s", {"activation": {"sigmoid": {}}}),
        (["p", "s"], "m", {"multiplyBroadcastable": {}}),
        (["m"], "g", {"reduceMean": {"axes": [2, 3], "keepDims": False}}),
        (["g"], "l", {"innerProduct": dense}),
        (["l"], "y", {"softmaxND": {"axis": 1}}),
    ]
    features = {
        side: [{"name": name, "type": {"multiArrayType": {"shape": shape, "dataType": 65568}}}]
        for side, name, shape in (("input", "x", [1, 3, 12, 10]), ("output", "y", [1, 5]))
    }
    network = {
        "layers": [{"name": out, "input": given, "output": [out], **kind} for given, out, kind in layers],
        "arrayInputShapeMapping": 1,
    }
    model = messages()["Model"](specificationVersion=5, description=features, neuralNetwork=network)
    path.write_bytes(model.SerializeToString())
    return path


def test_every_format_gives_the_same_floats_and_integers(
    tmp_path: pathlib.Path, weights: dict[str, np.ndarray]
) -> None:
    graphs = [
        import_model(nnef_model(tmp_path, weights)),
        import_model(onnx_model(tmp_path / "net.onnx", weights)),
        import_model(coreml_model(tmp_path / "net.mlmodel", weights)),
    ]
    samples = np.random.default_rng(12).standard_normal((16, 3, 12, 10)).astype(np.float32)
    floats = [np.stack([evaluate(graph, {"x": s[None]})["y"] for s in samples]) for graph in graphs]
    assert np.ptp(floats[0]) > 0.2
    assert all(np.allclose(floats[0], other, rtol=1e-6, atol=1e-7) for other in floats[1:])
    quantized = [quantize_graph(graph, {"x": samples}) for graph in graphs]
    integers = []
    for found in quantized:
        encoding = found.result.inputs["x"]
        integers.append(
            np.stack([evaluate(found.graph, {"x": encoding.quantize(s[None])})["y"] for s in samples])
        )
    assert all(found.result.outputs == quantized[0].result.outputs for found in quantized)
    assert all(np.array_equal(integers[0], other) for other in integers[1:])
