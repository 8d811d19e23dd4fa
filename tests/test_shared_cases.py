"""Each case of an examination, kept outside the project with its right value, has a test: here, or where `TESTED` says.

This file has what no other one has: files through the command line, scripts of boards, cycles.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from shared_files import ABSENT, SHARED

import tosaic
from tosaic.cli import app
from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.models import open_model
from tosaic.driver.quantize import load_samples, measure, quantize_graph
from tosaic.hw.config_text import get_config
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.packages import verilator_root

TESTS = pathlib.Path(__file__).resolve().parent
CASES = SHARED / "cases"
DIGITS = TESTS.parent / "examples" / "digits" / "digits_tiny.tosa"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=ABSENT)

TESTED = {
    "quantizer/test_encoded_inputs.py": (
        "int8_in_conv_zp-1 uint8_in_conv_zp0 ids_embedding_layernorm bool_mask_softmax qdq_scales_as_constant_nodes "
        "qdq_contrib_16bit int8_output_sigmoid int8_maxpool_between_pair a16w16_conv"
    ),
    "quantizer/test_encoded_spellings.py": "ort_qint16_default",
    "quantizer/test_quantizer_one_channel.py": "linear1_attention_pooling one_channel_exp",
    "quantizer/test_quantizer_masks.py": "mask_mul_float_min mask_mul_1e9 cast_mask_equal_one",
    "quantizer/test_quantizer_output_parts.py": "yolo_boxes_and_scores",
    "importers/test_onnx_functions.py": "sparse_initializer function_other_opset",
    "importers/test_onnx_microsoft.py": "tensorscatter matmulnbits",
    "importers/test_tflite_operators.py": "tanh_int8_scale_1_256",
    "ir/test_newer_files.py": "version_1_7",
    "pytorch/test_hostile_pt2_files.py": "weights.pt2 opaque.pt2",
    "cli/test_cli_run.py": "chain_407",
    "cli/test_cli_damaged_files.py": "unclosed_header member_no_array deep.toml nan_scale",
    "cli/test_cli_shared_cases.py": "open_batch dict_outputs nhwc_int8",
    "rtl/test_rtl_unsafe_programs.py": "self_modify_next uninit_register endless",
    "contributing/test_house_patches.py": "pure_refactor_2 pure_refactor_3 abs_difference",
    "test_shared_cases.py": (
        "attention_512_mixed_heads instancenorm_1000 m.quant.json uio_alignment round_trips lint_wishbone timescale "
        "gated_64x4864 turned_224 matmul_const_cast diff_axis0"
    ),
}
"""Words that tests have of their cases, by the test's file."""
COMPARED = ("matmul_plain.tosa",)
"""What another case is compared with."""


def rows() -> dict[str, str]:
    """What each row of the table says is right, by the files that it names; tools that make files are left out."""
    found = {}
    for line in (CASES / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2 and "/" in cells[0]:
            names = re.findall(r"[\w-][\w/.-]*\.\w+", cells[0])
            found |= {name.rpartition("/")[2]: cells[1] for name in names if "make_" not in name}
    return found


def test_every_case_has_a_test():
    words = {word: file for file, listed in TESTED.items() for word in listed.split()}
    untested = [name for name in rows() if name not in COMPARED and not any(word in name for word in words)]
    assert not untested, "write a test of each, and name it in TESTED"
    assert len(rows()) >= 50
    here = pathlib.Path(__file__).name
    missing = [
        f"{word} in {file}"
        for word, file in words.items()
        if not (TESTS / file).is_file() or (TESTS / file).read_text().count(word) <= (file == here)
    ]
    assert not missing


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function run(*arguments) -> (exit code, stdout, stderr) of `tosaic` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tosaic", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        output = capsys.readouterr()
        return ended.value.code or 0, output.out, output.err

    return call


def test_numbers_that_a_file_of_encodings_cannot_have(run):
    shutil.copy(DIGITS, "m.tosa")
    shutil.copy(CASES / "files" / "m.quant.json", ".")
    code, _, err = run("run", "m.tosa", "--on", "golden", "--random", 1)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("tosaic: error: m.quant.json: ")


# --- numbers ------------------------------------------------------------------------------------------------------


def held_out_db(name: str, most: int | None = None, **options: str) -> float:
    """SQNR of a case's output on its test samples, or on the first of them, quantized with its calibration."""
    graph = open_model(str(CASES / "numerics" / f"{name}.onnx"))
    known, fresh = (load_samples(CASES / "numerics" / f"{name}_{part}.npz") for part in ("cal", "test"))
    fresh = {key: values[:most] for key, values in fresh.items() if key in graph.inputs}
    measured = measure(quantize_graph(graph, known, **options), held_out=fresh)
    return min(output.sqnr_db for output in measured.outputs)


def test_a_norm_of_channels_of_many_sizes():
    """16 bits are not below 8, whose limit is 32.8 dB."""
    narrow, wide = (held_out_db("instancenorm_1000", activations=kind) for kind in ("int8", "int16"))
    assert narrow > 30
    assert wide > narrow


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({}, 24),
        ({"activations": "int16"}, 40),
        ({"activations": "int16", "weights": "int16"}, 40),
    ],
)
def test_attention_of_flat_and_peaky_heads(options, least):
    assert held_out_db("attention_512_mixed_heads", 1, **options) >= least


