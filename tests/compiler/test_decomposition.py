"""Operators that become graphs of other operators, compiled, on the emulator, equal golden."""

import dataclasses
from unittest import mock

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, GraphBuilder, Operator, Tensor
from tosaic.compiler.legalize import transposed_convolution
from tosaic.compiler.legalize.decompose import decompose
from tosaic.driver.session import Session
from tosaic.sim.golden import evaluate

CONFIGS = ("nano", "base")


def convolution(
    op, shape, kernel, *, input_zp=0, bias_count=None, run_time_bias=False, behind=False, **attributes
):
    """A graph of one convolution; kernel is [OC, (KD,) KH, KW] or [KH, KW, C, M]."""
    build = LayerBuilder(7)
    x = build.input("x", shape, DType.INT8)
    weights = kernel if op == "DEPTHWISE_CONV2D" else (*kernel, shape[-1])
    channels = kernel[2] * kernel[3] if op == "DEPTHWISE_CONV2D" else kernel[0]
    count = channels if bias_count is None else bias_count
    if run_time_bias:
        bias = build.input("bias", (count,), DType.INT32)
    else:
        bias = build.random_constant((count,), DType.INT32, -5000, 5000)
    operands = [
        x,
        build.random_constant(weights, DType.INT8, -128, 127),
        bias,
        build.zero_point(DType.INT8, input_zp),
        build.zero_point(DType.INT8, 3),
    ]
    result = build.add(op, operands, acc_type=DType.INT32, local_bound=False, **attributes)
    build.output(build.rescale(result, DType.INT8) if behind else result)
    return build.finish()


