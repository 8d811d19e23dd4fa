"""Changes of an examination that keep every program and prediction keep the tests green, and a new operator needs no
record written again."""

import os
import pathlib
import subprocess
import sys

import pytest
from shared_files import ABSENT, SHARED

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOUSE = SHARED / "cases" / "house"
HERE = pathlib.Path(__file__).parent
PORTED = {
    "pure_refactor_2.patch": HERE / "house/pure_refactor_2.patch",
    "pure_refactor_3.patch": HERE / "house/pure_refactor_3.patch",
    "abs_difference.patch": HERE / "operator.patch",
}
"""The same changes of today's lines, where those of the examination have moved."""
sys.path.append(str(ROOT / "bench"))

import contributing  # noqa: E402 (the path comes first)

PATCHES = {
    "pure_refactor_2.patch": [
        "tests/plans",
        "tests/compiler",
        "tests/test_cycles.py",
        "tests/test_explained.py",
    ],
    "pure_refactor_3.patch": [
        "tests/plans",
        "tests/compiler",
        "tests/test_cycles.py",
        "tests/test_explained.py",
    ],
    "abs_difference.patch": ["tests/random_graphs", "tests/test_cycles.py"],
}
pytestmark = pytest.mark.skipif(not HOUSE.is_dir(), reason=ABSENT)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PATCHES)
def test_a_change_that_keeps_what_was_there_fails_no_test(name, tmp_path):
    folder = tmp_path / "repository"
    contributing.copy_repository(folder)
    patch = PORTED.get(name, HOUSE / name)
    applied = subprocess.run(
        ["git", "apply", str(patch)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (applied.returncode, applied.stderr) == (0, "")
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-n", "0", *PATCHES[name]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
