"""0.30 files: translation to the 1.0 meaning, 0.30's own rules, and writing back."""

import numpy as np
import pytest
from one_operator_graphs import (
    GRAPHS,
    cond_if,
    contents,
    conv2d,
    custom,
    mul,
    rescale,
    resize,
    reverse,
    transpose_conv2d,
)
from v030_files import operator_file

from tosaic.compiler.ir import OPERATORS, DType, GraphBuilder, read_tosa, validate, write_tosa
from tosaic.compiler.ir.schema_0_30 import tables
from tosaic.errors import ModelError, UnsupportedError


@pytest.mark.parametrize(
    "label", [label for label in GRAPHS if "0.30" in OPERATORS[label.split()[0]].versions]
)
def test_every_operator_round_trips(label: str) -> None:
    graph = read_tosa(write_tosa(GRAPHS[label]()))
    again = read_tosa(write_tosa(graph, version=(0, 30)))
    validate(again)
    assert again.version == (0, 30, 0)
    defaults = {"nan_mode": "PROPAGATE"}
    for part in graph.walk():
        for op in part.operators:
            for name, value in defaults.items():
                if op.attributes.get(name) == value:
                    del op.attributes[name]
            if op.op == "CUSTOM":
                op.attributes.clear()
    assert contents(again) == contents(graph)


def test_numbers_of_the_schema() -> None:
    assert len(tables.OPERATORS) == 69
    assert tables.OPERATORS[6] == "FULLY_CONNECTED"
    assert tables.OPERATORS[11] == "RESERVED"
    assert tables.OPERATORS.index("REDUCE_ANY") + 1 == tables.OPERATORS.index("REDUCE_ALL")
    assert len(tables.ATTRIBUTE_TABLES) == 20


def test_unsigned_types_become_flags() -> None:
    tensors = {"x": ([2, 3], "UINT8", None), "y": ([2, 3], "INT8", None)}
    attributes = {"input_zp": 128, "multiplier": [1 << 30], "shift": [30], "scale32": True}
    graph = read_tosa(operator_file("RESCALE", ["x"], ["y"], tensors, attributes))
    validate(graph)
    (op,) = graph.operators
    assert graph.tensors["x"].dtype is DType.INT8
    assert op.attributes["input_unsigned"] is True
    assert op.attributes["output_unsigned"] is False
    assert op.attributes["rounding_mode"] == "SINGLE_ROUND"
    assert graph.operand_value(op, "input_zp").tolist() == [-128]
    assert graph.operand_value(op, "input_zp").dtype == np.int8


def test_fully_connected_becomes_a_convolution() -> None:
    weights = np.arange(12, dtype=np.int8).reshape(4, 3)
    tensors = {
        "x": ([2, 3], "INT8", None),
        "w": ([4, 3], "INT8", weights.tobytes()),
        "b": ([4], "INT32", np.arange(4, dtype="<i4").tobytes()),
        "y": ([2, 4], "INT32", None),
    }
    data = operator_file("FULLY_CONNECTED", ["x", "w", "b"], ["y"], tensors, {"input_zp": -5, "weight_zp": 2})
    graph = read_tosa(data)
    validate(graph)
    assert [op.op for op in graph.operators] == ["RESHAPE", "CONV2D", "RESHAPE"]
    convolution = graph.operators[1]
    assert [graph.tensors[name].shape for name in convolution.inputs] == [
        (2, 1, 1, 3),
        (4, 1, 1, 3),
        (4,),
        (1,),
        (1,),
    ]
    assert np.array_equal(graph.operand_value(convolution, "weight").reshape(4, 3), weights)
    assert graph.operand_value(convolution, "input_zp").tolist() == [-5]
    assert graph.operand_value(convolution, "weight_zp").tolist() == [2]
    assert graph.operators[2].outputs == ["y"]


def test_fully_connected_with_weights_from_the_graph() -> None:
    tensors = {
        "x": ([2, 3], "INT16", None),
        "w": ([4, 3], "INT8", None),
        "b": ([4], "INT48", None),
        "y": ([2, 4], "INT48", None),
    }
    data = operator_file("FULLY_CONNECTED", ["x", "w", "b"], ["y"], tensors, {})
    graph = read_tosa(data)
    validate(graph)
    assert [op.op for op in graph.operators] == ["RESHAPE", "RESHAPE", "CONV2D", "RESHAPE"]
    assert graph.operators[2].attributes["acc_type"] is DType.INT48


def test_transposed_convolution_changes_sign() -> None:
    graph = read_tosa(write_tosa(transpose_conv2d(), version=(0, 30)))
    assert graph.operators[0].attributes["out_pad"] == [-1, 0, 0, 0]


