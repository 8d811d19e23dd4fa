"""Scan, Einsum, and lengths and padding that are computed at run time: as ONNX Runtime computes them."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.sim.golden import evaluate

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((3, 4, 2)).astype(np.float32)


def agree(nodes, inputs, outputs, atol=1e-6):
    """The imported graph, which computes what ONNX Runtime does."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "test", infos, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    imported = import_onnx(model)
    narrowed = {name: value.astype(imported.tensors[name].dtype.numpy) for name, value in inputs.items()}
    got = evaluate(imported, narrowed)
    for name, wanted in zip(outputs, session.run(None, inputs), strict=True):
        assert got[name].shape == wanted.shape
        np.testing.assert_allclose(got[name], wanted, rtol=1e-5, atol=atol)
    return imported


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize(("axis", "out_axis"), [(0, 0), (1, 2), (-1, 1)])
def test_scan(back, axis, out_axis):
    """Running sums, along any axis, forwards and backwards."""
    element = np.take(X, 0, axis)
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Add", ["sum", "part"], ["next"]), helper.make_node("Neg", ["next"], ["seen"])]
    body = helper.make_graph(
        nodes,
        "body",
        [value("sum", FLOAT, element.shape), value("part", FLOAT, element.shape)],
        [value("next", FLOAT, element.shape), value("seen", FLOAT, element.shape)],
    )
    scan = helper.make_node(
        "Scan",
        ["first", "x"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[back],
        scan_output_axes=[out_axis],
        scan_output_directions=[1 - back],
    )
    agree([scan], {"first": element, "x": X}, ["last", "all"])


@pytest.mark.parametrize("equation", ["bii->bi", "ii->i", "bii->b", "iji->j"])
def test_diagonals(equation):
    term = equation.partition("->")[0]
    x = RANDOM.standard_normal([dict(b=2, i=3, j=4)[name] for name in term]).astype(np.float32)
    agree([helper.make_node("Einsum", ["x"], ["y"], equation=equation)], {"x": x}, ["y"])


@pytest.mark.parametrize(
    ("equation", "products"),
    [
        ("bqhd,bkhd->bhqk", 1),
        ("bhqk,bkhd->bqhd", 1),
        ("bkhq,bkhd->bqhd", 1),
        ("ij,jk->ki", 1),
        ("...ij,...jk->...ik", 1),
        ("...ij,jk->...ik", 1),
        ("bij,jk->bk", 1),
        ("ij,jk,kl->il", 2),
        ("bqd,bkd,bk->bq", 2),
        ("bi,bi->b", 0),
        ("bi,bj->bij", 0),
        ("ij,k->ik", 0),
    ],
)
def test_sums_of_products_are_products_of_matrices(equation, products):
    """Where each operand has axes of its own, or one of them; batches keep theirs."""
    sizes = dict(b=2, h=3, q=4, k=5, d=6, i=4, j=5, l=3)
    terms = [term.replace("...", "bh") for term in equation.partition("->")[0].split(",")]
    arrays = {
        f"x{place}": RANDOM.standard_normal([sizes[name] for name in term]).astype(np.float32)
        for place, term in enumerate(terms)
    }
    node = helper.make_node("Einsum", list(arrays), ["y"], equation=equation)
    operators = agree([node], arrays, ["y"], atol=1e-5).operators
    assert [op.op for op in operators].count("MATMUL") == products


def test_an_axis_of_one_is_repeated_where_it_is_summed():
    x, y = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((1, 6, 2), (6, 1, 3)))
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation="ghi,ghj->ij")
    agree([node], {"x": x, "w": y}, ["y"])


@pytest.mark.parametrize("amounts", [[0, 1, 0, 2, 0, 1], [1, -1, 0, 0, 2, 1], [0, -2, 0, -1, 0, 0]])
def test_padding_by_a_value_of_run_time(amounts):
    nodes = [
        helper.make_node("Constant", [], ["pads"], value_ints=amounts),
        helper.make_node("Pad", ["x", "pads", "value"], ["y"]),
    ]
    agree(nodes, {"x": X, "value": np.array(2.5, np.float32)}, ["y"])


@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0)])
def test_reversing_by_lengths_of_run_time(batch, time):
    lengths = np.arange(1, X.shape[batch] + 1).clip(max=X.shape[time])
    node = helper.make_node("ReverseSequence", ["x", "lengths"], ["y"], batch_axis=batch, time_axis=time)
    agree([node], {"x": X, "lengths": lengths}, ["y"])


@pytest.mark.parametrize("kind", ["BOOL", "INT64"])
def test_reversing_what_is_not_real(kind):
    """TOSA's GATHER has no bools."""
    nodes = [
        helper.make_node("Cast", ["x"], ["other"], to=getattr(TensorProto, kind)),
        helper.make_node("ReverseSequence", ["other", "lengths"], ["back"], batch_axis=0, time_axis=1),
        helper.make_node("Cast", ["back"], ["y"], to=FLOAT),
    ]
    x = RANDOM.integers(0, 2, (3, 4)).astype(np.float32)
    agree(nodes, {"x": x, "lengths": np.array([1, 4, 3])}, ["y"])


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sampling_far_outside(mode, padding):
    x = RANDOM.standard_normal((2, 3, 4, 5)).astype(np.float32)
    grid = RANDOM.uniform(-3, 3, (2, 6, 2, 2)).astype(np.float32)
    old = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    agree(
        [helper.make_node("GridSample", ["x", "grid"], ["y"], mode=old, padding_mode=padding)],
        {"x": x, "grid": grid},
        ["y"],
        atol=1e-5,  # a float32 position of some elements, times a cubic's slope
    )