# --- boards -------------------------------------------------------------------------------------------------------


def told(script: str, *arguments: str) -> str:
    """What a script of the cases prints."""
    command = [sys.executable, str(CASES / "boards" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def test_device_memory_is_touched_in_words():
    lines = told("uio_alignment.py").splitlines()
    assert lines[0] == "bulk copies: 0 []"
    assert lines[1].startswith("second opening: refused: ")


@pytest.mark.xdist_group("nano")
def test_round_trips_of_an_inference():
    simulator_library(get_config("nano"))
    assert int(told("round_trips.py", str(DIGITS)).split()[-1]) <= 12


@pytest.fixture
def linted(run):
    """A function linted(command, *options) -> what it says of what `tosaic verilog` writes with `options`."""
    tools = os.environ | {"PATH": f"{verilator_root() / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def call(command, *options):
        assert run("verilog", "--config", "nano", *options, "-o", "out")[0] == 0
        subprocess.run(["verilator", "--version"], env=tools, capture_output=True, check=True)
        done = subprocess.run(command, cwd="out", env=tools, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    return call


@pytest.mark.long
@pytest.mark.nightly
def test_the_wishbone_core_has_no_warnings(linted):
    assert linted(["bash", CASES / "boards" / "lint_wishbone.sh"], "--wishbone") == "0\n"


@pytest.mark.long
@pytest.mark.nightly
def test_no_file_lacks_a_time_scale_that_others_have(linted):
    """timescale.txt: 95 errors of slang, and as many TIMESCALEMOD of Verilator."""
    flags = ["--lint-only", "--timing", "-Wall", "-Wno-fatal", "--top-module", "tosaic_bench"]
    said = linted(["verilator", *flags, "-f", "tosaic.f", "tosaic_bench.v"])
    assert "TIMESCALEMOD" not in said and "%Error" not in said


# --- cycles -------------------------------------------------------------------------------------------------------


def cycles(model) -> int:
    """Cycles of one run on `base`, whose outputs are golden's."""
    session = tosaic.Session(model, "emulator")
    random = np.random.default_rng(1)
    feeds = {
        each.name: random.integers(each.type.min, each.type.max, each.shape, endpoint=True, dtype=each.numpy)
        for each in session.inputs
    }
    session.run(feeds, check=True)
    return session.stats["cycles"]


@pytest.mark.long
def test_a_gate_with_a_scale_for_each_channel_costs_its_micro_operations():
    assert cycles(CASES / "performance" / "gated_64x4864.tosa") <= 1.25 * 77_824


@pytest.mark.long
def test_planes_to_channels_last_cost_the_bus():
    assert cycles(CASES / "performance" / "turned_224.tosa") <= 2 * 18_816


def test_a_cast_of_a_constant_costs_nothing():
    cast, plain = (
        cycles(CASES / "performance" / name) for name in ("matmul_const_cast.tosa", "matmul_plain.tosa")
    )
    assert cast == plain


def differences(axis: int) -> Graph:
    """Returns the graph of diff_axis0.tosa, along any axis of [64, 128] results."""
    build, shape = GraphBuilder(), [64, 128]
    build.input("x", tuple(size + (i == axis) for i, size in enumerate(shape)), DType.INT32)
    sizes = build.constant(np.array(shape), DType.SHAPE)
    starts = (np.eye(2, dtype=int)[axis], np.zeros(2, int))
    parts = [build.add("SLICE", ["x", build.constant(start, DType.SHAPE), sizes]) for start in starts]
    build.output(build.add("SUB", parts, output="y"))
    return build.finish()


def test_differences_of_whole_rows_are_one_layer():
    rows = cycles(CASES / "performance" / "diff_axis0.tosa")
    assert rows == cycles(differences(0))
    assert rows <= 8_418


def test_differences_along_the_last_axis_cost_little_more():
    assert cycles(differences(1)) <= 1.1 * cycles(differences(0))
