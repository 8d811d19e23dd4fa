"""The notebooks run from end to end, as plain scripts; `make site` executes them again with their displays."""

import pathlib
import runpy

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "notebooks"


def test_there_are_seven():
    assert len(list(FOLDER.glob("*.py"))) == 7


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_a_notebook_runs(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1]))
    runpy.run_path(str(FOLDER / f"{name}.py"))