def test_resize_derives_scale_and_border() -> None:
    tensors = {"x": ([1, 3, 4, 2], "INT8", None), "y": ([1, 6, 8, 2], "INT32", None)}
    attributes = {"output_size": [6, 8], "stride": [2, 2], "offset": [-1, -1], "shift": 2, "mode": "BILINEAR"}
    graph = read_tosa(operator_file("RESIZE", ["x"], ["y"], tensors, attributes))
    validate(graph)
    (op,) = graph.operators
    assert graph.operand_value(op, "scale").tolist() == [4, 2, 4, 2]
    assert graph.operand_value(op, "offset").tolist() == [-1, -1]
    # border = (O - 1) * stride - ((I - 1) * (1 << shift) - offset)
    assert graph.operand_value(op, "border").tolist() == [5 * 2 - (2 * 4 + 1), 7 * 2 - (3 * 4 + 1)]


def test_table_of_int8_is_stored_as_int16() -> None:
    tensors = {"x": ([3], "INT8", None), "y": ([3], "INT8", None)}
    entries = list(range(-128, 128))
    graph = read_tosa(operator_file("TABLE", ["x"], ["y"], tensors, {"table": entries}))
    validate(graph)
    assert graph.operand_value(graph.operators[0], "table").dtype == np.int8
    assert graph.operand_value(graph.operators[0], "table").tolist() == entries


@pytest.mark.parametrize("stored", [True, False])
def test_version_may_be_absent_or_default(stored: bool) -> None:
    tensors = {"x": ([3], "INT32", None), "y": ([3], "INT32", None)}
    data = operator_file("ABS", ["x"], ["y"], tensors, {}, version_fields=stored)
    assert read_tosa(data).version == (0, 30, 0)


_IMAGE = {"x": ([1, 3, 4, 2], "INT8", None), "y": ([1, 6, 8, 2], "INT32", None)}
_RESIZE = {"output_size": [6, 8], "stride": [2, 2], "offset": [-1, -1], "shift": 2, "mode": "BILINEAR"}
_CONV = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
_CONV_TENSORS = {
    "x": ([1, 4, 4, 3], "INT8", None),
    "w": ([2, 3, 3, 3], "INT8", None),
    "b": ([2], "INT32", None),
    "y": ([1, 2, 2, 2], "INT32", None),
}
_RESCALE = {"multiplier": [1 << 30], "shift": [30], "scale32": True}

