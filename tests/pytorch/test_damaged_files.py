"""Damaged .pt2 and .pt files: a result, or one line and exit code 1."""

import pytest
from every_format import run_mutations


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["pt2", "pt"])
@pytest.mark.parametrize("seed", [1, 2])
def test_many(name: str, seed: int) -> None:
    found = run_mutations(150, seed, (name,))
    assert not found.wrong
    assert found.inputs == 150 and found.refused.total() > 50
