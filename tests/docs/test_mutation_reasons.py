"""bench/mutation_equivalents.toml: each reason is of a line that there is."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_reason_is_of_a_line_that_there_is() -> None:
    """One whose line has changed, or is gone, is out of date."""
    tables = tomllib.loads((ROOT / "bench/mutation_equivalents.toml").read_text())
    assert tables.keys() <= {"equivalent", "survivor"}
    entries = [entry for kind in tables.values() for entry in kind]
    lines = {
        file: {line.strip() for line in (ROOT / file).read_text().splitlines()}
        for file in {entry["file"] for entry in entries}
    }
    assert [entry for entry in entries if entry["line"] not in lines[entry["file"]]] == []
    named = [(entry["file"], entry["line"], change) for entry in entries for change in entry["changes"]]
    assert len(set(named)) == len(named)
