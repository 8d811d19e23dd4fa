"""The first command that a stranger types, where Python is too old or missing."""

import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = "3.11"


@pytest.fixture
def clone(tmp_path):
    """A folder with what `make` reads, and `bin` with the only Pythons that it finds."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    return tmp_path


def make(clone, *arguments):
    command, environment = [shutil.which("make"), *arguments], {"PATH": str(clone / "bin")}
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=60)


def python(clone, name, version=None):
    """A Python of this computer, which takes itself for one of `version`."""
    older = f"import sys; sys.version_info = {version!r}; " if version else ""
    path = clone / "bin" / name
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{older}$2"\n')
    path.chmod(0o755)


@pytest.mark.parametrize(
    "goals, others, advice",
    [
        (["demo"], ["python3.13"], "run 'make demo PYTHON=python3.13'"),
        ([], ["python3.11", "python3.14"], "run 'make PYTHON=python3.11'"),
    ],
)
def test_an_old_python_is_told_at_once(clone, goals, others, advice):
    """In one line, whose advice works; nothing is installed."""
    python(clone, "python3", (3, 10, 13, "final", 0))
    for other in others:
        python(clone, other)
    began = time.monotonic()
    done = make(clone, *goals, "PYTHON=python3")
    assert time.monotonic() - began < 2
    wanted = f"Tosaic needs Python {NEEDED} or newer, and python3 is 3.10.13: {advice}"
    assert re.fullmatch(rf"Makefile:\d+: \*\*\* {re.escape(wanted)}\.  Stop\.\n", done.stderr)
    assert (done.returncode, done.stdout, (clone / ".venv").exists()) == (2, "", False)
    again = shlex.split(re.search(r"run '(.*)'", done.stderr)[1])[1:]
    assert make(clone, "-n", *again).returncode == 0


def test_where_no_python_is_new_enough_one_is_to_be_installed(clone):
    done = make(clone, "demo", "PYTHON=python9")
    wanted = (
        f"*** Tosaic needs Python {NEEDED} or newer, and python9 is not there: install one, then run "
        "'make demo PYTHON=python3.11'.  Stop.\n"
    )
    assert done.stderr.endswith(wanted)
    assert done.returncode == 2


def test_a_new_python_installs_where_it_can_be_seen(clone):
    """pip is not silent, and says first that it takes a while."""
    python(clone, "python3")
    commands = make(clone, "-n", "demo", "PYTHON=python3").stdout.splitlines()
    assert commands[0] == 'echo "Installing into .venv, a few minutes, once."'
    assert commands[1] == "python3 -m venv --clear .venv"
    assert commands[2] == ".venv/bin/python -m pip install --disable-pip-version-check -e '.[sim]'"
    assert not re.search(r"pip install.* -q", (ROOT / "Makefile").read_text())


def test_make_asks_for_the_python_that_the_package_does():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={NEEDED}"
    assert f"sys.version_info >= ({NEEDED.replace('.', ', ')})" in (ROOT / "Makefile").read_text()
