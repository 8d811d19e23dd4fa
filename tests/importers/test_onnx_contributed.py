"""ONNX Runtime's quantized operators: the integers of ONNX Runtime itself, and errors by name."""

import pathlib
import tempfile

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import ModelError, UnsupportedError

RANDOM = np.random.default_rng(31)
ENCODING = {
    "x": (0.0213, 3),
    "a": (0.0517, -4),
    "b": (0.0319, 10),
    "w": (0.0103, 0),
    "y": (0.0637, -7),
    "p": (1 / 256, -128),
}


DEFAULT = ("QLinearConv", "Transpose", "Split", "MaxPool", "Squeeze")


def model(nodes, shape, integers, kind=np.int8):
    """x in floats, quantized to qx; `nodes` make qy (by y's encoding), which becomes y in floats.

    Names sN and zN are the scale and zero point of tensor N. Of uint8, zero points are 128 more.
    """
    offset = 128 if kind is np.uint8 else 0
    constants = dict(integers)
    for name, (scale, zero) in ENCODING.items():
        constants["s" + name] = np.float32(scale)
        constants["z" + name] = kind(zero + offset)
    parts = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["qx"]),
        *(
            helper.make_node(op, i, o, domain="" if op in DEFAULT else "com.microsoft", **a)
            for op, i, o, a in nodes
        ),
        helper.make_node("DequantizeLinear", ["qy", "sy", "zy"], ["y"]),
    ]
    graph = helper.make_graph(
        parts,
        "contributed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def weights(*shape):
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


IMAGE = [2, 6, 5, 4]
CASES = {
    "add": ([("QLinearAdd", "qx sx zx c sa za sy zy".split(), ["qy"], {})], IMAGE, "c"),
    "mul": ([("QLinearMul", "qx sx zx c sa za sy zy".split(), ["qy"], {})], IMAGE, "c"),
    "sigmoid": ([("QLinearSigmoid", "qx sx zx sy zy".split(), ["qy"], {})], IMAGE, ""),
    "leaky": ([("QLinearLeakyRelu", "qx sx zx sy zy".split(), ["qy"], {"alpha": 0.1})], IMAGE, ""),
    "pool": (
        [
            (
                "QLinearAveragePool",
                "qx sx zx sy zy".split(),
                ["qy"],
                {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "count_include_pad": 1},
            )
        ],
        IMAGE,
        "",
    ),
    "global pool": ([("QLinearGlobalAveragePool", "qx sx zx sy zy".split(), ["qy"], {})], IMAGE, ""),
    "concat": (
        [("QLinearConcat", "sy zy qx sx zx c sa za qx sx zx".split(), ["qy"], {"axis": 1})],
        IMAGE,
        "c",
    ),
    "softmax": (
        [
            ("QLinearSoftmax", "qx sx zx sp zp".split(), ["qp"], {"axis": -1, "opset": 13}),
            ("QLinearMul", "qp sp zp c sa za sy zy".split(), ["qy"], {}),
        ],
        [3, 8],
        "c",
    ),
    "moved": (
        [
            ("QLinearSigmoid", "qx sx zx sa za".split(), ["qa"], {}),
            ("Transpose", ["qa"], ["qt"], {"perm": [0, 2, 3, 1]}),
            ("Split", ["qt"], ["q1", "q2"], {"axis": 3}),
            ("QLinearMul", "q1 sa za q2 sa za sy zy".split(), ["qy"], {}),
        ],
        IMAGE,
        "",
    ),
}


def compare(made, x, steps, target="golden"):
    """The integers against ONNX Runtime's floats, which are steps of y's scale."""
    runtime = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = runtime.run(None, {"x": x})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "net.onnx")
        path.write_bytes(made.SerializeToString())
        session = Session(path, target)
    source, result = session.inputs[0].encoding, session.outputs[0].encoding
    assert source is not None and result is not None and np.isclose(result.scale, ENCODING["y"][0])
    integers = np.clip(np.rint(x / np.float32(source.scale)) + source.zero_point, -128, 127).astype(np.int8)
    got = session.run({"x": integers}, check=target != "golden")["y"].astype(int) - result.zero_point
    far = np.abs(got - np.rint(wanted / ENCODING["y"][0]))
    assert far.max() <= steps and (far == 0).mean() > 0.9


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("name", CASES)
def test_as_onnx_runtime_computes(name, kind):
    nodes, shape, constant = CASES[name]
    integers = {constant: RANDOM.integers(0, 120, shape).astype(kind)} if constant else {}
    made = model(nodes, shape, integers, kind)
    compare(made, RANDOM.standard_normal(shape).astype(np.float32), 1)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("turned", [0, 1])
def test_gemm(per_channel, turned):
    w = weights(5, 12) if turned else weights(12, 5)
    scale = RANDOM.uniform(0.005, 0.02, 5).astype(np.float32) if per_channel else np.float32(0.01)
    integers = {
        "wq": w,
        "sv": scale,
        "zv": np.zeros(5 if per_channel else (), np.int8),
        "bias": RANDOM.integers(-2000, 2000, 5).astype(np.int32),
    }
    node = ("QGemm", "qx sx zx wq sv zv bias sy zy".split(), ["qy"], {"alpha": 1.0, "transB": turned})
    made = model([node], [4, 12], integers)
    compare(made, RANDOM.standard_normal((4, 12)).astype(np.float32), 1)


