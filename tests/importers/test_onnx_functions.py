"""Sparse initializers, and local functions of another opset than their model."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from shared_files import ABSENT, SHARED

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

CASES = SHARED / "cases/models"
X = np.random.default_rng(7).standard_normal((2, 4)).astype(np.float32)


@pytest.mark.parametrize("name", ["sparse_initializer", "function_other_opset"])
def test_case(name):
    if not (CASES / f"{name}.onnx").exists():
        pytest.skip(ABSENT)
    kept = np.load(CASES / f"{name}.npz")
    result = evaluate(import_onnx(CASES / f"{name}.onnx"), {"x": kept["in_x"]})
    np.testing.assert_array_equal(result["y"], kept["out_y"])


def sparse(dense, name, flat):
    where = np.flatnonzero(dense) if flat else np.argwhere(dense)
    values = numpy_helper.from_array(dense[dense != 0], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(where.astype(np.int64)), dense.shape)


def sparse_model(nodes, tensors, shape=(2, 4)):
    graph = helper.make_graph(
        nodes,
        "sparse",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        sparse_initializer=tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


WEIGHT = np.array([[0, 1.5, 0], [0, 0, 0], [-2, 0, 0.25], [0, 0, 7]], np.float32)


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_weights(flat):
    made = sparse_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [sparse(WEIGHT, "w", flat)])
    np.testing.assert_allclose(evaluate(import_onnx(made), {"x": X})["y"], X @ WEIGHT, rtol=1e-6)


def test_sparse_shape():
    """A value that decides a shape."""
    shape = sparse(np.array([8, 1]), "shape", True)
    made = sparse_model([helper.make_node("Reshape", ["x", "shape"], ["y"])], [shape])
    np.testing.assert_array_equal(evaluate(import_onnx(made), {"x": X})["y"], X.reshape(8, 1))


def test_sparse_in_a_branch():
    body = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["t"])],
        "branch",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, [2, 3])],
        sparse_initializer=[sparse(WEIGHT, "w", False)],
    )
    true = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    made = sparse_model([true, helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)], [])
    np.testing.assert_allclose(evaluate(import_onnx(made), {"x": X})["y"], X @ WEIGHT, rtol=1e-6)


@pytest.mark.parametrize(
    ("where", "dims"), [([12], [4, 3]), ([-1], [4, 3]), ([0, 1], [4, 3]), ([[0, 3]], [4, 3])]
)
def test_damaged_sparse_initializer(where, dims):
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    tensor = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(where, np.int64)), dims)
    made = sparse_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor])
    with pytest.raises(ModelError, match="'w'"):
        import_onnx(made)


def test_large_sparse_initializer():
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    tensor = helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, np.int64)), [4, 1 << 28])
    made = sparse_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor])
    with pytest.raises(UnsupportedError, match="Constant 'w': "):
        import_onnx(made)


# --- functions --------------------------------------------------------------------------------------------------

BODIES = {
    "reduce with an attribute": "m = ReduceMean<axes = [1]>(a)\n b = Sub(a, m)",
    "reduce with an input": "i = Constant<value_ints = [1]>()\n m = ReduceMean(a, i)\n b = Sub(a, m)",
    "split": "c, d = Split<axis = 1, num_outputs = 2>(a)\n b = Concat<axis = 1>(d, c)",
    "branches": """s = Size(a)\n z = Constant<value_int = 0>()\n c = Greater(s, z)
        b = If(c)<then_branch = t () => (float[2,4] t) { m = ReduceMax<axes = [1]>(a)  t = Add(a, m) },
                  else_branch = e () => (float[2,4] e) { e = Neg(a) }>""",
    "a function body of ONNX's own": "b = Celu<alpha = 2.0>(a)",
}
MODEL = """<ir_version: 9, opset_import: ["" : 17, "my" : 1, "other" : 1]>
g (float[2,4] x) => (float[2,4] y) {{ z = my.Outer(x)  y = Relu(z) }}
<domain: "my", opset_import: ["" : {outer}, "other" : 1]>
Outer (a) => (b) {{ {call} }}
<domain: "other", opset_import: ["" : {inner}]>
Inner (a) => (b) {{ {body} }}"""
PLAIN = """<ir_version: 9, opset_import: ["" : {opset}]>
g (float[2,4] a) => (float[2,4] b) {{ {body} }}"""


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("body", "opset"),
    [
        ("reduce with an attribute", 13),
        ("reduce with an input", 18),
        ("reduce with an input", 21),
        ("split", 18),
        ("split", 21),
        ("branches", 13),
        ("a function body of ONNX's own", 13),
        ("a function body of ONNX's own", 21),
    ],
)
def test_function_of_another_opset(body, opset, nested):
    """Its nodes mean what they mean in its own opset, older or newer than the model's."""
    text = BODIES[body]
    call, unused = ("b = other.Inner(a)", "b = Abs(a)") if nested else (text, "b = Abs(a)")
    made = MODEL.format(
        outer=13 if nested else opset,
        call=call,
        inner=opset if nested else 13,
        body=text if nested else unused,
    )
    plain = import_onnx(parser.parse_model(PLAIN.format(opset=opset, body=text)))
    wanted = np.maximum(evaluate(plain, {"a": X})["b"], 0)
    result = evaluate(import_onnx(parser.parse_model(made)), {"x": X})
    np.testing.assert_array_equal(result["y"], wanted)


def test_what_a_functions_own_opset_lacks_is_refused():
    made = MODEL.format(outer=13, call="b = Gelu(a)", inner=13, body="b = Abs(a)")
    with pytest.raises(ModelError, match="opset 13 has no operator Gelu"):
        import_onnx(parser.parse_model(made))


def test_function_older_than_the_importer_knows():
    made = MODEL.format(outer=6, call="b = Abs(a)", inner=13, body="b = Abs(a)")
    with pytest.raises(
        UnsupportedError, match="local function 'Outer' is of opset 6, in a model of opset 17"
    ):
        import_onnx(parser.parse_model(made))


def test_model_is_not_changed():
    made = parser.parse_model(MODEL.format(outer=13, call="b = Abs(a)", inner=13, body="b = Abs(a)"))
    kept = made.SerializeToString()
    import_onnx(made)
    assert onnx.ModelProto.FromString(kept) == made