TRANSPOSED = {
    "stride 1": dict(shape=(1, 4, 5, 6), kernel=(7, 3, 3), out_pad=[0, 0, 0, 0], stride=[1, 1]),
    "stride 2": dict(shape=(1, 4, 5, 6), kernel=(7, 3, 3), out_pad=[0, 1, 1, 0], stride=[2, 2], input_zp=-9),
    "cropped": dict(
        shape=(2, 4, 3, 5), kernel=(3, 4, 3), out_pad=[-3, -1, -2, -2], stride=[2, 3], input_zp=11
    ),
    "gaps": dict(shape=(1, 3, 2, 4), kernel=(5, 2, 1), out_pad=[2, 0, 0, 3], stride=[4, 3], input_zp=5),
    "by remainder": dict(
        shape=(2, 3, 2, 40), kernel=(3, 9, 5), out_pad=[-2, 3, 1, -4], stride=[4, 2], input_zp=5
    ),
    "by remainder, gaps": dict(
        shape=(1, 3, 2, 24),
        kernel=(5, 90, 2),
        out_pad=[7, -89, 0, 0],
        stride=[77, 3],
        bias_count=1,
        behind=True,
    ),
    "by remainder, one axis filled up": dict(
        shape=(1, 3, 2, 40), kernel=(3, 5, 8), out_pad=[1, 0, 0, 0], stride=[2, 4]
    ),
    "broadcast bias": dict(
        shape=(1, 3, 4, 2), kernel=(5, 2, 2), out_pad=[0, 0, 0, 0], stride=[1, 2], bias_count=1
    ),
    "rescaled": dict(
        shape=(1, 4, 4, 8), kernel=(8, 3, 3), out_pad=[-1, 0, -1, 0], stride=[2, 2], behind=True
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transpose_convolution(config, name):
    assert_equal_to_golden(convolution("TRANSPOSE_CONV2D", **TRANSPOSED[name]), config)


SOLID = {
    "plain": dict(
        shape=(1, 4, 5, 6, 3), kernel=(5, 2, 3, 3), pad=[0] * 6, stride=[1, 1, 1], dilation=[1, 1, 1]
    ),
    "padded": dict(
        shape=(1, 3, 4, 5, 4),
        kernel=(6, 3, 2, 3),
        pad=[2, 1, 1, 0, 1, 2],
        stride=[1, 1, 1],
        dilation=[1, 1, 1],
        input_zp=-20,
    ),
    "strided, dilated, batched": dict(
        shape=(2, 7, 9, 9, 2),
        kernel=(3, 2, 2, 3),
        pad=[0, 0, 1, 1, 0, 0],
        stride=[2, 3, 2],
        dilation=[2, 1, 3],
        input_zp=6,
    ),
    "many planes": dict(
        shape=(1, 300, 2, 2, 3),
        kernel=(2, 300, 2, 1),
        pad=[1, 0, 1, 0, 0, 1],
        stride=[1, 1, 2],
        dilation=[1, 1, 1],
        input_zp=-5,
    ),
    "planes in padding": dict(
        shape=(2, 3, 4, 2, 2),
        kernel=(3, 900, 1, 2),
        pad=[890, 15, 0, 0, 0, 0],
        stride=[2, 1, 1],
        dilation=[1, 1, 1],
        input_zp=9,
    ),
    "all planes in padding": dict(
        shape=(3, 1, 4, 3, 6),
        kernel=(5, 3, 2, 1),
        pad=[1, 5, 0, 1, 0, 0],
        stride=[1, 1, 1],
        dilation=[3, 1, 3],
        input_zp=-7,
        behind=True,
    ),
    "all planes in padding, one bias": dict(
        shape=(2, 1, 3, 2, 3),
        kernel=(4, 2, 1, 1),
        pad=[1, 3, 0, 0, 0, 0],
        stride=[1, 1, 1],
        dilation=[2, 1, 1],
        bias_count=1,
    ),
    "broadcast bias": dict(
        shape=(2, 3, 3, 3, 5),
        kernel=(4, 2, 1, 1),
        pad=[0] * 6,
        stride=[1, 1, 1],
        dilation=[1, 1, 1],
        bias_count=1,
    ),
    "rescaled": dict(
        shape=(1, 3, 4, 4, 8),
        kernel=(8, 3, 3, 3),
        pad=[1] * 6,
        stride=[1, 1, 1],
        dilation=[1, 1, 1],
        behind=True,
    ),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_both_forms_of_transpose_convolution(name):
    """The form that is not chosen is right, too."""
    graph = convolution("TRANSPOSE_CONV2D", **TRANSPOSED[name])
    for products in (-(1 << 40), 1 << 40):
        with mock.patch.object(transposed_convolution, "REMAINDER_MOVE_PRODUCTS", products):
            assert_equal_to_golden(graph, "base")


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_transpose_convolution_by_remainder(data):
    sizes, kernel, stride = ([data.draw(st.integers(1, most)) for _ in range(2)] for most in (4, 6, 5))
    pads = [data.draw(st.integers(1 - kernel[i // 2], 7)) for i in range(4)]
    for axis in range(2):
        assume((sizes[axis] - 1) * stride[axis] + kernel[axis] + sum(pads[2 * axis : 2 * axis + 2]) > 0)
    graph = convolution(
        "TRANSPOSE_CONV2D",
        (1, *sizes, 3),
        (data.draw(st.integers(1, 4)), *kernel),
        out_pad=pads,
        stride=stride,
        input_zp=4,
    )
    with mock.patch.object(transposed_convolution, "REMAINDER_MOVE_PRODUCTS", -(1 << 40)):
        assert_equal_to_golden(graph, "small")


@pytest.mark.parametrize("name", TRANSPOSED)
def test_large_strides_go_by_remainder(name):
    operators = [
        operator.op for operator in decompose(convolution("TRANSPOSE_CONV2D", **TRANSPOSED[name])).operators
    ]
    assert ("TRANSPOSE" in operators) == name.startswith("by remainder")


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", SOLID)
def test_convolution_in_three_dimensions(config, name):
    assert_equal_to_golden(convolution("CONV3D", **SOLID[name]), config)


@pytest.mark.parametrize(
    "planes, pad, stride, dilation, kept, padded",
    [
        (1, (0, 0), 1, 1, None, None),
        (2, (0, 0), 1, 1, None, None),
        (2, (1, 0), 1, 1, None, (1, 0)),
        (2, (0, 1), 1, 1, None, (0, 1)),
        (2, (1, 2), 1, 1, None, (1, 2)),
        (2, (0, 2), 1, 5, (0, 2), None),
        (2, (2, 0), 1, 5, (3, 2), None),
        (2, (0, 1), 1, 5, (0, 1), None),
        (2, (1, 0), 1, 5, (4, 1), None),
        (2, (1, 3), 1, 7, (0, 1), (1, 0)),
        (2, (3, 1), 1, 7, (4, 1), (0, 1)),
        (2, (4, 0), 2, 6, (2, 3), (0, 1)),
        (1, (0, 0), 2, 1, None, (0, 1)),
        (1, (0, 1), 5, 1, None, (0, 5)),
    ],
)
def test_images_that_the_planes_of_a_kernel_meet(planes, pad, stride, dilation, kept, padded):
    """Of five images those from `kept` on are used, with `padded` images of zero points around them. Nothing is moved
    if all are kept, or if none is added."""
    window = dict(pad=[*pad, 0, 0, 0, 0], stride=[stride, 1, 1], dilation=[dilation, 1, 1], input_zp=-3)
    graph = convolution("CONV3D", (2, 5, 2, 3, 3), (4, planes, 1, 2), **window)
    found = decompose(graph)
    moves = []
    for operator in found.operators:
        sizes = [found.const(name) for name in operator.inputs[1:3]]
        if operator.op == "SLICE" and len(found.tensors[operator.inputs[0]].shape) == 5:
            moves.append(("SLICE", sizes[0][1], sizes[1][1]))
        elif operator.op == "PAD":
            assert sizes[1] == -3
            moves.append(("PAD", *sizes[0][2:4]))
    wanted = [("SLICE", kept), ("PAD", padded)]
    assert moves == [(op, *numbers) for op, numbers in wanted if numbers is not None]
    values, (output,) = feeds(graph, 1), graph.outputs
    np.testing.assert_array_equal(evaluate(found, values)[output], evaluate(graph, values)[output])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_windows_that_see_little_but_padding(data):
    op = data.draw(st.sampled_from(["CONV2D", "DEPTHWISE_CONV2D", "CONV3D"]))
    axes = 3 if op == "CONV3D" else 2
    sizes, kernel, stride, dilation = (
        [data.draw(st.integers(1, most)) for _ in range(axes)] for most in (3, 3, 3, 5)
    )
    pads = [data.draw(st.integers(0, 9)) for _ in range(2 * axes)]
    for i in range(axes):
        reach = (kernel[i] - 1) * dilation[i] + 1
        rest = sizes[i] + pads[2 * i] + pads[2 * i + 1] - reach
        pads[2 * i + 1] += -rest if rest < 0 else -rest % stride[i]
    graph = convolution(
        op,
        (data.draw(st.integers(1, 2)), *sizes, 3),
        (*kernel, 3, 2) if op == "DEPTHWISE_CONV2D" else (4, *kernel),
        pad=pads,
        stride=stride,
        dilation=dilation,
        input_zp=-3,
    )
    assert_equal_to_golden(graph, "small")


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("count", [6, 1])
@pytest.mark.parametrize(
    "op, kernel", [("CONV2D", (6, 3, 3)), ("DEPTHWISE_CONV2D", (3, 3, 6, 1)), ("TRANSPOSE_CONV2D", (6, 3, 3))]
)
def test_bias_computed_at_run_time(config, count, op, kernel):
    window = dict(pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1])
    if op == "TRANSPOSE_CONV2D":
        window = dict(out_pad=[0, 0, 0, 0], stride=[2, 1])
    graph = convolution(op, (1, 5, 4, 6), kernel, bias_count=count, run_time_bias=True, **window)
    assert_equal_to_golden(graph, config)


# --- control flow


def choice(condition_shape, *, constant=None):
    """y = flag ? a + 3 : (a * 2, then negated in a nested choice on the same flag), and z = a or a constant."""
    build = GraphBuilder("choice")
    if constant is None:
        flag = build.input("flag", condition_shape, DType.BOOL)
    else:
        flag = build.constant(np.full(condition_shape, constant), DType.BOOL)
    a = build.input("a", (2, 21), DType.INT16)
    graph = build.graph
    then = GraphBuilder("then")
    inner, _ = then.input("inner", (2, 21), DType.INT16), then.input("again", condition_shape, DType.BOOL)
    mask = then.constant([[3]], DType.INT16)
    then.output(then.add("BITWISE_XOR", [inner, mask]))
    then.output(inner)
    other = GraphBuilder("else")
    inner = other.input("x", (2, 21), DType.INT16)
    again = other.input("again", condition_shape, DType.BOOL)
    other.graph.tensors["nested"] = Tensor("nested", (2, 21), DType.INT16)
    attributes = {"then_graph": "deep", "else_graph": "deeper"}
    other.graph.operators.append(Operator("COND_IF", [again, inner], ["nested"], attributes, "COND_IF_1"))
    other.output("nested")
    other.output(other.constant(np.arange(42).reshape(2, 21), DType.INT16))
    for name, op in (("deep", "BITWISE_NOT"), ("deeper", "ABS")):
        deep = GraphBuilder(name)
        x = deep.input("x", (2, 21), DType.INT16)
        if op == "ABS":
            x = deep.add(
                "CAST", [deep.add("ABS", [deep.add("CAST", [x], dtype=DType.INT32)])], dtype=DType.INT16
            )
        else:
            x = deep.add(op, [x])
        deep.output(x)
        graph.subgraphs[name] = deep.graph
    graph.subgraphs |= {"then": then.graph, "else": other.graph}
    other.graph.subgraphs = graph.subgraphs
    for name in "yz":
        graph.tensors[name] = Tensor(name, (2, 21), DType.INT16)
    attributes = {"then_graph": "then", "else_graph": "else"}
    graph.operators.append(Operator("COND_IF", [flag, a, flag], ["y", "z"], attributes, "COND_IF_0"))
    build.output("y")
    build.output("z")
    return build.finish()


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
@pytest.mark.parametrize("flag", [False, True])
def test_choice_between_branches(config, shape, flag):
    a = np.random.default_rng(2).integers(-32768, 32767, (2, 21), np.int16, endpoint=True)
    assert_equal_to_golden(choice(shape), config, {"flag": np.full(shape, flag), "a": a})


@pytest.mark.parametrize("flag", [False, True])
def test_a_constant_condition_leaves_one_branch(flag):
    graph = choice((1,), constant=flag)
    assert "SELECT" not in [operator.op for operator in decompose(graph).operators]
    assert_equal_to_golden(graph, "base")


# --- what the rest of the compiler sees


def test_the_argument_is_unchanged():
    graph = convolution("CONV3D", **SOLID["plain"])
    before = dataclasses.replace(graph.copy())
    decompose(graph)
    assert [operator.op for operator in graph.operators] == [operator.op for operator in before.operators]
    assert graph.tensors.keys() == before.tensors.keys()


def test_layers_of_a_decomposition_are_checked_where_the_model_knows_them():
    graph = convolution("TRANSPOSE_CONV2D", **TRANSPOSED["rescaled"])
    session = Session(graph, "emulator", "nano", keep_layers=True, optimize=False)
    session.run(feeds(graph, 1), check=True)
    assert session.kept.keys() <= graph.tensors.keys()
    assert session.stats["bit_exact"] is True
