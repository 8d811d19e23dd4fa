"""What the measurements of the RTL run: programs of the tests, each with the bus's behaviour, and what a host sees.

Random programs of every kind, random graphs, every instruction with all its fields 0, programs that end in an error of
each unit, mutated programs, buses that hesitate, wait long or answer with errors, and hosts that poll, write single
bytes of registers and do not wait for answers; all on one machine without a reset in between.
"""

import contextlib
import dataclasses
import pathlib
import random
import sys
from collections.abc import Iterator, Sequence

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
for _folder in ("rtl", "fuzzing", "random_graphs"):
    sys.path.insert(0, str(ROOT / "tests" / _folder))

from changed_programs import mutant  # noqa: E402 (the path comes first)
from directed_array import array_programs  # noqa: E402 (the path comes first)
from directed_decode import decode_programs  # noqa: E402 (the path comes first)
from directed_edges import across_banks, cut, every_unit, field_edges, placed, without_begin  # noqa: E402 (the path comes first)
from directed_fields import all_directed  # noqa: E402 (the path comes first)
from directed_jobs import (  # noqa: E402 (the path comes first)
    blocks_on_sums,
    cut_jobs,
    endless_jobs,
    jobs_without,
    lone_bits,
    pairs_alone,
    set_up_array,
    sums_behind,
)
from directed_memory import memory_programs  # noqa: E402 (the path comes first)
from directed_rows import row_programs  # noqa: E402 (the path comes first)
from directed_runs import all_runs, more_programs  # noqa: E402 (the path comes first)
from directed_transfers import longest_run  # noqa: E402 (the path comes first)
from directed_wide import wide_programs  # noqa: E402 (the path comes first)
from directed_windows import BASES, windows  # noqa: E402 (the path comes first)
from odd_hosts import run_any  # noqa: E402 (the path comes first)
from one_machine import (  # noqa: E402 (the path comes first)
    ENDED,
    HUNG,
    READ,
    Conditions,
    Seen,
    assembled,
    random_programs,
    run_on,
    tokens_one_by_one,
)
from random_growth import random_graph  # noqa: E402

from tosaic.compiler.build import compile_graph  # noqa: E402 (the path comes first)
from tosaic.errors import DeviceError, Error  # noqa: E402 (the path comes first)
from tosaic.hw.config import CONFIGS, Config  # noqa: E402 (the path comes first)
from tosaic.hw.csr_map import REGISTER, REGISTERS, FieldAccess  # noqa: E402 (the path comes first)
from tosaic.hw.isa import CoreProgram, Opcode  # noqa: E402 (the path comes first)
from tosaic.sim.registers import REGISTER_BYTES, Registers  # noqa: E402 (the path comes first)
from tosaic.sim.rtl.library import Harness  # noqa: E402 (the path comes first)
from tosaic.sim.rtl.simulator import MEM_BASE  # noqa: E402 (the path comes first)
from tosaic.sim.stimulus import Stimulus, random_program  # noqa: E402 (the path comes first)

PORT_BYTES = 1 << 12
WRONG_BYTES = 13 * REGISTER_BYTES
"""Bytes between places without a register that a host writes."""
FAR_BITS = 23
"""Each power of two up to here, in each address and length, is beyond the memory."""
EDGE_CYCLES = 6000
"""Cycles of a short program with an odd field; some have very much to do."""
MOST_CYCLES = 1 << 20
"""Cycles of the longest runs."""
RESTARTED = (
    *("SLVERR, LOAD", "SLVERR, STORE", "SLVERR, fetch", "waits forever, VECTOR", "window, STORE"),
    *("memory, LOAD", "nothing set up, ARRAY", "check byte", "too many tokens, STORE"),
)
"""Names of errors that a program follows."""
WIDE = 6
"""Programs of each family of fields of all magnitudes."""
PATTERNS = (0xFFFF_FFFF, 0x5A5A_A5A5, 0, 0xA5A5_5A5A)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    program: Stimulus
    conditions: Conditions = Conditions()
    max_cycles: int = 200_000
    before: "Case | None" = None
    """A program that runs before it on the same machine."""

    def run(self, harness: Harness, config: Config, most: int | None = None) -> Seen:
        """What is seen of it, and of the one before it, in `most` cycles at most."""
        most = self.max_cycles if most is None else most
        first = self.before.run(harness, config, most) if self.before else None
        if first and first.end != ENDED:
            return first
        second = run_any(harness, config, self.program, self.conditions, most)
        if not first:
            return second
        registers, marks = (*first.registers, *second.registers), (*first.marks, *second.marks)
        return Seen(second.end, first.memory + second.memory, registers, marks)


