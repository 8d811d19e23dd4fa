"""The course's tests grade: they fail for each lab as it is handed out, and pass with the solutions."""

import os
import pathlib
import re
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