FORBIDDEN = {
    "rank of REVERSE": (
        ("REVERSE", ["x"], ["y"], {n: ([1] * 5, "INT8", None) for n in "xy"}, {"axis": 0}),
        "input must have rank 1 to 4",
    ),
    "rank of RESCALE": (
        ("RESCALE", ["x"], ["y"], {n: ([1] * 5, "INT8", None) for n in "xy"}, _RESCALE),
        "input must have rank 1 to 4",
    ),
    "bias of one element": (
        ("CONV2D", ["x", "w", "b"], ["y"], _CONV_TENSORS | {"b": ([1], "INT32", None)}, _CONV),
        r"bias must have shape \[2\], one element per output channel",
    ),
    "operand count": (
        ("CONV2D", ["x", "w"], ["y"], _CONV_TENSORS, _CONV),
        "a 0.30 file must list 3 inputs; found 2",
    ),
    "negative out_pad": (
        (
            "TRANSPOSE_CONV2D",
            ["x", "w", "b"],
            ["y"],
            _CONV_TENSORS | {"y": ([1, 7, 6, 2], "INT32", None)},
            {"out_pad": [-1, 0, 0, 0], "stride": [1, 1], "out_shape": [1, 7, 6, 2]},
        ),
        "out_pad must not be negative",
    ),
    "out_shape": (
        (
            "TRANSPOSE_CONV2D",
            ["x", "w", "b"],
            ["y"],
            _CONV_TENSORS | {"y": ([1, 6, 6, 2], "INT32", None)},
            {"out_pad": [0] * 4, "stride": [1, 1], "out_shape": [1, 7, 6, 2]},
        ),
        "out_shape must be the shape of output 'y'",
    ),
    "uint8 outside RESCALE": (
        ("IDENTITY", ["x"], ["y"], {n: ([3], "UINT8", None) for n in "xy"}, {}),
        "uint8_t and uint16_t are for RESCALE",
    ),
    "int8 to uint16": (
        (
            "RESCALE",
            ["x"],
            ["y"],
            {"x": ([3], "INT8", None), "y": ([3], "UINT16", None)},
            _RESCALE,
        ),
        "found int8_t to uint16_t",
    ),
    "output_size": (
        ("RESIZE", ["x"], ["y"], _IMAGE, _RESIZE | {"output_size": [6, 7]}),
        "output_size must be the height and width of the output",
    ),
    "shift of RESIZE": (
        ("RESIZE", ["x"], ["y"], _IMAGE, _RESIZE | {"shift": 0}),
        "shift must be in the range 1 to 11",
    ),
    "zero point outside its type": (
        ("RESCALE", ["x"], ["y"], {n: ([3], "INT8", None) for n in "xy"}, _RESCALE | {"input_zp": 128}),
        r"constant RESCALE_0/input_zp does not fit int8_t: 128 to 128",
    ),
    "rank of FULLY_CONNECTED": (
        (
            "FULLY_CONNECTED",
            ["x", "w", "b"],
            ["y"],
            _CONV_TENSORS,
            {},
        ),
        "input must have rank 2",
    ),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_what_only_0_30_forbids(case: str) -> None:
    arguments, message = FORBIDDEN[case]
    with pytest.raises(ModelError, match=message):
        read_tosa(operator_file(*arguments))


def test_condition_must_be_rank_0_in_0_30_only() -> None:
    graph = cond_if()
    graph.tensors["c"].shape = (1, 1)
    validate(graph)
    with pytest.raises(UnsupportedError, match="its condition 'c' bool\\[1, 1\\] must have rank 0"):
        write_tosa(graph, version=(0, 30))


def _broadcast_bias_at_run_time():
    build = GraphBuilder()
    x = build.input("x", (1, 2, 2, 1), DType.INT8)
    w = build.constant(np.ones((2, 1, 1, 1)), DType.INT8)
    zero = build.constant([0], DType.INT8)
    bias = build.input("bias", (1,), DType.INT32)
    attributes = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
    build.output(build.add("CONV2D", [x, w, bias, zero, zero], **attributes))
    return build.finish()


def _positive_out_pad():
    graph = transpose_conv2d()
    graph.operators[0].attributes["out_pad"] = [1, 0, 0, 0]
    return graph


def _odd_scale():
    graph = resize()
    graph.tensors["scale"].data = np.array([3, 2, 3, 2])
    return graph


def _reverse_of_rank_5():
    graph = reverse()
    for name in "xy":
        graph.tensors[name].shape = (1, 1, 1, 2, 3)
    return graph


def _named_custom():
    graph = custom()
    graph.operators[0].attributes["operator_name"] = "sort"
    return graph


def _sine():
    build = GraphBuilder()
    build.output(build.add("SIN", [build.input("x", (3,), DType.FP32)]))
    return build.finish()


INEXPRESSIBLE = {
    "broadcast bias at run time": (_broadcast_bias_at_run_time, "is broadcast to 2 channels at run time"),
    "out_pad adds": (_positive_out_pad, r"out_pad \[1, 0, 0, 0\] adds to the output, which 0.30 cannot"),
    "odd scale": (_odd_scale, "needs one power of two, 2 to 2048, as both numerators"),
    "rank 5": (_reverse_of_rank_5, "must have rank 1 to 4"),
    "CUSTOM with attributes": (_named_custom, "its attributes have no place there"),
    "SIN": (_sine, "SIN does not exist there"),
    "s8 to u16": (
        lambda: rescale(DType.INT8, DType.INT16, zero_points=(0, -32768), output_unsigned=True),
        "int8_t to uint16_t is not one of its pairs",
    ),
}


@pytest.mark.parametrize("case", INEXPRESSIBLE)
def test_what_0_30_cannot_express(case: str) -> None:
    make, message = INEXPRESSIBLE[case]
    with pytest.raises(UnsupportedError, match=message):
        write_tosa(make(), version=(0, 30))


def test_broadcast_bias_is_spelled_out() -> None:
    graph = conv2d()
    graph.tensors["bias"].shape = (1,)
    graph.tensors["bias"].data = np.array([7], np.int32)
    again = read_tosa(write_tosa(graph, version=(0, 30)))
    assert again.operand_value(again.operators[0], "bias").tolist() == [7, 7, 7, 7]


def test_mul_shift_on_int8_is_an_error_in_both() -> None:
    graph = mul(DType.INT8, 0)
    graph.tensors["shift"].data = np.array([1], np.int8)
    again = read_tosa(write_tosa(graph, version=(0, 30)))
    for one in (graph, again):
        with pytest.raises(ModelError, match="shift must be 0 unless the inputs are int32_t; found shift 1"):
            validate(one)
