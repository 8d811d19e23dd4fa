"""Every ERROR_IF of the integer operators: a legal graph, one thing wrong, the rule's words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_operator_graphs import GRAPHS, cond_if, conv2d, rescale, resize, while_loop

from tosaic.compiler.ir import OPERATORS, DType, Graph, validate
from tosaic.compiler.ir.operators import rule_of
from tosaic.errors import ModelError, UnsupportedError

Change = Callable[[Graph], object]


def attribute(name: str, value: Any) -> Change:
    """Replaces an attribute of the one operator."""
    return lambda graph: graph.operators[0].attributes.__setitem__(name, value)


def shape(tensor: str, *sizes: int) -> Change:
    """Replaces the shape of a tensor that is not constant."""
    return lambda graph: setattr(graph.tensors[tensor], "shape", sizes)


def constant(tensor: str, values: list, dtype: DType | None = None) -> Change:
    """Replaces a constant."""

    def change(graph: Graph) -> None:
        target = graph.tensors[tensor]
        target.dtype = dtype or target.dtype
        target.data = np.array(values, target.dtype.numpy)
        target.shape = target.data.shape

    return change


def dtype(tensor: str, value: DType) -> Change:
    """Replaces the type of a tensor that is not constant."""
    return lambda graph: setattr(graph.tensors[tensor], "dtype", value)


def together(*changes: Change) -> Change:
    """Several changes."""
    return lambda graph: [change(graph) for change in changes]


CASES: list[tuple[str, Change, str]] = [
    ("ARGMAX", attribute("axis", 3), "axis must be in the range 0 to rank - 1 of the input; found axis 3 for rank 3"),
    ("ARGMAX", attribute("axis", -1), "found axis -1 for rank 3"),
    ("ARGMAX", shape("y", 2, 4), r"the shape of output 'y' must be \[2, 3\]; found \[2, 4\]"),
    ("ARGMAX", shape("y", 2, 3, 1), r"the shape of output 'y' must be \[2, 3\]"),
    ("ARGMAX", dtype("y", DType.INT16), "found input int8_t, output int16_t"),
    ("AVG_POOL2D", attribute("kernel", [0, 2]), r"every element of kernel must be at least 1; found kernel \[0, 2\]"),
    ("AVG_POOL2D", attribute("stride", [2, 0]), r"every element of stride must be at least 1"),
    ("AVG_POOL2D", attribute("pad", [-1, 0, 0, 0]), r"every element of pad must be at least 0"),
    ("AVG_POOL2D", attribute("pad", [3, 0, 0, 0]), "pad must be smaller than the kernel on its axis"),
    ("AVG_POOL2D", attribute("pad", [0, 0, 0, 2]), "pad must be smaller than the kernel on its axis"),
    ("AVG_POOL2D", attribute("pad", [1, 1, 1, 0]), "the output height must be a whole number of strides; found 5 / 2"),
    ("AVG_POOL2D", attribute("pad", [1, 0]), "attribute pad must be a list of 4 integers"),
    ("AVG_POOL2D", shape("y", 1, 3, 4, 3), "the shape of output 'y' must be"),
    ("AVG_POOL2D int16", constant("input_zp", [1]), "input_zp must be 0 unless input is int8_t; found input_zp 1"),
    ("AVG_POOL2D int16", constant("output_zp", [1]), "output_zp must be 0 unless output is int8_t"),
    ("AVG_POOL2D", attribute("acc_type", DType.INT48), "found input int8_t, .*acc_type int48_t"),
    ("MAX_POOL2D", shape("x", 6, 5, 3), r"input must have rank 4 \(\[N,IH,IW,C\]\)"),
    ("MAX_POOL2D", attribute("nan_mode", "MAYBE"), "attribute nan_mode must be one of PROPAGATE, IGNORE"),
    ("CONV2D", attribute("stride", [0, 1]), "every element of stride must be at least 1"),
    ("CONV2D", attribute("dilation", [1, 0]), "every element of dilation must be at least 1"),
    ("CONV2D", attribute("pad", [0, 0, -1, 0]), "every element of pad must be at least 0"),
    ("CONV2D", attribute("stride", [2, 2]), "the output height must be a whole number of strides; found 3 / 2"),
    ("CONV2D", attribute("dilation", [9, 1]), "the output height must be a whole number of strides"),
    ("CONV2D", shape("y", 1, 5, 3, 4), r"the shape of output 'y' must be \[1, 4, 3, 4\]"),
    ("CONV2D", shape("x", 1, 5, 6, 2), "weight and input must have the same number of input channels; found 3 and 2"),
    ("CONV2D", constant("bias", [1, 2]), "bias must have one element per output channel, or one element; found 2"),
    ("CONV2D", constant("input_zp", [0, 0]), "input_zp must have one element"),
    ("CONV2D", constant("weight_zp", [1], DType.INT16), "the data types must be one of the operator's supported"),
    ("CONV2D int16", constant("input_zp", [1]), "input_zp must be 0 unless input is int8_t"),
    ("CONV2D int4", constant("weight_zp", [1]), "weight_zp must be 0 unless weight is int8_t"),
    ("CONV2D", dtype("y", DType.INT16), "the data types must be one of the operator's supported combinations"),
    ("CONV2D", attribute("acc_type", DType.INT48), "acc_type int48_t"),
    ("CONV3D", attribute("stride", [1, 1]), "attribute stride must be a list of 3 integers"),
    ("CONV3D", attribute("pad", [0, 0, 1, 1, 0, -1]), "every element of pad must be at least 0"),
    ("CONV3D", attribute("dilation", [1, 1, 9]), "the output width must be a whole number of strides"),
    ("DEPTHWISE_CONV2D", shape("x", 1, 4, 5, 2), "the same number of input channels; found 3 and 2"),
    ("DEPTHWISE_CONV2D", constant("bias", [1] * 3), "bias must have one element per output channel"),
    ("TRANSPOSE_CONV2D", attribute("out_pad", [-3, 0, 0, 0]), "every out_pad must be greater than minus the kernel"),
    ("TRANSPOSE_CONV2D", attribute("out_pad", [0, 0, 0, -2]), "every out_pad must be greater than minus the kernel"),
    ("TRANSPOSE_CONV2D", attribute("stride", [0, 1]), "every element of stride must be at least 1"),
    ("TRANSPOSE_CONV2D", shape("y", 1, 7, 4, 4), r"the shape of output 'y' must be \[1, 6, 4, 4\]"),
    ("MATMUL", shape("a", 1, 3, 4), "A and B must have the same number of matrices N; found 1 and 2"),
    ("MATMUL", shape("a", 2, 3, 5), "the columns of A must equal the rows of B; found 5 and 4"),
    ("MATMUL", dtype("y", DType.INT48), "the data types must be one of the operator's supported combinations"),
    ("CLAMP", attribute("min_val", 101), "max_val must not be less than min_val; found min_val 101 and max_val 100"),
    ("CLAMP", attribute("max_val", 128), "min_val and max_val must be values of the input's type"),
    ("CLAMP", attribute("min_val", "0"), "attribute min_val must be of kind number"),
    ("ADD", shape("b", 2, 2, 4), r"axes of the inputs must be equal or 1 to broadcast; found \[2, 3, 1\] and"),
    ("ADD", shape("b", 3, 4), r"the inputs must have the same rank; found \[2, 3, 1\] and \[3, 4\]"),
    ("ADD", shape("y", 2, 3, 1), r"the shape of output 'y' must be \[2, 3, 4\]"),
    ("ADD", dtype("a", DType.INT8), "the data types must be one of the operator's supported combinations"),
    ("ARITHMETIC_RIGHT_SHIFT", attribute("round", 1), "attribute round must be of kind bool; found 1"),
    ("MUL int8", constant("shift", [1]), "shift must be 0 unless the inputs are int32_t; found shift 1 for int8_t"),
    ("MUL", constant("shift", [64]), "shift must be in the range 0 to 63; found shift 64"),
    ("MUL", constant("shift", [-1]), "shift must be in the range 0 to 63; found shift -1"),
    ("MUL", constant("shift", [1], DType.INT32), "shift must be int8_t"),
    ("TABLE", constant("table", [0] * 255), "table must have 256 elements for int8_t and 513 for int16_t; found 255"),
    ("TABLE int16", constant("table", [0] * 256), "found 256 elements for int16_t"),
    ("NEGATE int32", constant("input1_zp", [1]), "input1_zp must be 0 unless input1 is int8_t"),
    ("NEGATE int32", constant("output_zp", [1]), "output_zp must be 0 unless input1 is int8_t"),
    ("SELECT", shape("c", 1, 2), "axes of the inputs must be equal or 1 to broadcast"),
    ("SELECT", dtype("c", DType.INT8), "input1 must be bool_t"),
    ("EQUAL", dtype("y", DType.INT32), "the data types must be one of the operator's supported combinations"),
    ("REDUCE_SUM", attribute("axis", 3), "found axis 3 for rank 3"),
    ("REDUCE_MAX", attribute("axis", -1), "found axis -1 for rank 3"),
    ("REDUCE_MIN", shape("y", 2, 3, 4), r"the shape of output 'y' must be \[2, 1, 4\]"),
    ("REDUCE_ALL", together(shape("x"), shape("y")), "input must have rank 1 to 6"),
    ("CONCAT", attribute("axis", 3), "axis must be in the range 0 to rank - 1"),
    ("CONCAT", shape("x2", 2, 2), r"all inputs must have the same rank; found \[2, 1, 3\] and \[2, 2\]"),
    ("CONCAT", shape("x2", 2, 2, 4), "all inputs must agree on every axis but 1"),
    ("CONCAT", shape("y", 2, 6, 3), r"the shape of output 'y' must be \[2, 7, 3\]"),
    ("CONCAT", lambda graph: graph.operators[0].inputs.clear(), "CONCAT must have at least one input"),
    ("PAD", constant("padding", [-1, 0, 0, 2]), "padding must have two elements, both at least 0, for each axis"),
    ("PAD", constant("padding", [0, 1]), "padding must have two elements, both at least 0, for each axis"),
    ("PAD", shape("y", 3, 6), r"the shape of output 'y' must be \[3, 5\]"),
    ("PAD", constant("pad_const", [0], DType.INT16), "found input1 int8_t, pad_const int16_t"),
    ("RESHAPE", constant("shape", [3, 5]), r"The new shape must have as many elements as the input; found \[2, 6\]"),
    ("RESHAPE", shape("y", 4, 3), r"the shape of output 'y' must be \[3, 4\]"),
    ("RESHAPE", constant("shape", [3, 4], DType.INT32), "shape must be shape_t"),
    ("REVERSE", attribute("axis", 2), "found axis 2 for rank 2"),
    ("SLICE", constant("start", [-1, 0]), "start and size must have one element per axis"),
    ("SLICE", constant("size", [3, 0]), "size >= 1"),
    ("SLICE", constant("start", [2, 0]), r"found start \[2, 0\] and size \[3, 2\] in \[4, 5\]"),
    ("SLICE", constant("size", [3]), "start and size must have one element per axis"),
    ("SLICE", shape("y", 3, 3), r"the shape of output 'y' must be \[3, 2\]"),
    ("TILE", constant("multiples", [2]), "multiples must have one element, at least 1, per axis"),
    ("TILE", constant("multiples", [2, 0]), "multiples must have one element, at least 1, per axis"),
    ("TILE", constant("multiples", [2, 2]), r"the shape of output 'y' must be \[4, 6\]"),
    ("TRANSPOSE", attribute("perms", [2, 0, 0]), "perms must name every axis of the input once"),
    ("TRANSPOSE", attribute("perms", [3, 0, 1]), "perms must name every axis of the input once"),
    ("TRANSPOSE", attribute("perms", [0, 1]), "perms must name every axis of the input once"),
    ("TRANSPOSE", attribute("perms", [0, 1, 2]), "the shape of output 'y' must be"),
    ("GATHER", shape("indices", 1, 4), "values and indices must have the same batch size N; found 2 and 1"),
    ("GATHER", dtype("indices", DType.INT8), "indices must be int32_t"),
    ("SCATTER", shape("source", 2, 4, 2), r"indices must be \[N,W\] and input \[N,W,C\] for values_in \[N,K,C\]"),
    ("SCATTER", shape("indices", 1, 4), r"indices must be \[N,W\] and input"),
    ("RESIZE", constant("scale", [4, 0, 4, 2]), "scale must be positive, its numerators at most 2048"),
    ("RESIZE", constant("scale", [2049, 2, 4, 2]), "its numerators at most 2048"),
    ("RESIZE", constant("scale", [4, 64, 4, 2]), "it must not shrink by 16 or more"),
    ("RESIZE", constant("scale", [4, 2]), r"scale must have four elements \[y_n, y_d, x_n, x_d\]"),
    ("RESIZE", constant("offset", [-5, -1]), r"offset must be in the range -n to 16 \* n - 1"),
    ("RESIZE", constant("offset", [-1, 64]), r"offset must be in the range -n to 16 \* n - 1"),
    ("RESIZE", constant("border", [4, 1]), r"border must be in the range -16 \* n to n - 1"),
    ("RESIZE", constant("border", [1, -65]), r"border must be in the range -16 \* n to n - 1"),
    ("RESIZE", constant("border", [2, 1]), "the output height must be a whole number of strides; found 11 / 2"),
    ("RESIZE", attribute("mode", "NEAREST"), "BILINEAR must widen an integer"),
    ("RESIZE nearest", attribute("mode", "BILINEAR"), "BILINEAR must widen an integer"),
    ("RESIZE", shape("x", 1, 16384, 4, 2), "Height and width of input and output must be less than 16384"),
    ("CAST", dtype("y", DType.INT32), "the data types must be one of the operator's supported combinations"),
    ("CAST", shape("y", 4), "the shape of output 'y' must be"),
    ("RESCALE", attribute("rounding_mode", "UNKNOWN"), "attribute rounding_mode must be one of SINGLE_ROUND"),
    ("RESCALE", attribute("scale32", False), r"rounding_mode DOUBLE_ROUND \(0.30: double_round\) needs scale32"),
    ("RESCALE", together(attribute("scale32", False), attribute("rounding_mode", "SINGLE_ROUND")),
     "multiplier must be int32_t with scale32 and int16_t without; found int32_t with scale32 False"),
    ("RESCALE", together(dtype("x", DType.INT48), constant("input_zp", [0], DType.INT48)),
     "scale32 must be false for an int48_t input"),
    ("RESCALE", constant("input_zp", [1]), "a zero point must be 0 unless its type is int8_t"),
    ("RESCALE", constant("multiplier", [1, 2]), "multiplier and shift must have one element, or with per_channel"),
    ("RESCALE", constant("shift", [33]), "found 3 multipliers, 1 shifts, not 3"),
    ("RESCALE", attribute("per_channel", False), "found 3 multipliers, 3 shifts, not 1"),
    ("RESCALE", together(shape("x"), shape("y")), "found per_channel on rank 0"),
    ("RESCALE", constant("shift", [33, 1, 33]), "shift must be in the range 2 to 62"),
    ("RESCALE", constant("shift", [33, 63, 33]), "found shift 63"),
    ("RESCALE", constant("multiplier", [1, -1, 1]), "multiplier must not be negative"),
    ("RESCALE", attribute("input_unsigned", True), "are for int8_t and int16_t on both sides only; found int32_t"),
    ("RESCALE to uint8", attribute("input_unsigned", True), "input_unsigned and output_unsigned must not both be set"),
    ("RESCALE from uint16", constant("input_zp", [1]), "input_zp 1 with input unsigned int16_t"),
    ("RESCALE from uint16", attribute("input_unsigned", False), "found input_zp -32768 with input int16_t"),
    ("IDENTITY", shape("y", 3, 2), "the shape of output 'y' must be"),
    ("LOGICAL_NOT", dtype("x", DType.INT8), "the data types must be one of the operator's supported combinations"),
    ("COND_IF", shape("c", 2), "condition must be a bool_t tensor with one element"),
    ("COND_IF", dtype("c", DType.INT8), "condition must be bool_t"),
    ("COND_IF", attribute("then_graph", "none"), "no graph 'none' in the file"),
    ("COND_IF", shape("a", 2, 2), "then_graph must take input_list and give output_list"),
    ("COND_IF", dtype("y", DType.INT16), "then_graph must take input_list and give output_list"),
    ("WHILE_LOOP", shape("x_end", 2), "input_list and output_list must have the same shapes and types"),
    ("WHILE_LOOP", attribute("body_graph", "condition"), "body_graph must take input_list and give the same list"),
    ("WHILE_LOOP", attribute("cond_graph", "body"), "cond_graph must take input_list and give one bool_t"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "change", "message"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_a_broken_rule_is_named(label: str, change: Change, message: str) -> None:
    graph = GRAPHS[label]()
    validate(graph)
    change(graph)
    with pytest.raises(ModelError, match=message) as error:
        validate(graph)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(graph.operators[0].name)


@pytest.mark.parametrize("label", [label for label in GRAPHS if label.split()[0] not in ("CUSTOM", "CONCAT")])
def test_operand_counts(label: str) -> None:
    for change in (lambda op: op.inputs.pop(), lambda op: op.outputs.append(op.outputs[-1] + "2")):
        graph = GRAPHS[label]()
        op = graph.operators[0]
        change(op)
        if len(op.outputs) > 1:
            last = graph.tensors[op.outputs[-2]]
            graph.tensors[op.outputs[-1]] = type(last)(op.outputs[-1], last.shape, last.dtype)
        with pytest.raises(ModelError, match=op.op):
            validate(graph)


def test_the_branches_are_validated_too() -> None:
    graph = while_loop()
    graph.subgraphs["body"].operators[0].op = "LOGICAL_AND"
    with pytest.raises(ModelError, match="ADD_0.*LOGICAL_AND"):
        validate(graph)


def test_the_else_branch_is_compared() -> None:
    graph = cond_if()
    branch = graph.subgraphs["less"]
    branch.inputs.pop()
    branch.operators[0].inputs[1] = branch.operators[0].inputs[0]
    del branch.tensors["q"]
    with pytest.raises(ModelError, match="else_graph must take input_list and give output_list"):
        validate(graph)


def test_a_branch_that_contains_itself() -> None:
    graph = while_loop()
    body = graph.subgraphs["body"]
    loop = graph.operators[0]
    body.subgraphs = graph.subgraphs
    body.tensors |= {
        name: type(t)(name, t.shape, t.dtype) for name, t in graph.tensors.items() if "end" in name
    }
    body.operators.append(
        type(loop)(loop.op, list(body.inputs), ["x_end", "limit_end"], loop.attributes, "inner")
    )
    with pytest.raises(ModelError, match="inner: graph 'body' contains itself"):
        validate(graph)


def test_run_time_parameters_are_unsupported() -> None:
    graph = resize()
    graph.tensors["scale"].data = None
    graph.inputs.append("scale")
    with pytest.raises(UnsupportedError, match="operand scale .* is computed at run time"):
        validate(graph)


def test_int64_is_unsupported() -> None:
    graph = GRAPHS["ADD"]()
    for tensor in graph.tensors.values():
        tensor.dtype = DType.INT64
    with pytest.raises(UnsupportedError, match="int64_t"):
        validate(graph)


def test_operators_that_only_0_30_has() -> None:
    graph = conv2d()
    graph.operators[0].op = "FULLY_CONNECTED"
    with pytest.raises(ModelError, match="FULLY_CONNECTED exists in 0.30 files only"):
        validate(graph)


def test_the_message_names_operator_tensors_rule_and_clause() -> None:
    graph = rescale()
    graph.tensors["shift"].data = np.array([33, 1, 33], np.int8)
    with pytest.raises(ModelError) as error:
        validate(graph)
    assert str(error.value) == (
        "RESCALE_0 ('x' int32[2, 3], 'multiplier' int32[3], 'shift' int8[3], 'input_zp' int32[1], "
        "'output_zp' int8[1]): multiplier must not be negative and shift must be in the range 2 to 62 "
        "(unpredictable otherwise); found shift 1 [RESCALE, TOSA 0.30 section 2.13.2]"
    )


def test_every_check_states_its_rule() -> None:
    rules = {rule_of(check) for spec in OPERATORS.values() for check in spec.checks}
    assert len(rules) >= 40
    assert all(" must " in rule or " need" in rule or " are for " in rule for rule in rules), rules


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.array([-8], np.int8), "int4_t must be in the range -7 to 7; found -8 to -8"),
        (np.array([1, 2], np.int8), r"its value is int8\[2\], not int8\[1\]"),
        (np.array([1], np.int16), r"its value is int16\[1\], not int8\[1\]"),
    ],
)
def test_constants_must_fit(data: np.ndarray, message: str) -> None:
    graph = GRAPHS["CONV2D int4"]()
    graph.tensors["weight_zp"].data = data
    with pytest.raises(ModelError, match=message):
        validate(graph)


def test_an_empty_or_enormous_tensor() -> None:
    graph = GRAPHS["ABS"]()
    graph.tensors["x"].shape = graph.tensors["y"].shape = (2, 0)
    with pytest.raises(ModelError, match="every axis must have at least one element"):
        validate(graph)
    graph.tensors["x"].shape = graph.tensors["y"].shape = (1,) * 7
    with pytest.raises(ModelError, match="a tensor must have rank 0 to 6"):
        validate(graph)
    graph.tensors["x"].shape = graph.tensors["y"].shape = (1 << 16, 1 << 15)
    with pytest.raises(ModelError, match="a tensor must have fewer than 2\\^31 elements"):
        validate(graph)


@pytest.mark.parametrize(("levels", "legal"), [(6, True), (7, False)])
def test_nesting_of_control_flow(levels: int, legal: bool) -> None:
    graph = cond_if()
    branches = graph.subgraphs
    for level in range(1, levels):
        inner = cond_if()
        inner.operators[0].attributes = {"then_graph": f"level {level - 1}", "else_graph": "less"}
        if level == 1:
            inner.operators[0].attributes["then_graph"] = "sum"
        inner.name, inner.subgraphs = f"level {level}", branches
        branches[inner.name] = inner
        inner.inputs = ["a", "b"]
        inner.tensors["c"].data = np.array(True)
    graph.operators[0].attributes["then_graph"] = f"level {levels - 1}"
    if legal:
        validate(graph)
    else:
        with pytest.raises(ModelError, match="control flow must not nest deeper than 6"):
            validate(graph)
