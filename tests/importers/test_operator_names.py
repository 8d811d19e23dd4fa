"""The model's own operator names follow its layers: through import, quantization, files, and compilation."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tflite_models import dense_model

from tosaic.compiler.build import compile_graph
from tosaic.compiler.importers import import_model
from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor, read_tosa, write_tosa
from tosaic.compiler.ir.tensors import name_after
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.quantize.measurement import measure
from tosaic.driver.session import Session
from tosaic.driver.trace import write_trace
from tosaic.hw.config_text import get_config


def small_network() -> onnx.ModelProto:
    """A convolution with bias and ReLU, a SoftMax behind it; a node without a name; names with colons and slashes."""
    generator = np.random.default_rng(3)
    weights = {
        "w": generator.normal(size=(8, 3, 3, 3)).astype(np.float32) / 4,
        "b": generator.normal(size=8).astype(np.float32) / 4,
        "d": generator.normal(size=(8, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "stem/conv:0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "stem/relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "d"], ["m"], "dense"),
        helper.make_node("Softmax", ["m"], ["y"], "classes", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def quantization(tmp_path):
    onnx.save(small_network(), tmp_path / "small.onnx")
    samples = {"x": np.random.default_rng(4).normal(size=(8, 3, 6, 6)).astype(np.float32)}
    return quantize_graph(import_model(tmp_path / "small.onnx"), samples)


def shown(graph: Graph) -> list[str]:
    return [f"{layer.name} ({layer.op})" for layer in compile_graph(graph, get_config("base")).layers]


LAYERS = [
    "stem/conv:0 … p (CONV2D)",
    "p (REDUCE_SUM)",
    "dense (CONV2D)",
    "classes (REDUCE_MAX)",
    "classes (RESCALE)",
    "classes (REDUCE_SUM)",
    "classes (TABLE)",
    "classes (RESCALE)",
    "classes (RESCALE)",
]


def test_layers_of_an_onnx_network(quantization):
    sources = {op.source for op in quantization.source.operators}
    assert sources == {"stem/conv:0", "stem/relu", "p", "flat", "dense", "classes"}
    assert {op.source for op in quantization.graph.operators} == sources - {"stem/relu"}
    assert shown(quantization.graph) == LAYERS


def test_every_label_is_its_own(quantization):
    labels = [op.name for op in quantization.graph.operators]
    assert len(set(labels)) == len(labels)


def test_names_in_a_file(quantization):
    again = read_tosa(write_tosa(quantization.graph))
    assert [op.source for op in again.operators] == [op.source for op in quantization.graph.operators]
    assert again.operators[0].name.startswith("stem/conv:0:TRANSPOSE_")
    assert shown(again) == LAYERS
    assert write_tosa(read_tosa(write_tosa(again))) == write_tosa(again)


def test_names_of_branches_in_a_file():
    """Written and read again and again, a label stays as long as it is."""
    graph = looping_graph()
    for _ in range(2):
        graph = read_tosa(write_tosa(graph))
    (body,) = [part for name, part in graph.subgraphs.items() if name == "body"]
    assert [(op.source, op.name.split("_")[0]) for op in body.operators] == [("step", "step:body/ADD")]


def looping_graph() -> Graph:
    condition, body, main = GraphBuilder("until"), GraphBuilder("body"), GraphBuilder("main")
    for part in (condition, body):
        part.input("i", (1,), DType.INT32)
    condition.output(condition.add("GREATER", [condition.constant([5], DType.INT32), "i"]))
    body.output(body.add("ADD", ["i", body.constant([1], DType.INT32)]))
    name_after("step", body.graph.operators)
    main.input("n", (1,), DType.INT32)
    main.graph.subgraphs.update(until=condition.graph, body=body.graph)
    for part in main.graph.subgraphs.values():
        part.subgraphs = main.graph.subgraphs
    main.graph.tensors["y"] = Tensor("y", (1,), DType.INT32)
    attributes = {"cond_graph": "until", "body_graph": "body"}
    main.graph.operators.append(Operator("WHILE_LOOP", ["n"], ["y"], attributes, "WHILE_LOOP_0"))
    main.output("y")
    return main.finish()


def test_worst_layers(quantization):
    rows = [(row.shown, row.op) for row in measure(quantization).layers]
    assert rows[:5] == [
        ("stem/conv:0", "CONV2D"),
        ("stem/relu", "CLAMP"),
        ("p", "REDUCE_SUM"),
        ("p", "MUL"),
        ("dense", "CONV2D"),
    ]
    assert {row for row, _ in rows[5:]} == {"classes"}


def test_trace(quantization, tmp_path):
    session = Session(quantization.graph, "emulator")
    session.run({"x": np.zeros((1, 3, 6, 6), np.int8)})
    assert [f"{layer['name']} ({layer['op']})" for layer in session.stats["layers"]] == LAYERS
    write_trace(tmp_path / "trace.json", session.stats, session.timeline())
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X" and event["tid"] == 0] == LAYERS


def test_layers_of_a_tflite_network(tmp_path):
    (tmp_path / "dense.tflite").write_bytes(dense_model())
    assert shown(import_model(tmp_path / "dense.tflite")) == ["scores (CONV2D)"]
