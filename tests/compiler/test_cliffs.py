"""`bench/cliffs.py`: cases that compute what golden does, and what counts as a new cliff."""

import dataclasses
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
from cliff_cases import FAMILIES, random_case  # noqa: E402 (the path comes first)
from cliffs import COLUMNS, Cliff, measured, worse_than  # noqa: E402

CLIFF = Cliff("moved", 4, 2.0, 20_000, 10_000, "lanes", "VECTOR 65%", "TRANSPOSE", "TRANSPOSE int8 1x2856x20")


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_case_is_the_same_each_time_and_computes_right(family: str) -> None:
    assert random_case(family, 1).name == random_case(family, 1).name != random_case(family, 2).name
    found = measured(family, 1, "base")
    assert found.bound > 600 and found.cycles > 0 and found.layer == random_case(family, 1).name


def test_a_new_cliff_and_a_worse_one_are_told(tmp_path: Path) -> None:
    before = tmp_path / "cliffs.csv"
    before.write_text(",".join(COLUMNS) + "\n" + ",".join(CLIFF.row) + "\n")
    assert worse_than(before, [CLIFF, dataclasses.replace(CLIFF, cycles=20_400)]) == []
    told = worse_than(before, [dataclasses.replace(CLIFF, seed=5), dataclasses.replace(CLIFF, cycles=21_000)])
    assert told == [
        "new: TRANSPOSE int8 1x2856x20: 20,000 cycles, 2.00 × its bound",
        "worse: TRANSPOSE int8 1x2856x20: 21,000 cycles, 20,000 before",
    ]


def test_the_list_is_of_families_that_there_are() -> None:
    lines = (BENCH / "cliffs.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert {line.split(",")[0] for line in lines[1:]} <= set(FAMILIES)
