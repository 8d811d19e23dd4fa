"""Figures of the documents: cited commits are in the history, and README's cycles are those of today's compiler."""

import pathlib
import re
import subprocess

import numpy as np
import pytest
from rest_nightly import first_of
from shared_files import SHARED, present

import tosaic

ROOT = pathlib.Path(__file__).parents[2]
MODELS = SHARED / "models"
COMMIT = re.compile(r"(?<![\w.#/-])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,10}(?![\w-])")
RECORDS = ("bench/zoo/records.jsonl", "bench/boards.csv", "docs/records/campaigns.jsonl")
ROW = re.compile(
    r"^\| (?P<name>[^|]+) \((?P<macs>[\d,]+)\) \| [\d,]+ \| (?P<at_16>[\d,]+) \| (?P<at_8>[\d,]+) \|", re.M
)
FOLDERS = {
    "ResNet-8": "ic_resnet8",
    "VWW MobileNetV1-0.25": "vww_mobilenet",
    "KWS DS-CNN": "kws_dscnn",
    "AD auto-encoder": "ad_autoencoder",
    "streaming wakeword": "sww_dscnn1d",
    "ResNet-8 with 40/80/160 channels": "ic_resnet_large",
    "MobileNetV2-1.0-224": "mbv2_100_224",
}
ROWS = {row["name"]: row for row in ROW.finditer((ROOT / "README.md").read_text())}


def git(*words):
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_commit_that_is_cited_is_in_the_history():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("the history is not whole here")
    history = git("rev-list", "HEAD").stdout.split()
    known = {commit[:length] for commit in history for length in range(7, 11)}
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / name for name in RECORDS)]
    cited = {
        (str(page.relative_to(ROOT)), word) for page in pages for word in COMMIT.findall(page.read_text())
    }
    assert len(cited) > 20
    assert sorted((page, word) for page, word in cited if word not in known) == []


def test_readme_has_a_row_of_each_network():
    assert ROWS.keys() == FOLDERS.keys()


@pytest.mark.parametrize("name", first_of(FOLDERS, 6))
def test_cycles_of_readme_are_those_of_today(name):
    row = ROWS[name]
    for bandwidth, said in ((16, row["at_16"]), (8, row["at_8"])):
        assert f"{cycles(FOLDERS[name], bandwidth, said_macs=row['macs']):,}" == said


def test_cycles_without_dead_channels():
    at_16, at_8, macs = re.search(
        r"\(`-O2`\) VWW takes ([\d,]+) and ([\d,]+) cycles for ([\d,]+) multiplications",
        (ROOT / "README.md").read_text(),
    ).groups()
    for bandwidth, said in ((16, at_16), (8, at_8)):
        found = cycles("vww_mobilenet", bandwidth, said_macs=macs, drop_dead_channels=True)
        assert f"{found:,}" == said


def cycles(folder, bandwidth, said_macs, **options):
    present(
        MODELS / folder / "layers.json"
    )  # Not a file of `bench/mlperf_tiny.py`, which has another MobileNetV2.
    session = tosaic.Session(
        MODELS / folder / "model.tosa",
        target="emulator",
        config="base",
        memory_bandwidth=bandwidth,
        **options,
    )
    (argument,) = session.inputs
    session.run({argument.name: np.zeros(argument.shape, argument.numpy)})
    assert f"{session.stats['macs']:,}" == said_macs
    return session.stats["cycles"]
