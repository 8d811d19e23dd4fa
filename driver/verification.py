"""Checks compiled programs on every path, with what their files tell of inputs and results."""

from tosaic.compiler.program import Program
from tosaic.errors import UnsupportedError
from tosaic.sim.emulator.verify import Verified, verify


def verify_program(program: Program) -> Verified:
    """Check a program, and its boot part before it. DeviceError names the first instruction at fault."""
    if program.others:
        raise UnsupportedError(
            "programs of several cores are not checked on every path: run it on the emulator with --check"
        )
    boot, memory, known, scratch = program.boot, program.memory(), program.known(), program.scratch()
    place = (program.program_address, program.program_bytes)
    if boot is None:
        return verify(program.config, memory, *place, known=known, scratch=scratch)
    once = (boot.program_address, boot.program_bytes)
    first = verify(
        program.config, memory, *once, known=known, scratch=scratch, beside=[range(place[0], sum(place))]
    )
    return verify(
        program.config, memory, *place, known=first.known, scratch=scratch, beside=[range(once[0], sum(once))]
    )
