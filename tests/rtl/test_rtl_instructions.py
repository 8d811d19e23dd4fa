"""Instruction by instruction: from the same random state, RTL and emulator come to the same state, for each class of
values of each field of each instruction that the instruction set's table has.

A program sets memories, registers and micro-programs at random, lets the instruction act, and stores what there is:
activation memory, weights, sums, results; external memory, the error with its unit and place, the marks and the number
of multiplications are compared. `make test` takes a slice of the rows; the nightly several programs of each.
"""

import functools
import pathlib
import sys

import pytest

sys.path += [str(pathlib.Path(__file__).resolve().parents[2] / "bench")]
sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / "fuzzing")]

from instruction_steps import ILLEGAL, MAKERS, program_of, rows
from rtl_configs import on_rtl
from side_by_side import OK, end_of

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Opcode
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator

MACHINES = ("nano", "small", "nano,load_crc=1,memory_parity=1")
"""Each class of values is tried on the first of these machines that has it."""
SAMPLES = 4
"""Programs of each row in the nightly."""
DRAWS = 1000
"""Largest number of draws until a program is legal."""
SLICE = 12
"""Rows of which `make test` takes one."""


def all_rows():
    seen = set()
    for machine in MACHINES:
        for row in rows(get_config(machine)):
            if row not in seen:
                seen.add(row)
                yield machine, row


ROWS = list(all_rows())


@functools.cache
def simulator(machine):
    return RtlSimulator(get_config(machine))


def run_on(target, program):
    """How a run ends, its memory, and what it counted."""
    memory, results = program.memory.copy(), []
    end = end_of(
        lambda: results.append(
            target.run(memory, program.program_address, program.program_bytes, max_cycles=200_000)
        )
    )
    counted = [(result.macs, result.marks and [layer for layer, _ in result.marks]) for result in results]
    return end, memory.tobytes(), counted


def samples(machine, row, count):
    """Programs of the row, and how the emulator runs them: those that end as they should."""
    found = []
    for seed in range(DRAWS):
        program = program_of(get_config(machine), row, seed)
        if program is None:
            continue
        emulated = run_on(Emulator(get_config(machine)), program)
        if (emulated[0] == OK) == (row not in ILLEGAL):
            found.append((program, emulated))
        if len(found) == count:
            return found
    raise AssertionError(f"{row}: {len(found)} of {count} programs are legal")


def compare(machine, row, count):
    for number, (program, emulated) in enumerate(samples(machine, row, count)):
        assert run_on(simulator(machine), program) == emulated, (machine, row, number)


def test_every_instruction_has_a_maker_and_every_class_a_row():
    assert set(MAKERS) == set(FIELDS)
    assert {row[0] for _, row in ROWS} == set(Opcode)
    fields = {(opcode, field.name) for opcode in FIELDS for field in FIELDS[opcode]}
    assert fields - {(opcode, name) for _, (opcode, name, _) in ROWS} == {
        (opcode, "cores") for opcode in Opcode if opcode.name.endswith("_SIGNAL")
    }


@pytest.mark.parametrize("opcode", Opcode, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("machine", [on_rtl("nano")])
def test_some_rows_end_alike(machine, opcode):
    of_opcode = [row for where, row in ROWS if where == machine and row[0] == opcode]
    for row in of_opcode[opcode % SLICE :: SLICE]:
        compare(machine, row, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("opcode", Opcode, ids=lambda opcode: opcode.name)
def test_all_rows_end_alike(opcode):
    for machine, row in ROWS:
        if row[0] == opcode:
            compare(machine, row, SAMPLES)
