"""The networks of the tables can be made again: `bench/mlperf_tiny.py` and `bench/mobilenet_v2.py`."""

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from shared_files import SHARED, present

import tosaic

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINED = "benchmark/training/{}/trained_models/{}.tflite"
SOURCES = {
    "ic_resnet8": TRAINED.format("image_classification", "pretrainedResnet_quant"),
    "vww_mobilenet": TRAINED.format("visual_wake_words", "vww_96_int8"),
    "kws_dscnn": TRAINED.format("keyword_spotting", "kws_ref_model"),
    "ad_autoencoder": TRAINED.format("anomaly_detection", "ad01_int8"),
    "sww_dscnn1d": TRAINED.format("streaming_wakeword", "str_ww_ref_model"),
    "ic_resnet_large": TRAINED.format("image_classification", "pretrainedResnet_large_int8"),
}
"""Paths in the repository of MLPerf Tiny; those of `shared` are copies of these files, byte for byte."""


def script(name, *words):
    command = [sys.executable, str(ROOT / "bench" / name), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_files_are_those_of_shared_byte_for_byte(tmp_path):
    for name, path in SOURCES.items():
        (tmp_path / "tiny" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(present(SHARED / "models" / name / "model.tflite"), tmp_path / "tiny" / path)
    done = script("mlperf_tiny.py", tmp_path / "tiny", "-o", tmp_path / "my models")
    assert done.returncode == 0, done.stderr
    made = {path.parent.name: path.read_bytes() for path in tmp_path.glob("my models/*/model.tosa")}
    assert made.keys() == {*SOURCES, "mbv2_100_224"}
    for name in SOURCES:
        assert made[name] == (SHARED / "models" / name / "model.tosa").read_bytes(), name


def test_another_file_is_refused(tmp_path):
    path = tmp_path / SOURCES["ic_resnet8"]
    done = script("mlperf_tiny.py", tmp_path, "-o", tmp_path / "models")
    told = f"mlperf_tiny.py: error: {path} is missing: give the folder of `git clone https://github.com/mlcommons/tiny`"
    assert (done.returncode, done.stderr.splitlines()) == (1, [told])
    path.parent.mkdir(parents=True)
    path.write_bytes(b"another")
    done = script("mlperf_tiny.py", tmp_path, "-o", tmp_path / "models")
    assert (done.returncode, done.stdout) == (1, "")
    way_out = "not 3c002613d1b2475e...: check out commit 1afd2c9820f795965a6134facd0b4dfae41ef23f"
    told = f"mlperf_tiny.py: error: {path} has SHA-256 ae448ac86c4e8e4d..., {way_out}"
    assert done.stderr.splitlines() == [told]


@pytest.mark.nightly
def test_mobilenet_of_the_script_has_the_cycles_of_the_table(tmp_path):
    """To 0.1 %: a few boxes depend on how wide the biases are."""
    assert script("mobilenet_v2.py", tmp_path / "net.tosa").returncode == 0
    row = re.search(
        r"^\| MobileNetV2-1\.0-224 \(([\d,]+)\) \| [\d,]+ \| ([\d,]+) \| ([\d,]+)",
        (ROOT / "README.md").read_text(),
        re.M,
    )
    macs, *cycles = (int(each.replace(",", "")) for each in row.groups())
    for bandwidth, said in zip((16, 8), cycles, strict=True):
        session = tosaic.Session(tmp_path / "net.tosa", "emulator", "base", memory_bandwidth=bandwidth)
        (image,) = session.inputs
        session.run({image.name: np.zeros(image.shape, image.numpy)})
        assert session.stats["macs"] == macs
        assert abs(session.stats["cycles"] / said - 1) < 1e-3


@pytest.mark.parametrize("page", ["README.md", "docs/performance.md"])
def test_the_tables_say_where_their_networks_are_from(page):
    """Under the table of networks, before the next heading."""
    text = (ROOT / page).read_text()
    table = text.index("MobileNetV2-1.0-224 (" if page == "README.md" else "| mbv2_100_224 |")
    below = text[table : text.index("\n## ", table)]
    assert "`python bench/mlperf_tiny.py" in below


def test_resnet50_takes_a_stage_and_a_seed(tmp_path):
    """The file is the same whenever it is made."""
    files = [tmp_path / name for name in ("a.tosa", "b.tosa", "c.tosa")]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        assert script("resnet50.py", file, "--stage", "2", "--seed", str(seed)).returncode == 0
    same, again, other = (file.read_bytes() for file in files)
    assert same == again != other
