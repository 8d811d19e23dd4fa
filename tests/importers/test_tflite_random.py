"""Random graphs of TFLite are equal to LiteRT's reference kernels, or refused with a reason that is true."""

import re

import pytest
from tflite_random import campaign

REASONS = (
    r"a product of \d+ integers that leaves 32 bits; leave it in float32",
    r"results of more than 32 bits, which wrap in TFLite's kernel; quantize the model again",
)
"""What random graphs may be refused for."""
_PARTS = 4


def _judge(first: int, count: int, tmp_path) -> None:
    counts, lines = campaign(1, first, count, tmp_path, emulate_each=10)
    unexpected = [line for line in lines if not any(re.search(reason, line) for reason in REASONS)]
    assert not unexpected
    assert counts["equal"] > 0.9 * count


def test_some_random_graphs(tmp_path) -> None:
    _judge(0, 30, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(_PARTS))
def test_a_thousand_random_graphs(part: int, tmp_path) -> None:
    count = 1000 // _PARTS
    _judge(1000 + part * count, count, tmp_path)
