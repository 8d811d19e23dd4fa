"""`tosaic evaluate`: figures on data of one's own, files, and what is refused."""

import importlib.util
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tosaic as api
from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor, write_tosa
from tosaic.errors import InputError


@pytest.fixture
def quantized(tosaic, here, classifier):
    """net.tosa of net.onnx, and test.npz: 200 samples that the calibration has not seen, with their classes."""
    assert tosaic("quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1").code == 0
    random = np.random.default_rng(5)
    with np.load("calib.npz") as calibration:
        x, wanted = calibration["x"], classifier[1]
        # The same weights, by the samples that are known.
        weight = np.linalg.lstsq(x, np.arctanh(np.clip(wanted, -0.999999, 0.999999)), rcond=None)[0]
    fresh = random.standard_normal((200, 4)).astype(np.float32) * 0.5
    classes = (fresh @ weight).argmax(1)
    np.savez("test.npz", x=fresh, labels=classes, other=(classes + 1) % 3)
    return fresh, classes


def test_figures_against_the_float_model_on_two_targets(tosaic, here, quantized):
    np.savez("own.npz", x=quantized[0], labels=quantized[1])
    outcome = tosaic(
        *("evaluate", "net.tosa", "--data", "own.npz", "--against", "net.onnx", "--shape", "N=1"),
        *("--on", "emulator", "--on", "golden", "--json", "e.json", "--report", "e.html"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "200 samples against net.onnx (onnxruntime); float" in outcome.out
    found = json.loads((here / "e.json").read_text())
    emulator, golden = found["outputs"]
    assert (emulator.pop("target"), golden.pop("target")) == ("emulator", "golden")
    assert emulator == golden
    assert emulator["sqnr_db"] > 25 and emulator["agreement"] > 0.95
    assert found["float_accuracy"] == {"y": 1.0}
    assert emulator["accuracy"] == emulator["agreement"]
    page = (here / "e.html").read_text()
    assert "agreement" in page and "http" not in page


def test_parts_by_processes_give_the_same_figures(tosaic, here, quantized):
    np.savez("own.npz", x=quantized[0], labels=quantized[1])
    command = ("evaluate", "net.tosa", "-d", "own.npz", "--against", "net.onnx", "--json")
    assert tosaic(*command, "whole.json").code == 0
    outcome = tosaic(*command, "parts.json", "--records", "r.jsonl", "--jobs", "2")
    assert (outcome.code, outcome.err) == (0, "")
    whole, parts = (json.loads((here / name).read_text()) for name in ("whole.json", "parts.json"))
    assert {**parts, "seconds": 0} == {**whole, "seconds": 0}
    assert len((here / "r.jsonl").read_text().splitlines()) == 4


def test_labels_are_named(tosaic, here, quantized):
    data = {"x": quantized[0], "other": (quantized[1] + 1) % 3}
    np.savez("other.npz", **data)
    outcome = tosaic("evaluate", "net.tosa", "-d", "other.npz", "--labels", "other", "--json", "e.json")
    assert outcome.code == 0 and "agreement" not in outcome.out
    (figures,) = json.loads((here / "e.json").read_text())["outputs"]
    assert figures["accuracy"] < 0.05 and figures["sqnr_db"] is None
    outcome = tosaic("evaluate", "net.tosa", "-d", "other.npz", "--labels", "classes")
    assert outcome.code == 1
    assert outcome.err == (
        "tosaic: error: the data has no labels 'classes'; its arrays are 'x', 'other': name one of them with --labels\n"
    )
    outcome = tosaic("evaluate", "net.tosa", "-d", "other.npz")
    assert outcome.code == 1 and "the data has an array 'other', the model has no such input" in outcome.err


def test_integers_reals_and_a_function_give_the_same(here, quantized):
    x, classes = quantized
    source = api.Session("net.tosa", "golden").inputs[0].encoding
    assert source is not None
    by_reals = api.evaluate("net.tosa", {"x": x, "labels": classes})
    integers = {"x": source.quantize(x), "labels": classes}
    by_integers = api.evaluate("net.tosa", integers, against=lambda sample: {"y": sample["x"][:, :3]})
    assert by_integers.outputs[0].accuracy == by_reals.outputs[0].accuracy
    assert by_integers.outputs[0].agreement is not None and by_reals.outputs[0].agreement is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": np.zeros((3, 4), np.float32)}, "the data has an array 'y', the model has no such input"),
        ({"x": np.zeros((3, 5), np.float32)}, r"shape \[3, 5\]; wanted is \[samples, 4\]"),
        ({"x": np.zeros((0, 4), np.float32)}, "at least one: there are 0 of 'x'"),
        ({"x": np.full((3, 4), np.nan, np.float32)}, "values that are not finite"),
        ({"x": np.full((3, 4), 300)}, "values beyond int8, the model's type"),
        (
            {"x": np.zeros((3, 4), np.int8), "labels": np.zeros(3)},
            "must be class numbers from 0 on, not float64",
        ),
        (
            {"x": np.zeros((3, 4), np.int8), "labels": np.arange(2)},
            "there are 2 labels, and as rows to label: 3 of",
        ),
        (
            {"x": np.zeros((3, 4), np.int8), "labels": np.arange(1, 4)},
            "label 3 is no class of output 'y', which has 3",
        ),
    ],
)
def test_data_that_does_not_fit(here, quantized, data, message):
    with pytest.raises(InputError, match=message):
        api.evaluate("net.tosa", data)


