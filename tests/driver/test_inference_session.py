"""`tosaic.InferenceSession`: scripts for onnxruntime run with one import changed; what it takes, gives and refuses."""

import pathlib
import shlex
import sys

import numpy as np
import pytest

import tosaic
import tosaic.examples
from tosaic.cli import app
from tosaic.compiler.ir import DType, GraphBuilder, write_tosa

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx.reference")
SCRIPTS = sorted((pathlib.Path(__file__).parent / "onnxruntime_scripts").glob("*.py"))
DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits"
NO_PROVIDER = "ignore:there is no provider:UserWarning"


def quantized_network(batch="batch", quantized=True):
    """y = W x + b, ten classes: int8 between a pair of QuantizeLinear and DequantizeLinear, or in floats."""
    random = np.random.default_rng(0)
    weights, bias = random.integers(-127, 128, (10, 64)), random.integers(-4000, 4000, 10)
    make, array = onnx.helper.make_node, onnx.numpy_helper.from_array
    constants = {
        "sx": np.float32(0.05), "zx": np.int8(-3), "w": weights.astype(np.int8), "sw": np.float32(0.01),
        "zw": np.int8(0), "b": bias.astype(np.int32), "sb": np.float32(0.0005), "zb": np.int32(0),
        "sy": np.float32(0.2), "zy": np.int8(3), "wf": (weights * 0.01).astype(np.float32),
    }  # fmt: skip
    nodes = [
        make("QuantizeLinear", ["x", "sx", "zx"], ["xq"]),
        make("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        make("DequantizeLinear", ["w", "sw", "zw"], ["wd"]),
        make("DequantizeLinear", ["b", "sb", "zb"], ["bd"]),
        make("Gemm", ["xd", "wd", "bd"], ["g"], transB=1),
        make("QuantizeLinear", ["g", "sy", "zy"], ["gq"]),
        make("DequantizeLinear", ["gq", "sy", "zy"], ["y"]),
    ]
    if not quantized:
        nodes = [make("Gemm", ["x", "wf"], ["y"], transB=1)]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [value("x", onnx.TensorProto.FLOAT, [batch, 64])],
        [value("y", onnx.TensorProto.FLOAT, [batch, 10])],
        [array(np.asarray(number), name) for name, number in constants.items()],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9, producer_name="a test"
    )
    model.doc_string, model.domain, model.model_version = "ten classes", "example.org", 7
    onnx.helper.set_model_props(model, {"author": "me"})
    return model


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(quantized_network(), "net.onnx")
    samples = np.random.default_rng(1).normal(0, 2, (10, 64)).astype(np.float32)
    np.save("samples.npy", samples)
    np.save("labels.npy", np.arange(10))
    return tmp_path


@pytest.fixture
def samples(folder):
    return np.load("samples.npy")


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
@pytest.mark.filterwarnings(NO_PROVIDER)
def test_a_script_runs_with_one_import_changed(folder, capsys, script):
    pytest.importorskip("onnxruntime")
    told = []
    for package in ("onnxruntime", "tosaic"):
        text = script.read_text().replace("import onnxruntime as ort", f"import {package} as ort")
        exec(compile(text, str(script), "exec"), {"__name__": "__main__"})
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != ""


def test_reals_are_quantized_and_the_files_integers_are_taken(tmp_path):
    with np.load(DIGITS / "images.npz") as data:
        integers = data["inputs"][:3].reshape(-1, 8, 8, 1)
    plain = tosaic.Session(DIGITS / "digits_tiny.tosa", "emulator")
    session = tosaic.InferenceSession(DIGITS / "digits_tiny.tosa")
    (image,), (scores,) = session.get_inputs(), session.get_outputs()
    assert (image.type, scores.type, scores.shape) == ("tensor(float)", "tensor(float)", [1, 10])
    wanted = plain.run({"image": integers})["scores"]
    (given,) = session.run(None, {"image": integers})
    assert given.dtype == np.int8 and np.array_equal(given, wanted)
    reals = plain.inputs[0].encoding.dequantize(integers).astype(np.float32)
    (given,) = session.run(["scores"], {"image": reals})
    assert given.dtype == np.float32
    assert np.array_equal(given, plain.outputs[0].encoding.dequantize(wanted).astype(np.float32))
    # As bytes the model has no file of encodings beside it.
    session = tosaic.InferenceSession((DIGITS / "digits_tiny.tosa").read_bytes())
    assert session.get_inputs()[0].type == "tensor(int8)"
    assert np.array_equal(session.run(None, {"image": integers})[0], wanted)
    program = tmp_path / "digits.tsc"
    program.write_bytes(plain.program.to_bytes())
    for model in (program, program.read_bytes()):
        assert np.array_equal(
            tosaic.InferenceSession(model).run(None, {"image": integers[:1]})[0], wanted[:1]
        )


