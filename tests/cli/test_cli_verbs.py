"""The other verbs: check, configs, verilog, demo, --version."""

import importlib.metadata
import pathlib
import re

import pytest

from tosaic.compiler.ir import DType, GraphBuilder, Operator, Tensor, write_tosa
from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_doc import csr_markdown


def test_version(tosaic):
    outcome = tosaic("--version")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"tosaic {importlib.metadata.version('tosaic')}\n"


def test_help_without_arguments(tosaic):
    outcome = tosaic()
    assert outcome.code == 0
    assert outcome.out.startswith("Usage: ")
    assert all(verb in outcome.out for verb in ("run", "compile", "check", "verilog", "targets", "demo"))


def test_configs(tosaic):
    outcome = tosaic("configs")
    assert outcome.code == 0
    head, *rows = outcome.out.splitlines()
    assert head.split() == ["name", "array", "MAC/cycle", "activations", "weights", "bus", "decoders"]
    assert [row.split()[0] for row in rows] == list(CONFIGS)
    base = [
        "base",
        "16x16",
        "256",
        "256",
        "KiB",
        "128",
        "KiB",
        "128",
        "bit",
        "NNR,",
        "1",
        "engine;",
        "unpacker",
    ]
    assert rows[2].split() == base
    assert rows[0].split()[-1] == "none"


@pytest.mark.parametrize("config", CONFIGS)
def test_check_of_a_model_that_runs(tosaic, config):
    outcome = tosaic("check", "tiny.tosa", "--config", config)
    verdict, *rows, total, following = outcome.out.splitlines()
    assert outcome.code == 0
    assert verdict == f"yes: all {len(rows)} operators of tiny.tosa run on {config}"
    assert total == f"{len(rows)} of {len(rows)} operators run on {config}"
    assert all(row.startswith("ok ") for row in rows)
    assert following == f"next: tosaic run tiny.tosa --config {config} --random 1 --check"


def test_sizes_of_the_configuration(tosaic, refused, here):
    (here / "mine.toml").write_text('base = "small"\nrows = 5\n')
    for chosen in (
        ("--config", "small", "--set", "rows=5"),
        ("--config", "mine.toml"),
        ("--config", "small,rows=5"),
    ):
        outcome = tosaic("check", "tiny.tosa", *chosen)
        assert outcome.out.splitlines()[-2].endswith(" operators run on small,rows=5")
    outcome = tosaic(
        "run", "tiny.tosa", "--random", "1", "--on", "emulator", "--check", "--set", "am_bytes=64K"
    )
    assert outcome.code == 0
    assert "on base,am_bytes=65536 (emulator)" in outcome.out
    assert refused("run", "tiny.tosa", "--set", "rows=20") == "rows must be at most columns (16), not 20"


def test_check_of_a_model_that_does_not(tosaic, here):
    build = GraphBuilder()
    x = build.add(
        "CLAMP", [build.input("x", (1, 2, 5), DType.INT8)], min_val=0, max_val=5, nan_mode="PROPAGATE"
    )
    graph = build.graph
    graph.tensors["y"] = Tensor("y", (1, 2, 5), DType.INT8)
    attributes = {"operator_name": "fancy", "domain_name": "mine", "implementation_attrs": b""}
    graph.operators.append(Operator("CUSTOM", [x], ["y"], attributes, "CUSTOM_1"))
    build.output("y")
    write_tosa(build.finish(), here / "half.tosa")
    outcome = tosaic("check", "half.tosa")
    assert (outcome.code, outcome.err) == (1, "")
    assert [" ".join(line.split()) for line in outcome.out.splitlines()] == [
        "no: 1 of 2 operators of half.tosa do not run on base",
        "ok CLAMP_0 'clamp_0' int8[1, 2, 5] runs on the accelerator: vector unit",
        "NO CUSTOM_1 'y' int8[1, 2, 5] CUSTOM ('y' int8[1, 2, 5]) does not run on the accelerator: 'fancy' of domain "
        "'mine' has no kernel with tosaic.register_custom(..., traced=True); register one, replace it, or use the "
        "target golden",
        "1 of 2 operators run on base",
    ]


def test_check_of_a_float_model(tosaic, here):
    build = GraphBuilder()
    x = build.input("x", (1, 4), DType.FP32)
    build.output(build.add("ADD", [x, x]))
    write_tosa(build.finish(), here / "float.tosa")
    outcome = tosaic("check", "float.tosa")
    assert outcome.code == 0
    verdict, first, *_ = outcome.out.splitlines()
    assert verdict.startswith("yes, once quantized: 1 layers run on base, ")
    assert verdict.endswith("; next: tosaic quantize float.tosa -c CALIB.npz -o OUT.tosa")
    assert first.endswith("quantize the model to int8 first")


def test_check_of_a_quantized_model_tells_why_it_has_no_integers(tosaic, here):
    """16 bits with a zero point: neither the verdict nor the refusal sends anybody to quantize it."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    nodes = [
        helper.make_node(f"{kind}Linear", [x, "s", "z"], [y], y)
        for kind, x, y in (("Quantize", "x", "q"), ("Dequantize", "q", "y"))
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    constants = [
        helper.make_tensor("s", onnx.TensorProto.FLOAT, [], [0.001]),
        helper.make_tensor("z", onnx.TensorProto.INT16, [], [-11000]),
    ]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), here / "q.onnx"
    )
    reason = (
        "q.onnx: QuantizeLinear 'q' (tensor 'x'): its zero point 'z' is -11000, and integers of 16 bits have 0 here; "
        "quantize with symmetric activations (ONNX Runtime: extra_options={'ActivationSymmetric': True}), or give it "
        "to tosaic quantize --activations int16"
    )
    outcome = tosaic("check", "q.onnx")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (1, f"NO  {reason}")
    assert "quantize the model to int8 first" not in outcome.out
    outcome = tosaic("run", "q.onnx", "--random", "1", "--on", "emulator")
    assert (outcome.code, outcome.err) == (1, f"tosaic: error: {reason}\n")
    outcome = tosaic("import", "q.onnx", "-o", "q.tosa")
    assert (outcome.code, outcome.err) == (0, f"tosaic: warning: {reason}; the TOSA file is in floats\n")


def test_verilog(tosaic, here):
    outcome = tosaic("verilog", "-o", "out", "--config", "nano")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("out/tosaic.f: ")
    assert outcome.out.endswith(
        " lines, configuration nano, top module tosaic\n"
        "next: tosaic verilog --config nano --network MODEL.tosa -o out\n"
    )
    assert (here / "out" / "registers.md").read_text() == csr_markdown()
    names = (here / "out" / "tosaic.f").read_text().split()
    assert all((here / "out" / name).exists() for name in names)


@pytest.mark.nightly
def test_verilog_tells_how_to_run_its_bench(tosaic, here):
    """As the tutorial does."""
    outcome = tosaic("verilog", "-o", "out", "--config", "nano", "--network", "tiny.tosa")
    tutorial = (pathlib.Path(__file__).parents[2] / "docs/tutorial.md").read_text()
    (command,) = re.findall(r"^cd out && iverilog .*", tutorial, re.M)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, f"next: {command}")


def test_demo(tosaic, here):
    outcome = tosaic("demo", "--on", "emulator", "--images", "20")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert "bit-exact: all 20 outputs equal the golden model" in lines
    assert "accuracy 20/20 = 100.0% on the held-out images shown" in lines
    assert lines[-2:] == ["report: report.html", "next: tosaic check YOUR_MODEL.onnx"]
    assert (here / "report.html").read_text().startswith("<!doctype html>")
