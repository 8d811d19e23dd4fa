"""`tosaic quantize`: files, the table, the report, what is refused."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tosaic as api
from tosaic.compiler.ir import DType, read_tosa


@pytest.fixture
def classifier(here):
    """net.onnx: three scores of x[N, 4]; calib.npz with 30 samples and labels."""
    random = np.random.default_rng(2)
    weight = random.standard_normal((4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["y"])],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    x = random.standard_normal((30, 4)).astype(np.float32)
    np.savez("calib.npz", x=x, labels=(x @ weight).argmax(1))
    return x, np.tanh(x @ weight)


def test_quantize_writes_model_encodings_and_report(tosaic, here, classifier):
    outcome = tosaic(
        "quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1", "--report", "q.html"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "y: SQNR " in outcome.out and "same largest element in 100.00%, 30 samples" in outcome.out
    assert "y: accuracy 100.00% in floats, 100.00% in integers" in outcome.out
    graph = read_tosa((here / "net.tosa").read_bytes())
    assert graph.tensors["x"].dtype is graph.tensors["y"].dtype is DType.INT8
    page = (here / "q.html").read_text()
    assert "SQNR" in page and "http" not in page
    encodings = json.loads((here / "net.quant.json").read_text())
    assert set(encodings["inputs"]) == {"x"} and set(encodings["outputs"]) == {"y"}


def test_session_tells_scales(tosaic, here, classifier):
    x, wanted = classifier
    assert tosaic("quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1").code == 0
    session = api.Session("net.tosa", target="emulator")
    source, result = session.inputs[0].encoding, session.outputs[0].encoding
    assert source is not None and result is not None
    integers = api.quantize(x[:1], source.scale, source.zero_point)
    y = session.run({"x": integers}, check=True)["y"]
    np.testing.assert_allclose(api.dequantize(y, result.scale, result.zero_point), wanted[:1], atol=0.03)


def test_a_file_of_encodings_that_belongs_to_another_model_is_ignored(tosaic, here, classifier):
    (here / "tiny.quant.json").write_text(
        '{"inputs": {"image": {"dtype": "int16", "scale": 1, "zero_point": 0}}, "outputs": {}}'
    )
    assert api.Session("tiny.tosa", target="golden").inputs[0].encoding is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("net.onnx", "-c", "none.npz"),
            "none.npz: cannot be read as calibration data: No such file or directory",
        ),
        (("net.onnx", "-c", "wide.npz"), "the calibration data for input 'x' fp32[1, 4] has shape [2, 5]"),
        (
            ("net.onnx", "-c", "other.npz"),
            "the calibration data has an array 'z', the model has no such input",
        ),
        (("net.onnx", "-c", "empty.npz"), "the calibration data for input 'x' has no samples"),
        (("net.onnx", "-c", "nan.npz"), "the calibration data for input 'x' has values that are not finite"),
        (("tiny.tosa", "-c", "calib.npz"), "computes no floats: it is quantized already"),
    ],
)
def test_refusals(tosaic, here, classifier, arguments, message):
    np.savez("wide.npz", x=np.zeros((2, 5)))
    np.savez("other.npz", x=np.zeros((2, 4)), z=np.zeros(3))
    np.savez("empty.npz", x=np.zeros((0, 4)))
    np.savez("nan.npz", x=np.full((2, 4), np.nan))
    shape = ("--shape", "N=1") if arguments[0] == "net.onnx" else ()
    outcome = tosaic("quantize", *arguments, "-o", "out.tosa", *shape)
    assert outcome.code == 1
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (here / "out.tosa").exists()


def test_import_of_a_model_with_pairs_gives_integers(tosaic, here):
    constants = {"scale": np.float32(0.02), "zero": np.int8(4)}
    pair = [("QuantizeLinear", "{}", "{}q"), ("DequantizeLinear", "{}q", "{}d")]
    nodes = [helper.make_node(op, [i.format("x"), *constants], [o.format("x")]) for op, i, o in pair]
    nodes.append(helper.make_node("Relu", ["xd"], ["r"]))
    nodes += [helper.make_node(op, [i.format("r"), *constants], [o.format("r")]) for op, i, o in pair]
    graph = helper.make_graph(
        nodes,
        "pairs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("rd", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "q.onnx")
    outcome = tosaic("import", "q.onnx", "-o", "q.tosa")
    assert (outcome.code, outcome.err) == (0, "")
    session = api.Session("q.tosa", target="emulator")
    assert [a.encoding.zero_point for a in (*session.inputs, *session.outputs)] == [4, 4]
    y = session.run({"x": np.array([[-9, 4, 5, 127]], np.int8)}, check=True)["rd"]
    assert y.tolist() == [[4, 4, 5, 127]]
    assert tosaic("check", "q.onnx").code == 0
