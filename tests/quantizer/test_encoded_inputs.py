"""Models that bring their encodings and have integer or boolean inputs: within one step of ONNX Runtime."""

import warnings

import numpy as np
import onnx
import pytest
from encoded_networks import Judged, Net, network, open_range
from onnx import TensorProto
from shared_files import ABSENT, SHARED

import tosaic
from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.driver.quantize import import_encoded
from tosaic.sim.golden import evaluate

CASES = SHARED / "cases/models"
CAMPAIGN = 100


def held(value: np.ndarray) -> np.ndarray:
    """A value as TOSA holds it: unsigned bits in signed integers, int64 in int32."""
    kinds = {"uint8": np.int8, "uint16": np.int16}
    if value.dtype.name in kinds:
        return value.view(kinds[value.dtype.name])
    return value.astype(np.int32) if value.dtype == np.int64 else value


def steps_of(case: Judged) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Steps from what ONNX Runtime makes of each sample, and from the range that the network leaves open."""
    found = import_encoded(case.model)
    # Quantized operators alone are integers as they are.
    graph, encodings = (import_onnx(case.model), {}) if found is None else (found.graph, found.outputs)
    assert not any(tensor.dtype.is_float for tensor in graph.tensors.values())

    def integers(name: str, values: np.ndarray) -> np.ndarray:
        encoding = encodings.get(name)
        if encoding is not None:
            return np.rint(values / np.float32(encoding.scale)) + encoding.zero_point
        return values.astype(int)

    off, outside, spread = [], [], None
    for number, (feed, wanted) in enumerate(zip(case.feeds, case.wanted, strict=True)):
        got = evaluate(graph, {name: held(feed[name]) for name in graph.inputs})
        for name, values in wanted.items():
            own = got[name].view(np.uint8) if values.dtype == np.uint8 else got[name]
            own = own.astype(int)
            off.append(np.abs(own - integers(name, values)))
            if off[-1].max() > 1:
                spread = spread or open_range(case)
                low, high = (integers(name, end) for end in spread[number][name])
                outside.append(np.maximum(np.maximum(low - own, own - high), 0))
            else:
                outside.append(off[-1])
    return off, outside


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 6, 7, 10, 13, 15, 16])
def test_random_networks_are_within_a_step(seed):
    off, _ = steps_of(network(seed))
    assert max(each.max() for each in off) <= 1


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1000 + CAMPAIGN))
def test_many_random_networks_are_within_a_step_of_what_they_leave_open(seed):
    _, outside = steps_of(network(seed))
    assert max(each.max() for each in outside) <= 1


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("int8_in_conv_zp-1", 0),
        ("uint8_in_conv_zp0", 0),
        ("ids_embedding_layernorm", 1),
        ("bool_mask_softmax", 1),
        ("qdq_scales_as_constant_nodes", 1),
        ("qdq_contrib_16bit", 0),
        ("int8_output_sigmoid", 0),
        ("int8_maxpool_between_pair", 0),
        ("a16w16_conv", 2),
    ],
)
def test_cases_that_were_wrong_or_refused(name, most):
    path = CASES / f"{name}.onnx"
    if not path.is_file():
        pytest.skip(ABSENT)
    data = np.load(path.with_suffix(".npz"))
    session = Session(path, target="emulator")
    feed = {
        each.name: data[f"in_{each.name}"]
        if each.encoding is None
        else each.encoding.quantize(data[f"in_{each.name}"])
        for each in session.inputs
    }
    got = session.run({name: held(value) for name, value in feed.items()}, check=True)
    for each in session.outputs:
        wanted = data[f"out_{each.name}"]
        if each.encoding is not None:
            wanted = np.clip(
                np.rint(wanted / each.encoding.scale) + each.encoding.zero_point, each.type.min, each.type.max
            )
        assert np.abs(got[each.name].astype(int) - held(wanted).astype(int)).max() <= most


# --- each kind by itself ----------------------------------------------------------------------------------------


def net(seed: int = 0) -> Net:
    return Net(np.random.default_rng(seed), spelled=False)


def convolutions(kind: str, zero_point: int) -> Judged:
    """Integers, DequantizeLinear, two convolutions, integers; one layer has no pair inside."""
    n, info = net(), np.iinfo(kind)
    q = n.input("x", lambda: n.random.integers(info.min, info.max + 1, (1, 3, 6, 6)).astype(kind))
    x = n.node(
        "DequantizeLinear", q, n.constant(np.float32(0.05)), n.constant(np.dtype(kind).type(zero_point))
    )
    x = n.pair(n.node("Conv", x, n.weight((4, 3, 3, 3), 0)[0]))
    x = n.node("Conv", x, n.weight((4, 4, 1, 1), 0)[0])
    return n.model([n.quantized(x)[0]])


@pytest.mark.parametrize(
    ("kind", "zero_point"),
    [("int8", z) for z in (0, 1, -1, 3, 83, -128, 127)] + [("uint8", z) for z in (0, 117, 128, 255)],
)
def test_integers_in_and_integers_out(kind, zero_point):
    off, _ = steps_of(convolutions(kind, zero_point))
    assert max(each.max() for each in off) <= 1
    assert np.mean([each.mean() for each in off]) < 0.01


def test_one_layer_of_integers_needs_no_pair_inside():
    n = net(1)
    q = n.input("x", lambda: n.random.integers(-128, 128, (1, 3, 6, 6)).astype(np.int8))
    x = n.node("DequantizeLinear", q, n.constant(np.float32(0.05)), n.constant(np.int8(-3)))
    off, _ = steps_of(n.model([n.quantized(n.node("Conv", x, n.weight((4, 3, 3, 3), 0)[0]))[0]]))
    assert max(each.max() for each in off) <= 1


@pytest.mark.parametrize("ids", [[0, 1, 2, 3], [-1, -2, 19, 7], [0, 0, 0, 0]])
def test_rows_of_a_table_that_are_all_alike_are_normalized(ids):
    """A row of equal numbers has no variance; a norm of it is its bias. Negative ids count from the end."""
    n = net(2)
    n.input("ids", lambda: np.array([ids], np.int64))
    table = n.random.integers(-127, 128, (20, 8)).astype(np.int8)
    table[0], table[1, 1:] = 1, 0
    real = n.node("DequantizeLinear", n.constant(table), n.constant(np.float32(0.02)), n.constant(np.int8(0)))
    lines = (n.random.uniform(0.5, 2, 8), n.random.standard_normal(8))
    x = n.node(
        "LayerNormalization",
        n.node("Gather", real, "ids"),
        *(n.constant(v.astype(np.float32)) for v in lines),
    )
    off, _ = steps_of(n.model([n.pair(x, (np.float32(0.03), np.int8(0)))]))
    assert max(each.max() for each in off) <= 1


@pytest.mark.parametrize("masked", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("large", [-1e4, -65504.0, -1e9, -100.0])
def test_a_boolean_mask_of_any_share(large, masked):
    n = net(3)
    x = n.pair(n.input("x", lambda: n.random.standard_normal((1, 6, 6)).astype(np.float32)))
    n.input("m", lambda: n.random.random((1, 6, 6)) < masked)
    scores = n.node("Where", "m", n.constant(np.float32(large)), x)
    weights = n.pair(n.node("Softmax", scores, axis=-1), (np.float32(1 / 256), np.int8(-128)))
    case = n.model([weights])
    found = import_encoded(case.model)
    for feed, wanted in zip(case.feeds, case.wanted, strict=True):
        got = evaluate(found.graph, {"x": found.inputs["x"].quantize(feed["x"]), "m": feed["m"]})[weights]
        assert np.abs(got - (np.rint(wanted[weights] * 256) - 128)).max() <= 1


def test_counts_that_nothing_tells_of_are_warned_of():
    """A time step goes into a sine: which integers it takes is not in the model."""
    n = net(4)
    n.input("t", lambda: n.random.integers(0, 1000, (1, 4)).astype(np.int64))
    angle = n.node("Mul", n.node("Cast", "t", to=TensorProto.FLOAT), n.constant(np.float32(0.001)))
    case = n.model([n.pair(n.node("Sin", angle), (np.float32(1 / 128), np.int8(0)))])
    with pytest.warns(tosaic.ModelWarning, match=r"input 't' is int32_t, and nothing .* 0 to 1,023"):
        off, _ = steps_of(case)
    assert max(each.max() for each in off) <= 1


def test_counts_that_are_rounded_at_once_are_not():
    n = net(5)
    n.input("t", lambda: n.random.integers(0, 100, (1, 4)).astype(np.int32))
    angle = n.node("Mul", n.node("Cast", "t", to=TensorProto.FLOAT), n.constant(np.float32(0.01)))
    case = n.model([n.pair(angle)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", tosaic.ModelWarning)
        off, _ = steps_of(case)
    assert max(each.max() for each in off) <= 1


def test_the_accelerator_computes_the_same(tmp_path):
    case = convolutions("uint8", 3)
    onnx.save(case.model, tmp_path / "net.onnx")
    session = Session(tmp_path / "net.onnx", target="emulator")
    got = session.run({"x": case.feeds[0]["x"].view(np.int8)}, check=True)
    assert [each.type.name for each in (*session.inputs, *session.outputs)] == ["INT8", "INT8"]
    assert set(got) == {value.name for value in case.model.graph.output}


def test_quantized_operators_without_float_ends():
    """QLinearConv and MaxPool alone are integers as they are."""
    n = net(6)
    x = n.input("x", lambda: n.random.integers(-128, 128, (1, 2, 6, 6)).astype(np.int8))
    own = n.constant(np.float32(0.02)), n.constant(np.int8(5))
    weight = n.constant(n.random.integers(-127, 128, (3, 2, 3, 3)).astype(np.int8))
    zero = n.constant(np.zeros(3, np.int8))
    scales = n.constant(np.float32([0.01, 0.02, 0.015]))
    y = n.node(
        "QLinearConv", x, *own, weight, scales, zero, n.constant(np.float32(0.1)), n.constant(np.int8(0))
    )
    y = n.node("MaxPool", y, kernel_shape=[2, 2])
    y = n.node("DequantizeLinear", y, n.constant(np.float32(0.1)), n.constant(np.int8(0)))
    off, _ = steps_of(n.model([y]))
    assert max(each.max() for each in off) <= 1
