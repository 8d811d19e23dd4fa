"""The RTL does in every cycle what it did when tests/rtl/recorded_seen.json was written: cycles, counters and memory of
each program that judges mutants of the RTL (bench/rtl_recorded.py)."""

import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from rtl_recorded import CONFIG, RECORDED, figures  # noqa: E402 (the path comes first)
from rtl_stimulus import Case, restarts  # noqa: E402 (the path comes first)

from tosaic.sim.rtl.build import simulator_library  # noqa: E402 (the path comes first)
from tosaic.sim.rtl.library import Harness  # noqa: E402 (the path comes first)


@pytest.mark.xdist_group("nano")
@pytest.mark.nightly
def test_a_host_sees_what_is_recorded():
    recorded = {name: tuple(each) for name, each in json.loads(RECORDED.read_text()).items()}
    found = list(figures())
    assert len(found) == len(recorded), "programs have come or gone: python bench/rtl_recorded.py"
    changed = {name: (recorded.get(name), each) for name, each in found if recorded.get(name) != each}
    assert not changed, "if that is meant: python bench/rtl_recorded.py"


@pytest.mark.xdist_group("nano")
def test_a_program_behind_a_soft_reset_does_what_it_does_alone():
    library, count = simulator_library(CONFIG), 0
    for case in restarts(CONFIG):
        alone, behind = Harness(library), Harness(library)
        assert case.before.run(behind, CONFIG).end == "ended"
        program = Case(case.name, case.program, case.conditions)
        assert program.run(behind, CONFIG) == program.run(alone, CONFIG), case.name
        alone.close()
        behind.close()
        count += 1
    assert count == 22
