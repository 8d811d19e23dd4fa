"""The RTL does in every cycle what it did when tests/rtl/recorded_seen.json was written: cycles, counters and memory of
each program that judges mutants of the RTL (bench/rtl_recorded.py)."""

import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from rtl_recorded import RECORDED, figures  # noqa: E402 (the path comes first)


@pytest.mark.xdist_group("nano")
def test_a_host_sees_what_is_recorded():
    recorded = {name: tuple(each) for name, each in json.loads(RECORDED.read_text()).items()}
    found = list(figures())
    assert len(found) == len(recorded), "programs have come or gone: python bench/rtl_recorded.py"
    changed = {name: (recorded.get(name), each) for name, each in found if recorded.get(name) != each}
    assert not changed, "if that is meant: python bench/rtl_recorded.py"
