"""Wrong inputs and models: exit code 1 and one line that says what, where and the way out."""

import errno
import os

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor, write_tosa

ON = ("--on", "emulator")


def clamp_graph(shape, **attributes):
    build = GraphBuilder()
    x = build.input("x", shape, DType.INT8)
    build.output(build.add("CLAMP", [x], min_val=-1, max_val=1, nan_mode="PROPAGATE"))
    graph = build.graph
    graph.operators[0].attributes |= attributes
    return graph


def float_graph():
    build = GraphBuilder()
    x = build.input("x", (1, 4), DType.FP32)
    build.output(build.add("ADD", [x, x]))
    return build.finish()


def custom_graph():
    tensors = {name: Tensor(name, (2,), DType.INT8) for name in ("x", "y")}
    attributes = {"operator_name": "fancy", "domain_name": "mine", "implementation_attrs": b""}
    operator = Operator("CUSTOM", ["x"], ["y"], attributes, "CUSTOM_0")
    return Graph("main", ["x"], ["y"], tensors, [operator])


def test_missing_input(refused):
    assert refused("run", "tiny.tosa", *ON) == (
        "input 'image' (int8[1, 8, 8, 1]) is missing: give -i image=FILE.npy, or --random SEED to make it up"
    )


def test_unknown_input_name(refused):
    assert refused("run", "tiny.tosa", "-i", "y=x.npy", *ON) == "the model has no input 'y'; it has 'image'"


def test_input_given_twice(refused):
    assert refused("run", "tiny.tosa", "-i", "image=x.npy", "-i", "x.npy", *ON) == (
        "input 'image' is given twice: give one -i image=FILE.npy"
    )


def test_nameless_input_of_a_model_with_two(refused, here):
    build = GraphBuilder()
    build.output(build.add("ADD", [build.input(name, (2,), DType.INT32) for name in ("a", "b")]))
    write_tosa(build.finish(), here / "two.tosa")
    assert (
        refused("run", "two.tosa", "-i", "x.npy", *ON)
        == "-i x.npy: write NAME=FILE.npy, the model has 2 inputs"
    )


def test_wrong_shape(refused):
    np.save("flat.npy", np.zeros(64, np.int8))
    assert refused("run", "tiny.tosa", "-i", "image=flat.npy", *ON) == (
        "input 'image' has shape [64], the model wants [1, 8, 8, 1]: prepare samples of this shape as for the training"
    )


def test_wrong_dtype(refused):
    np.save("float.npy", np.zeros((1, 8, 8, 1), np.float32))
    assert refused("run", "tiny.tosa", "-i", "image=float.npy", *ON) == (
        "input 'image' has dtype float32, the model wants int8: the file does not say which reals its integers stand "
        "for (there is no .quant.json beside it), give tosaic.quantize(reals, SCALE, ZERO_POINT) with the numbers that "
        "it was quantized with"
    )


@pytest.mark.parametrize("kind", ["text", "empty", "objects", "cut", "archive"])
def test_input_that_is_no_npy_file(refused, here, kind):
    whole = (here / "x.npy").read_bytes()
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("archive.npz", np.load("x.npy"))
    data = {
        "text": b"hello",
        "empty": b"",
        "objects": (here / "objects.npy").read_bytes(),
        "cut": whole[:-3],
        "archive": (here / "archive.npz").read_bytes(),
    }
    (here / "bad.npy").write_bytes(data[kind])
    assert refused("run", "tiny.tosa", "-i", "image=bad.npy", *ON) == (
        "input 'image': bad.npy is not a whole .npy file of numbers: write it with numpy.save"
    )


def test_input_file_that_is_not_there(refused, here):
    assert refused("run", "tiny.tosa", "-i", "image=no.npy", *ON) == (
        "input 'image': no.npy cannot be read: there is no such file; give a .npy file"
    )
    (here / "folder.npy").mkdir()
    assert refused("run", "tiny.tosa", "-i", "image=folder.npy", *ON) == (
        "input 'image': folder.npy cannot be read: it is a directory; give a .npy file"
    )


@pytest.mark.parametrize("verb", [("run", "--random", "1"), ("check",), ("compile", "-o", "x.tsc")])
def test_model_file_that_is_not_there(refused, here, verb):
    (here / "folder.tosa").mkdir()
    way_out = "give a .tosa model or a .tsc program"
    assert refused(*verb, "no.tosa") == f"no.tosa: cannot be read: there is no such file; {way_out}"
    assert refused(*verb, "folder.tosa") == f"folder.tosa: cannot be read: it is a directory; {way_out}"


