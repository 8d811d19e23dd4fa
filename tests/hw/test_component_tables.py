"""Every component of a folder of hw/ has a test of its own, or a reason in the folder's component_tests.py."""

import ast
import re
import runpy
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = TESTS.parents[1] / "hw"
TABLES = sorted(TESTS.glob("*/component_tests.py"))


def components(folder: Path) -> set[str]:
    """Classes of a folder's files that are `wiring.Component`s."""
    found = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(base).endswith("Component") for base in node.bases
            ):
                found.add(node.name)
    return found


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.parent.name)
def test_every_component_is_tested_or_has_a_reason(table):
    entries = runpy.run_path(str(table))["COMPONENTS"]
    assert set(entries) == components(SOURCES / table.parent.name)
    for name, where in entries.items():
        if where.endswith(".py"):
            assert re.search(rf"\b{name}\b", (table.parent / where).read_text()), (
                f"{where} does not test {name}"
            )
        else:
            assert re.fullmatch(r"[A-Z].*\w+\.py.*\.", where), (
                f"{name}: a sentence that names a test, not {where!r}"
            )


def test_the_tables():
    """Folders that have a table; the others are to come."""
    assert {"array", "bridge", "vector", "wishbone"} <= {table.parent.name for table in TABLES}
