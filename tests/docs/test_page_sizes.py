"""docs/ stays short enough to be read: at most 40,000 words, without records, decisions and generated pages."""

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs"
GENERATED = {"isa", "registers", "operators", "api", "licences", "nnef_operations", "coreml_layers"}
"""Pages that `make docs` writes from the code."""
WRITTEN_IN = re.compile(r"<!-- (?!end).*? -->.*?<!-- end.*? -->", re.DOTALL)
"""Lists and tables that it writes into other pages."""


def test_the_pages_can_be_read():
    """As `wc -w` counts: bars of tables and signs are words, too."""
    words = {
        page.stem: len(WRITTEN_IN.sub("", page.read_text()).split())
        for page in DOCS.glob("*.md")
        if page.stem not in GENERATED
    }
    assert sum(words.values()) <= 40_000, sorted(words.items(), key=lambda each: -each[1])


def test_the_tables_that_are_not_counted_are_generated():
    rule = (DOCS.parent / "Makefile").read_text().split("\ndocs: ", 1)[1].split("\n\n", 1)[0].splitlines()
    assert [page for page in GENERATED if not any(line.endswith(f" docs/{page}.md") for line in rule)] == []


def test_readme_fits_two_screens():
    """A screen has 45 lines of 100 columns; there is one picture."""
    lines = (DOCS.parent / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    assert [line for line in lines if len(line) > 100] == []
    assert len(re.findall(r"^!\[", "\n".join(lines), re.M)) == 1
