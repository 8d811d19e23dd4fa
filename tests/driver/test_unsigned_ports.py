"""Models whose inputs and outputs are uint8: arrays of that type go in, and figures are of what the bits stand for."""

import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tosaic
from tosaic.compiler.ir import DType, GraphBuilder, unsigned_ports

sys.path.append(str(pathlib.Path(__file__).parents[1] / "importers"))
from tflite_operator_cases import Case, Tensor, model_of, reference  # noqa: E402

SCALE, ZERO_POINT = 0.05, 120
CLASSES = 5


@pytest.fixture
def classifier(tmp_path):
    """A fully connected layer of uint8 in TFLite; samples, and LiteRT's scores of them."""
    random = np.random.default_rng(0)
    weight = Tensor((CLASSES, 12), "uint8", 0.01, 128, data=random.integers(1, 255, (CLASSES, 12)))
    ends = Tensor((1, 12), "uint8", SCALE, ZERO_POINT), Tensor((1, CLASSES), "uint8", 0.12, 90)
    data = model_of(Case("FULLY_CONNECTED", "FullyConnectedOptions", {}, [ends[0], weight, None], [ends[1]]))
    samples = random.integers(0, 256, (40, 1, 12), dtype=np.uint8)
    (tmp_path / "net.tflite").write_bytes(data)
    return tmp_path / "net.tflite", samples, np.concatenate([reference(data, [x])[0] for x in samples])


def labelled(samples, scores):
    return {"t0": samples[:, 0], "labels": scores.argmax(1)}


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_a_network_takes_bytes_and_their_bits(classifier, target):
    path, samples, scores = classifier
    session = tosaic.Session(path, target)
    for x, y in zip(samples[:3], scores, strict=False):
        for form in (x, x.view(np.int8)):
            assert np.array_equal(session.run({"t0": form}, check="source")["t2"].view(np.uint8)[0], y)
    assert np.array_equal(session.run({"t0": samples[:, 0]})["t2"].view(np.uint8), scores)
    batches = session.run_batch({"t0": samples})["t2"]
    assert np.array_equal(batches.view(np.uint8)[:, 0], scores)


@pytest.mark.parametrize("form", ["uint8", "int8", "int64", "reals"])
def test_the_largest_score_is_the_largest_integer(classifier, form):
    """Scores above 127 are negative as int8; the accuracy was 12.5 %."""
    path, samples, scores = classifier
    assert scores.max() > 127
    given = samples.view(np.int8) if form == "int8" else samples.astype("uint8" if form == "reals" else form)
    if form == "reals":
        given = tosaic.dequantize(given, SCALE, ZERO_POINT)
    found = tosaic.evaluate(path, labelled(given, scores), check="source")
    (figures,) = found.outputs
    assert (figures.accuracy, figures.agreement, found.float_accuracy) == (1.0, 1.0, {"t2": 1.0})


def test_a_file_keeps_what_its_bytes_stand_for(classifier, tmp_path, monkeypatch):
    path, samples, scores = classifier
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tosaic", "import", str(path), "-o", "net.tosa"])
    from tosaic.cli import app

    with pytest.raises(SystemExit) as ended:
        app.main()
    assert not ended.value.code
    assert tosaic.evaluate("net.tosa", labelled(samples, scores)).outputs[0].accuracy == 1.0
    (image,) = tosaic.Session("net.tosa", "golden").inputs
    assert (image.type, image.own) == (DType.INT8, np.uint8)
    # Scale and zero point of an `encoding` are of integers as they are read; these are bits.
    assert image.encoding is None


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (np.full((1, 12), 200), "give np.asarray(x, np.uint8) of integers that were quantized"),
        (
            np.full((1, 12), -1.5, np.float32),
            "its integers stand for -6 to 6.75, give tosaic.quantize(x, 0.05000000074505806, 120, dtype='uint8')",
        ),
    ],
)
def test_advice_is_of_the_model_s_own_type(classifier, values, advice):
    session = tosaic.Session(classifier[0], "golden")
    with pytest.raises(tosaic.InputError) as refused:
        session.run({"t0": values})
    said = f"input 't0' has dtype {values.dtype}, the model wants uint8: "
    assert str(refused.value) == said + advice
    expression = advice.partition("give ")[2].partition(" of ")[0]
    session.run({"t0": eval(expression, {"np": np, "tosaic": tosaic, "x": values})})