def cases(config: Config, amount: int) -> Iterator[Case]:
    """`amount` of each family, in an order that does not change."""
    yield from errors(config)
    yield from restarts(config)
    yield from graphs(config, amount)
    for number, program in enumerate(random_programs(config, range(900, 900 + amount))):
        yield Case(f"random {number}", program)
        if number % 3 == 0:
            busy = Conditions(stall_percent=50, seed=number + 1, latency_cycles=1 + number % 7 * 40)
            yield Case(f"random {number}, stalls", program, busy)
    for name, program in all_directed(config):
        yield Case(name, program)
        yield Case(f"{name}, stalls", program, Conditions(stall_percent=50, seed=3))
    for seed in range(1000, 1000 + 4 * amount):  # these take little time
        for kind in ("depthwise", "transfers"):
            yield Case(f"{kind} {seed}", random_program(config, kind, seed))
    for offset in range(config.columns):
        yield Case(f"across banks by {offset}", across_banks(config, offset))
    for name, program in field_edges(config):
        yield Case(name, program, Conditions(latency_cycles=5, watchdog_cycles=500), EDGE_CYCLES)
    yield Case("BEGIN comes later", without_begin(config))
    for count in (0, 1, 9):
        yield Case(f"cut behind {count} instructions", cut(config, count))
    for number, (name, program) in enumerate(wide_programs(config, range(WIDE * amount))):
        yield Case(name, program, Conditions(mem_base=BASES[number % len(BASES)]))
        if any(each in name for each in ("crowded", "tokens")):
            yield Case(f"{name}, polled", program, Conditions(polls=True))
            yield Case(f"{name}, stalls", program, Conditions(stall_percent=60, seed=number))
    for name, program, conditions, _ in windows(config):
        yield Case(name, program, conditions)
    for name, program in row_programs(config, amount):
        yield Case(name, program, Conditions(latency_cycles=9, watchdog_cycles=2000), EDGE_CYCLES)
    for name, program in decode_programs(config):
        yield Case(name, program)
        yield Case(f"{name}, stalls", program, Conditions(stall_percent=50, seed=5, latency_cycles=90))
    for name, program in more_programs(config):
        yield Case(name, program, max_cycles=MOST_CYCLES)
    for name, runs in all_runs(config):
        yield chained(name, runs)
    yield Case("the longest run", longest_run(config), max_cycles=MOST_CYCLES)
    if config == CONFIGS["nano"]:
        yield from array_and_banks(config)
        for number in range(12 * amount):
            yield Case(f"mutated program {number}", mutant(number))


def array_and_banks(config: Config) -> Iterator[Case]:
    """The array's counters and the memory's banks; jobs that are illegal, too long, or not set up any more."""
    for name, program in (*array_programs(config), *memory_programs(config)):
        yield Case(name, program)
    for name, program in (
        *lone_bits(config),
        *pairs_alone(config),
        *endless_jobs(config),
        *cut_jobs(config),
        *blocks_on_sums(config),
        *sums_behind(config),
    ):
        yield Case(name, program, Conditions(latency_cycles=5, watchdog_cycles=100), EDGE_CYCLES)
    before = Case("an array that is set up", set_up_array(config))
    for name, program in jobs_without(config):
        yield Case(name, program, Conditions(watchdog_cycles=100), before=before)


def chained(name: str, runs: Sequence[tuple[Stimulus, Conditions]]) -> Case:
    """Programs that follow each other on one machine."""
    case: Case | None = None
    for program, conditions in runs:
        case = Case(name, program, conditions, before=case)
    assert case
    return case


def restarts(config: Config) -> Iterator[Case]:
    """A program that uses every unit, behind the soft reset that an error of another one needs."""
    every, ends = placed(every_unit(config)), [case for case in errors(config) if case.name in RESTARTED]
    rows = {"row_bytes": 4000, "rows": 1}
    long = assembled(config, *4 * [(Opcode.LOAD_GO, rows), (Opcode.STORE_GO, rows)])
    reads = Conditions(read_error_at=512, latency_cycles=200, stall_percent=40)
    writes = Conditions(write_error_at=64)
    for end in (*ends, Case("long reads", long, reads), Case("long writes", long, writes)):
        for number, conditions in enumerate((Conditions(), Conditions(stall_percent=50, latency_cycles=150))):
            yield Case(f"every unit behind {end.name}, {number}", every, conditions, before=end)


def registers_seen(harness: Harness) -> Seen:
    """What the control port answers to reads and writes of what a host may set, each byte changed in every way, and to
    reads of all other places; then the same when it is locked."""
    kept = [
        register.offset
        for register in REGISTERS
        if register.mask(FieldAccess.RW) and register.name != "CONTROL"
    ]
    answers = _while_it_runs(harness)
    for locked in (0, 1):
        for pattern in PATTERNS:
            for place in kept:
                with contextlib.suppress(DeviceError):
                    harness.control_write(place, pattern ^ place)
            answers += [(f"0x{place:x}", harness.control_read(place)) for place in kept]
        for place in range(REGISTERS[-1].offset + REGISTER_BYTES, PORT_BYTES, WRONG_BYTES):
            try:
                harness.control_write(place, place)
            except DeviceError as error:
                answers.append((str(error), 1))
        for place in range(0, PORT_BYTES, REGISTER_BYTES):
            try:
                answers.append((f"0x{place:x}", harness.control_read(place)))
            except DeviceError as error:
                answers.append((str(error), 0))
        harness.control_write(REGISTER["LOCK"].offset, 0xFFFF_FFFF * (1 - locked))
    return Seen("ended", registers=tuple(answers))