def test_reals_for_a_model_without_scales(here):
    with pytest.raises(
        InputError, match=r"is float32, the model wants int8 and has no scale \(.quant.json\)"
    ):
        api.evaluate("tiny.tosa", {"image": np.zeros((2, 8, 8, 1), np.float32)})


def test_a_float_model_of_other_outputs(here, quantized):
    with pytest.raises(InputError, match=r"output 'y' has shape \[1, 3\], the float model's has \[2\]"):
        api.evaluate("net.tosa", {"x": quantized[0]}, against=lambda sample: {"y": np.zeros(2)})
    with pytest.raises(InputError, match="the float model has no output 'y'; its outputs are 'a', 'b'"):
        api.evaluate("net.tosa", {"x": quantized[0]}, against=lambda sample: {"a": 1, "b": 2})


@pytest.fixture
def images(tosaic, here):
    """open.onnx: a convolution of images [batch, 2, 6, 6], and calib.npz; open.tosa, quantized for a batch of 1."""
    random = np.random.default_rng(3)
    weights = {"w": random.standard_normal((4, 2, 3, 3)), "v": random.standard_normal((64, 3)) / 8}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["scores"]),
    ]
    save("open.onnx", nodes, ("image", ["batch", 2, 6, 6]), ("scores", ["batch", 3]), weights)
    np.savez("calib.npz", image=random.uniform(-1, 1, (20, 2, 6, 6)).astype(np.float32))
    assert (
        tosaic("quantize", "open.onnx", "-c", "calib.npz", "-o", "open.tosa", "--shape", "batch=1").code == 0
    )