@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256)) * 4], ids=["empty", "short", "garbage"])
def test_file_that_is_no_tosa_file(refused, here, data):
    (here / "bad.tosa").write_bytes(data)
    assert refused("run", "bad.tosa", "--random", "1") == (
        "bad.tosa: the .tosa data is not a TOSA flatbuffer: bytes 4 to 7 must be 'TOSA'; export or copy the model again"
    )


def test_truncated_model(refused, here):
    data = (here / "tiny.tosa").read_bytes()
    (here / "cut.tosa").write_bytes(data[: len(data) // 2])
    assert refused("run", "cut.tosa", "--random", "1") == (
        f"cut.tosa: malformed .tosa file: a name in block 0 needs bytes 4644 to 4648, the file has {len(data) // 2}; "
        "export or copy the model again"
    )


TORCH = (
    "is a PyTorch file of weights or of Python objects, which has no importer; write the model with "
    "torch.export.save(torch.export.export(module, inputs), FILE.pt2) and give the .pt2 file, or use tosaic.from_torch"
)
KERAS = (
    "is a Keras model, which has no importer; convert it with tf.lite.TFLiteConverter.from_keras_model and give the "
    ".tflite file"
)
SAVED_MODEL = (
    "is a TensorFlow model, which has no importer; convert the SavedModel with "
    "tf.lite.TFLiteConverter.from_saved_model and give the .tflite file"
)
MLIR = (
    "is an MLIR file, which has no importer; write the TOSA dialect as .tosa with the pass tosa-serialize of "
    "tosa-tools, or export the model to ONNX or TFLite"
)
WEIGHTS = "is a file of weights without a network, which has no importer; export the network with its weights to ONNX"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("m.pt", TORCH),
        ("m.pth", TORCH),
        ("m.keras", KERAS),
        ("m.H5", KERAS),
        ("saved/saved_model.pb", SAVED_MODEL),
        ("m.stablehlo", MLIR),
        ("m.safetensors", WEIGHTS),
    ],
)
def test_formats_without_an_importer(refused, here, name, said):
    (here / "saved").mkdir()
    (here / name).write_bytes(bytes(100))
    for verb in (
        ("run", "--random", "1", *ON),
        ("check",),
        ("compile", "-o", "x.tsc"),
        ("import", "-o", "x.tosa"),
    ):
        assert refused(*verb, name) == f"{name}: {said}"
    if name.startswith("saved/"):
        assert refused("run", "saved", *ON) == f"saved: {said}"
        assert refused("import", "saved", "-o", "x.tosa") == f"saved: {said}"


def test_suffix_that_nobody_knows(refused, tosaic, here):
    (here / "m.xyz").write_bytes(bytes(100))
    known = ".mlmodel, .mlmodelc, .mlpackage, .nnef, .nnr, .onnx, .pt2, .tflite, .bz2, .gz, .tar, .tbz2"
    assert refused("check", "m.xyz").startswith(
        f"m.xyz: there is no importer for .xyz; known: .tosa, .tsc, {known}"
    )
    # What says that it is a TOSA file is one, whatever its name.
    (here / "tiny.xyz").write_bytes((here / "tiny.tosa").read_bytes())
    assert tosaic("check", "tiny.xyz").code == 0


@pytest.mark.parametrize(
    ("verb", "name", "suffix"),
    [
        (("quantize", "tiny.tosa", "-c", "x.npy"), "q.onnx", ".tosa"),
        (("import", "m.onnx"), "q.onnx", ".tosa"),
        (("compile", "tiny.tosa"), "q.tosa", ".tsc"),
    ],
)
def test_output_with_the_name_of_another_format(refused, here, verb, name, suffix):
    other = name.replace(".onnx" if suffix == ".tosa" else ".tosa", suffix)
    assert refused(*verb, "-o", name) == (
        f"{name}: cannot be written: this verb writes {suffix} files, not {name[1:]}; name it {other}"
    )
    assert not (here / name).exists()


def test_other_formats(refused):
    assert refused("run", "model.nnef") == (
        "model.nnef: cannot be read: there is no such file; give a model file"
    )
    assert refused("check", "model.tflite") == (
        "model.tflite: cannot be read: there is no such file; give a model file"
    )


@pytest.mark.parametrize("target", ["emulator", "sim"])
def test_float_graph(refused, here, target):
    write_tosa(float_graph(), here / "float.tosa")
    assert refused("run", "float.tosa", "--random", "1", "--on", target) == (
        "tensor 'x' fp32[1, 4] is floating point and Tosaic computes integers: quantize the model to int8 first"
        ": tosaic quantize float.tosa -c calib.npz -o float_int8.tosa"
    )


