"""What `tosaic compile --explain` says of a dozen graphs is what tests/explained has."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

import explained  # noqa: E402 (the path comes first)


@pytest.mark.parametrize("name", explained.names())
def test_a_graph_is_explained_as_before(name):
    """`python bench/explained.py` writes the texts again: look at the difference."""
    assert explained.text(name) == explained.kept(name)
