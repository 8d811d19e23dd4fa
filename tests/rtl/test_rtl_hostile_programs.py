"""Faults name their instruction, on the emulator and on the RTL; nothing that an earlier program left is executed."""

import functools

import numpy as np
import pytest
from changed_programs import GIVEN_UP, OVER_ITSELF, PARALLEL, SAME, WRONG, judge, mutant

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import CoreProgram, Op, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.bandwidth import thousandths
from tosaic.sim.emulator import Emulator
from tosaic.sim.registers import Registers
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.library import INTERRUPT, Harness
from tosaic.sim.rtl.simulator import MEM_BASE
from tosaic.sim.stimulus import Stimulus

pytestmark = pytest.mark.xdist_group("nano")
CONFIG = CONFIGS["nano"]
MEMORY_BYTES, PROGRAM_ADDRESS = 8192, 4096
LONG = {"row_bytes": 4000, "rows": 1}
"""A transfer that keeps the unit while the sequencer goes on."""
OUTSIDE = {"memory_address": 8000, "row_bytes": 1000, "rows": 2}
PITCH = {"memory_pitch": 64, "local_pitch": 64}
GO = {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4}
ARRAY_SETUP = [
    (Opcode.ARRAY_INPUT, {"row_bytes": 4, "height": 1}),
    (Opcode.ARRAY_WINDOW, {"width": 1}),
    (Opcode.ARRAY_KERNEL, {"ky_count": 1, "run_count": 1, "chunks": 1}),
]


@functools.cache
def simulator():
    return RtlSimulator(CONFIG)


def place(commands):
    assembler = Assembler(CONFIG)
    for opcode, fields in commands:
        assembler.emit(opcode, **fields)
    memory = np.zeros(MEMORY_BYTES, np.uint8)
    return memory, assembler.place(memory, PROGRAM_ADDRESS)


def faults(commands):
    """Returns the faults of the emulator and of the RTL."""
    found = []
    for machine in (Emulator(CONFIG), simulator()):
        memory, size = place(commands)
        with pytest.raises(DeviceError) as caught:
            machine.run(memory, PROGRAM_ADDRESS, size)
        found.append(caught.value.fault)
    return found


@pytest.mark.parametrize("number", range(48))
def test_mutated_programs_end_the_same_way(number):
    verdict = judge(mutant(number))
    assert verdict.kind != WRONG, verdict


def test_mutated_programs_are_worth_running():
    verdicts = [judge(mutant(number)) for number in range(16)]
    assert sum(verdict.kind == SAME for verdict in verdicts) >= 8
    assert sum(verdict.kind == GIVEN_UP for verdict in verdicts) <= 2
    assert any(isinstance(verdict.emulated, MachineFault) for verdict in verdicts)


@pytest.mark.parametrize("waits", [(Opcode.VECTOR_WAIT, {"count": 1}), (Opcode.VECTOR_GO, GO)])
def test_the_sequencer_may_be_ahead_of_a_unit_that_waits(waits):
    """It finds a SIGNAL for cores that there are not, while VECTOR waits for tokens or for the array's vectors, which
    in the program's order come never."""
    take = (Opcode.VECTOR_UOP, {"op": Op.MOV, "a_source": Source.ARRAY})
    memory, size = place([take, waits, (Opcode.VECTOR_SIGNAL, {"count": 1, "cores": 1})])
    verdict = judge(Stimulus(memory, PROGRAM_ADDRESS, size))
    assert verdict.emulated == MachineFault("PROGRAM", "VECTOR", 32)
    assert verdict.simulated == MachineFault("ILLEGAL", "SEQUENCER", 48)
    assert verdict.kind == PARALLEL


def test_a_program_that_changes_itself():
    """The machine does not see it: it has read the instructions already, or finds others. The emulator stops."""
    go = (Opcode.STORE_GO, {"memory_address": PROGRAM_ADDRESS + 32, "row_bytes": 16, "rows": 1})
    memory, size = place([go])
    verdict = judge(Stimulus(memory, PROGRAM_ADDRESS, size))
    assert verdict.emulated == MachineFault("PROGRAM", "STORE", 16)
    assert verdict.kind == OVER_ITSELF


@pytest.mark.parametrize("unit", ["LOAD", "STORE"])
@pytest.mark.parametrize("behind", ["PITCH", "WAIT", "SIGNAL", "GO"])
def test_a_transfer_is_named_whatever_follows_it(unit, behind):
    go, follower = Opcode[f"{unit}_GO"], Opcode[f"{unit}_{behind}"]
    fields = {"PITCH": PITCH, "WAIT": {"semaphore": 3, "count": 0}, "SIGNAL": {"count": 1}, "GO": LONG}
    commands = [(go, LONG), (go, OUTSIDE), (follower, fields[behind])]
    assert faults(commands) == [MachineFault("MEMORY_RANGE", unit, 32)] * 2


@pytest.mark.parametrize("unit", ["LOAD", "STORE"])
def test_a_transfer_is_named_when_a_wait_behind_it_waits(unit):
    commands = [
        (Opcode[f"{unit}_GO"], LONG),
        (Opcode[f"{unit}_GO"], OUTSIDE),
        (Opcode[f"{unit}_WAIT"], {"count": 1}),
    ]
    assert faults(commands) == [MachineFault("MEMORY_RANGE", unit, 32)] * 2


def test_the_array_is_named_when_a_wait_behind_it_waits():
    commands = [*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 0}), (Opcode.ARRAY_WAIT, {"count": 1})]
    assert faults(commands) == [MachineFault("ILLEGAL", "ARRAY", 64)] * 2


