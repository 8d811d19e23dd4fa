"""CONTRIBUTING.md's paths are patches: the page is made of them, they apply, and what they add works."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import contributing  # noqa: E402 (the path comes first)


def test_the_page_is_made_of_the_patches():
    """`python bench/contributing.py` writes it."""
    page = contributing.PAGE.read_text()
    assert contributing.page(page) == page


@pytest.mark.parametrize("name", contributing.NAMES)
def test_a_patch_applies_and_tells_of_each_of_its_files(name):
    """CONTRIBUTING.md says how a patch is written again."""
    asked = ["git", "apply", "--check", str(contributing.patch_file(name))]
    checked = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    path = contributing.read_path(name)
    assert set(path.steps) - set(contributing.LEFT_OUT) == set(path.files)
    assert path.commands


def test_an_operator_touches_few_files():
    """What it needs beside its row of the table, its kernel and its translation are documents and oracles."""
    assert len(contributing.read_path("operator").files) <= 9


@pytest.mark.nightly
@pytest.mark.parametrize("name", contributing.NAMES)
def test_what_a_patch_adds_works(name, tmp_path):
    folder = tmp_path / "repository"
    contributing.try_patch(name, folder)
    assert not list(folder.rglob("*.rej"))
    bin_folder = pathlib.Path(sys.executable).parent
    environment = os.environ | {"PYTHONPATH": str(folder), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    path = contributing.read_path(name)
    sources = " ".join(file for file in path.files if file.endswith(".py"))
    for command in (f"ruff check {sources}", f"ruff format --check {sources}", *path.commands):
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}{done.stderr[-2000:]}"
