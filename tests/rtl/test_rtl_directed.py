"""The RTL against the emulator on programs for what random ones seldom do (directed_fields.py has all)."""

import functools

import pytest
from directed_fields import all_directed

from tosaic.hw.config import CONFIGS
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator

PROGRAMS = {
    (config, name): number
    for config in ("nano", "small")
    for number, (name, _) in enumerate(all_directed(CONFIGS[config]))
}


@functools.cache
def simulator(name, stall_percent):
    return RtlSimulator(CONFIGS[name], stall_percent=stall_percent, seed=7)


@pytest.mark.parametrize(
    ("config", "name"),
    [pytest.param(*case, marks=pytest.mark.xdist_group(case[0])) for case in PROGRAMS],
)
def test_rtl_and_emulator_leave_the_same_memory(config, name):
    program = list(all_directed(CONFIGS[config]))[PROGRAMS[config, name]][1]
    place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
    Emulator(CONFIGS[config], check_hazards=True).run(wanted, *place)
    for stall_percent in (0, 40):
        memory = program.memory.copy()
        simulator(config, stall_percent).run(memory, *place)
        assert memory.tobytes() == wanted.tobytes()
