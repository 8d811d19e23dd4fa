"""`tosaic quantize`: files, the table, the report, what is refused."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tosaic as api
from tosaic.compiler.ir import DType, read_tosa


def test_quantize_writes_model_encodings_and_report(tosaic, here, classifier):
    outcome = tosaic(
        "quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1", "--report", "q.html"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        "y: SQNR " in outcome.out
        and "same largest element in 100.00%, measured on 6 held-out samples" in outcome.out
    )
    assert "y: accuracy 100.00% in floats, 100.00% in integers" in outcome.out
    graph = read_tosa((here / "net.tosa").read_bytes())
    assert graph.tensors["x"].dtype is graph.tensors["y"].dtype is DType.INT8
    page = (here / "q.html").read_text()
    assert "SQNR" in page and "http" not in page
    encodings = json.loads((here / "net.quant.json").read_text())
    assert set(encodings["inputs"]) == {"x"} and set(encodings["outputs"]) == {"y"}


def test_error_feedback_rounds_other_weights_the_same_way_each_time(tosaic, here, classifier):
    arguments = ("net.onnx", "-c", "calib.npz", "--shape", "N=1")
    for name, option in (
        ("plain", "--no-error-feedback"),
        ("a", "--error-feedback"),
        ("b", "--error-feedback"),
    ):
        assert tosaic("quantize", *arguments, option, "-o", f"{name}.tosa").code == 0
    plain, first, second = ((here / f"{name}.tosa").read_bytes() for name in ("plain", "a", "b"))
    assert len(plain) == len(first) and plain != first == second


def test_weights_of_four_bits(tosaic, here):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s]) for n, s in (("x", 128), ("y", 32))]
    random = np.random.default_rng(1)
    weight = numpy_helper.from_array(random.normal(0, 1, (128, 32)).astype(np.float32), "w")
    graph = helper.make_graph([node], "matrix", ports[:1], ports[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    np.savez("m.npz", x=random.normal(0, 1, (40, 128)).astype(np.float32))
    arguments = ("quantize", "m.onnx", "-c", "m.npz", "-o", "m.tosa", "--weights", "int4")
    assert tosaic(*arguments, "--group", "32").code == 0
    tensors = read_tosa((here / "m.tosa").read_bytes()).tensors.values()
    levels = [each.data for each in tensors if each.data is not None and each.shape == (1, 32, 32)]
    assert len(levels) == 4 and all(-8 <= each.min() and each.max() <= 7 for each in levels)
    run = ("run", "m.tosa", "--random", "1", "--on", "emulator", "--check", "--memory-bandwidth", "4")
    assert tosaic(*run, "--compress", "fast").code == 0
    outcome = tosaic(*arguments, "--group", "7")
    assert outcome.code == 1 and "use one of 32, 64, 128" in outcome.err


def test_a_line_on_an_output_of_unlike_parts(tosaic, here):
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["boxes"]),
        helper.make_node("Sigmoid", ["x"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["y"], axis=1),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        for name, size in (("x", 4), ("y", 8))
    )
    factor = numpy_helper.from_array(np.float32(500), "k")
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "parts", [x], [y], [factor])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "parts.onnx")
    np.savez("parts.npz", x=np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4))
    outcome = tosaic("quantize", "parts.onnx", "-c", "parts.npz", "-o", "parts.tosa")
    assert outcome.code == 0
    (line,) = [each for each in outcome.err.splitlines() if "one scale for parts" in each]
    assert line.startswith(
        "tosaic: warning: output 'y' has one scale for parts of very different ranges: in steps of "
    )
    assert line.endswith(
        "which 'boxes' (-500 to 397) needs, hardly anything is left of 'scores' (0.269 to 0.689); make each part an "
        "output of its own"
    )
    # The check's forecast, made of stand-ins, says nothing of ranges.
    assert "very different ranges" not in tosaic("check", "parts.onnx").err


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
        (
            ("net.onnx", "-c", "alien.npz"),
            "the calibration data has an array 'y', the model has no such input; its inputs are 'x'",
        ),
        (
            ("net.onnx", "-c", "few.npz"),
            "the calibration data has 3 labels, the samples give rows to label: 4 of output 'y'; give one label for "
            "each, or leave `labels` out",
        ),
        (
            ("net.onnx", "-c", "many.npz"),
            "the calibration data has 5 labels, the samples give rows to label: 4 of output 'y'",
        ),
        (
            ("net.onnx", "-c", "zero.npz"),
            "the calibration data for input 'x' is zero everywhere, which tells nothing of its range; give samples "
            "such as the model will see",
        ),
        (
            ("net.onnx", "-c", "huge.npz"),
            'tensor "matmul_0\'2" fp32[1, 1, 1, 3] overflows in product:MATMUL_0: the calibration data for '
            "input 'x' goes up to 3e+38; give samples such as the model will see",
        ),
        (("tiny.tosa", "-c", "calib.npz"), "computes no floats: it is quantized already"),
    ],
)
def test_refusals(tosaic, here, classifier, arguments, message):
    np.savez("wide.npz", x=np.zeros((2, 5)))
    np.savez("other.npz", x=np.zeros((2, 4)), z=np.zeros(3))
    np.savez("empty.npz", x=np.zeros((0, 4)))
    np.savez("nan.npz", x=np.full((2, 4), np.nan))
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    np.savez("alien.npz", y=x)
    np.savez("few.npz", x=x, labels=[0, 1, 2])
    np.savez("many.npz", x=x, labels=[0, 1, 2, 0, 1])
    np.savez("zero.npz", x=0 * x)
    np.savez("huge.npz", x=np.float32(3e38) * x)
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


def test_array_without_a_name_belongs_to_the_only_input(tosaic, here, classifier):
    x, _ = classifier
    np.savez("unnamed.npz", x)
    np.save("unnamed.npy", x)
    options = ("-o", "net.tosa", "--shape", "N=1")
    results = []
    for file in ("unnamed.npz", "unnamed.npy", "calib.npz"):
        assert tosaic("quantize", "net.onnx", "-c", file, *options).code == 0
        results.append((here / "net.tosa").read_bytes())
    assert results[0] == results[1] == results[2]


def test_labels_of_a_last_run_that_is_not_full(tosaic, here, classifier):
    """30 samples make four runs of a batch of 8; the labels are those of the samples."""
    outcome = tosaic("quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=8")
    assert (outcome.code, outcome.err) == (0, "")
    assert "y: accuracy 100.00% in floats, 100.00% in integers" in outcome.out


def test_one_input_of_two_that_is_zero_everywhere(tosaic, here):
    sizes = [1, 4]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])],
        "sum",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in "ab"],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, sizes)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "sum.onnx")
    np.savez("half.npz", a=np.ones((20, 4), np.float32), b=np.zeros((20, 4), np.float32))
    outcome = tosaic("quantize", "sum.onnx", "-c", "half.npz", "-o", "sum.tosa")
    assert outcome.code == 0
    assert outcome.err == (
        "tosaic: warning: the calibration data for input 'b' is zero everywhere, which tells nothing of its range: "
        "its scale is 1\n"
    )
