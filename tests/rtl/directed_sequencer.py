"""Programs of all lengths that begin, jump and end everywhere in a burst; tokens that are counted to the last one; a
host that resets the machine while it works."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from directed_decoder import tiny
from directed_programs import go, stream
from odd_hosts import Blind, Curious, Hasty
from one_machine import Conditions, assembled

from tosaic.hw.config import Config
from tosaic.hw.constants import FETCH_BURST_BYTES
from tosaic.hw.isa import (
    INSTRUCTION_BYTES,
    STORE_STREAM,
    Condition,
    Element,
    Instruction,
    Op,
    Opcode,
    Source,
    encode,
)
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

Run = tuple[Stimulus, Conditions]
UNITS = ("LOAD", "ARRAY", "VECTOR", "STORE")
QUICK = Conditions(latency_cycles=5)
STARVES = Conditions(latency_cycles=5, watchdog_cycles=250)
GATE = 15
"""A semaphore for which a unit waits before it signals."""
TOKENS = 4095
"""Largest number of tokens that a semaphore holds."""
MOST = 255
"""Tokens of a SIGNAL."""
MANY = 1023
"""Instructions of a long program."""
VERY_MANY = (1 << 14) + 0x28
"""Number of instructions of the longest program: each bit of the count after a jump is set in it, or in the others."""
NEAR_TARGETS = (0xAAA, 0x555, 0xCCC, 0x333, 0xF0F)
"""Instructions to which programs jump: each two bits of their numbers differ somewhere."""
LATER_TARGETS = (0xAAA, 0x40001, 0x2C940)
BORDER = 1 << 12
FAR_TARGET = 0x153D70
FARTHEST_TARGET = 0xC0002A
"""A number with the two highest bits of one, behind 192 MiB."""
FAR_ENDS = (FAR_TARGET, 0x0AC28F)
"""Two places of which each bit differs."""
GIVEN_UP = 65536
"""Cycles that a soft reset waits for the bus."""


def crowded_signals(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A unit that has waited signals many times at once; another one takes exactly these tokens, and waits for one
    more, which does not come."""
    for unit in UNITS:
        runs = []
        for other in UNITS:
            gate = next(each for each in UNITS if each not in (unit, other))
            signals = [(number % 3, 1 + 5 * number) for number in range(24)]
            sums = [sum(count for semaphore, count in signals if semaphore == each) for each in range(3)]
            commands = [(Opcode[f"{unit}_WAIT"], {"semaphore": GATE, "count": 1})]
            if other == unit:
                signals, sums = (
                    signals[:8],
                    [sum(c for s, c in signals[:8] if s == each) for each in range(3)],
                )
            commands += [(Opcode[f"{unit}_SIGNAL"], {"semaphore": s, "count": c}) for s, c in signals]
            for semaphore, total in enumerate(sums):
                for count in (*[MOST] * (total // MOST), total % MOST):
                    commands.append((Opcode[f"{other}_WAIT"], {"semaphore": semaphore, "count": count}))
            commands.append((Opcode[f"{gate}_SIGNAL"], {"semaphore": GATE, "count": 1}))
            commands += [(Opcode[f"{other}_WAIT"], {"semaphore": s, "count": 1}) for s in (0, 1, 2)]
            runs.append((assembled(config, *commands, memory_bytes=1 << 11), STARVES))
        yield f"crowded signals of {unit}", runs


def full_semaphores(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Fills semaphores with all the tokens that they hold, of which each is then taken: by two units, then by all,
    from all."""
    some = [("VECTOR", "LOAD"), ("STORE", "ARRAY")]
    others = [pair for pair in itertools.product(UNITS, UNITS) if pair not in some]
    for name, pairs in (("full semaphores", some), ("full semaphores of all units", others)):
        yield name, [(full_semaphore(config, *pair), STARVES) for pair in pairs]


def full_semaphore(config: Config, signals: str, waits: str) -> Stimulus:
    """The second unit takes all tokens of the first one, and waits for one more."""
    counts = [*[MOST] * (TOKENS // MOST), TOKENS % MOST]
    commands = [(Opcode[f"{signals}_SIGNAL"], {"semaphore": 9, "count": count}) for count in counts]
    commands.append((Opcode.BRANCH, {"condition": Condition.NEVER}))
    commands += [(Opcode[f"{waits}_WAIT"], {"semaphore": 9, "count": count}) for count in (*counts, 1)]
    return assembled(config, *commands, memory_bytes=1 << 11)


def lengths(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Programs much longer than the part that runs, by each power of two."""
    runs = []
    for bit in range(3, 21):
        assembler, memory = Assembler(config), np.zeros((1 << bit + 4) + 1024, np.uint8)
        for _ in range(40):
            assembler.emit(Opcode.NOP)
        assembler.place(memory, 0)
        for more in (6, 22):
            runs.append((Stimulus(memory, 0, ((1 << bit) + more) * INSTRUCTION_BYTES), STARVES))
    yield "lengths of programs", runs
    yield "many instructions", [(jump_program(config, MANY, 4), QUICK)]
    yield "very many instructions", [(jump_program(config, VERY_MANY, 4), QUICK)]


def jump_program(config: Config, size: int, target: int) -> Stimulus:
    """`size` instructions, of which the first ones jump to number `target`; the last one is END."""
    assembler = Assembler(config)
    assembler.emit(Opcode.BRANCH, target=target * INSTRUCTION_BYTES, condition=Condition.ALWAYS)
    while len(assembler.instructions) < size - 1:
        assembler.emit(Opcode.NOP)
    memory = np.zeros(max(1 << 10, (size + 1) * INSTRUCTION_BYTES), np.uint8)
    return Stimulus(memory, 0, assembler.place(memory, 0))


def jumps(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Programs that end everywhere in a burst, to every place of which they jump."""
    burst = FETCH_BURST_BYTES // INSTRUCTION_BYTES
    for size in range(2 * burst - 1, 3 * burst):
        targets = range(size - burst, size)
        yield f"jumps of {size}", [(jump_program(config, size, target), QUICK) for target in targets]


def jumps_from(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Jumps in windows that begin at each power of two."""
    program, runs = jump_program(config, 20, 13), []
    for bit in range(10, 32):
        for base in (1 << bit, ((1 << 32) - 1 ^ 1 << bit) & -(1 << 12)):
            if base < (1 << 32) - (1 << 12):
                runs.append((program, Conditions(latency_cycles=5, mem_base=base)))
    yield "jumps in windows everywhere", runs


def borders(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Programs across a border of 4 KiB, from each place where one may begin."""
    program, runs = jump_program(config, 40, 4), []
    code = program.memory[: program.program_bytes]
    for place in range(BORDER - 2 * FETCH_BURST_BYTES, BORDER + 64, 32):
        memory = np.zeros(2 * BORDER, np.uint8)
        memory[place : place + len(code)] = code
        runs.append((Stimulus(memory, place, len(code)), QUICK))
    yield "programs across a border", runs


def later_errors(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Errors some instructions behind a jump to far away."""
    ends = [(Opcode.LOAD_GO, {"memory_address": 1 << 31, "row_bytes": 8, "rows": 1})]
    ends.append((Opcode.BRANCH, {"target": 1 << 31, "condition": Condition.ALWAYS}))
    for target in LATER_TARGETS:
        runs = []
        for more, end in itertools.product(range(1, 4), ends):
            commands = [*[(Opcode.NOP, {})] * more, end, (Opcode.BRANCH, {"condition": Condition.NEVER})]
            runs.append((behind_jump(config, target, commands), QUICK))
        yield f"later errors behind instruction {target}", runs


def far_places(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Jumps to instructions far away, which are errors of each unit and of the sequencer."""
    outside = {"memory_address": 1 << 31, "row_bytes": 8, "rows": 1}
    ends = [(Opcode.LOAD_GO, outside), (Opcode.STORE_GO, outside), (Opcode.ARRAY_GO, {"pixels": 1})]
    ends += [(Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1})]
    ends += [(Opcode.BRANCH, {"target": 1 << 31, "condition": Condition.ALWAYS}), (Opcode.NOP, {})]
    for target in NEAR_TARGETS:
        yield f"errors at instruction {target}", [(far_end(config, target, *end), QUICK) for end in ends]
    far = [(far_end(config, FAR_TARGET, *end), QUICK) for end in ends[:2]]
    yield f"errors at instruction {FAR_TARGET}", far
    yield f"an error at instruction {FARTHEST_TARGET}", [(far_end(config, FARTHEST_TARGET, *ends[0]), QUICK)]
    branches = [(far_end(config, FAR_TARGET, *ends[4]), QUICK)]
    yield f"a branch outside at instruction {FAR_TARGET}", branches
    for target in FAR_ENDS:
        yield f"no END behind instruction {target}", [(far_end(config, target, *ends[5]), QUICK)]


def far_end(config: Config, target: int, opcode: Opcode, fields: dict[str, int]) -> Stimulus:
    """A program that jumps to instruction number `target`, which is this one. Behind a NOP there is no END."""
    if opcode is not Opcode.NOP:
        never = (Opcode.BRANCH, {"condition": Condition.NEVER})
        return behind_jump(config, target, [(opcode, fields), never])
    program = behind_jump(config, target, [(opcode, fields)])
    return dataclasses.replace(program, program_bytes=program.program_bytes - INSTRUCTION_BYTES)


def behind_jump(config: Config, target: int, commands: Iterable[tuple[Opcode, dict[str, int]]]) -> Stimulus:
    """A program that jumps to these commands, from instruction number `target` on."""
    place = target * INSTRUCTION_BYTES
    memory = np.zeros(place + 1024, np.uint8)
    jump, assembler = Assembler(config), Assembler(config)
    jump.emit(Opcode.BRANCH, target=place, condition=Condition.ALWAYS)
    code = b"".join(map(encode, jump.instructions))
    memory[: len(code)] = np.frombuffer(code, np.uint8)
    assembler.instructions = []
    for opcode, fields in commands:
        assembler.emit(opcode, **fields)
    return Stimulus(memory, 0, place + assembler.place(memory, place))


def last_places(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Each unit takes instructions far in a program, and the host asks where each of them was."""
    signals = [(Opcode[f"{unit}_SIGNAL"], {"semaphore": 1, "count": 1}) for unit in UNITS]
    runs = [(behind_jump(config, target, signals), Curious(latency_cycles=5)) for target in NEAR_TARGETS]
    yield "places of all units", runs


def resets(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A soft reset at many moments of a program that is being fetched while all is under way, with a program behind it;
    one behind which the program is started at once; and one that does not wait for an answer that does not come."""
    row = {"memory_address": 3, "row_bytes": 700, "rows": 1}
    moves = [(Opcode.LOAD_GO, row), (Opcode.STORE_GO, row), (Opcode.LOAD_GO, row)]
    program = assembled(config, *moves, *[(Opcode.NOP, {})] * 60)
    for first in range(40, 240, 40):
        runs = []
        for cycle in range(first, first + 40, 4):
            runs += [(program, Hasty(latency_cycles=30, reset_after=cycle)), (program, QUICK)]
        yield f"soft resets from cycle {first} on", runs
    short = tiny(*map(encode, [*Assembler(config).instructions, Instruction(Opcode.END, {})]))
    blind = [(short, Blind(latency_cycles=5, start_after=cycles)) for cycles in range(20)]
    yield "a start soon behind a soft reset", blind
    never = Hasty(latency_cycles=GIVEN_UP + 4000, reset_after=20, rest_cycles=GIVEN_UP - 500)
    yield "a soft reset without an answer", [(program, never)]


def stalls(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """VECTOR waits for the array, which waits for a long transfer, while the host reads all registers."""
    assembler, columns = Assembler(config), config.columns
    assembler.emit(Opcode.LOAD_GO, row_bytes=1200, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
    fields = {"row_bytes": 8 * columns, "height": 4}
    assembler.emit(Opcode.ARRAY_INPUT, **fields)
    assembler.emit(Opcode.ARRAY_WINDOW, x_step=columns, width=8)
    assembler.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    assembler.emit(Opcode.ARRAY_GO, weights=1, pixels=1, drain=1)
    stream(assembler, STORE_STREAM, 1024, [(1, 4 * columns)], element=Element.INT32)
    assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.MOV, a_source=Source.ARRAY, to_memory=1)
    go(assembler, 1, 1)
    memory = np.arange(1 << 12).astype(np.uint8)
    program = Stimulus(memory, 1 << 11, assembler.place(memory, 1 << 11))
    slow = Conditions(latency_cycles=250, polls=True)
    yield "VECTOR waits for long, polled", [(program, slow)]


def crowded_bus(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A long program is fetched while LOAD asks for many short rows, on a bus that seldom takes an address."""
    rows = {"row_bytes": 3, "rows": 500}
    commands = [(Opcode.LOAD_PITCH, {"memory_pitch": 5, "local_pitch": 3}), (Opcode.LOAD_GO, rows)]
    program = assembled(config, *commands, *[(Opcode.NOP, {})] * 150)
    for stall_percent in (30, 60, 85):
        runs = [
            (program, Conditions(stall_percent=stall_percent, latency_cycles=latency, seed=latency))
            for latency in (5, 40)
        ]
        yield f"a fetch beside LOAD, {stall_percent} % stalls", runs


def left_tokens(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Tokens of each semaphore that a program leaves do not count in the next one, which waits for one of them."""
    leaves = [(Opcode.STORE_SIGNAL, {"semaphore": each, "count": 3}) for each in range(config.semaphores)]
    runs = []
    for semaphore in range(config.semaphores):
        unit = UNITS[semaphore % len(UNITS)]
        waits = (Opcode[f"{unit}_WAIT"], {"semaphore": semaphore, "count": 1})
        for commands in (leaves, [waits]):
            runs.append((assembled(config, *commands, memory_bytes=1 << 11), STARVES))
    yield "tokens that are left", runs


def sequencer_runs(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """All of them, by name; the runs of each follow one another on one machine."""
    families = (crowded_signals, full_semaphores, lengths, jumps, jumps_from)
    families += (borders, later_errors, far_places, last_places, resets, stalls, left_tokens, crowded_bus)
    yield from itertools.chain.from_iterable(family(config) for family in families)


__all__ = ["Run", "behind_jump", "sequencer_runs"]
