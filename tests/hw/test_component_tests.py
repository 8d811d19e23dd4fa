"""Every component of hw/ has a test of its own, or a reason in tests/hw/reasons/FOLDER.txt."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
REASONS = pathlib.Path(__file__).parent / "reasons"


def components() -> set[tuple[str, str]]:
    """(folder in hw/, or "top" for its own files; name) of each class that derives from wiring.Component."""
    classes = [
        (folder, node.name, {ast.unparse(base) for base in node.bases})
        for path in sorted((ROOT / "hw").rglob("*.py"))
        for folder in ["/".join(path.relative_to(ROOT / "hw").parts[:-1]) or "top"]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    bases, count = {"wiring.Component"}, 0
    while count < len(bases):
        count = len(bases)
        bases |= {name for _, name, own in classes if own & bases}
    return {(folder, name) for folder, name, own in classes if own & bases}


def reasons(folder: str) -> dict[str, str]:
    """Lines "Name: one sentence." of the folder's table."""
    path = REASONS / f"{folder}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(": ", 1) for line in lines)


COMPONENTS = components()
FOLDERS = {folder for folder, _ in COMPONENTS}
TESTS = "\n".join(path.read_text() for path in sorted((ROOT / "tests").rglob("*.py")))


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_each_component_is_made_by_a_test_or_has_a_reason(folder: str) -> None:
    own = {name for where, name in COMPONENTS if where == folder}
    untested = {name for name in own if not re.search(rf"\b({name}\(|kept_simulator\({name},)", TESTS)}
    table = reasons(folder)
    assert untested - table.keys() == set(), "no test makes these, and they have no reason"
    assert table.keys() - untested == set(), "these have a test now, or are gone: strike the reason"
    assert all(reason.endswith(".") for reason in table.values())


def test_tables_are_of_folders() -> None:
    assert {path.stem for path in REASONS.glob("*.txt")} <= FOLDERS


def test_a_class_that_derives_from_a_component_is_one() -> None:
    assert {("dma", "DmaUnit"), ("dma", "LoadUnit"), ("cabac", "Engine"), ("top", "SkidBuffer")} <= COMPONENTS
