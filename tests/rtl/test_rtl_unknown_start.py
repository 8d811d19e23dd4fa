"""What a machine computes, and when, depends on nothing that was in it before: neither on what registers and memories
held at power-up, nor on the programs that ran on it."""

import functools
import random

import pytest
from one_machine import ENDED, HUNG, Conditions, assembled, begin, finish, random_programs, run_on

from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import Opcode, Space
from tosaic.sim.rtl.build import UNKNOWN_START, simulator_library
from tosaic.sim.rtl.library import Harness
from tosaic.sim.rtl.verilog import cached_verilog, without_initial_values

pytestmark = pytest.mark.xdist_group("nano")
CONFIG = CONFIGS["nano"]
AM_BYTES = 64


@functools.cache
def programs():
    """Random ones, and ones that end in a fault of each unit: (program, conditions)."""
    good = [(program, Conditions()) for program in random_programs(CONFIG, range(700, 702))]
    outside = {"memory_address": 8190, "row_bytes": 8, "rows": 1}
    long = {"row_bytes": 1024, "rows": 1}
    faults = [
        (assembled(CONFIG, (Opcode.LOAD_GO, outside)), Conditions()),
        (assembled(CONFIG, (Opcode.STORE_WAIT, {"semaphore": 2, "count": 1})), Conditions()),
        (assembled(CONFIG, (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1})), Conditions()),
        (assembled(CONFIG, (Opcode.ARRAY_GO, {"pixels": 1})), Conditions()),
        (assembled(CONFIG, (Opcode.LOAD_GO, long)), Conditions(read_error_at=512)),
        (
            assembled(
                CONFIG,
                (Opcode.LOAD_GO, long),
                (Opcode.LOAD_SIGNAL, {"count": 1}),
                (Opcode.STORE_WAIT, {"count": 1}),
                (Opcode.STORE_GO, long),
            ),
            Conditions(write_error_at=512),
        ),
    ]
    return [*good, *faults]


@functools.cache
def alone(number):
    """What program `number` shows on a machine of its own, whose registers and memories begin with 0."""
    program, conditions = programs()[number]
    return _on(Harness(simulator_library(CONFIG)), program, conditions)


def _on(harness, program, conditions):
    try:
        return run_on(harness, CONFIG, program, conditions)
    finally:
        harness.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.nightly
def test_no_register_or_memory_matters_at_power_up(seed):
    library = simulator_library(CONFIG, UNKNOWN_START)
    for number, (program, conditions) in enumerate(programs()):
        seed_of_run = 1000 * seed + number
        assert _on(Harness(library, seed_of_run), program, conditions) == alone(number), number


@pytest.mark.nightly
def test_what_is_unknown_at_power_up_is_so_in_the_simulator():
    """Activation memory that nobody wrote differs from seed to seed: the test above tests something."""
    store = assembled(CONFIG, (Opcode.STORE_GO, {"row_bytes": AM_BYTES, "rows": 1}))
    library = simulator_library(CONFIG, UNKNOWN_START)
    seen = {_on(Harness(library, seed), store, Conditions()).memory for seed in (1, 2, 3)}
    assert len(seen) == 3


def test_only_constants_keep_their_initial_values():
    text = cached_verilog(CONFIG).read_text()
    unknown = without_initial_values(text)
    assert " = 0;" in unknown, "Yosys' own helpers stay"
    assert "initial begin" in text and "initial begin" not in unknown
    assert "  reg [23:0] local_pitch = 24'h000000;" in text and "  reg [23:0] local_pitch;" in unknown
    constant = "  reg [7:0] rom [1:0];\n  initial begin\n    rom[0] = 8'h00;\n    rom[1] = 8'h40;\n  end\n"
    assert without_initial_values(constant) == constant


@pytest.mark.parametrize("seed", [1, 2])
def test_programs_one_after_the_other_are_as_each_alone(seed):
    """In a random order, without a reset; faults are in between, after which the host asks for a soft reset."""
    order = [*range(len(programs()))] * 2
    random.Random(seed).shuffle(order)
    harness = Harness(simulator_library(CONFIG))
    try:
        for place, number in enumerate(order):
            program, conditions = programs()[number]
            assert run_on(harness, CONFIG, program, conditions) == alone(number), order[: place + 1]
    finally:
        harness.close()


def test_a_program_finds_what_the_one_before_it_left_in_memory():
    """The rest of the machine is as new, its memories are not: a program may hand over to the next one."""
    go = {"space": Space.AM, "row_bytes": AM_BYTES, "rows": 1}
    load = assembled(CONFIG, (Opcode.LOAD_GO, {**go, "memory_address": 128}))
    store = assembled(CONFIG, (Opcode.STORE_GO, {"row_bytes": AM_BYTES, "rows": 1}))
    harness = Harness(simulator_library(CONFIG))
    try:
        run_on(harness, CONFIG, load)
        memory, registers = begin(harness, CONFIG, store, Conditions())
        assert finish(harness, registers, memory, 200_000).end == ENDED
        assert memory[:AM_BYTES].tolist() == memory[128 : 128 + AM_BYTES].tolist()
    finally:
        harness.close()


def test_a_reset_in_the_middle_leaves_nothing():
    """Memories stay as they are; registers, buffers and the bus are as new."""
    program, conditions = programs()[1]
    harness = Harness(simulator_library(CONFIG))
    try:
        for cycles in (10, 100, 300, 1000, 3000):
            assert run_on(harness, CONFIG, program, max_cycles=cycles).end == HUNG
            harness.reset()
            assert run_on(harness, CONFIG, program, conditions) == alone(1), cycles
    finally:
        harness.close()
