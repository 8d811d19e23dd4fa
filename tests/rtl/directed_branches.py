"""Branches with each condition while the flag is set, clear, and not tested; jumps in programs of all lengths; units
that wait, and were last, far in a program; queues of which each is full; more marks than there is room for; as many
bursts under way as may be; and the unit that a watchdog blames."""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
from directed_fields import SET_UP, emit_fields, take
from directed_sequencer import FAR_ENDS, GATE, QUICK, STARVES, UNITS, Run, behind_jump, jump_program
from odd_hosts import Curious, Impatient, Vast
from one_machine import Conditions, assembled

from tosaic.hw.config import Config
from tosaic.hw.csr_map import MARKS
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, Condition, Op, Opcode, Source
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import Stimulus

FLAGS = (1, None, 0)
"""What is tested; behind one that is set the next program begins with a clear flag."""
CROWD = 70
"""More instructions than a unit's queue holds."""
LENGTHS = range(3, 21)
"""Powers of two: instructions behind a jump."""
VAST_LENGTHS, VAST_BYTES = range(21, 24), (1 << 29) - (1 << 20)
"""Likewise, of which the memory has only the first ones, and the window that the host tells of."""
TOGETHER = 24
"""Runs that end in an error, on one machine."""


def branches(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A branch over a transfer, by each condition."""
    row = {"row_bytes": 8, "rows": 1}
    for condition in Condition:
        runs = []
        for flag in FLAGS:
            commands = [(Opcode.LOAD_GO, row | {"memory_address": flag or 0})]
            commands.append((Opcode.BRANCH, {"condition": Condition.NEVER}))
            if flag is not None:
                commands.append((Opcode.VECTOR_TEST, {"address": 0}))
            target = (len(commands) + 2) * INSTRUCTION_BYTES
            commands.append((Opcode.BRANCH, {"condition": condition, "target": target}))
            commands += [(Opcode.STORE_GO, row | {"memory_address": place}) for place in (256, 512)]
            runs.append((assembled(config, *commands), Conditions()))
        yield f"branches, {condition.name}", runs


def jumps_in_lengths(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A jump behind which a power of two instructions, and a few more, are left."""
    runs = []
    for bit in LENGTHS:
        assembler, memory = Assembler(config), np.zeros((1 << bit + 4) + 1024, np.uint8)
        assembler.emit(Opcode.BRANCH, target=2 * INSTRUCTION_BYTES, condition=Condition.ALWAYS)
        for _ in range(40):
            assembler.emit(Opcode.NOP)
        assembler.place(memory, 0)
        runs.append((Stimulus(memory, 0, ((1 << bit) + 6) * INSTRUCTION_BYTES), STARVES))
    yield "jumps in programs of all lengths", runs


def vast_lengths(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A jump in a program that the bus does not know to its end: a power of two instructions, and a few more."""
    runs = []
    for bit in VAST_LENGTHS:
        program = jump_program(config, 40, 2)
        program = dataclasses.replace(program, program_bytes=((1 << bit) + 6) * INSTRUCTION_BYTES)
        runs.append((program, Vast(latency_cycles=5, watchdog_cycles=250, size=VAST_BYTES)))
    yield "jumps in vast programs", runs


def ends(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Jumps to the last instruction, and behind it, in programs of all lengths."""
    runs = []
    for size in (*range(20, 28), 48, 64, 80, 96):
        runs += [(jump_program(config, size, size + more), QUICK) for more in range(-1, 4)]
    for bit in range(7, VAST_LENGTHS.stop):
        program = jump_program(config, 20, 1 << bit)
        program = dataclasses.replace(program, program_bytes=INSTRUCTION_BYTES << bit)
        runs.append((program, Vast(latency_cycles=5, watchdog_cycles=250, size=VAST_BYTES)))
    for first in range(0, len(runs), TOGETHER):
        yield f"jumps to the end {first}", runs[first : first + TOGETHER]


def long_program(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Some more instructions than 2^15, all of which are executed."""
    count = (1 << 15) + 5
    memory = np.zeros((count + 64) * INSTRUCTION_BYTES, np.uint8)
    assembler = Assembler(config)
    for _ in range(count):
        assembler.emit(Opcode.NOP)
    yield "a long program", [(Stimulus(memory, 0, assembler.place(memory, 0)), Conditions(latency_cycles=5))]


def far_units(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """All units take an instruction far in a program, or wait there for ever; the host asks where they are. Once more a
    BEGIN comes first."""
    begin = (Opcode.BEGIN, {"isa_hash": ISA_HASH, "config_hash": config.hash})
    curious = Curious(latency_cycles=5, watchdog_cycles=250)
    for target in FAR_ENDS:
        runs = []
        for kind in ("SIGNAL", "WAIT"):
            commands = [
                (Opcode[f"{unit}_{kind}"], {"semaphore": 1 + (kind == "WAIT"), "count": 1}) for unit in UNITS
            ]
            runs.append((behind_jump(config, target, [begin, *commands]), curious))
        yield f"all units at instruction {target}", runs


def full_queues(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A unit waits for a long transfer while more of its instructions come than its queue holds; another unit then
    takes all the tokens that they give."""
    for unit in UNITS:
        first = "STORE" if unit == "LOAD" else "LOAD"
        other = next(each for each in UNITS if each not in (unit, first))
        commands = [(Opcode[f"{first}_GO"], {"row_bytes": 2000, "rows": 1})]
        commands.append((Opcode[f"{first}_SIGNAL"], {"semaphore": GATE, "count": 1}))
        commands.append((Opcode[f"{unit}_WAIT"], {"semaphore": GATE, "count": 1}))
        commands += CROWD * [(Opcode[f"{unit}_SIGNAL"], {"semaphore": 1, "count": 1})]
        commands.append((Opcode[f"{other}_WAIT"], {"semaphore": 1, "count": CROWD}))
        program = assembled(config, *commands)
        slow = Conditions(latency_cycles=90, watchdog_cycles=2000)
        yield (
            f"a full queue of {unit}",
            [(program, slow), (program, dataclasses.replace(slow, latency_cycles=200))],
        )


def full_and_stuck(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Yields as many instructions as a unit's queue holds, and a few less or more, after one for whose token the unit
    waits for ever: it is not idle, so that the program has no end."""
    for unit in UNITS:
        waits, signals = ((Opcode[f"{unit}_{kind}"], {"count": 1}) for kind in ("WAIT", "SIGNAL"))
        amounts = range(config.queue_commands - 3, config.queue_commands + 3)
        programs = [assembled(config, waits, *[signals] * amount) for amount in amounts]
        yield f"a full queue of {unit} that is stuck", [(program, STARVES) for program in programs]


def many_marks(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Some more marks than are kept."""
    marks = [(Opcode.VECTOR_MARK, {"layer": number}) for number in range(MARKS + 3)]
    memory_bytes = 4 * MARKS * INSTRUCTION_BYTES
    yield "more marks than are kept", [(assembled(config, *marks, memory_bytes=memory_bytes), Conditions())]


def bursts_under_way(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Many short rows on a bus that takes each address at once and answers late: as many bursts as may be are under
    way."""
    for unit in ("LOAD", "STORE"):
        pitch = (Opcode[f"{unit}_PITCH"], {"memory_pitch": 9, "local_pitch": 5})
        program = assembled(config, pitch, (Opcode[f"{unit}_GO"], {"row_bytes": 3, "rows": 200}))
        runs = [(program, Conditions(latency_cycles=latency)) for latency in (120, 400)]
        yield f"bursts of {unit} under way", runs


def blamed(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A unit waits for the bus, or for another unit, while all others wait for tokens or have nothing to do: the
    watchdog, which the host sets anew meanwhile, names one of them."""
    row = {"row_bytes": 64, "rows": 1}
    for unit, stuck in (
        ("LOAD", [(Opcode.LOAD_GO, row)]),
        ("STORE", [(Opcode.STORE_GO, row)]),
        (
            "VECTOR",
            [
                (Opcode.VECTOR_UOP, {"op": Op.MOV, "a_source": Source.ARRAY}),
                (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1, "repeats": 1, "body_end": 1}),
            ],
        ),
    ):
        waits = [(Opcode[f"{other}_WAIT"], {"semaphore": 2, "count": 1}) for other in UNITS if other != unit]
        for name, others in ((unit, waits), (f"{unit} alone", [])):
            program = assembled(config, *stuck, *others)
            runs = [
                (program, Impatient(latency_cycles=600, patient_cycles=moment, patience=100))
                for moment in (500, 690)
            ]
            yield f"the watchdog blames {name}", runs


def blamed_behind(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """VECTOR waits for the array, which waits for weights that nobody loads."""
    assembler, memory = Assembler(config), np.zeros(1 << 12, np.uint8)
    fields = {"row_bytes": 64, "height": 1, "width": 1, "ky_count": 1, "run_count": 1, "chunks": 1}
    emit_fields(assembler, fields | {"pixels": 1, "drain": 1, "streamed": 1}, *SET_UP, Opcode.ARRAY_GO)
    take(assembler, 1, 1 << 10)
    program = Stimulus(memory, 0, assembler.place(memory, 0))
    yield "the watchdog blames the array", [(program, STARVES)]


def blamed_of_two(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """LOAD and STORE each wait for the bus, for a token, for both, or for nothing; the array for a token, or not."""
    row = {"row_bytes": 64, "rows": 1}
    slow = Impatient(latency_cycles=600, patient_cycles=300, patience=100)
    for array in (0, 1):
        runs = []
        for ways in itertools.product(((), ("GO",), ("WAIT",), ("GO", "WAIT")), repeat=2):
            commands = [(Opcode.ARRAY_WAIT, {"semaphore": 2, "count": 1})] * array
            for unit, kinds in zip(("LOAD", "STORE"), ways, strict=True):
                of = {"GO": row, "WAIT": {"semaphore": 3, "count": 1}}
                commands += [(Opcode[f"{unit}_{kind}"], of[kind]) for kind in kinds]
            runs.append((assembled(config, *commands), slow))
        yield f"the watchdog blames one of two, {array}", runs


def waits_behind_errors(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A unit finds an error while a WAIT, for which there is no token, is behind that: at once, or in a later row."""
    runs = []
    for unit in UNITS:
        wait = (Opcode[f"{unit}_WAIT"], {"semaphore": 2, "count": 1})
        fields: list[dict[str, int]] = [{"pixels": 1}]
        if unit in ("LOAD", "STORE"):
            fields = [{"memory_address": 8000, "row_bytes": 60, "rows": rows} for rows in (1, 4, 9)]
            fields.append({"memory_address": 8190, "row_bytes": 60, "rows": 1})
        if unit == "VECTOR":
            fields = [{"vectors": 1, "slots": 1, "uops": 1}]
        pitch = [(Opcode[f"{unit}_PITCH"], {"memory_pitch": 40})] if unit in ("LOAD", "STORE") else []
        for each in fields:
            runs.append((assembled(config, *pitch, (Opcode[f"{unit}_GO"], each), wait), QUICK))
    yield "waits behind errors", runs


def branch_runs(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """All of them, by name; the runs of each follow one another on one machine."""
    for family in (
        branches,
        jumps_in_lengths,
        long_program,
        far_units,
        full_queues,
        full_and_stuck,
        many_marks,
        bursts_under_way,
        blamed,
        blamed_behind,
        blamed_of_two,
        waits_behind_errors,
        vast_lengths,
        ends,
    ):
        yield from family(config)


__all__ = ["branch_runs"]