def _while_it_runs(harness: Harness) -> list[tuple[str, int]]:
    """All registers, again and again from the start on, of a program of which nothing is there."""
    harness.set_memory(np.zeros(PORT_BYTES, np.uint8), MEM_BASE)
    registers = Registers(harness)
    registers.start(MEM_BASE, PORT_BYTES, [CoreProgram(0, 0)], 2000)
    return [(name, registers.read(name)) for _ in range(3) for name in READ]


def graphs(config: Config, amount: int) -> Iterator[Case]:
    """Random graphs, compiled."""
    for seed in range(amount):
        graph = random_graph(random.Random(seed).randint)
        with contextlib.suppress(Error):
            program = compile_graph(graph.graph, config)
            memory = program.memory()
            for tensor in program.inputs:
                tensor.write(memory, graph.feeds(seed)[tensor.name])
            yield Case(f"graph {seed}", Stimulus(memory, program.program_address, program.program_bytes))


def errors(config: Config) -> Iterator[Case]:
    """A program that ends in each error of the units, of the bus, of the sequencer and of the watchdog."""
    long = {"row_bytes": 1024, "rows": 1}
    outside = {"memory_address": 8190, "row_bytes": 8, "rows": 1}
    beyond = {"local_address": config.am_bytes - 4, "row_bytes": 64, "rows": 1}
    ends = {
        "window, LOAD": [(Opcode.LOAD_GO, outside)],
        "window, STORE": [(Opcode.STORE_GO, outside)],
        "memory, LOAD": [(Opcode.LOAD_GO, beyond)],
        "memory, STORE": [(Opcode.STORE_GO, beyond)],
        "nothing set up, VECTOR": [(Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "uops": 1})],
        "nothing set up, ARRAY": [(Opcode.ARRAY_GO, {"pixels": 1})],
        "branch outside": [(Opcode.BRANCH, {"target": 1 << 20})],
    }
    for unit in ("LOAD", "ARRAY", "VECTOR", "STORE"):
        waits = assembled(config, (Opcode[f"{unit}_WAIT"], {"semaphore": 2, "count": 1}))
        patience = 20_000 if unit == "LOAD" else 600
        yield Case(f"waits forever, {unit}", waits, Conditions(watchdog_cycles=patience))
        ends[f"too many tokens, {unit}"] = [(Opcode[f"{unit}_SIGNAL"], {"semaphore": 1, "count": 255})] * 17
    for opcode in Opcode:
        ends[f"{opcode.name}, all fields 0"] = [(opcode, {})]
    for unit in ("LOAD", "STORE"):
        for bit in range(config.am_bytes.bit_length() - 1, FAR_BITS):
            here = {"memory_address": 64, "row_bytes": 8, "rows": 2}
            for field in ("memory_address", "local_address", "row_bytes"):
                ends[f"{unit}, {field} 2^{bit}"] = [(Opcode[f"{unit}_GO"], here | {field: 1 << bit})]
            pitch = {"memory_pitch": 8, "local_pitch": 8}
            for field in pitch:
                far = (Opcode[f"{unit}_PITCH"], pitch | {field: 1 << bit})
                ends[f"{unit}, {field} 2^{bit}"] = [far, (Opcode[f"{unit}_GO"], here)]
    for name, commands in ends.items():
        yield Case(name, assembled(config, *commands))
    copy = [
        (Opcode.LOAD_GO, long),
        (Opcode.LOAD_SIGNAL, {"count": 1}),
        (Opcode.STORE_WAIT, {"count": 1}),
        (Opcode.STORE_GO, long),
    ]
    yield Case("SLVERR, LOAD", assembled(config, *copy), Conditions(read_error_at=512))
    yield Case("SLVERR, STORE", assembled(config, *copy), Conditions(write_error_at=512))
    yield Case("SLVERR, fetch", assembled(config, *copy), Conditions(read_error_at=4096))
    yield Case("tokens one by one", tokens_one_by_one(config))
    damaged = assembled(config, *copy)
    damaged.memory[damaged.program_address + 20] ^= 1
    yield Case("check byte", damaged)
    short = assembled(config, *copy)
    yield Case("no END", dataclasses.replace(short, program_bytes=short.program_bytes - 16))
    yield Case("no program", dataclasses.replace(short, program_bytes=0))
    yield Case("odd program", dataclasses.replace(short, program_address=short.program_address + 1))


__all__ = ["HUNG", "PORT_BYTES", "Case", "Conditions", "Seen", "cases", "registers_seen", "run_on"]
