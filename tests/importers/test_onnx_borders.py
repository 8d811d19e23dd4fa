"""Attributes of windows and borders that contradict a naive reading: the numbers are ONNX Runtime's."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import ModelError
from tosaic.sim.golden import evaluate

RANDOM = np.random.default_rng(5)


def model(op, shape, constants, **attributes):
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *constants], ["y"], **attributes)],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def weights(*shape):
    return {"w": RANDOM.standard_normal(shape).astype(np.float32)}


def pads(*amounts):
    return {"pads": np.array(amounts, np.int64)}


CASES = {
    "windows of padding only": ("Conv", [1, 1, 3, 1], weights(3, 1, 3, 1), {"pads": [3, 1, 2, 0], "strides": [2, 2]}),
    "dilated windows of padding only": (
        "Conv", [1, 2, 4, 1], weights(3, 2, 3, 1), {"pads": [0, 2, 2, 0], "strides": [2, 3], "dilations": [1, 2]},
    ),
    "nothing is left of an axis": ("Pad", [1, 6], pads(-1, 0, 3, 1), {}),
    "wrap repeats what a cut has left": ("Pad", [5, 6], pads(1, 2, 2, -1), {"mode": "wrap"}),
    "wrap more than once": ("Pad", [3], pads(4, 7), {"mode": "wrap"}),
    "reflect reaches what is cut": ("Pad", [5, 6], pads(1, 2, 2, -1), {"mode": "reflect"}),
    "edge is copied before the cut": ("Pad", [5, 6], pads(-1, 2, 2, -1), {"mode": "edge"}),
    "a result beyond the windows": (
        "ConvTranspose", [1, 2, 5], weights(2, 3, 2), {"strides": [3], "output_shape": [16]},
    ),
    "a result beyond the windows, padded upwards": (
        "ConvTranspose", [1, 2, 5], weights(2, 3, 1), {"strides": [3], "output_shape": [15], "auto_pad": "SAME_UPPER"},
    ),
    "a result within the windows": (
        "ConvTranspose", [1, 2, 5], weights(2, 3, 4), {"strides": [3], "output_shape": [13]},
    ),
    "strides beyond the kernel": (
        "Conv", [1, 2, 6], weights(3, 2, 1), {"strides": [2], "auto_pad": "SAME_UPPER"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_onnx_runtime(case):
    op, shape, constants, attributes = CASES[case]
    given = model(op, shape, constants, **attributes)
    x = RANDOM.standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(given.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        evaluate(import_onnx(given), {"x": x})["y"], session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6
    )


def test_an_attribute_without_a_type():
    given = model("ConvTranspose", [1, 2, 5], weights(2, 3, 2), auto_pad="SAME_UPPER")
    given.graph.node[0].attribute[0].ClearField("type")
    with pytest.raises(ModelError, match="'y': attribute 'auto_pad' must be of type"):
        import_onnx(given)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_a_declared_shape_without_the_window_in_the_padding(op):
    """The package onnx infers 3 windows, the third of which would begin behind the last element."""
    given = model(op, [1, 1, 5], {}, kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1)
    del given.opset_import[:]
    given.opset_import.append(helper.make_opsetid("", 18))
    given.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 2]))
    x = RANDOM.standard_normal((1, 1, 5)).astype(np.float32)
    session = onnxruntime.InferenceSession(given.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x})[0]
    assert wanted.shape == (1, 1, 2)
    np.testing.assert_allclose(evaluate(import_onnx(given), {"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [0.34, 0.5])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_one_element_of_pytorchs_half_pixels_is_the_first_one(mode, scale):
    """As the text says, where ONNX's reference takes -0.5 (onnx#4275)."""
    sizes = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, scale], np.float32)}
    how = {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"}
    graph = import_onnx(model("Resize", [1, 1, 3], sizes, **how))
    result = evaluate(graph, {"x": np.array([[[1, 2, 4]]], np.float32)})["y"]
    np.testing.assert_allclose(result, [[[1]]], rtol=1e-6)
