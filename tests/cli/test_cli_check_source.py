"""`--check-source`: the integers against the user's own network, and what `quantize` says of it."""

import json
import re
import shutil

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tosaic as api


@pytest.fixture
def net(tosaic, here, classifier):
    """net.tosa of net.onnx, and x.npy: a real sample of the calibration."""
    outcome = tosaic("quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1")
    assert outcome.code == 0
    np.save("x.npy", classifier[0][4:5])
    return outcome


def save(name, nodes, inputs, outputs, constants):
    """An ONNX file; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name)


def test_quantize_ends_with_the_network_and_notes_it(net, here):
    (line,) = [each for each in net.out.splitlines() if each.startswith("against ")]
    assert line.startswith("against net.onnx (onnxruntime): y: SQNR ") and line.endswith("6 held-out samples")
    note = json.loads((here / "net.quant.json").read_text())["source"]
    assert (note["path"], note["shapes"], note["samples"]) == ("net.onnx", {"N": 1}, "6 held-out samples")
    assert note["outputs"]["y"]["sqnr_db"] >= note["outputs"]["y"]["lowest_db"] > 25
    assert len(note["sha256"]) == 64


def test_reals_go_in_and_both_checks_are_told_apart(tosaic, net):
    outcome = tosaic("run", "net.tosa", "--on", "emulator", "-i", "x.npy", "--check", "--check-source")
    assert (outcome.code, outcome.err) == (0, "")
    *_, source, golden, _ = outcome.out.splitlines()
    assert source.startswith("against net.onnx (onnxruntime): y: SQNR ") and "worst tensor " in source
    assert golden == "bit-exact: 1 outputs equal golden"
    integers = api.Session("net.tosa", "golden").inputs[0].encoding.quantize(np.load("x.npy"))
    np.save("q.npy", integers)
    alone = tosaic("run", "net.tosa", "--on", "emulator", "-i", "q.npy", "--check")
    assert alone.out.splitlines()[-3:-1] == [
        "compared with golden on the same integers, not with your network: --check-source does that",
        "bit-exact: 1 outputs equal golden",
    ]


def test_integers_of_another_network_are_a_mismatch(tosaic, here, net):
    """The graph is right by golden, and wrong by the network: as if the importer had read another weight."""
    model = onnx.load("net.onnx")
    weight = numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[0] *= -1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    onnx.save(model, "other.onnx")
    command = ("run", "net.tosa", "--on", "golden", "-i", "x.npy", "--check-source", "--source", "other.onnx")
    outcome = tosaic(*command)
    assert outcome.code == 3 and outcome.err.count("\n") == 1
    assert "not the network's own outputs: against other.onnx (onnxruntime): y: SQNR " in outcome.err
    assert "worst tensor" in outcome.err and "quantize measured" in outcome.err
    assert tosaic(*command, "--check-source=-20").code == 0, "a limit of the user's own"


def test_a_limit_of_ones_own(tosaic, refused, net):
    assert tosaic("run", "net.tosa", "--on", "golden", "-i", "x.npy", "--check-source=20").code == 0
    said = refused("run", "net.tosa", "--on", "golden", "-i", "x.npy", "--check-source=90", code=3)
    assert said.endswith("; wanted are 90.0 dB, as asked")
    said = refused("run", "net.tosa", "--on", "golden", "--random", "1", "--check-source=90", code=3)
    assert said.endswith("the inputs were made up (--random): give real ones by -i")


def test_a_network_that_has_gone_or_changed_or_was_never_told(tosaic, refused, here, net):
    run = ("run", "net.tosa", "--on", "golden", "-i", "x.npy", "--check-source")
    (here / "net.onnx").rename("moved.onnx")
    way_out = "give the float model: --source MODEL, in Python Session(..., source=MODEL)"
    assert refused(*run) == f"net.tosa was made of net.onnx, which is not there: {way_out}"
    assert tosaic(*run, "--source", "moved.onnx").code == 0
    shutil.copy("moved.onnx", "net.onnx")
    assert tosaic(*run).code == 0
    with open("net.onnx", "ab") as file:
        file.write(b"\n")
    assert "net.onnx, which has changed since: quantize it again, or give the float model" in refused(*run)
    said = refused("run", "tiny.tosa", "--on", "golden", "--random", "1", "--check-source")
    assert said.startswith("tiny.tosa does not say which network it was made of")


def test_a_program_knows_its_network_too(tosaic, here, net):
    assert tosaic("compile", "net.tosa", "-o", "net.tsc").code == 0
    outcome = tosaic("run", "net.tsc", "--on", "emulator", "-i", "x.npy", "--check-source")
    assert outcome.code == 0 and "against net.onnx (onnxruntime): y: SQNR" in outcome.out


def test_a_batch_is_compared_sample_by_sample(tosaic, net, classifier):
    np.save("x5.npy", classifier[0][:5])
    run = ("run", "net.tosa", "--on", "emulator", "-i", "x5.npy", "--check-source")
    outcome = tosaic(*run, "--batch", "5")
    assert (outcome.code, outcome.err) == (0, "")
    outcome = tosaic(*run)
    assert (
        outcome.code == 1 and "it holds 5 samples: give --batch 5, or in Python session.map(" in outcome.err
    )


def pairs_with_integer_input(scale):
    """int8 -> DequantizeLinear -> Conv -> QuantizeLinear, DequantizeLinear -> Conv -> the pair."""
    random = np.random.default_rng(3)
    constants = {"s": np.float32(scale), "z": np.int8(0), "t": np.float32(0.05), "u": np.int8(0)}
    constants |= {
        f"w{i}": random.standard_normal((4, c, 3, 3)).astype(np.float32) / 3 for i, c in ((0, 3), (1, 4))
    }
    nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"])]
    for i, (a, b) in enumerate((("a", "p"), ("b", "q"))):
        nodes.append(helper.make_node("Conv", [a, f"w{i}"], [f"c{i}"], f"conv_{i}"))
        nodes.append(helper.make_node("QuantizeLinear", [f"c{i}", "t", "u"], [f"{b}i"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{b}i", "t", "u"], [("b", "y")[i]]))
    ends = [("x", TensorProto.INT8, [1, 3, 7, 7])], [("y", TensorProto.FLOAT, [1, 4, 3, 3])]
    save("pairs.onnx", nodes, *ends, constants)


def test_a_model_that_brought_its_integers_is_judged_in_steps(tosaic, here):
    """The integers are ONNX Runtime's of the model as it is written, and so is what is told of them."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pairs_with_integer_input(0.02)
    random = np.random.default_rng(5)
    np.save("i.npy", random.integers(-128, 128, (1, 3, 7, 7)).astype(np.int8))
    as_written = onnxruntime.SessionOptions()
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession("pairs.onnx", as_written, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": np.load("i.npy")})[0]
    outcome = tosaic("run", "pairs.onnx", "--on", "golden", "-i", "x=i.npy", "--check-source", "-o", "out")
    session = api.Session("pairs.onnx", "golden")
    ours = session.outputs[0].encoding.dequantize(session.run({"x": np.load("i.npy")})["y"])
    assert np.array_equal(ours.astype(np.float32), wanted)
    assert (outcome.code, outcome.err) == (0, "")
    assert "pairs.onnx (onnxruntime): y: SQNR exact, largest difference 0 steps" in outcome.out
    # Inside as well: float32 holds the scale to seven digits.
    assert float(re.search(r"worst tensor y, ([\d.]+) dB", outcome.out)[1]) > 100


def test_evaluate_holds_integers_against_their_network(tosaic, here, net, classifier):
    np.savez("test.npz", x=classifier[0])
    outcome = tosaic("evaluate", "net.tosa", "-d", "test.npz", "--check-source", "--json", "e.json")
    assert (outcome.code, outcome.err) == (0, "")
    assert "30 samples against net.onnx (onnxruntime)" in outcome.out
    (figures,) = json.loads((here / "e.json").read_text())["outputs"]
    assert figures["largest_steps"] < 4 and figures["beyond_one_step"] < 0.5
    outcome = tosaic("evaluate", "net.tosa", "-d", "test.npz", "--check-source=90")
    assert outcome.code == 3 and "wanted are 90.0 dB, as asked" in outcome.err
    assert "30 samples against" in outcome.out, "the figures are told all the same"
    with pytest.raises(api.MismatchError, match="wanted are 90.0 dB"):
        api.evaluate("net.tosa", {"x": classifier[0]}, check="source", limit_db=90)


def test_the_input_that_limits_an_output_is_named(tosaic, here):
    """Powers: most are far smaller than the largest, so 8 bits of them say nothing of their logarithm."""
    constants = {"tiny": np.float32(1e-6), "w": np.full((8, 2), 0.125, np.float32)}
    nodes = [
        helper.make_node("Add", ["mels", "tiny"], ["p"]),
        helper.make_node("Log", ["p"], ["l"]),
        helper.make_node("MatMul", ["l", "w"], ["y"]),
    ]
    save("mels.onnx", nodes, [("mels", 1, [1, 8])], [("y", 1, [1, 2])], constants)
    random = np.random.default_rng(0)
    np.savez("c.npz", mels=(10.0 ** random.uniform(-6, 1, (40, 8))).astype(np.float32))
    outcome = tosaic("quantize", "mels.onnx", "-c", "c.npz", "-o", "mels.tosa", "--input-curve", "none")
    assert outcome.code == 0
    (line,) = outcome.err.splitlines()
    assert (
        line.startswith("tosaic: warning: output 'y' has ")
        and "the 8 bits of input 'mels' alone limit it to " in line
    )
    assert line.endswith(" dB; leave --input-curve none out")
    outcome = tosaic("quantize", "mels.onnx", "-c", "c.npz", "-o", "mels.tosa")
    assert (outcome.code, outcome.err) == (0, "")
    (shown,) = [each for each in outcome.out.splitlines() if each.startswith("input ")]
    assert re.fullmatch(
        r"input 'mels' .*: real = \S+ \* \(exp\(\|v\|\) - 1\) with the sign of v = \S+ \* \(q - -128\)", shown
    )
    np.save("x.npy", np.load("c.npz")["mels"][:1])
    tosaic("compile", "mels.tosa", "-o", "mels.tsc")
    for model in ("mels.tosa", "mels.tsc"):
        outcome = tosaic("run", model, "-i", "mels=x.npy", "--check-source=35")
        assert outcome.code == 0, outcome.err


def test_few_samples_and_an_odd_one_are_named(tosaic, here, classifier):
    x = classifier[0].copy()
    np.savez("few.npz", x=x[:4])
    outcome = tosaic("quantize", "net.onnx", "-c", "few.npz", "-o", "few.tosa", "--shape", "N=1")
    assert outcome.err == (
        "tosaic: warning: the ranges are those of 4 calibration samples: give 16 or more, such as the model will see\n"
    )
    x[17, 2] = 1e4
    np.savez("odd.npz", x=x)
    outcome = tosaic("quantize", "net.onnx", "-c", "odd.npz", "-o", "odd.tosa", "--shape", "N=1")
    assert outcome.code == 0
    assert "calibration sample 17 alone makes the range of input 'x' " in outcome.err
    assert "times as wide as all others do" in outcome.err


def test_a_damaged_note_is_one_line(refused, here, net):
    said = json.loads((here / "net.quant.json").read_text())
    for damage in ({"path": 3}, {"layers": [1]}, {"outputs": {"y": {"sqnr_db": "much"}}}):
        (here / "net.quant.json").write_text(json.dumps({**said, "source": {**said["source"], **damage}}))
        message = refused("run", "net.tosa", "--on", "golden", "-i", "x.npy", "--check-source")
        assert message.startswith("net.quant.json: its 'source' cannot be read (")
