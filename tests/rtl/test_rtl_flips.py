"""Bits that flip in the RTL of a machine that protects its data are told where it reads them (bench/flips.py)."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from flips import PROTECTED, Machine, places  # noqa: E402 (the path comes first)

from tosaic.hw.config_text import get_config  # noqa: E402 (the path comes first)

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("flips")]


def test_flips_in_protected_places():
    """None is silent: all of external memory are told, and so are those in a memory that is read behind them. The same
    flips in a register or a queue are not all told, so the machine is one in which bits do flip."""
    machine, dice = Machine(get_config(PROTECTED), 3), np.random.default_rng(3)
    found = {name: [machine.outcome(draw(dice)) for _ in range(100)] for name, draw in places(machine)}
    for name in ("constants", "instructions"):
        assert set(found[name]) == {"detected"}, name
    for name in ("activation memory", "weight memory"):
        assert set(found[name]) == {"detected", "masked"}, name
    assert {"masked", "silent"} <= {outcome for name in found for outcome in found[name]}