@pytest.mark.parametrize(
    ("go", "expected"),
    [
        # Row 1 is misaligned before row 3 leaves the memory.
        ({"space": Space.WM, "row_bytes": 4, "rows": 4}, "ILLEGAL"),
        ({"row_bytes": 4, "rows": 4}, "MEMORY_RANGE"),
        ({"row_bytes": 4, "rows": 4, "streamed": 1}, "ILLEGAL"),
    ],
)
def test_rows_are_looked_at_in_their_order(go, expected):
    pitch = (Opcode.LOAD_PITCH, {"memory_pitch": 2730, "local_pitch": 8})
    assert faults([pitch, (Opcode.LOAD_GO, go)]) == [MachineFault(expected, "LOAD", 32)] * 2


def test_pitches_wrap():
    """Row 1 lies four bytes before row 0."""
    for machine in (Emulator(CONFIG), simulator()):
        memory, size = place(
            [
                (Opcode.LOAD_GO, {"row_bytes": 8, "rows": 1}),
                (Opcode.LOAD_SIGNAL, {"count": 1}),
                (Opcode.STORE_WAIT, {"count": 1}),
                (Opcode.STORE_PITCH, {"memory_pitch": (1 << 32) - 4, "local_pitch": (1 << 24) - 4}),
                (Opcode.STORE_GO, {"memory_address": 20, "local_address": 4, "row_bytes": 4, "rows": 2}),
            ]
        )
        memory[:8] = range(1, 9)
        machine.run(memory, PROGRAM_ADDRESS, size)
        assert memory[16:24].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


STORED = {"index": 0, "to_memory": 1}
UNDEFINED = {
    "micro-op": [(Opcode.VECTOR_GO, GO)],
    "micro-op behind the first": [(Opcode.VECTOR_UOP, STORED), (Opcode.VECTOR_GO, GO | {"uops": 2})],
    "bounds": [(Opcode.VECTOR_UOP, STORED | {"clamp": 1}), (Opcode.VECTOR_GO, GO)],
    "immediate": [(Opcode.VECTOR_UOP, STORED | {"b_source": Source.IMMEDIATE}), (Opcode.VECTOR_GO, GO)],
    "biases": [(Opcode.VECTOR_UOP, STORED | {"bias": 1}), (Opcode.VECTOR_GO, GO)],
    "scales": [(Opcode.VECTOR_UOP, STORED | {"op": Op.RESCALE, "per_channel": 1}), (Opcode.VECTOR_GO, GO)],
    "table": [(Opcode.VECTOR_UOP, STORED | {"op": Op.TABLE8}), (Opcode.VECTOR_GO, GO)],
    "large table": [(Opcode.VECTOR_UOP, STORED | {"op": Op.TABLE16}), (Opcode.VECTOR_GO, GO)],
    "offsets": [
        (Opcode.VECTOR_STREAM, {"stream": 0, "indexed": 1}),
        (Opcode.VECTOR_UOP, STORED),
        (Opcode.VECTOR_GO, GO),
    ],
    "input": [*ARRAY_SETUP[1:], (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})],
    "window": [ARRAY_SETUP[0], ARRAY_SETUP[2], (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})],
    "kernel": [*ARRAY_SETUP[:2], (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})],
    "depthwise": [*ARRAY_SETUP, (Opcode.ARRAY_DEPTHWISE_GO, {"advances": 1, "group_rows": 1, "drain": 1})],
    "sums": [*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 1, "accumulate": 1})],
}

SETS_ALL_UP = [
    *ARRAY_SETUP,
    (
        Opcode.ARRAY_DEPTHWISE,
        {"delay": 2, "line": 1, "out_width": 1, "out_height": 1, "x_stride": 1, "y_stride": 1},
    ),
    (Opcode.ARRAY_GO, {"pixels": 1}),
    *((Opcode.VECTOR_UOP, {"index": index, "to_memory": 1}) for index in range(CONFIG.vector_uops)),
    *((Opcode.VECTOR_BOUNDS, {"index": index}) for index in range(CONFIG.vector_uops)),
    (Opcode.VECTOR_PARAM, {"bias": 1, "scale": 1}),
    (Opcode.VECTOR_TABLE, {"entries": 512}),
    (Opcode.VECTOR_OFFSETS, {"count": 512}),
    (Opcode.VECTOR_GO, GO | {"uops": CONFIG.vector_uops, "body_start": 0}),
]


@pytest.mark.parametrize("what", UNDEFINED)
def test_what_an_earlier_program_set_up_is_not_executed(what):
    """On one machine, without a reset between the two programs."""
    commands = UNDEFINED[what]
    expected = faults(commands)[0]
    assert expected.code == "ILLEGAL" and expected.program_counter == 16 * len(commands)
    harness = Harness(simulator_library(CONFIG))
    registers = Registers(harness)
    try:
        for program, error in ((SETS_ALL_UP, None), (commands, expected)):
            memory, size = place(program)
            code = memory[PROGRAM_ADDRESS : PROGRAM_ADDRESS + size].tobytes()
            harness.set_memory(memory, MEM_BASE)
            harness.set_timing(50, thousandths(None, CONFIG.word_bytes), 0, 0)
            registers.start(MEM_BASE, MEMORY_BYTES, [CoreProgram(PROGRAM_ADDRESS, size)])
            assert harness.run(200_000) == INTERRUPT
            failure = registers.failure([code])
            assert (failure and failure.fault) == error
            registers.write("IRQ", 3)
    finally:
        harness.close()
