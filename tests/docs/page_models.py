"""The files that the pages' commands name: net.onnx, net.tflite and data for both."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_onnx(path: pathlib.Path) -> None:
    """A small float classifier with an open batch."""
    random = np.random.default_rng(0)
    weights = {"w": random.normal(0, 0.3, (4, 1, 3, 3)), "v": random.normal(0, 0.1, (144, 3))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "w"], ["conv"], "conv1"),
            helper.make_node("Relu", ["conv"], ["relu"], "relu1"),
            helper.make_node("Flatten", ["relu"], ["flat"], "flatten"),
            helper.make_node("MatMul", ["flat", "v"], ["scores"], "dense"),
        ],
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def write_tflite(path: pathlib.Path, floats: bool) -> None:
    """One dense layer, [1, 64] to [1, 3], in int8 or in floats."""
    from ai_edge_litert import schema_py_generated as schema
    from tflite_objects import operator, packed, tensor

    random = np.random.default_rng(0)
    kind = schema.TensorType.FLOAT32 if floats else schema.TensorType.INT8
    weights = random.normal(0, 0.1, (3, 64)).astype(np.float32)
    stored = weights if floats else np.clip(weights / 0.004, -127, 127).round().astype(np.int8)
    buffers = [schema.BufferT(), schema.BufferT()]
    buffers[1].data = np.frombuffer(stored.tobytes(), np.uint8)
    scales = (0.0, 0.0, 0.0) if floats else (1 / 127, 0.004, 0.02)
    graph = schema.SubGraphT()
    graph.name, graph.inputs, graph.outputs = b"main", [0], [2]
    graph.tensors = [
        tensor("image", [1, 64], kind, 0, scales[0]),
        tensor("weights", [3, 64], kind, 1, scales[1]),
        tensor("scores", [1, 3], kind, 0, scales[2]),
    ]
    graph.operators = [operator(0, [0, 1, -1], [2], "FullyConnectedOptions", keepNumDims=True)]
    path.write_bytes(packed([graph], buffers, [schema.BuiltinOperator.FULLY_CONNECTED]))


def write_data(shape: tuple[int, ...]) -> None:
    """calib.npz and test.npz for an input called `image`."""
    samples = np.random.default_rng(1).random((20, *shape), np.float32)
    np.savez("calib.npz", image=samples)
    np.savez("test.npz", image=samples, labels=np.zeros(20, np.int64))
