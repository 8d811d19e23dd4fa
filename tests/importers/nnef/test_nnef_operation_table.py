"""docs/nnef_operations.md is what the code says, and has every operation."""

import pathlib

from tosaic.compiler.importers.nnef.tosa.examples import EXAMPLES, LIMITS
from tosaic.compiler.importers.nnef.tosa.operation_table import operation_names, operations_markdown

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "nnef_operations.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == operations_markdown(), "run `make docs`"


def test_every_operation_has_its_row() -> None:
    names = operation_names()
    assert len(names) == 96 and set(EXAMPLES) == set(names) and set(LIMITS) <= set(names)
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| 4.")]
    assert [row[2].strip(" `") for row in rows] == names
    assert {row[4].strip() for row in rows} == {"direct", "composite"}
