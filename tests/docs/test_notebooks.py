"""The notebooks run from end to end and hold their outputs; `make site` executes them again with their displays."""

import json
import os
import pathlib

import pytest

from tosaic.boards.catalogue import BOARDS

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells(name: str) -> list[dict]:
    found = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_there_are_seven() -> None:
    assert len(NOTEBOOKS) == 7


@pytest.mark.nightly
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    if name == "pytorch":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1]))
    monkeypatch.setitem(os.environ, "TMPDIR", str(tmp_path))
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in cells(name):
        exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), names)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_what_it_printed(name: str) -> None:
    """It has no errors and no paths of whoever executed it; the last cell of each shows something."""
    code = cells(name)
    assert code[-1]["outputs"] and all(cell["execution_count"] for cell in code)
    outputs = json.dumps([cell["outputs"] for cell in code])
    assert '"output_type": "error"' not in outputs
    assert [word for word in ("/tmp/", "/home/", "/root/", "/work/") if word in outputs] == []


def test_a_notebook_lists_every_board() -> None:
    """One that was executed before the last board came tells of fewer."""
    printed = json.dumps([cell["outputs"] for cell in cells("no_board")])
    assert [name for name in BOARDS if name not in printed] == []
