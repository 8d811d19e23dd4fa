"""Subjects of commits tell a story: `area: what changed`, in under 72 characters."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SINCE = "bd7f7b02"
"""The last commit before the rule."""
SUBJECT = re.compile(r"[a-zA-Z0-9_.,/ -]+: \S.{3,}")


def test_new_subjects_name_an_area_and_are_short():
    asked = ("git", "log", "--no-merges", "--format=%s", f"{SINCE}..HEAD")
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the history is not whole here")
    wrong = [line for line in done.stdout.splitlines() if len(line) >= 72 or not SUBJECT.fullmatch(line)]
    assert wrong == []
