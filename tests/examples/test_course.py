"""The course's tests grade: they fail for each lab as it is handed out, and pass with the solutions."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from rest_nightly import first_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
LABS = ROOT / "examples/course"
SOLUTIONS = pathlib.Path(__file__).parent / "course_solutions"


def graded(folder, lab):
    """Names of the tests that passed and that failed."""
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", str(LABS)]
    done = subprocess.run(
        [*command, "-k", lab],
        cwd=ROOT,
        env={**os.environ, "COURSE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    named = r"^{} \S+::(test_\w+(?:\[\w+\])?)"
    return tuple(re.findall(named.format(word), done.stdout, re.M) for word in ("PASSED", "FAILED"))


@pytest.mark.parametrize(("lab", "tests"), first_of([("lab1", 4), ("lab2", 4), ("lab3", 2)], 1))
def test_the_labs_are_graded(lab, tests):
    passed, failed = graded(SOLUTIONS, lab)
    assert (len(passed), failed) == (tests, [])
    assert graded(LABS, lab) == ([], passed)


@pytest.mark.nightly
@pytest.mark.xdist_group("nano")
def test_the_commands_that_the_labs_name_run(tmp_path):
    """Those in the texts of the labs, but the grading; NET.tosa is a network of the reader's."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copyfile(ROOT / "examples/digits/digits_tiny.tosa", tmp_path / "NET.tosa")
    texts = [ast.get_docstring(ast.parse(lab.read_text())) for lab in sorted(LABS.glob("lab*.py"))]
    commands = re.findall(r"`((?:python examples/|tosaic )[^`]+)`", "\n".join(filter(None, texts)))
    assert [command.split()[:2] for command in commands] == [
        ["python", "examples/course/lab2.py"], ["tosaic", "run"], ["tosaic", "run"], ["tosaic", "configs"]
    ]  # fmt: skip
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        done = subprocess.run(
            command.split(),
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
    assert {"lab2.vcd", "r.html"} <= {file.name for file in tmp_path.iterdir()}
