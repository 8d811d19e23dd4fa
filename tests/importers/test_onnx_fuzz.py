"""Damaged ONNX models: a graph, or an error of one line (`bench/onnx_fuzz.py` for longer)."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_mutations import run_mutations

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir.errors import UnsupportedError


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