def test_a_program_does_not_say_that_its_bytes_have_no_sign(classifier):
    path, samples, scores = classifier
    program = tosaic.Session(path, "emulator").program
    session = tosaic.Session(program, "emulator")
    with pytest.raises(
        tosaic.InputError, match=r", or x\.view\(np\.int8\) where the network itself takes uint8$"
    ):
        session.run({"t0": samples[0]})
    assert np.array_equal(session.run({"t0": samples[0].view(np.int8)})["t2"].view(np.uint8)[0], scores[0])


def image_network(path):
    """ONNX: bytes to integers of (x - 127.5) / 64, and their largest along channels."""
    node = helper.make_node
    nodes = [
        node("Cast", ["x"], ["r"], to=TensorProto.FLOAT),
        node("Sub", ["r", "mean"], ["c"]),
        node("Conv", ["c", "w"], ["v"]),
        node("QuantizeLinear", ["v", "s", "z"], ["y"]),
    ]
    constants = {"mean": np.float32(127.5), "s": np.float32(0.5), "z": np.uint8(128)}
    constants["w"] = np.random.default_rng(1).uniform(-0.2, 0.2, (4, 3, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "image",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 3, 5, 7))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (1, 4, 5, 7))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def test_an_image_of_bytes_whose_axes_move(tmp_path):
    image_network(tmp_path / "net.onnx")
    session = tosaic.Session(tmp_path / "net.onnx", "golden")
    assert [each.own for each in (*session.inputs, *session.outputs)] == [np.uint8, np.uint8]
    image = np.random.default_rng(2).integers(0, 256, (1, 3, 5, 7), dtype=np.uint8)
    y = session.run({"x": image}, check="source")["y"].view(np.uint8)
    assert y.min() < 100 and y.max() > 150
    with pytest.raises(tosaic.InputError, match=r"wants uint8: give np\.asarray\(x, np\.uint8\)$"):
        session.run({"x": image.astype(np.float32)})
    with pytest.raises(tosaic.InputError, match=r"wants uint8: give integers from 0 to 255$"):
        session.run({"x": image / np.float32(255)})


def test_only_what_is_read_and_written_without_a_sign_has_none():
    build = GraphBuilder()
    one = [build.constant(np.array([n]), t) for n, t in ((1 << 30, DType.INT32), (30, DType.INT8))]
    zero, middle = (build.constant(np.array([n]), DType.INT8) for n in (0, -128))
    how = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False}
    ports = [build.input(name, (2, 3), DType.INT8) for name in ("bytes", "codes", "both")]
    moved = build.add("REVERSE", [ports[0]], axis=0)
    results = []
    for name, reads, writes in ((moved, True, False), (ports[1], False, True), (ports[2], True, False)):
        zeros = (middle, zero) if reads else (zero, middle)
        ends = {"input_unsigned": reads, "output_unsigned": writes}
        results.append(build.add("RESCALE", [name, *one, *zeros], dtype=DType.INT8, **how, **ends))
    build.output(build.add("REVERSE", [results[1]], axis=1, output="whole"))
    for name, result in (("signed", results[0]), ("other", results[2])):
        build.output(build.add("ABS", [build.add("CAST", [result], dtype=DType.INT32)], output=name))
    build.output(build.add("CAST", [ports[2]], dtype=DType.INT32, output="magnitude"))
    assert unsigned_ports(build.graph) == {"bytes", "whole"}


@pytest.mark.parametrize("as_bytes", [False, True])
def test_an_inference_session_takes_bytes_or_reals(classifier, as_bytes):
    path, samples, scores = classifier
    session = tosaic.InferenceSession(path.read_bytes() if as_bytes else path)
    assert [each.type for each in (*session.get_inputs(), *session.get_outputs())] == ["tensor(float)"] * 2
    (given,) = session.run(None, {"t0": samples[:, 0]})
    assert given.dtype == np.uint8 and np.array_equal(given, scores)
    (given,) = session.run(None, {"t0": tosaic.dequantize(samples[:, 0], SCALE, ZERO_POINT)})
    assert given.dtype == np.float32 and np.array_equal(
        given, tosaic.dequantize(scores, float(np.float32(0.12)), 90)
    )
