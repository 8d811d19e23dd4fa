"""Hosts that do not only start a program and wait: what it leaves in memory is what it always does, and what they read
meanwhile is true."""

import hashlib

import pytest
from directed_distance import distances, moves, tight_rows
from directed_hosts import counting, impatient, meddled, scribbling, thorough, vast, watched
from odd_hosts import PORT_BYTES, Watchful, run_any
from one_machine import READ

from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTER, REGISTERS, RESP_OKAY, RESP_SLVERR
from tosaic.hw.isa import INSTRUCTION_BYTES, Error, Unit
from tosaic.sim.emulator import Emulator
from tosaic.sim.program import decode_program
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.library import Harness

CONFIG = CONFIGS["nano"]
pytestmark = pytest.mark.xdist_group("nano")
CYCLES = 200_000


def memory_of(program) -> str:
    memory = program.memory.copy()
    Emulator(CONFIG, check_hazards=True).run(memory, program.program_address, program.program_bytes)
    return hashlib.sha256(memory).hexdigest()


def runs_of(named):
    """(name, program, conditions, what is seen) of each run, those of a name on one machine."""
    for name, runs in named:
        harness = Harness(simulator_library(CONFIG))
        for program, conditions in runs:
            yield name, program, conditions, run_any(harness, CONFIG, program, conditions, CYCLES)
        harness.close()


def test_meddling_with_registers_changes_no_memory():
    for name, program, _, seen in runs_of(meddled(CONFIG)):
        assert dict(seen.registers)["ERROR"] == 0, name
        assert seen.memory == memory_of(program), name


def units_at(program, places: set[int]) -> set[Unit]:
    start = program.program_address
    code = program.memory[start : start + program.program_bytes].tobytes()
    instructions = decode_program(code)
    return {instructions[place // INSTRUCTION_BYTES].opcode.unit for place in places}


def test_a_host_that_watches_finds_each_unit_at_its_own_instructions():
    """The instructions are not those at which the program before left the unit."""
    found = 0
    for name, program, conditions, seen in runs_of(watched(CONFIG)):
        assert seen.memory == memory_of(program), name
        for unit in ("LOAD", "ARRAY", "VECTOR", "STORE") if isinstance(conditions, Watchful) else ():
            register = f"0x{REGISTER[f'{unit}_PC'].offset:x} read"
            read = [value for key, value in seen.registers if key == register]
            assert all(value & 3 == RESP_OKAY for value in read)
            first, *places = (value >> 2 for value in read)
            own = {place for place in places if place != first}
            assert units_at(program, own) <= {Unit[unit]}, name
            found += len(own)
    assert found > 350


def test_places_without_a_register_answer_with_an_error():
    registers = {register.offset: register for register in REGISTERS}
    for _, _, _, seen in runs_of(thorough(CONFIG)):
        answers = {name: value for name, value in seen.registers if name.endswith(" read")}
        assert len(answers) == PORT_BYTES // 4 - 2
        for name, value in answers.items():
            register = registers.get(int(name.removesuffix(" read"), 16))
            assert value & 3 == (RESP_OKAY if register else RESP_SLVERR)
            if register and register.name in READ and register.name != "IRQ":
                assert value >> 2 == dict(seen.registers)[register.name]


def test_places_that_nobody_may_write_change_nothing():
    for name, program, _, seen in runs_of(scribbling(CONFIG)):
        assert dict(seen.registers)["ERROR"] == 0, name
        assert seen.memory == memory_of(program), name
        codes = {code for place, code in seen.registers if place.endswith(" written")}
        assert codes == {RESP_SLVERR}


def test_counters_only_rise_from_the_start_on():
    rising = 0
    for _, _, conditions, seen in runs_of(counting(CONFIG)):
        counted = [value >> 2 for name, value in seen.registers if name.endswith(" read")]
        assert len(counted) == conditions.reads
        assert counted == sorted(counted)
        assert counted[-1] <= dict(seen.registers)[conditions.counter]
        rising += counted[0] < counted[-1]
    assert rising >= 16


def test_memory_far_behind_the_windows_first_byte_is_what_it_is_at_once():
    """Only the addresses in the instructions differ."""
    near = moves(CONFIG, 0)
    wanted = near.memory.copy()
    code = slice(near.program_address, near.program_address + near.program_bytes)
    Emulator(CONFIG).run(wanted, near.program_address, near.program_bytes)
    for _, program, conditions, seen in runs_of(distances(CONFIG)):
        wanted[code] = program.memory[code]
        assert dict(seen.registers)["ERROR"] == 0, conditions
        assert seen.memory == hashlib.sha256(wanted).hexdigest(), conditions


def test_long_rows_to_the_windows_end_are_allowed():
    for name, runs in tight_rows(CONFIG):
        harness = Harness(simulator_library(CONFIG))
        for program, conditions, error in runs:
            seen = run_any(harness, CONFIG, program, conditions, CYCLES)
            assert REGISTER["ERROR"].field("code").extract(dict(seen.registers)["ERROR"]) == error, name
        harness.close()


def test_rows_end_with_a_window_of_any_size():
    """What is inside is asked of the bus, which does not know it; one byte further is an error at once."""
    for kind, (_, runs) in zip(("READ", "WRITE"), vast(CONFIG), strict=True):
        codes = [
            REGISTER["ERROR"].field("code").extract(dict(seen.registers)["ERROR"])
            for _, _, _, seen in runs_of([(kind, runs)])
        ]
        assert codes == [Error[f"BUS_{kind}"], Error.MEMORY_RANGE] * 8


def test_the_watchdog_ends_a_run_as_soon_as_the_host_says():
    codes = set()
    for _, program, _, seen in runs_of(impatient(CONFIG)):
        code = REGISTER["ERROR"].field("code").extract(dict(seen.registers)["ERROR"])
        codes.add(code)
        assert code != Error.NONE or seen.memory == memory_of(program)
    assert codes == {Error.NONE, Error.WATCHDOG}
