"""Cycles of layers and networks are those of tests/cycles.csv."""

import pathlib
import sys

import pytest
from shared_files import present

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import cycles  # noqa: E402 (the path comes first)

TABLE = cycles.read_table()


@pytest.mark.parametrize("name", [*cycles.FAMILIES, *cycles.DIGITS, *cycles.NETWORKS])
def test_cycles_are_those_of_the_table(name):
    """`python bench/cycles.py` writes the table again: look at what rose."""
    if name in cycles.NETWORKS:
        present(cycles.network_path(name))
    assert cycles.differences(list(cycles.rows(name)), TABLE) == []


def test_the_table_has_no_other_rows():
    named = {*cycles.FAMILIES, *cycles.DIGITS, *cycles.NETWORKS}
    assert {row.kind if row.kind != "network" else row.name for row in TABLE} == named
