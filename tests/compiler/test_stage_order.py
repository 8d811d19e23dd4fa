"""The compiler's stages go one way: none imports a later one, and only `emit` and `schedule` make instructions."""

import ast
import pathlib

import pytest

COMPILER = pathlib.Path(__file__).parents[2] / "compiler"
STAGES = ("legalize", "fuse", "place", "tile", "emit", "schedule")
MAKERS = ("make", "encode")
"""Functions of the instruction set that make instructions."""


def imported(path: pathlib.Path) -> list[tuple[str, str]]:
    """(module, name) of everything that a file imports from the project, wherever it stands in the file."""
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    ]


def stage_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["tosaic", "compiler"] and len(parts) > 2 and parts[2] in STAGES else None


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_imports_a_later_one(stage: str) -> None:
    later = STAGES[STAGES.index(stage) + 1 :]
    wrong = [
        f"{path.relative_to(COMPILER)} imports {module}"
        for path in sorted((COMPILER / stage).rglob("*.py"))
        for module, name in imported(path)
        if stage_of(module) in later or (module == "tosaic.compiler" and name in later)
    ]
    assert wrong == []


def test_what_all_stages_share_imports_no_stage() -> None:
    for name in ("machine.py", "machine_numbers.py", "program.py", "memory_history.py", "memory_speed.py"):
        assert [module for module, _ in imported(COMPILER / name) if stage_of(module)] == []
    for room in ("ir", "cut"):
        assert [m for path in (COMPILER / room).rglob("*.py") for m, _ in imported(path) if stage_of(m)] == []


def test_place_and_tile_make_no_instructions() -> None:
    wrong = [
        f"{path.relative_to(COMPILER)} imports {name}"
        for stage in ("legalize", "place", "tile")
        for path in sorted((COMPILER / stage).rglob("*.py"))
        for module, name in imported(path)
        if module == "tosaic.hw.isa" and name in MAKERS
    ]
    assert wrong == []


def test_files_import_by_full_names() -> None:
    """The other tests of this file see every import then."""
    relative = [
        str(path)
        for stage in STAGES
        for path in (COMPILER / stage).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []
