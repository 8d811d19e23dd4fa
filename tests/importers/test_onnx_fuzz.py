"""Damaged ONNX models: a graph, or an error of one line (`bench/onnx_fuzz.py` for longer)."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_mutations import run_mutations

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import ModelError, UnsupportedError


def test_damaged_models() -> None:
    found = run_mutations(600, 11, traced=True)
    assert not found.wrong
    assert found.accepted.total() > 20 and found.refused.total() > 300


def test_no_small_model_makes_a_huge_constant() -> None:
    shape = numpy_helper.from_array(np.array([1 << 20, 1 << 12], np.int64), "shape")
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["shape"], ["big"]),
            helper.make_node("ReduceSum", ["big"], ["y"]),
        ],
        "bomb",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedError, match="4,294,967,296 elements"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [1, 0]}),
        ("MaxPool", {"kernel_shape": [2, 0]}),
        ("AveragePool", {"kernel_shape": [2, 2], "dilations": [0, 1]}),
        ("SpaceToDepth", {"blocksize": 0}),
        ("DepthToSpace", {"blocksize": -1}),
        ("Split", {"num_outputs": 0}),
    ],
)
def test_counts_that_the_package_would_divide_by(op: str, attributes: dict) -> None:
    """onnx's shape inference ends the process with SIGFPE at a stride of 0."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        "zero",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with pytest.raises(ModelError, match="not positive"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("LayerNormalization", ["x", "x"], {"axis": 1 << 31}, "an axis that no tensor has"),
        ("ReduceMean", ["x"], {"axes": [0, -(1 << 40)]}, "an axis that no tensor has"),
        ("Split", ["x"], {"num_outputs": 3}, "num_outputs is 3, and it has 1 outputs"),
    ],
)
def test_places_that_the_package_does_not_check(
    op: str, inputs: list, attributes: dict, message: str
) -> None:
    """onnx's shape inference ends the process with SIGSEGV or SIGABRT (found by bench/onnx_fuzz.py)."""
    graph = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], **attributes)],
        "place",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opset = 17 if op == "ReduceMean" else 18
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    with pytest.raises(ModelError, match=message):
        import_onnx(model)


def test_indices_that_the_reference_would_wrap_one_by_one() -> None:
    """`numpy.choose` takes the axis' length off again and again: years for this index."""
    graph = helper.make_graph(
        [helper.make_node("GatherElements", ["data", "indices"], ["y"], axis=1)],
        "indices",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.zeros((1, 4), np.float32), "data"),
            numpy_helper.from_array(np.array([[0, 1, 1 << 62]], np.int64), "indices"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match="GatherElements 'y'.*to 4611686018427387904 on an axis of 4"):
        import_onnx(model)


def test_an_empty_input_with_an_axis_that_numpy_cannot_have() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "empty",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 0, (1 << 63) - 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedError, match="input 'x' has shape .*elements are taken"):
        import_onnx(model)


def test_line_breaks_in_names_do_not_break_the_message() -> None:
    graph = helper.make_graph(
        [helper.make_node("Re\nlu", ["x"], ["y"])],
        "names",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError) as caught:
        import_onnx(model)
    assert str(caught.value) == r"Re\nlu 'y': opset 17 has no operator Re\nlu"
