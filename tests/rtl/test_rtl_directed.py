"""The RTL against the emulator on programs for what random ones seldom do (directed_fields.py has all)."""

import collections
import functools
import hashlib
import pathlib
import sys

import numpy as np
import pytest
from rest_nightly import first_of
from rtl_configs import on_rtl

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "fuzzing"))

from changed_programs import OK, WRONG, judge
from directed_array import array_programs
from directed_decode import decode_programs
from directed_edges import across_banks, cut, field_edges, without_begin
from directed_fields import all_directed
from directed_jobs import jobs_without, lone_bits, pairs_alone, sums_behind
from directed_memory import memory_programs
from directed_rows import row_programs
from directed_runs import all_runs, more_programs
from directed_wide import wide_programs
from directed_windows import BASES, windows
from one_machine import Conditions, run_on
from side_by_side import end_of

from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTER
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.library import Harness

PROGRAMS = {
    (config, name): number
    for config in ("nano", "small")
    for number, (name, _) in enumerate(all_directed(CONFIGS[config]))
}
SEEDS = {"nano": 6, "small": 2}
"""Number of programs with fields of all magnitudes; those of nano judge mutants, too."""
BY_CONFIG = [on_rtl(name) for name in ("nano", "small")]


@functools.cache
def simulator(name, stall_percent):
    return RtlSimulator(CONFIGS[name], stall_percent=stall_percent, seed=7)


@pytest.mark.parametrize(
    ("config", "name"),
    [on_rtl(*case) for case in PROGRAMS],
)
def test_rtl_and_emulator_leave_the_same_memory(config, name):
    program = list(all_directed(CONFIGS[config]))[PROGRAMS[config, name]][1]
    place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
    Emulator(CONFIGS[config], check_hazards=True).run(wanted, *place)
    for stall_percent in (0, 40):
        memory = program.memory.copy()
        simulator(config, stall_percent).run(memory, *place)
        assert memory.tobytes() == wanted.tobytes()


@pytest.mark.xdist_group("nano")
@pytest.mark.parametrize("part", first_of(range(3), 1))
def test_rtl_and_emulator_end_alike_at_the_edges_of_fields(part):
    """Each field of each instruction at its edges: the same memory, or the same error of the same unit and place."""
    config, wrong, ends = CONFIGS["nano"], [], collections.Counter()
    programs = [*field_edges(config), ("BEGIN comes later", without_begin(config)), ("cut", cut(config, 9))]
    for name, program in programs[part::3]:
        verdict = judge(program)
        ends[verdict.emulated == OK] += 1
        if verdict.kind == WRONG:
            wrong.append((name, verdict))
    assert not wrong
    assert ends[True] > 30 and ends[False] > 15


@pytest.mark.xdist_group("nano")
def test_the_arrays_counters_and_the_memorys_banks_leave_the_same_memory():
    config = CONFIGS["nano"]
    for title, program in (*array_programs(config), *memory_programs(config)):
        place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
        Emulator(config, check_hazards=True).run(wanted, *place)
        memory = program.memory.copy()
        simulator("nano", 0).run(memory, *place)
        assert memory.tobytes() == wanted.tobytes(), title


@pytest.mark.xdist_group("nano")
@pytest.mark.nightly
def test_jobs_that_one_bit_makes_illegal_end_alike():
    """The same memory, or the same error of the same unit and place; also where something is not set up."""
    wrong, ends = [], collections.Counter()
    config = CONFIGS["nano"]
    for name, program in (
        *lone_bits(config),
        *pairs_alone(config),
        *jobs_without(config),
        *sums_behind(config),
    ):
        verdict = judge(program)
        ends[str(verdict.emulated).partition(":")[0]] += 1
        if verdict.kind == WRONG:
            wrong.append((name, verdict))
    assert not wrong
    assert len(ends) > 2


@pytest.mark.xdist_group("nano")
@pytest.mark.nightly
def test_rows_at_the_ends_of_numbers_end_alike():
    """Pitches that lead downwards, fields of all magnitudes, a program far away: the same memory, or the same error."""
    wrong, ends = [], collections.Counter()
    for name, program in row_programs(CONFIGS["nano"], 1):
        verdict = judge(program)
        ends[verdict.emulated == OK] += 1
        if verdict.kind == WRONG:
            wrong.append((name, verdict))
        if verdict.emulated == OK:
            place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
            Emulator(CONFIGS["nano"]).run(wanted, *place)
            memory = program.memory.copy()
            simulator("nano", 0).run(memory, *place)
            assert np.array_equal(memory, wanted), name
    assert not wrong
    # One of them stores over itself, which the emulator stops.
    assert ends == {True: 31, False: 61}