def test_unsupported_operator(refused, here):
    write_tosa(custom_graph(), here / "odd.tosa")
    assert refused("run", "odd.tosa", "--random", "1", *ON) == (
        "CUSTOM_0: CUSTOM ('y' int8[2]) does not run on the accelerator: 'fancy' of domain 'mine' has no kernel with "
        "tosaic.register_custom(..., traced=True); register one, replace it, or use the target golden"
    )


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_illegal_graph(refused, here, target):
    write_tosa(clamp_graph((1, 4), min_val=5), here / "illegal.tosa")
    assert refused("run", "illegal.tosa", "--random", "1", "--on", target) == (
        "CLAMP_0 ('x' int8[1, 4]): max_val must not be less than min_val; found min_val 5 and max_val 1 "
        "[CLAMP, TOSA 0.30 section 2.4.1]"
    )


def test_tensor_too_large(refused, here):
    write_tosa(clamp_graph((1 << 16, 1 << 15)), here / "large.tosa")
    assert refused("run", "large.tosa", "--random", "1", *ON) == (
        "tensor 'x' int8[65536, 32768]: a tensor must have fewer than 2^31 elements [TOSA 1.0 level 8K]"
    )


def test_tensors_too_large_for_external_memory(refused, here):
    build = GraphBuilder()
    for name in "abcd":
        x = build.input(name, (1 << 15, 1 << 15), DType.INT8)
        build.output(build.add("CLAMP", [x], min_val=-1, max_val=1, nan_mode="PROPAGATE"))
    write_tosa(build.finish(), here / "large.tosa")
    assert refused("compile", "large.tosa", "-o", "x.tsc") == (
        "tensor 'clamp_0' int8[32768, 32768] does not fit the 4 GiB of external memory that instructions address, "
        "beside 0 bytes of constants and 5368709120 bytes of tensors; split the network"
    )


def test_unknown_configuration(refused):
    message = (
        "no configuration is called 'huge'; there are nano, small, base, large, each of which takes other sizes "
        "(base,rows=8), and TOML files"
    )
    for verb in ("run", "check"):
        assert refused(verb, "tiny.tosa", "--config", "huge") == message
    assert refused("verilog", "-o", "out", "--config", "huge") == message
    assert refused("compile", "tiny.tosa", "-o", "x.tsc", "--config", "huge") == message


def test_unknown_target(refused):
    assert refused("run", "tiny.tosa", "--on", "gpu").startswith(
        "there is no target 'gpu'; use one of golden, emulator, sim, cocotb, or a device: serial:///dev/ttyUSB1"
    )


def test_device_uri(refused):
    assert refused("run", "tiny.tosa", "--on", "serial:///dev/x?speed=1") == (
        "serial:///dev/x?speed=1: there is no option 'speed'; serial has baud, flash, selftest, twice, verify"
    )


@pytest.mark.parametrize("option", ["--stats", "--report"])
def test_result_files_that_cannot_be_written(refused, here, option):
    run = ("run", "tiny.tosa", "--random", "1", *ON, option)
    assert refused(*run, "no/file") == "no/file: cannot be written: there is no directory no; make it first"
    assert refused(*run, here) == f"{here}: cannot be written: it is a directory; name a file in it"


def test_program_file_that_cannot_be_written(refused):
    assert refused("compile", "tiny.tosa", "-o", "no/x.tsc") == (
        "no/x.tsc: cannot be written: there is no directory no; make it first"
    )


def test_disk_that_is_full(refused):
    assert refused("compile", "tiny.tosa", "-o", "/dev/full") == (
        "/dev/full: cannot be written: No space left on device; choose another place"
    )


@pytest.mark.parametrize(
    "verb", [("run", "tiny.tosa", "--random", "1", *ON), ("verilog", "--config", "nano")]
)
def test_folder_that_cannot_be_made(refused, verb):
    message = "x.npy: cannot be written: File exists; choose another place"
    assert refused(*verb, "-o", "x.npy") == message


def test_cache_that_cannot_be_made(refused, monkeypatch):
    monkeypatch.setenv("TOSAIC_CACHE", "/dev/null/cache")
    run = ("run", "tiny.tosa", "--random", "1", "--on", "sim", "--config", "nano")
    assert refused(*run) == (
        "the cache of simulators and Verilog in /dev/null/cache cannot be written: Not a directory; set TOSAIC_CACHE "
        "to a directory with room that you may write to"
    )
    assert refused("build", "pynq-z2", "-o", "out").startswith(
        "the cache of simulators and Verilog in /dev/null/cache cannot be written: Not a directory; "
    )


