"""Cycles of layers and networks are those of tests/cycles.csv."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import cycles  # noqa: E402 (the path comes first)

TABLE = cycles.read_table()


@pytest.mark.parametrize("name", cycles.names())
def test_cycles_are_those_of_the_table(name):
    """`python bench/cycles.py` writes the table again: look at what rose."""
    assert cycles.differences(list(cycles.rows(name)), TABLE) == []


def test_the_table_has_no_other_rows():
    named = {*cycles.FAMILIES, *cycles.DIGITS, *cycles.NETWORKS}
    assert {row.kind if row.kind != "network" else row.name for row in TABLE} == named