def test_network_on_the_accelerator():
    """Convolution, sum, pool and classifier as ONNX Runtime writes them; the emulator equals golden."""
    integers = {
        "w1": weights(6, 6, 3, 3),
        "b1": RANDOM.integers(-500, 500, 6).astype(np.int32),
        "wq": weights(6, 5),
        "axes": np.array([2, 3], np.int64),
    }
    nodes = [
        ("QLinearConv", "qx sx zx w1 sw zw sa za b1".split(), ["qa"], {"pads": [1, 1, 1, 1]}),
        ("QLinearAdd", "qa sa za qx sx zx sb zb".split(), ["qb"], {}),
        ("MaxPool", ["qb"], ["qm"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearGlobalAveragePool", "qm sb zb sx zx".split(), ["qg"], {}),
        ("Squeeze", ["qg", "axes"], ["qf"], {}),
        ("QGemm", "qf sx zx wq sw zw  sy zy".split(" "), ["qy"], {}),
    ]
    made = model(nodes, IMAGE, integers)
    compare(made, RANDOM.standard_normal(IMAGE).astype(np.float32), 1, "emulator")


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        (("QLinearAdd", ["qx", "sx"], ["qy"], {}), ModelError, "QLinearAdd"),
        (("QLinearSigmoid", "qx sx zx sy zy".split(), [], {}), ModelError, "QLinearSigmoid"),
        (("QLinearConcat", "sy zy qx sx zx".split(), ["qy"], {}), ModelError, "QLinearConcat"),
        (
            (
                "QLinearAveragePool",
                "qx sx zx sy zy".split(),
                ["qy"],
                {"kernel_shape": [1, 1], "channels_last": 1},
            ),
            UnsupportedError,
            "channels_last",
        ),
        (("QLinearSoftmax", "qx sx zx sy zy".split(), ["qy"], {"opset": 11}), UnsupportedError, "opset 12"),
        (("QAttention", ["qx"], ["qy"], {}), UnsupportedError, "ONNX Runtime's own optimizations"),
    ],
)
def test_refused_by_name(node, error, message):
    with pytest.raises(error, match=message) as raised:
        import_onnx(model([node], IMAGE, {}))
    assert "\n" not in str(raised.value)


def test_infinite_scale():
    """ONNX Runtime's calibration of a mask of minus infinity."""
    nodes = [("QLinearSigmoid", "qx inf zx sy zy".split(), ["qy"], {})]
    with pytest.raises(UnsupportedError, match="'inf' is not finite; masks"):
        import_onnx(model(nodes, IMAGE, {"inf": np.float32(np.inf)}))


def float_model(nodes, shape, constants, domain, opset=17):
    """Nodes from x to y in floats, of which those with names in `domain` are of that domain."""
    graph = helper.make_graph(
        nodes,
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def compare_floats(made, x):
    """Golden against ONNX Runtime."""
    runtime = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = runtime.run(None, {"x": x})
    assert np.abs(Session(import_onnx(made), "golden").run({"x": x})["y"] - wanted).max() < 1e-5


@pytest.mark.parametrize(
    ("activation", "parameters", "opset"),
    [
        (None, None, 17),
        ("Relu", None, 17),
        ("Sigmoid", None, 17),
        ("Tanh", None, 17),
        ("LeakyRelu", [0.2], 17),
        ("HardSigmoid", [0.3, 0.4], 17),
        ("Clip", [-0.5, 0.75], 17),
        ("Clip", [-0.5, 0.75], 9),
    ],
)
@pytest.mark.parametrize("summand", [False, True])
def test_fused_convolution(activation, parameters, opset, summand):
    """What ONNX Runtime's optimizer makes of Conv, Add and an activation."""
    kept = {"activation": activation, "activation_params": parameters, "pads": [1, 1, 1, 1]}
    node = helper.make_node(
        "FusedConv",
        ["x", "w", "b", *(["z"] if summand else [])],
        ["y"],
        domain="com.microsoft",
        **{name: value for name, value in kept.items() if value is not None},
    )
    draw = np.random.default_rng(5)
    constants = {
        name: draw.standard_normal(shape).astype(np.float32) * 0.3
        for name, shape in {"w": (4, 3, 3, 3), "b": (4,), "z": (1, 4, 5, 6)}.items()
        if summand or name != "z"
    }
    made = float_model([node], [1, 3, 5, 6], constants, "com.microsoft", opset)
    compare_floats(made, draw.standard_normal((1, 3, 5, 6)).astype(np.float32))


def test_fused_convolution_of_an_unknown_activation():
    node = helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Mish")
    made = float_model([node], [1, 1, 3, 3], {"w": np.ones((1, 1, 1, 1), np.float32)}, "com.microsoft")
    with pytest.raises(UnsupportedError, match="FusedConv .*activation 'Mish'"):
        import_onnx(made)


@pytest.mark.parametrize("columns", [1, 4])
def test_scaler(columns):
    """What converters of scikit-learn write before a network."""
    node = helper.make_node(
        "Scaler",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        offset=[0.5, -1.0, 2.0, 0.0][:columns],
        scale=[2.0] * columns,
    )
    made = float_model([node], [3, 4], {}, "ai.onnx.ml")
    compare_floats(made, np.random.default_rng(6).standard_normal((3, 4)).astype(np.float32))
