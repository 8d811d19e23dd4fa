"""QuantizeLinear and DequantizeLinear in every spelling become integers, or are refused by their true reason."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from encoded_networks import Judged, Net, judged
from onnx import TensorProto, helper, numpy_helper
from shared_files import ABSENT, SHARED

import tosaic
from tosaic import Session
from tosaic.driver.models import open_model
from tosaic.driver.quantize import import_encoded, quantize_graph
from tosaic.sim.golden import evaluate

CASES = SHARED / "cases/models"
SHAPE = (1, 4, 6, 6)


def net(opset: int = 17) -> Net:
    return Net(np.random.default_rng(0), spelled=False, opset=opset)


def real_input(n: Net, shape=SHAPE) -> str:
    return n.input("x", lambda: (1.5 * n.random.standard_normal(shape)).astype(np.float32))


def differences(case: Judged) -> np.ndarray:
    """Steps from ONNX Runtime, of all elements of all samples."""
    found = import_encoded(case.model)
    off = []
    for feed, wanted in zip(case.feeds, case.wanted, strict=True):
        got = evaluate(found.graph, {"x": found.inputs["x"].quantize(feed["x"])})
        for name, values in wanted.items():
            encoding = found.outputs.get(name)
            if encoding is not None:
                values = np.rint(values / np.float32(encoding.scale)) + encoding.zero_point
            own = got[name].view(np.uint8) if values.dtype == np.uint8 else got[name]
            off.append(np.abs(own.astype(int) - values.astype(int)).reshape(-1))
    return np.concatenate(off)


def refusal(model: onnx.ModelProto, path: Path) -> str:
    """What the accelerator says of a model; golden runs it in floats."""
    onnx.save(model, path)
    feed = {name: np.zeros(each.shape, np.float32) for name, each in _inputs(path).items()}
    Session(path, target="golden").run(feed)
    with pytest.raises(tosaic.UnsupportedError) as raised:
        Session(path, target="emulator")
    assert "quantize the model to int8 first" not in str(raised.value)
    return str(raised.value).removeprefix(f"{path}: ")


def _inputs(path: Path):
    return {each.name: each for each in Session(path, target="golden").inputs}


# --- scales and zero points -------------------------------------------------------------------------------------

SPELLINGS = {
    "Constant": lambda n, v: n.node("Constant", value=numpy_helper.from_array(v)),
    "Identity": lambda n, v: n.node("Identity", n.constant(v)),
    "Cast": lambda n, v: n.node(
        "Cast",
        n.constant(v.astype(np.float64 if v.dtype.kind == "f" else np.int32)),
        to=helper.np_dtype_to_tensor_dtype(v.dtype),
    ),
    "Div": lambda n, v: (
        n.node("Div", n.constant(np.float32(v * 32)), n.constant(np.float32(32)))
        if v.dtype.kind == "f"
        else n.constant(v)
    ),
    "value_float": lambda n, v: (
        n.node("Constant", value_float=float(v)) if v.dtype.kind == "f" else n.constant(v)
    ),
    "Reshape": lambda n, v: n.node("Reshape", n.constant(v.reshape(1)), n.constant(np.array([], np.int64))),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_scales_and_zero_points_may_be_computed_from_constants(spelling):
    def build(number) -> Judged:
        n = net()
        n.number = lambda value: number(n, np.asarray(value)) if np.ndim(value) == 0 else n.constant(value)
        x = n.pair(real_input(n), (np.float32(0.04), np.int8(-3)))
        return n.model([n.pair(n.node("Relu", n.node("Conv", x, n.weight((4, 4, 3, 3), 0)[0])))])

    plain, spelled = build(lambda n, value: n.constant(value)), build(SPELLINGS[spelling])
    assert np.array_equal(*(each.wanted[0][each.model.graph.output[0].name] for each in (plain, spelled)))
    results = []
    for case in (plain, spelled):
        found = import_encoded(case.model)
        assert found.inputs["x"].zero_point == -3
        (result,) = evaluate(found.graph, {"x": found.inputs["x"].quantize(case.feeds[0]["x"])}).values()
        results.append(result)
    assert np.array_equal(*results)


def test_a_type_without_a_zero_point():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=TensorProto.INT8),
        helper.make_node("DequantizeLinear", ["q", "s"], ["d"]),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s"], ["y"], output_dtype=TensorProto.UINT8),
    ]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 9])]
    results = [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 9])]
    graph = helper.make_graph(nodes, "types", infos, results, [numpy_helper.from_array(np.float32(0.1), "s")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.linspace(-2, 2, 9, dtype=np.float32).reshape(1, 9)
    assert differences(judged(model, [{"x": x}])).max() == 0
    assert import_encoded(model).inputs["x"].zero_point == 0


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
def test_the_pair_of_onnx_runtimes_own_domain(kind):
    n, zero = net(), {"uint8": 100, "uint16": 32768}.get(kind, 0)
    scale = np.float32(0.04 if kind.endswith("t8") else 0.0004)

    def pair(x: str) -> str:
        parameters = n.constant(scale), n.constant(np.dtype(kind).type(zero))
        q = n.node("QuantizeLinear", x, *parameters, domain="com.microsoft")
        return n.node("DequantizeLinear", q, *parameters, domain="com.microsoft")

    assert differences(n.model([pair(n.node("Relu", pair(real_input(n))))])).max() == 0


# --- ends and moves ---------------------------------------------------------------------------------------------

MOVES = {
    "none": lambda n, q: q,
    "Reshape": lambda n, q: n.node("Reshape", q, n.constant(np.array([1, 4, 36]))),
    "Transpose": lambda n, q: n.node("Transpose", q, perm=[0, 2, 3, 1]),
    "MaxPool": lambda n, q: n.node("MaxPool", q, kernel_shape=[2, 2], strides=[2, 2]),
    "Concat": lambda n, q: n.node("Concat", q, q, axis=1),
    "Slice": lambda n, q: n.node("Slice", q, *(n.constant(np.array([v])) for v in (1, 3, 1))),
    "Flatten": lambda n, q: n.node("Flatten", q),
    "Pad": lambda n, q: n.node("Pad", q, n.constant(np.array([0, 0, 1, 1, 0, 0, 1, 0]))),
    "Identity": lambda n, q: n.node("Identity", q),
    "Gather": lambda n, q: n.node("Gather", q, n.constant(np.array([2, 0])), axis=1),
    "Split": lambda n, q: n.node("Split", q, outputs=2, axis=1),
    "Squeeze": lambda n, q: n.node("Squeeze", q, n.constant(np.array([0]))),
}


@pytest.mark.parametrize("end", ["integers", "reals"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("move", MOVES)
def test_integers_that_are_moved_or_leave_are_exact(move, kind, end):
    """A QuantizeLinear that is the end, and operators on integers between it and DequantizeLinear."""
    n, zero = net(), 0 if kind == "int8" else 120
    encoding = np.float32(0.031), np.dtype(kind).type(zero)
    x = n.node("Sigmoid", n.pair(real_input(n), (np.float32(0.05), np.int8(3))))
    q = MOVES[move](n, n.quantized(n.node("Mul", x, n.constant(np.float32(3))), encoding)[0])
    if end == "reals":
        q = n.pair(
            n.node("Relu", n.node("DequantizeLinear", q, *map(n.constant, encoding))),
            (np.float32(0.02), np.int8(-128)),
        )
    assert differences(n.model([q])).max() == 0


@pytest.mark.parametrize("op", ["Round", "Floor", "Ceil", "Sign", "Shrink", "Abs", "Relu", "HardSwish"])
def test_jumps_and_ties_of_eight_bits_are_where_float32_has_them(op):
    n = net()
    x = n.pair(real_input(n), (np.float32(0.1), np.int8(-10)))
    assert differences(n.model([n.pair(n.node(op, x), (np.float32(0.05), np.int8(3)))])).max() == 0


def test_jumps_of_sixteen_bits_are_told_of():
    n = net(21)
    x = n.pair(real_input(n), (np.float32(0.0005), np.int16(0)))
    case = n.model([n.pair(n.node("Round", x), (np.float32(0.0005), np.int16(0)))])
    with pytest.warns(tosaic.ModelWarning, match=r"^Round_\d+ \(tensor .*\) jumps, and a table of 16 bits"):
        import_encoded(case.model)


# --- weights ----------------------------------------------------------------------------------------------------


def weights(kind: str, many: bool, symmetric: bool, axis: int = 0):
    random = np.random.default_rng(4)
    info = np.iinfo(kind)
    values = random.integers(info.min, info.max + 1, (6, 4, 3, 3)).astype(kind)
    shape = (6, 4)[axis] if many else ()
    base = 2.0 / (info.max - info.min) / 6
    zeros = np.zeros(shape) if symmetric else random.integers(info.min // 2, info.max // 2 + 1, shape)
    return values, (base * random.uniform(0.5, 1.5, shape)).astype(np.float32), np.asarray(zeros).astype(kind)


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize(
    ("kind", "many", "symmetric"),
    [
        (kind, many, symmetric)
        for kind in ("int16", "uint16", "int8", "uint8")
        for many in (0, 1)
        for symmetric in (0, 1)
    ],
)
def test_weights_are_the_models_own(kind, many, symmetric, activations):
    """int16 weights, and zero points for each channel: integers beyond int8 are a convolution for each byte."""
    values, scales, zeros = weights(kind, bool(many), bool(symmetric))
    n = net(21)
    narrow = activations == "int8"
    x = n.pair(real_input(n), (np.float32(0.04 if narrow else 0.0005), np.dtype(activations).type(0)))
    more = {"axis": 0} if many else {}
    w = n.node("DequantizeLinear", n.constant(values), n.constant(scales), n.constant(zeros), **more)
    y = n.node("Conv", x, w)
    largest = max(float(np.abs(each).max()) for each in n.values[y])
    info = np.iinfo(activations)
    case = n.model([n.pair(y, (np.float32(largest / info.max), np.dtype(activations).type(0)))])
    assert differences(case).max() <= (0 if narrow else 1)


def test_a_scale_for_each_input_channel():
    values, scales, zeros = weights("int8", True, True, axis=1)
    n = net()
    x = n.pair(real_input(n), (np.float32(0.04), np.int8(0)))
    w = n.node("DequantizeLinear", n.constant(values), n.constant(scales), n.constant(zeros), axis=1)
    off = differences(n.model([n.pair(n.node("Conv", x, w))]))
    assert off.max() <= 1
    assert (off > 0).mean() < 0.005


# --- refusals ---------------------------------------------------------------------------------------------------


def asymmetric() -> Judged:
    n = net(21)
    x = n.pair(real_input(n), (np.float32(0.0001), np.int16(-11046)))
    return n.model([n.pair(n.node("Relu", x), (np.float32(0.0001), np.int16(0)))])


def test_asymmetric_sixteen_bits_are_refused_by_their_zero_point(tmp_path):
    case = asymmetric()
    said = refusal(case.model, tmp_path / "net.onnx")
    zero_point = case.model.graph.node[0].input[2]
    assert said == (
        f"QuantizeLinear 'QuantizeLinear_0' (tensor 'x'): its zero point {zero_point!r} is -11046, and integers of 16 "
        "bits have 0 here; quantize with symmetric activations (ONNX Runtime: extra_options={'ActivationSymmetric': "
        "True}), or give it to tosaic quantize --activations int16"
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_onnx_runtimes_sixteen_bits_and_the_way_out(symmetric, tmp_path):
    """`quantize_static` with its defaults makes asymmetric ones; with the option of the message the model opens."""
    from onnxruntime.quantization import QuantType, quantize_static

    n = net()
    weight = n.constant((n.random.standard_normal((4, 4, 3, 3)) / 6).astype(np.float32))
    whole = n.model([n.node("Relu", n.node("Conv", real_input(n), weight))])
    onnx.save(whole.model, tmp_path / "float.onnx")

    class Samples:
        feeds = iter(whole.feeds)

        def get_next(self):
            return next(self.feeds, None)

    quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "net.onnx",
        Samples(),
        activation_type=QuantType.QInt16,
        weight_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": True} if symmetric else {},
    )
    model = onnx.load(tmp_path / "net.onnx")
    if not symmetric:
        assert "its zero point 'x_zero_point' is" in refusal(model, tmp_path / "net.onnx")
        return
    assert differences(judged(model, whole.feeds)).max() <= 1
    session = Session(tmp_path / "net.onnx", target="emulator")
    session.run({"x": session.inputs[0].encoding.quantize(whole.feeds[0]["x"])}, check=True)


def test_a_float_output_and_both_ways_out(tmp_path):
    def build(encoded: bool) -> Judged:
        n = net()
        x = n.node("Exp", n.pair(real_input(n), (np.float32(0.03), np.int8(0))))
        return n.model([n.pair(x) if encoded else x])

    case, path = build(False), tmp_path / "net.onnx"
    assert refusal(case.model, path) == (
        "output 'Exp_2' holds floats, and no QuantizeLinear makes it: quantize the output as the rest of the model, or "
        "give the model to tosaic quantize"
    )
    assert differences(build(True)).max() <= 1
    quantized = quantize_graph(open_model(path), {"x": np.concatenate([feed["x"] for feed in case.feeds])})
    assert not any(tensor.dtype.is_float for tensor in quantized.graph.tensors.values())


def test_the_reason_is_that_of_the_operator(tmp_path):
    n = net()
    x = n.pair(real_input(n), (np.float32(0.1), np.int8(0)))
    largest = n.node("ReduceMax", x, axes=[0, 2, 3], keepdims=0)
    weights = n.constant(np.ones((4, 4, 1, 1), np.float32))
    said = refusal(n.model([n.pair(n.node("Conv", x, weights, largest))]).model, tmp_path / "net.onnx")
    assert said.startswith("Conv_")
    assert said.endswith("a bias computed at run time has no integer form; make it a constant")


def test_a_scale_that_is_computed_at_run_time(tmp_path):
    n = net()
    x = n.pair(real_input(n), (np.float32(0.1), np.int8(0)))
    scale = n.node("Add", n.node("ReduceMax", n.node("Abs", x), keepdims=0), n.constant(np.float32(0.01)))
    said = refusal(
        n.model(
            [n.node("Relu", n.node("DequantizeLinear", n.node("QuantizeLinear", x, scale), scale))]
        ).model,
        tmp_path / "net.onnx",
    )
    assert said == (
        f"QuantizeLinear 'QuantizeLinear_5' (tensor {x!r}): its scale {scale!r} is computed at run time; quantize the "
        "model statically, with calibration data, or give the float model to tosaic quantize"
    )


def test_activations_with_many_scales(tmp_path):
    n = net()
    scales, zeros = n.constant(np.float32([0.1, 0.2, 0.1, 0.3])), n.constant(np.zeros(4, np.int8))
    q = n.node("QuantizeLinear", real_input(n), scales, zeros, axis=1)
    x = n.node("DequantizeLinear", q, scales, zeros, axis=1)
    assert refusal(n.model([n.pair(x)]).model, tmp_path / "net.onnx") == (
        f"QuantizeLinear 'QuantizeLinear_0' (tensor 'x'): its scale {scales!r} has 4 elements; give an activation one "
        "scale and zero point"
    )


def test_the_case_with_the_defaults_of_onnx_runtime():
    path = CASES / "ort_qint16_default.onnx"
    if not path.is_file():
        pytest.skip(ABSENT)
    with pytest.raises(
        tosaic.UnsupportedError, match=r"its zero point 'x_zero_point' is -11000.*ActivationSymmetric"
    ):
        Session(path, target="emulator")
