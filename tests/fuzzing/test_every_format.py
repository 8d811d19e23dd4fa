"""Damaged files of every format: a result, or one line and exit code 1 (`bench/files_fuzz.py` for longer).

Those of PyTorch are in tests/pytorch/test_damaged_files.py.
"""

import pytest
from every_format import FORMATS, run_mutations

OF_TORCH = ("pt2", "pt")
QUICK = tuple(name for name in FORMATS if name not in (*OF_TORCH, "onnx", "nnr"))
"""The command of the others takes seconds to start."""


def test_a_few_of_each() -> None:
    found = run_mutations(3 * len(QUICK), 1, QUICK)
    assert not found.wrong
    assert found.inputs == 3 * len(QUICK) and found.refused.total() > len(QUICK)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in FORMATS if name not in OF_TORCH])
def test_many(name: str) -> None:
    found = run_mutations(300, 2, (name,))
    assert not found.wrong
    assert found.inputs == 300 and found.refused.total() > 100
