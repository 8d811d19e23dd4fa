"""Legal programs with a few instructions changed, and what emulator and RTL make of them.

A mutant is a program of digits_tiny or of sim/stimulus.py with 1 to 3 changes: another value in a field, two
instructions swapped, one copied over another. Check bytes are right, so that the units see what was changed.
"""

import contextlib
import dataclasses
import functools
import pathlib
import random
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
from failed_case import Case, fewest
from side_by_side import OK, UNORDERED, WATCHDOG, SideBySide, end_of

import tosaic.examples
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.driver.jobs import Done, Job
from tosaic.errors import MachineFault, UnsupportedError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import FIELDS, INSTRUCTION_BYTES, Field, Instruction, Opcode, decode, encode
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.external_memory import ExternalBytes
from tosaic.sim.emulator.state import CoreState
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.stimulus import KINDS, Stimulus, random_program

_HERE = pathlib.Path(__file__).resolve().parent
CONFIG = CONFIGS["nano"]
DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits_tiny.tosa"
CYCLES_MAX = 400_000
INSTRUCTIONS_MAX = 20_000
EMULATOR_SECONDS = 3.0
"""A mutant that takes longer is given up: its loops have millions of turns."""

SAME, SEVERAL, ENDLESS, PARALLEL, SHARED, OVER_ITSELF, GIVEN_UP, WRONG = (
    "the same end",
    "several units at fault, of which each names one",
    "a program that waits forever: WATCHDOG, whose unit and place the emulator does not predict",
    "a program that only runs side by side",
    "two units wait for one semaphore",
    "a program that changes itself, which no program may",
    "given up",
    "NOT EXPLAINED",
)


class OutOfTime(Exception):
    """The emulator takes too long."""


@functools.cache
def _digits() -> Stimulus:
    program = compile_graph(read_tosa(DIGITS), CONFIG)
    return Stimulus(program.memory(), program.program_address, program.program_bytes)