@pytest.mark.parametrize("name", BY_CONFIG)
@pytest.mark.nightly
def test_fields_of_all_magnitudes_leave_the_same_memory(name):
    """On the emulator and on the RTL, wherever the host's window begins."""
    config, harness = CONFIGS[name], Harness(simulator_library(CONFIGS[name]))
    for number, (title, program) in enumerate(wide_programs(config, range(SEEDS[name]))):
        wanted = program.memory.copy()
        Emulator(config, check_hazards=True).run(wanted, program.program_address, program.program_bytes)
        conditions = Conditions(mem_base=BASES[number % len(BASES)])
        seen = run_on(harness, config, program, conditions)
        assert dict(seen.registers)["ERROR"] == 0, title
        assert seen.memory == hashlib.sha256(wanted).hexdigest(), title
        if "crowded" in title:
            quiet, polled = (
                run_on(harness, config, program, Conditions(polls=polls)) for polls in (False, True)
            )
            assert dict(polled.registers) == dict(quiet.registers)
    harness.close()


@pytest.mark.xdist_group("nano")
@pytest.mark.nightly
def test_corners_of_vector_leave_the_same_memory():
    """Streams, sizes of elements, parameters, repetitions, and numbers at their ties."""
    for title, program in more_programs(CONFIGS["nano"]):
        place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
        Emulator(CONFIGS["nano"], check_hazards=True).run(wanted, *place)
        memory = program.memory.copy()
        simulator("nano", 0).run(memory, *place)
        assert np.array_equal(memory, wanted), title


@pytest.mark.xdist_group("nano")
@pytest.mark.nightly
def test_runs_on_one_machine_end_alike():
    """Bits that no field has, parts that are missing, jumps, rows of all lengths: the same end, each by itself."""
    wrong, ends = [], collections.Counter()
    for name, runs in all_runs(CONFIGS["nano"]):
        usual = [program for program, conditions in runs if is_usual(conditions)]
        for program in usual[:1] if name.startswith("jumps in windows") else usual:
            verdict = judge(program)
            ends[verdict.emulated == OK] += 1
            if verdict.kind == WRONG:
                wrong.append((name, verdict))
    assert not wrong
    assert ends[True] > 50 and ends[False] > 200


def is_usual(conditions):
    """Whether these do not decide how a program ends."""
    errors = (conditions.read_error_at, conditions.write_error_at)
    patient = conditions.watchdog_cycles == Conditions().watchdog_cycles
    return type(conditions) is Conditions and errors == (None, None) and patient


@pytest.mark.parametrize("name", [on_rtl("small"), on_rtl("base")])
def test_compressed_and_packed_weights_end_alike(name):
    """All settings, and streams that are damaged in every way: the same memory, or the same error."""
    config, faults = CONFIGS[name], set()
    for title, program in decode_programs(config):
        place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
        emulated = end_of(lambda: Emulator(config, check_hazards=True).run(wanted, *place))  # noqa: B023 (at once)
        for stall_percent in (0, 40):
            memory = program.memory.copy()
            simulated = end_of(lambda: simulator(name, stall_percent).run(memory, *place))  # noqa: B023 (at once)
            assert simulated == emulated, title
            # Behind a fault the emulator stops at once, and units of the RTL may go on.
            assert emulated != OK or memory.tobytes() == wanted.tobytes(), title
        faults.add(emulated if emulated == OK else emulated.code)
    assert faults == {OK, "ILLEGAL", "DECODE"}


@pytest.mark.parametrize("name", BY_CONFIG)
def test_windows_and_patience_end_where_the_host_says(name):
    config, harness = CONFIGS[name], Harness(simulator_library(CONFIGS[name]))
    ends = {
        title: (run_on(harness, config, *case).registers, error) for title, *case, error in windows(config)
    }
    found = {
        title: REGISTER["ERROR"].field("code").extract(dict(seen)["ERROR"])
        for title, (seen, _) in ends.items()
    }
    assert found == {title: error for title, (_, error) in ends.items()}
    harness.close()


@pytest.mark.parametrize("name", BY_CONFIG)
def test_accesses_across_banks_wait_for_those_of_both(name):
    config = CONFIGS[name]
    for offset in range(config.columns):
        program = across_banks(config, offset)
        place, wanted = (program.program_address, program.program_bytes), program.memory.copy()
        Emulator(config, check_hazards=True).run(wanted, *place)
        memory = program.memory.copy()
        simulator(name, 0).run(memory, *place)
        assert memory.tobytes() == wanted.tobytes()
