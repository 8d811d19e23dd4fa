"""A short run of what `bench/nnef_fuzz.py` does at length: damaged models end in a graph or in a named error."""

import pathlib

from nnef_mutations import DAMAGE, make_samples, run_mutations


def test_damaged_models(tmp_path: pathlib.Path) -> None:
    tally = run_mutations(300, 1, make_samples(), tmp_path)
    assert tally.wrong == []
    assert tally.inputs == 300
    assert set(tally.refused) == {*DAMAGE, "archive"} and tally.run > 40
