"""Commits as the pages cite them: with their day."""

import functools
import pathlib
import subprocess

_ROOT = pathlib.Path(__file__).parent.parent


@functools.cache
def dated(commit: str) -> str:
    """`1cdd71b, 2026-11-26`: a commit of the history and its day."""
    asked = ("git", "show", "-s", "--format=%cs", commit)
    day = subprocess.run(asked, cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return f"{commit}, {day}"