def save(name, nodes, source, result, constants):
    """An ONNX file of floats."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(source[0], TensorProto.FLOAT, source[1])],
        [helper.make_tensor_value_info(result[0], TensorProto.FLOAT, result[1])],
        [
            numpy_helper.from_array(np.asarray(value, np.float32 if np.ndim(value) else None), key)
            for key, value in constants.items()
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name)


@pytest.mark.parametrize("framework", ["onnxruntime", "golden"])
def test_an_open_batch_is_bound_of_the_model_that_has_one(tosaic, images, monkeypatch, framework):
    there = importlib.util.find_spec
    if framework == "golden":
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else there(name)
        )
    evaluate = ("evaluate", "open.tosa", "--data", "calib.npz", "--against", "open.onnx")
    outcome = tosaic(*evaluate, "--shape", "batch=1")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"20 samples against open.onnx ({framework})" in outcome.out
    outcome = tosaic(*evaluate, "--shape", "size=1")
    assert outcome.code == 1 and outcome.err.count("\n") == 1
    outcome = tosaic("evaluate", "open.tosa", "--data", "calib.npz", "--shape", "batch=1")
    assert outcome.err == "tosaic: error: open.tosa: its shapes are static: leave --shape out\n"


@pytest.mark.parametrize("verb", ["explore", "bench"])
def test_float_models_are_refused_with_the_command_that_helps(tosaic, images, verb):
    outcome = tosaic(verb, "open.onnx")
    assert outcome.code == 1 and outcome.err.endswith("TOSA needs static shapes; give --shape batch=1\n")
    outcome = tosaic(verb, "open.onnx", "--shape", "batch=1")
    assert outcome.code == 1
    command = outcome.err.strip().rpartition("first: tosaic ")[2]
    assert command == "quantize open.onnx -c calib.npz -o open.tosa --shape batch=1"
    assert tosaic(*command.split()).code == 0
    how = ("--points", "1", "--memory-bandwidth", "4") if verb == "explore" else ("--on", "emulator")
    assert tosaic(verb, "open.tosa", *how).code == 0


def test_bench_and_explore_bind_the_shapes_of_a_model_that_brought_its_integers(tosaic, here):
    nodes = []
    for source, result in (("x", "a"), ("r", "y")):
        nodes.append(helper.make_node("QuantizeLinear", [source, "s", "z"], [f"{source}q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{source}q", "s", "z"], [result]))
    nodes.insert(2, helper.make_node("Relu", ["a"], ["r"]))
    save("pairs.onnx", nodes, ("x", ["n", 8]), ("y", ["n", 8]), {"s": np.float32(0.05), "z": np.int8(0)})
    outcome = tosaic("bench", "pairs.onnx", "tiny.tosa", "--on", "emulator", "--shape", "n=2", "--check")
    assert outcome.code == 0 and "| pairs " in outcome.out and "| tiny " in outcome.out
    explored = ("explore", "pairs.onnx", "--points", "1", "--memory-bandwidth", "4", "--shape", "n=2")
    assert tosaic(*explored).code == 0


@pytest.mark.parametrize("search", ["grid", "optuna"])
def test_explore_ends_where_no_machine_takes_the_network(tosaic, here, search):
    """A CUSTOM operator runs nowhere: the search tells that after a few machines."""
    tensors = {name: Tensor(name, (2,), DType.INT8) for name in ("x", "y")}
    attributes = {"operator_name": "fancy", "domain_name": "mine", "implementation_attrs": b""}
    operator = Operator("CUSTOM", ["x"], ["y"], attributes, "CUSTOM_0")
    write_tosa(Graph("main", ["x"], ["y"], tensors, [operator]), here / "odd.tosa")
    outcome = tosaic("explore", "odd.tosa", "--search", search, "--points", "4", "--memory-bandwidth", "4")
    assert outcome.code == 1
    assert outcome.err.startswith("tosaic: error: no machine runs these networks; ")
    assert (
        "CUSTOM ('y' int8[2]) does not run on the accelerator: 'fancy' of domain 'mine' has no kernel"
        in outcome.err
    )


@pytest.fixture
def scores(here):
    """scores.tosa gives what it is given, so the largest element of a row is as the data says."""

    def write(found, labels, classes):
        build = GraphBuilder("scores")
        x = build.input("x", (1, classes), DType.INT8)
        build.output(build.add("CLAMP", [x], min_val=-128, max_val=127, nan_mode="PROPAGATE"))
        write_tosa(build.finish(), "scores.tosa")
        np.savez("data.npz", x=np.eye(classes, dtype=np.int8)[found], labels=np.array(labels))

    return write


def test_classes_that_are_taken_for_others(tosaic, here, scores):
    """A row for each label that there is; targets with the same counts share a matrix."""
    scores(found=[0, 0, 1, 2, 2, 0], labels=[0, 0, 1, 2, 1, 2], classes=4)
    command = ("evaluate", "scores.tosa", "-d", "data.npz", "--on", "golden", "--on", "emulator")
    outcome = tosaic(*command, "--json", "e.json", "--report", "e.html")
    assert outcome.code == 0, outcome.err
    assert [line.split() for line in outcome.out.splitlines()[-5:]] == [
        "clamp_0 on golden, emulator: a row for each label, a column for each class that was found".split(),
        ["label", "0", "1", "2", "3", "right"],
        ["0", "2", "·", "·", "·", "100.0%"],
        ["1", "·", "1", "1", "·", "50.0%"],
        ["2", "1", "·", "1", "·", "50.0%"],
    ]
    counted = [each["confusion"] for each in json.loads((here / "e.json").read_text())["outputs"]]
    assert counted == [[[0, 0, 2], [1, 1, 1], [1, 2, 1], [2, 0, 1], [2, 2, 1]]] * 2
    assert "a column for each class that was found" in (here / "e.html").read_text()


def test_many_classes_are_told_by_their_most_frequent_confusions(tosaic, here, scores):
    """In parts, too: their counts add up."""
    labels = [7] * 100 + [11] * 30 + [3]
    found = [7] * 60 + [5] * 40 + [12] * 30 + [3]
    scores(found, labels, classes=13)
    for parts in ((), ("--jobs", "2")):
        outcome = tosaic("evaluate", "scores.tosa", "-d", "data.npz", *parts)
        assert outcome.code == 0, outcome.err
        assert [line.split() for line in outcome.out.splitlines() if not line.startswith("next")][-3:] == [
            ["label", "found", "rows"],
            ["7", "5", "40"],
            ["11", "12", "30"],
        ]


def test_without_labels_nothing_is_confused(tosaic, here, quantized):
    np.savez("own.npz", x=quantized[0])
    outcome = tosaic("evaluate", "net.tosa", "-d", "own.npz", "--against", "net.onnx", "--json", "e.json")
    assert outcome.code == 0 and "label" not in outcome.out
    assert json.loads((here / "e.json").read_text())["outputs"][0]["confusion"] is None
