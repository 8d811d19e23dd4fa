"""A short run of what `bench/nnr_fuzz.py` does at length: damaged data ends in values or in NnrError."""

import pytest
from nnr_mutations import make_samples, run_mutations


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_data_raises_nothing_but_nnr_error(seed: int) -> None:
    tally = run_mutations(2500, seed, make_samples(seed))
    assert tally.wrong == []
    assert tally.inputs == 2500
    assert tally.refused.keys() >= {
        "int32",
        "float32",
        "cb_float32",
        "unit",
        "bitstream",
        "dat",
        "onnx model",
    }