def test_the_target_is_a_provider_option(samples):
    chosen = [("TosaicExecutionProvider", {"target": "golden", "config": "small"}), "CPUExecutionProvider"]
    session = tosaic.InferenceSession("net.onnx", providers=chosen)
    assert session.get_providers() == tosaic.get_available_providers() == ["TosaicExecutionProvider"]
    told = {"TosaicExecutionProvider": {"target": "golden", "config": "small"}}
    assert session.get_provider_options() == told
    golden = session.run(None, {"x": samples})[0]
    assert session.session.target == "golden" and session.session.config.name == "small"
    session.set_providers(["TosaicExecutionProvider"], [{"target": "emulator"}])
    assert np.array_equal(session.run(None, {"x": samples})[0], golden)
    assert session.session.target == "emulator"
    with pytest.warns(
        UserWarning, match="'CUDAExecutionProvider', 'CPUExecutionProvider': the model runs on Tosaic"
    ):
        tosaic.InferenceSession("net.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])


def test_each_shape_of_an_open_model_is_compiled(samples):
    session = tosaic.InferenceSession("net.onnx")
    whole = session.run(None, {"x": samples})[0]
    for count in (1, 3, 1):
        assert np.array_equal(session.run(None, {"x": samples[:count]})[0], whole[:count])
        assert session.session.inputs[0].shape == (count, 64)
    assert session.get_inputs()[0].shape == ["batch", 64]


def test_integers_go_through_as_they_are(tmp_path):
    build = GraphBuilder()
    a, b = build.input("a", (1, 4), DType.INT32), build.input("b", (1, 4), DType.INT32)
    build.output(build.add("ADD", [a, b], output="y"))
    write_tosa(build.finish(), tmp_path / "sum.tosa")
    session = tosaic.InferenceSession(str(tmp_path / "sum.tosa"))
    feed = {"a": np.array([[1, -2, 3, 1 << 30]], np.int32), "b": np.array([[1, 1, 1, 1]], np.int32)}
    assert session.run(None, feed)[0].tolist() == [[2, -1, 4, (1 << 30) + 1]]
    with pytest.raises(
        tosaic.InputError,
        match=r"^input 'b' is tensor\(float\), the model wants tensor\(int32\): give int32$",
    ):
        session.run(None, feed | {"b": np.ones((1, 4), np.float32)})


@pytest.mark.parametrize("batch", [1, "batch"])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_floats_are_refused_with_the_command_that_helps(tmp_path, batch, as_bytes):
    path = tmp_path / "floats.onnx"
    onnx.save(quantized_network(batch, quantized=False), path)
    with pytest.raises(tosaic.UnsupportedError) as raised:
        tosaic.InferenceSession(path.read_bytes() if as_bytes else str(path))
    name = "NET.onnx" if as_bytes else str(path)
    stem = "model" if as_bytes else "floats"
    shape = " --shape batch=1" if batch == "batch" else ""
    assert str(raised.value).endswith(f"tosaic quantize {name} -c calib.npz -o {stem}.tosa{shape}")


def test_the_command_that_helps_works(folder, samples, monkeypatch, capsys):
    onnx.save(quantized_network(quantized=False), "floats.onnx")
    np.savez("calib.npz", x=samples)
    with pytest.raises(tosaic.UnsupportedError) as raised:
        tosaic.InferenceSession("floats.onnx")
    command = str(raised.value)[str(raised.value).index("tosaic quantize") :]
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert not ended.value.code, capsys.readouterr().err
    session = tosaic.InferenceSession("floats.tosa")
    given = np.concatenate([session.run(None, {"x": sample[None]})[0] for sample in samples])
    model = onnx.load("floats.onnx")
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": samples})
    assert given.dtype == np.float32 and np.abs(given - wanted).max() < 0.06 * np.abs(wanted).max()


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
def test_models_of_onnxruntimes_quantizer_give_its_numbers(folder, samples, form, activations):
    runtime = pytest.importorskip("onnxruntime")
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter([{"x": sample[None]} for sample in samples])

        def get_next(self):
            return next(self.left, None)

    onnx.save(quantized_network(quantized=False), "floats.onnx")
    quantization.quantize_static(
        "floats.onnx",
        "quantized.onnx",
        Reader(),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType.QInt8,
    )
    (wanted,) = runtime.InferenceSession("quantized.onnx").run(None, {"x": samples})
    (given,) = tosaic.InferenceSession("quantized.onnx").run(None, {"x": samples})
    assert np.array_equal(given, wanted)


WRONG = {
    "misspelt keyword": (dict(traget="sim"), "a session has no option 'traget'; did you mean target? leave it out"),
    "misspelt option": (
        dict(providers=[("TosaicExecutionProvider", {"confg": "small"})]),
        "TosaicExecutionProvider has no option 'confg'; did you mean config? it has target, config, compress, "
        "memory_bandwidth, memory_latency, max_cycles",
    ),
    "no number": (
        dict(providers=["TosaicExecutionProvider"], provider_options=[{"max_cycles": "many"}]),
        "TosaicExecutionProvider: max_cycles cannot be 'many': give a number",
    ),
    "one text": (
        dict(providers="CPUExecutionProvider"),
        "providers are a list, as ['TosaicExecutionProvider'], and provider_options a list of the same length",
    ),
    "optimizers": (
        dict(disabled_optimizers=["A"]),
        "disabled_optimizers: nothing runs elsewhere and no graph is optimized by name: leave it out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("keywords, message", WRONG.values(), ids=WRONG)
def test_what_a_session_cannot_honour_is_refused(folder, keywords, message):
    with pytest.raises(tosaic.InputError) as raised:
        tosaic.InferenceSession("net.onnx", **keywords)
    assert str(raised.value) == message


def test_options_that_change_results_are_refused(folder):
    options = tosaic.SessionOptions()
    options.optimized_model_filepath = "optimized.onnx"
    with pytest.raises(tosaic.InputError, match="`tosaic compile NET.onnx -o net.tsc` writes the program"):
        tosaic.InferenceSession("net.onnx", options)
    with pytest.raises(tosaic.InputError, match="no entry 'session.disable_quant_qdq' of a configuration"):
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    with pytest.raises(tosaic.InputError, match="initializer 'w' cannot be replaced: save the model with it"):
        options.add_initializer("w", tosaic.OrtValue.ortvalue_from_numpy(np.zeros(3)))
    with pytest.raises(tosaic.InputError, match="'cpu', not 'cuda'"):
        tosaic.OrtValue.ortvalue_from_numpy(np.zeros(3), "cuda", 0)
    with pytest.raises(
        tosaic.InputError, match=r"^sess_options are a tosaic.SessionOptions, not builtins.list$"
    ):
        tosaic.InferenceSession("net.onnx", ["CPUExecutionProvider"])
    session = tosaic.InferenceSession("net.onnx")
    with pytest.raises(tosaic.InputError, match=r"^run_options are a tosaic.RunOptions, not builtins.dict$"):
        session.run(None, {}, {"terminate": True})
    with pytest.raises(tosaic.InputError, match="there is no fallback to enable"):
        session.enable_fallback()


def test_wrong_feeds_name_the_input(samples):
    session = tosaic.InferenceSession("net.onnx")
    cases = {
        r"input 'x' is tensor\(double\), the model wants tensor\(float\): give x.astype\(np.float32\)": samples.astype(
            float
        ),
        r"input 'x' is tensor\(int8\), the model wants tensor\(float\): give x.astype\(np.float32\)": samples.astype(
            np.int8
        ),
        r"input 'x' has shape \[10, 5\], the model wants \['batch', 64\]": samples[:, :5],
        r"input 'x' has values that are not finite; give finite ones": np.full((1, 64), np.nan, np.float32),
    }
    for message, array in cases.items():
        with pytest.raises(tosaic.InputError, match=f"^{message}$"):
            session.run(None, {"x": array})
    with pytest.raises(tosaic.InputError, match=r"^input 'x' is missing: give a tensor\(float\) of shape"):
        session.run(None, {})
    # What the message says works.
    assert session.run(None, {"x": samples.astype(float).astype(np.float32)})[0].shape == (10, 10)