def test_disk_that_is_full_for_temporary_files(refused, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tosaic.driver.session.Session.run", full)
    assert refused("run", "tiny.tosa", "--random", "1", *ON) == (
        "the operating system: No space left on device; free some, or set TMPDIR to a directory with room"
    )


def half_written(path, text, *arguments, **options):
    """Instead of `write_text`: the disk is full after 10 characters."""
    with open(path, "w") as file:
        file.write(text[:10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("option", "file"), [("--report", "r.html"), ("--trace", "t.json"), ("--stats", "s.json")]
)
def test_result_file_on_a_disk_that_is_full(refused, here, monkeypatch, option, file):
    run = ("run", "tiny.tosa", "--random", "1", *ON, option, file)
    before = sorted(here.iterdir())
    monkeypatch.setattr("pathlib.Path.write_text", half_written)
    assert refused(*run) == f"{file}: cannot be written: No space left on device; choose another place"
    assert sorted(here.iterdir()) == before


def test_result_file_of_before_stays_when_the_disk_is_full(refused, here, monkeypatch):
    (here / "r.html").write_text("of before")
    monkeypatch.setattr("pathlib.Path.write_text", half_written)
    refused("run", "tiny.tosa", "--random", "1", *ON, "--report", "r.html")
    assert (here / "r.html").read_text() == "of before"


def test_result_file_that_is_a_link(tosaic, here):
    (here / "real.json").write_text("{}")
    (here / "link.json").symlink_to("real.json")
    assert tosaic("run", "tiny.tosa", "--random", "1", *ON, "--stats", "link.json").code == 0
    assert (here / "link.json").is_symlink()
    assert '"cycles"' in (here / "real.json").read_text()


def test_too_little_memory(refused, monkeypatch):
    def memory(program):
        raise MemoryError

    monkeypatch.setattr("tosaic.compiler.program.Program.memory", memory)
    assert refused("run", "tiny.tosa", "--random", "1", *ON) == (
        "this machine has too little memory for the run; use a smaller model or a machine with more"
    )


def test_verbose_adds_the_traceback(tosaic):
    outcome = tosaic("run", "no.tosa", "--verbose")
    assert outcome.code == 1
    assert outcome.err.startswith("Traceback (most recent call last):\n")
    assert outcome.err.splitlines()[-1].startswith("tosaic: error: no.tosa: cannot be read")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument '{model}'; see `tosaic run --help`"),
        (
            ["compile", "tiny.tosa"],
            "Invalid value: give -o FILE.tsc (or .c, .h), --explain or --explain-graph, or several; see "
            "`tosaic compile --help`",
        ),
        (
            ["run", "tiny.tosa", "--layers"],
            "Invalid value: --layers compares with golden: give --check too; see `tosaic run --help`",
        ),
        (
            ["demo", "--images", "0"],
            "Invalid value: --images must be in 1..450, not 0; see `tosaic demo --help`",
        ),
        (
            ["demo", "--on", "golden"],
            "Invalid value: the demo measures cycles, which golden has not: use --on sim or --on emulator; "
            "see `tosaic demo --help`",
        ),
    ],
)
def test_usage(refused, arguments, message):
    # The word for an argument is typer's and differs between its versions.
    got = refused(*arguments, code=2)
    assert got.lower().replace("{", "").replace("}", "") == message.lower().replace("{", "").replace("}", "")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "tiny.tosa", "--random", "-1"], "--random"),
        (["run", "tiny.tosa", "--memory-bandwidth", "0"], "--memory-bandwidth"),
        (["run", "tiny.tosa", "--memory-latency", "-1"], "--memory-latency"),
        (["run", "tiny.tosa", "--memory-latency", "x"], "--memory-latency"),
        (["run", "tiny.tosa", "--nope"], "--nope"),
        (["nope"], "nope"),
    ],
)
def test_usage_in_the_words_of_typer(refused, arguments, option):
    message = refused(*arguments, code=2)
    assert option in message
    assert message.endswith("--help`")


def test_a_compiler_that_is_not_there_is_told_before_the_verilog_is_made(refused, here, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TOSAIC_SIMULATOR", "native")
    monkeypatch.setenv("TOSAIC_CACHE", str(here / "cache"))
    assert refused("run", "tiny.tosa", "-i", "image=x.npy", "--on", "sim", "--config", "nano") == (
        "the target sim needs no-such-compiler, which is not there; install a C++ compiler or set CXX"
    )
    assert not list((here / "cache").rglob("*.v"))
