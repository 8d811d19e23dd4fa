"""What the checker of programs accepts ends alike on emulator and RTL, and shows nothing of an earlier program."""

import collections
import functools
import gzip
import hashlib

import numpy as np
import pytest
from one_machine import ENDED, run_on
from shared_files import ABSENT, SHARED
from unsafe_programs import CONFIG, KINDS, PROGRAM, Unsafe, filled, unsafe_program

from tosaic.errors import DeviceError
from tosaic.hw.check_byte import check_byte
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, Opcode, encode, make
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.verify import verify
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.library import Harness
from tosaic.sim.stimulus import Stimulus

CASES = SHARED / "cases/programs"
PROGRAMS = 200
CYCLES_MAX = 2_000_000


def refusal(made: Unsafe) -> str | None:
    """What the checker says, if it does not accept the program."""
    program = made.program
    place = (program.program_address, program.program_bytes)
    try:
        verify(CONFIG, program.memory.copy(), *place, known=made.known)
    except DeviceError as error:
        return str(error)
    return None


@functools.cache
def machine() -> Harness:
    return Harness(simulator_library(CONFIG))


def assert_nothing_shows(program: Stimulus) -> None:
    """Memory, status and cycles are equal behind programs that left one byte or another one everywhere; and the memory
    is the emulator's."""
    wanted = program.memory.copy()
    Emulator(CONFIG).run(wanted, program.program_address, program.program_bytes)
    seen = []
    for byte in (0x11, 0xEE):
        assert run_on(machine(), CONFIG, filled(byte)).end == ENDED
        seen.append(run_on(machine(), CONFIG, program, max_cycles=CYCLES_MAX))
    assert seen[0] == seen[1]
    assert (seen[0].end, seen[0].memory) == (ENDED, hashlib.sha256(wanted).hexdigest())


def judge(numbers: range) -> collections.Counter[str]:
    """How many of each kind were accepted and refused."""
    found: collections.Counter[str] = collections.Counter()
    for number in numbers:
        made = unsafe_program(number)
        reason = refusal(made)
        assert (reason is not None) == made.refused, (number, made.kind, reason)
        found[f"{made.kind} {'refused' if reason else 'accepted'}"] += 1
        if reason is None:
            assert_nothing_shows(made.program)
    return found


def test_every_kind_is_refused_and_has_neighbours_that_are_not() -> None:
    found = collections.Counter((made.kind, made.refused) for made in map(unsafe_program, range(PROGRAMS)))
    assert found.keys() == {(kind.__name__.strip("_"), flag) for kind in KINDS for flag in (False, True)}


@pytest.mark.xdist_group("nano")
def test_what_is_accepted_shows_nothing_of_earlier_programs() -> None:
    judge(range(2 * len(KINDS)))


@pytest.mark.nightly
@pytest.mark.xdist_group("nano")
@pytest.mark.parametrize("first", range(2 * len(KINDS), PROGRAMS, 2 * len(KINDS)))
def test_what_is_accepted_shows_nothing_of_earlier_programs_of_more(first: int) -> None:
    judge(range(first, first + 2 * len(KINDS)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "self_modify_next",
            "PROGRAM at program counter 64 .*: bytes 4800..4815 reach the program in bytes 4096..4847,",
        ),
        (
            "uninit_register",
            "at program counter 160 .*: reads register 2 of slot 0, which no micro-op has written$",
        ),
        ("endless", "at program counter 16: the loop that begins there has no exit$"),
    ],
)
def test_programs_that_an_examination_found(name: str, reason: str) -> None:
    file, sizes = (
        CASES / f"program_{name}.bin.gz",
        {"self_modify_next": 752, "uninit_register": 240, "endless": 48},
    )
    if not file.is_file():
        pytest.skip(ABSENT)
    memory = np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8).copy()
    program = memory[PROGRAM : PROGRAM + sizes[name]].reshape(-1, INSTRUCTION_BYTES)
    # The files are older than the check bytes of today.
    begin = make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=CONFIG.hash)
    program[0] = np.frombuffer(encode(begin), np.uint8)
    program[:, 1] = [check_byte(instruction.tobytes()) for instruction in program]
    with pytest.raises(DeviceError, match=reason):
        verify(CONFIG, memory, PROGRAM, sizes[name])
