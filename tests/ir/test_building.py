"""Building graphs: constants folded, operators replaced, graphs cleaned."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType, GraphBuilder, Operator, Tensor, validate
from tosaic.compiler.ir.building import (
    FoldingBuilder,
    add_constant,
    drop_identities,
    fold,
    fold_constants,
    fresh_name,
    remove_dead,
    rename_tensor,
)
from tosaic.compiler.ir.building.folding import MAX_ELEMENTS
from tosaic.errors import ModelError

X = np.array([[1, -2, 3], [4, 5, -6]])


def tensor(values, dtype: DType) -> Tensor:
    data = np.asarray(values, dtype.numpy)
    return Tensor("t", data.shape, dtype, data)


def sizes(*values: int) -> Tensor:
    return tensor(values, DType.SHAPE)


LAYOUT = {
    "IDENTITY": ([], {}, X),
    "RESHAPE": ([sizes(3, 2)], {}, X.reshape(3, 2)),
    "TRANSPOSE": ([], {"perms": [1, 0]}, X.T),
    "REVERSE": ([], {"axis": 1}, [[3, -2, 1], [-6, 5, 4]]),
    "SLICE": ([sizes(0, 1), sizes(2, 2)], {}, [[-2, 3], [5, -6]]),
    "CONCAT": ([tensor([[7], [8]], DType.INT8)], {"axis": 1}, [[1, -2, 3, 7], [4, 5, -6, 8]]),
    "PAD": ([sizes(0, 1, 1, 0), tensor([9], DType.INT8)], {}, [[9, 1, -2, 3], [9, 4, 5, -6], [9, 9, 9, 9]]),
    "TILE": ([sizes(1, 2)], {}, [[1, -2, 3, 1, -2, 3], [4, 5, -6, 4, 5, -6]]),
}


@pytest.mark.parametrize("op", LAYOUT)
def test_layout_of_any_type_is_folded(op: str) -> None:
    others, attributes, wanted = LAYOUT[op]
    value, dtype = fold(op, [tensor(X, DType.INT8), *others], attributes)
    assert (value.tolist(), value.dtype, dtype) == (np.array(wanted).tolist(), np.int8, DType.INT8)


ARITHMETIC = {
    "ADD": ([[10, 20, 30]], {}, X + [10, 20, 30]),
    "SUB": ([[[1]]], {}, X - 1),
    "MUL": ([[[2]], [0]], {}, X * 2),
    "MAXIMUM": ([[[0]]], {}, np.maximum(X, 0)),
    "MINIMUM": ([[[0]]], {}, np.minimum(X, 0)),
    "ABS": ([], {}, np.abs(X)),
    "NEGATE": ([[0], [0]], {}, -X),
    "CLAMP": ([], {"min_val": -1, "max_val": 4}, X.clip(-1, 4)),
    "REDUCE_SUM": ([], {"axis": 1}, [[2], [3]]),
    "REDUCE_PRODUCT": ([], {"axis": 0}, [[4, -10, -18]]),
    "REDUCE_MAX": ([], {"axis": 0}, [[4, 5, 3]]),
    "REDUCE_MIN": ([], {"axis": 1}, [[-2], [-6]]),
}


@pytest.mark.parametrize("op", ARITHMETIC)
@pytest.mark.parametrize("dtype", [DType.INT32, DType.FP32])
def test_arithmetic_is_folded(op: str, dtype: DType) -> None:
    others, attributes, wanted = ARITHMETIC[op]
    value, kind = fold(op, [tensor(X, dtype), *(tensor(other, dtype) for other in others)], attributes)
    assert (np.asarray(value).tolist(), kind) == (np.array(wanted).tolist(), dtype)


def test_floats_are_computed_wide_and_rounded_once() -> None:
    low = FoldingBuilder(GraphBuilder())
    x = low.constant([1.1], DType.FP32)
    assert low.data(low.op("EXP", x)).item() == np.float32(np.exp(np.float64(np.float32(1.1))))
    value, dtype = fold("RSQRT", [tensor([2.0], DType.FP32)], {})
    assert (value.dtype, value.item(), dtype) == (np.float64, 1 / np.sqrt(2.0), DType.FP32)


def test_casts() -> None:
    halves = tensor([0.5, 1.5, -2.5], DType.FP32)
    assert fold("CAST", [halves], {}, DType.INT32)[0].tolist() == [0, 2, -2]
    assert fold("CAST", [tensor([np.inf], DType.FP32)], {}, DType.INT32) is None
    assert fold("CAST", [tensor([3e9], DType.FP32)], {}, DType.INT32) is None
    assert fold("CAST", [halves], {}, DType.INT8) == fold("CAST", [halves], {}, DType.BOOL) is None
    assert fold("CAST", [tensor([300], DType.INT32)], {}, DType.INT8)[0].tolist() == [44]
    assert fold("CAST", [tensor([True], DType.BOOL)], {}, DType.FP32)[1] is DType.FP32


def test_a_product_is_shifted_as_tosa_has_it() -> None:
    x, y = tensor([-7, 6, 1 << 30], DType.INT32), tensor([3, 1, 4], DType.INT32)
    assert fold("MUL", [x, y, tensor([2], DType.INT8)], {})[0].tolist() == [-5, 2, 1 << 30]


def test_comparisons_selections_and_rows() -> None:
    x = tensor(X, DType.INT32)
    greater, dtype = fold("GREATER", [x, tensor([[0]], DType.INT32)], {})
    assert (greater.tolist(), dtype) == ((X > 0).tolist(), DType.BOOL)
    chosen, dtype = fold("SELECT", [tensor(greater, DType.BOOL), x, tensor([[0]], DType.INT32)], {})
    assert (chosen.tolist(), dtype) == (np.maximum(X, 0).tolist(), DType.INT32)
    assert fold("LOGICAL_NOT", [tensor(greater, DType.BOOL)], {})[0].tolist() == (X <= 0).tolist()
    rows = tensor(X.reshape(1, 2, 3), DType.FP32)
    assert fold("GATHER", [rows, tensor([[1, 0]], DType.INT32)], {})[0].tolist() == [X[::-1].tolist()]
    assert fold("GATHER", [rows, tensor([[2, 0]], DType.INT32)], {}) is None


def test_what_is_not_folded() -> None:
    one = tensor([1], DType.INT32)
    assert fold("ADD", [Tensor("x", (1,), DType.INT32), one], {}) is None
    assert fold("ADD", [tensor([2**31 - 1], DType.INT32), one], {}) is None, "int32 would wrap"
    assert fold("ADD", [tensor([1], DType.INT8), tensor([1], DType.INT8)], {}) is None
    zero_point = tensor([1], DType.FP32)
    assert fold("NEGATE", [zero_point, zero_point, zero_point], {}) is None
    assert fold("EXP", [one], {}) is None
    assert fold("CONV2D", [one, one, one], {}) is None
    large = tensor(np.zeros(MAX_ELEMENTS + 1), DType.BOOL)
    assert fold("LOGICAL_NOT", [large], {}) is None
    assert fold("TILE", [one, sizes(MAX_ELEMENTS)], {})[0].shape == (MAX_ELEMENTS,)
    assert fold("TILE", [one, sizes(MAX_ELEMENTS + 1)], {}) is None
    assert fold("PAD", [one, sizes(0, MAX_ELEMENTS), one], {}) is None
    assert fold("TILE", [large, sizes(16)], {})[0].size == 16 * large.data.size


def test_room_is_asked_for_before_an_array_is_made() -> None:
    asked: list[tuple[list[int], np.dtype]] = []
    x = tensor(X, DType.INT8)
    for op in ("RESHAPE", "TRANSPOSE", "SLICE", "CONCAT", "PAD", "TILE"):
        others, attributes, _ = LAYOUT[op]
        fold(op, [x, *others], attributes, None, lambda shape, dtype: asked.append((list(shape), dtype)))
    assert asked == [([8], np.int8), ([3, 4], np.int8), ([2, 6], np.int8)], "CONCAT, PAD and TILE"


def test_parameters_are_declared_only_for_operators_that_are_added() -> None:
    low = FoldingBuilder(GraphBuilder())
    known = low.constant(X, DType.INT8)
    assert low.data(low.reshape(known, (6,))).tolist() == X.reshape(-1).tolist()
    assert low.pad(known, [(0, 0), (0, -1)], 0) != known
    assert low.graph.operators == []
    assert not any(name.startswith("shape") for name in low.graph.tensors)
    x = low.build.input("x", (2, 3), DType.INT8)
    assert (
        low.reshape(x, (2, 3)) == low.tile(x, [1, 1]) == low.concat([x], 0) == low.transpose(x, [0, 1]) == x
    )
    y = low.pad(low.reverse(low.slice_axis(x, 1, 0, 2), 1), [(1, 0), (0, -1)], 7)
    assert [op.op for op in low.graph.operators] == ["SLICE", "REVERSE", "SLICE", "PAD"]
    assert (low.shape(y), low.data(low.graph.operators[-1].inputs[2]).tolist()) == ((3, 1), [7])
    low.build.output(y)
    validate(low.graph)


def test_an_output_is_never_folded_away() -> None:
    low = FoldingBuilder(GraphBuilder())
    name = low.op("IDENTITY", low.constant(X, DType.INT8), output="y")
    assert (name, low.data("y"), low.graph.operators[0].outputs) == ("y", None, ["y"])


def test_labels_begin_with_the_builders() -> None:
    build = GraphBuilder()
    x = build.input("x", (1,), DType.INT8)
    build.label = "layer"
    build.add("ABS", [build.add("CAST", [x], dtype=DType.INT32)])
    assert [op.name for op in build.operators] == ["layer/CAST_0", "layer/ABS_0"]


def replaced() -> tuple[GraphBuilder, GraphBuilder]:
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input("x", (2,), DType.INT32)], output="y"))
    build.graph.tensors["y'0"] = Tensor("y'0", (2,), DType.INT32)
    return build, GraphBuilder.replacing(build.graph, build.operators[0])


def test_replacing_an_operator() -> None:
    build, new = replaced()
    zero = new.constant([0], DType.INT32)
    opposite = new.add("NEGATE", ["x", zero, zero])
    assert new.add("MAXIMUM", ["x", opposite], output="y") == "y"
    assert (zero, opposite) == ("y'1", "y'2")
    assert [op.name for op in new.operators] == ["ABS_0", "ABS_0"]
    assert len(build.operators) == 1, "the caller puts them in"


def test_replacing_keeps_shape_and_type_of_the_result() -> None:
    _, new = replaced()
    with pytest.raises(
        ModelError, match=r"ABS_0 makes 'y' int32\[1\], which the graph has as 'y' int32\[2\]"
    ):
        new.add("REDUCE_SUM", ["x"], axis=0, output="y")


def test_cleaning_a_graph() -> None:
    build = GraphBuilder()
    x = build.input("x", (2, 3), DType.INT8)
    turned = build.add("TRANSPOSE", [build.constant(X.T, DType.INT8)], perms=[1, 0])
    same = build.add("IDENTITY", [build.add("IDENTITY", [x])])
    build.add("ABS", [build.add("CAST", [x], dtype=DType.INT32)])
    build.output(build.add("ADD", [build.add("CAST", [n], dtype=DType.INT32) for n in (same, turned)]))
    graph = build.finish()
    fold_constants(graph, only=("TRANSPOSE",))
    assert graph.tensors[turned].data.tolist() == X.tolist()
    drop_identities(graph)
    remove_dead(graph)
    assert [op.op for op in graph.operators] == ["CAST", "CAST", "ADD"]
    assert graph.operators[0].inputs == ["x"]
    assert sorted(graph.tensors) == sorted(["x", turned, *(op.outputs[0] for op in graph.operators)])
    fold_constants(graph)
    assert [op.op for op in graph.operators] == ["CAST", "ADD"]
    rename_tensor(graph, graph.outputs[0], "y")
    assert (graph.outputs, graph.operators[-1].outputs) == (["y"], ["y"])
    validate(graph)


def test_dead_results_of_a_live_operator_stay() -> None:
    build = GraphBuilder()
    x = build.input("x", (1,), DType.INT32)
    graph = build.graph
    for name in ("a", "b"):
        graph.tensors[name] = Tensor(name, (1,), DType.INT32)
    graph.operators.append(Operator("WHILE_LOOP", [x, x], ["a", "b"]))
    graph.outputs = ["a"]
    remove_dead(graph)
    assert sorted(graph.tensors) == ["a", "b", "x"]


def test_a_folder_of_another_kind() -> None:
    build = GraphBuilder()
    y = build.output(build.add("CLZ", [build.constant([1], DType.INT32)]))
    fold_constants(build.graph, lambda graph, op: [np.array([31], np.int32)])
    assert (build.graph.operators, build.graph.const(y).tolist()) == ([], [31])


def test_constants_of_a_graph_that_is_there() -> None:
    graph = GraphBuilder().graph
    assert [add_constant(graph, "c", [1], DType.INT8), add_constant(graph, "c", [0.1])] == ["c", "c_1"]
    assert graph.tensors["c_1"].data.tolist() == [np.float32(0.1)]
    assert fresh_name(graph, "c") == "c_2"
    with pytest.raises(ModelError, match="constant c_2 does not fit int8_t: 128 to 128"):
        add_constant(graph, "c", [128], DType.INT8)
