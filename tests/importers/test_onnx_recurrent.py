"""RNN, GRU and LSTM against ONNX Runtime: directions, peepholes, lengths, clips, activations."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.sim.golden import evaluate

TIMES, BATCH, FEATURES, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

CASES = {
    "plain RNN": ("RNN", {}, ()),
    "GRU": ("GRU", {}, ("b",)),
    "GRU, linear before reset": ("GRU", {"linear_before_reset": 1}, ("b", "h")),
    "LSTM": ("LSTM", {}, ("b", "h", "c")),
    "peepholes": ("LSTM", {}, ("b", "h", "c", "p")),
    "peepholes both ways": ("LSTM", {"direction": "bidirectional"}, ("b", "h", "c", "p")),
    "input and forget coupled": ("LSTM", {"input_forget": 1}, ("b",)),
    "clipped": ("LSTM", {"clip": 0.3}, ("b", "h", "c")),
    "clipped GRU": ("GRU", {"clip": 0.25, "direction": "reverse"}, ("b", "h")),
    "lengths": ("LSTM", {"direction": "bidirectional"}, ("b", "lengths", "h", "c")),
    "lengths backwards": ("GRU", {"direction": "reverse"}, ("b", "lengths")),
    "reverse": ("RNN", {"direction": "reverse", "activations": ["Relu"]}, ("b",)),
    "activations": (
        "LSTM",
        {
            "direction": "bidirectional",
            "activations": ["HardSigmoid", "LeakyRelu", "Affine", "Sigmoid", "Elu", "ScaledTanh"],
            "activation_alpha": [0.3, 0.05, 0.7, 0.9, 1.2],
            "activation_beta": [0.4, 0.1, 0.6],
        },
        ("b", "h", "c"),
    ),
    "more activations": (
        "GRU",
        {"direction": "bidirectional", "activations": ["Sigmoid", "Softsign", "HardSigmoid", "Tanh"]},
        ("b",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_recurrent_layer(name: str) -> None:
    op, attributes, options = CASES[name]
    random = np.random.default_rng(len(name))
    directions, gates = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[op]
    shapes = {
        "w": (directions, gates * HIDDEN, FEATURES),
        "r": (directions, gates * HIDDEN, HIDDEN),
        "b": (directions, 2 * gates * HIDDEN),
        "h": (directions, BATCH, HIDDEN),
        "c": (directions, BATCH, HIDDEN),
        "p": (directions, 3 * HIDDEN),
    }
    constants = {
        key: random.normal(size=shape).astype(np.float32) * 0.7
        for key, shape in shapes.items()
        if key in ("w", "r", *options)
    }
    if "lengths" in options:
        constants["lengths"] = np.array([TIMES, 2, 3], np.int32)
    order = ["x", "w", "r", "b", "lengths", "h", *(("c", "p") if op == "LSTM" else ())]
    inputs = [key if key == "x" or key in constants else "" for key in order]
    while not inputs[-1]:
        inputs.pop()
    outputs = ["y", "y_h", *(("y_c",) if op == "LSTM" else ())]
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(op, inputs, outputs, hidden_size=HIDDEN, **attributes)],
            "recurrent",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [TIMES, BATCH, FEATURES])],
            [helper.make_tensor_value_info(key, TensorProto.FLOAT, None) for key in outputs],
            [numpy_helper.from_array(value, key) for key, value in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    x = random.normal(size=(TIMES, BATCH, FEATURES)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = evaluate(import_onnx(model), {"x": x})
    for key, wanted in zip(outputs, session.run(outputs, {"x": x}), strict=True):
        np.testing.assert_allclose(got[key], wanted, rtol=1e-4, atol=1e-5, err_msg=key)


def test_steps_of_an_unrolled_network_share_turned_weights():
    """Exporters unroll cells of PyTorch into Gemms that read one matrix, each turned: captcha-whisperer's network was
    14 times as large as its file."""
    weights = np.random.default_rng(3).standard_normal((32, 32)).astype(np.float32)
    nodes = [
        helper.make_node("Gemm", [f"h{step}", "w"], [f"h{step + 1}"], transB=1, name=f"step_{step}")
        for step in range(4)
    ]
    graph = helper.make_graph(
        nodes,
        "unrolled",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [2, 32])],
        [helper.make_tensor_value_info("h4", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported = import_onnx(made)
    large = [
        tensor for tensor in imported.tensors.values() if tensor.data is not None and tensor.data.size == 1024
    ]
    assert len(large) == 1
    start = np.random.default_rng(4).standard_normal((2, 32)).astype(np.float32)
    wanted = start
    for _ in range(4):
        wanted = wanted @ weights.T
    assert np.allclose(evaluate(imported, {"h0": start})["h4"], wanted, rtol=1e-4)
