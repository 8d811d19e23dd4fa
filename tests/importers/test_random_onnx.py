"""Random ONNX graphs: golden is within 1e-4 of ONNX Runtime, and their integers run on the emulator as on golden."""

import pytest
import random_onnx_forms  # noqa: F401 (registers forms)
import random_onnx_layers  # noqa: F401 (the others)
from random_onnx import FORMS, Tally, judge

MOST_REFUSED = 0.02
"""Share of graphs that the quantizer may refuse, with its reason."""


def judged(seeds: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        judge(seed, tally)
    assert not tally.wrong and not tally.crashed, str(tally)
    assert tally.refused.total() <= MOST_REFUSED * len(seeds), str(tally)
    return tally


@pytest.mark.parametrize("part", range(4))
def test_a_few(part: int) -> None:
    judged(range(part * 8, part * 8 + 8))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(4))
def test_many(part: int) -> None:
    """About a minute each on a free core."""
    tally = judged(range(10_000 + part * 250, 10_000 + (part + 1) * 250))
    assert len(tally.forms) > 0.9 * len(FORMS)