def mutant(number: int) -> Stimulus:
    """Mutant `number`."""
    rng = random.Random(number)
    kinds = ["digits", *KINDS]
    kind = kinds[number % len(kinds)]
    if kind == "digits":
        original = dataclasses.replace(_digits(), memory=_digits().memory.copy())
    else:
        original = random_program(CONFIG, kind, number // len(kinds))
    place = slice(original.program_address, original.program_address + original.program_bytes)
    code = original.memory[place].tobytes()
    instructions = [
        decode(code[offset : offset + INSTRUCTION_BYTES]) for offset in range(0, len(code), INSTRUCTION_BYTES)
    ]
    for _ in range(rng.randint(1, 3)):
        _change(instructions, rng)
    original.memory[place] = np.frombuffer(b"".join(map(encode, instructions)), np.uint8)
    return original


def _change(instructions: list[Instruction], rng: random.Random) -> None:
    first, second = rng.randrange(len(instructions)), rng.randrange(len(instructions))
    match rng.randrange(4):
        case 0:
            instructions[first], instructions[second] = instructions[second], instructions[first]
        case 1:
            instructions[first] = instructions[second]
        case _:
            instruction = instructions[first]
            if fields := FIELDS[instruction.opcode]:
                field = rng.choice(fields)
                value = _value(field, instruction.fields[field.name], rng)
                instructions[first] = Instruction(
                    instruction.opcode, instruction.fields | {field.name: value}
                )


def _value(field: Field, old: int, rng: random.Random) -> int:
    low, high = (
        (-(1 << field.bits - 1), (1 << field.bits - 1) - 1) if field.signed else (0, (1 << field.bits) - 1)
    )
    near = [old + step for step in (-1, 1, -16, 16)]
    choices = [low, high, 0, 1, rng.randint(low, high), rng.randint(low, high), *near]
    return min(max(rng.choice(choices), low), high)


@functools.cache
def _simulator() -> RtlSimulator:
    return RtlSimulator(CONFIG)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How the two ends of a mutant fit together."""

    kind: str
    emulated: MachineFault | str
    simulated: MachineFault | str


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def judge(program: Stimulus) -> Verdict:
    """Run the program on both, each on a fresh machine."""
    place = (program.program_address, program.program_bytes)
    simulated = end_of(lambda: _simulator().run(program.memory.copy(), *place, max_cycles=CYCLES_MAX))
    try:
        with time_limit(EMULATOR_SECONDS):
            emulated = end_of(
                lambda: Emulator(CONFIG).run(program.memory.copy(), *place, max_cycles=INSTRUCTIONS_MAX)
            )
            return Verdict(_compare(program, emulated, simulated), emulated, simulated)
    except (OutOfTime, UnsupportedError):
        return Verdict(GIVEN_UP, UNORDERED, simulated)


def case_of(program: Stimulus) -> Case:
    """The program with its memory, as a failed case."""
    settings = {"address": program.program_address, "bytes": program.program_bytes}
    return Case("changed_programs:judge_case", (str(_HERE),), program.memory.tobytes(), settings)


def judge_case(data: bytes, settings: dict[str, Any]) -> str:
    """How emulator and RTL differ on a program, if nothing explains it."""
    memory = np.frombuffer(data, np.uint8).copy()
    verdict = judge(Stimulus(memory, settings["address"], settings["bytes"]))
    return f"emulator {verdict.emulated}, RTL {verdict.simulated}" if verdict.kind == WRONG else ""


def smaller_program(case: Case) -> Case:
    """Returns the case with only those instructions that it needs to fail."""
    address, size = case.settings["address"], case.settings["bytes"]
    code = case.data[address : address + size]
    pieces = [code[at : at + INSTRUCTION_BYTES] for at in range(0, size, INSTRUCTION_BYTES)]

    def of(some: list[bytes]) -> Case:
        text = b"".join(some)
        data = case.data[:address] + text.ljust(size, b"\0") + case.data[address + size :]
        return dataclasses.replace(case, data=data, settings=case.settings | {"bytes": len(text)})

    return of(fewest(pieces, lambda some: bool(some) and bool(of(some).problem())))


def judge_job(job: Job) -> Done:
    """The verdict on the mutant whose number is the job's seed."""
    verdict = judge(mutant(job.seed))
    found = {"kind": verdict.kind, "ended": verdict.emulated == OK}
    if verdict.kind == WRONG:
        found["ends"] = f"emulator {verdict.emulated}, RTL {verdict.simulated}"
    return Done(found)


def _compare(program: Stimulus, emulated: MachineFault | str, simulated: MachineFault | str) -> str:
    if UNORDERED in (emulated, simulated):
        return GIVEN_UP
    if emulated == simulated:
        return SAME
    waits = isinstance(simulated, MachineFault) and simulated.code == WATCHDOG
    if emulated == WATCHDOG:
        return ENDLESS if waits else WRONG
    if waits and isinstance(emulated, MachineFault) and emulated.code == "PROGRAM":
        return ENDLESS
    start, end = program.program_address, program.program_address + program.program_bytes
    if isinstance(emulated, MachineFault) and emulated.code == "PROGRAM":
        place = start + emulated.program_counter
        if program.memory[place] == Opcode.STORE_GO:
            return OVER_ITSELF
    execution = SideBySide(CoreState(CONFIG, ExternalBytes.of(program.memory.copy())))
    possible = execution.ends(program.memory[start:end].tobytes(), INSTRUCTIONS_MAX)
    if possible == {UNORDERED}:
        return GIVEN_UP
    if (WATCHDOG if waits else simulated) not in possible:
        return SHARED if execution.shares_tokens(program.memory[start:end].tobytes()) else WRONG
    if not isinstance(emulated, MachineFault) or emulated.code != "PROGRAM":
        return SEVERAL if emulated in possible else WRONG
    return PARALLEL


__all__ = [
    "ENDLESS",
    "GIVEN_UP",
    "OK",
    "OVER_ITSELF",
    "PARALLEL",
    "SAME",
    "SEVERAL",
    "SHARED",
    "WRONG",
    "Verdict",
    "case_of",
    "judge",
    "judge_case",
    "judge_job",
    "mutant",
    "smaller_program",
]
