"""The verdicts on each operator of a source model."""

import onnx
import pytest
from onnx import TensorProto, helper

from tosaic.compiler.importers import import_model, survey_model
from tosaic.compiler.importers.survey import LoweringForm
from tosaic.errors import UnsupportedError


def saved(path, nodes, outputs):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", [x], outputs)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_onnx_model_that_is_all_representable(tmp_path):
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    nodes = [
        ("Shape", ["x"], ["s"], "shape"),
        ("Softmax", ["x"], ["p"], "soft"),
        ("Reshape", ["p", "s"], ["r"], "same"),
        ("Transpose", ["r"], ["t"], "turned"),
        ("Relu", ["t"], ["y"], "positive"),
    ]
    y.type.tensor_type.shape.dim[0].dim_value = 8
    y.type.tensor_type.shape.dim.add().dim_value = 2
    operators, graph = survey_model(saved(tmp_path / "m.onnx", nodes, [y]))
    assert graph is not None
    assert [(o.kind, o.name, o.form, o.reason) for o in operators] == [
        ("Shape", "shape", LoweringForm.DIRECT, "nothing at run time"),
        ("Softmax", "soft", LoweringForm.COMPOSITE, "REDUCE_MAX, SUB, EXP, REDUCE_SUM, RECIPROCAL, MUL"),
        ("Reshape", "same", LoweringForm.DIRECT, "nothing at run time"),
        ("Transpose", "turned", LoweringForm.DIRECT, "TRANSPOSE"),
        ("Relu", "positive", LoweringForm.DIRECT, "CLAMP"),
    ]


def test_onnx_survey_goes_on_behind_a_refusal(tmp_path):
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    nodes = [
        ("RandomNormalLike", ["x"], ["a"], "noise"),
        ("Relu", ["a"], ["y"], "positive"),
        ("NonZero", ["x"], ["n"], "where"),
        ("Identity", ["n"], ["m"], "same"),
        ("Size", ["m"], ["z"], "count"),
    ]
    z.type.tensor_type.elem_type = TensorProto.INT64
    path = saved(tmp_path / "m.onnx", nodes, [y, z])
    operators, graph = survey_model(path)
    assert graph is None
    assert [(o.name, o.form) for o in operators] == [
        ("noise", LoweringForm.NOT_REPRESENTABLE),
        ("positive", LoweringForm.DIRECT),
        ("where", LoweringForm.NOT_REPRESENTABLE),
        ("same", LoweringForm.UNKNOWN),
        ("count", LoweringForm.UNKNOWN),
    ]
    assert "it makes random numbers" in operators[0].reason
    assert "the size of its result depends on data" in operators[2].reason
    assert operators[4].reason == "reads 'm', of unknown shape after NonZero 'where'"
    with pytest.raises(UnsupportedError, match="RandomNormalLike 'noise'"):
        import_model(path)


def test_onnx_input_of_a_foreign_type(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"], "minus")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    operators, graph = survey_model(tmp_path / "m.onnx")
    assert graph is None
    assert [(o.kind, o.name, o.form) for o in operators] == [
        ("input", "x", LoweringForm.NOT_REPRESENTABLE),
        ("Neg", "minus", LoweringForm.UNKNOWN),
    ]
