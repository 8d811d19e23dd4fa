"""Programs on a machine that stays: all that a host sees of a run, to be compared with that of another machine."""

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTERS
from tosaic.hw.isa import CoreProgram, Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.bandwidth import thousandths
from tosaic.sim.registers import Registers
from tosaic.sim.rtl.library import PROTOCOL, TIMEOUT, Harness
from tosaic.sim.rtl.simulator import MEM_BASE
from tosaic.sim.stimulus import KINDS, Stimulus, random_program

MEMORY_BYTES = 1 << 13
ENDED, HUNG, BROKE_AXI = "ended", "hung", "broke a rule of AXI4"
KEPT = ("LOAD_PC", "ARRAY_PC", "VECTOR_PC", "STORE_PC")
"""Registers that tell what a unit took last, which may have been in an earlier program."""
MARKS = ("MARK_INDEX", "MARK_LAYER", "MARK_CYCLE")
"""A window on the marks, whose memory keeps those of earlier programs; a run's own are compared apart."""
READ = tuple(register.name for register in REGISTERS if register.name not in KEPT + MARKS)
RESET_READS = 1000
"""Largest number of reads of STATUS until a soft reset has ended."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a host sees of a run: equal for equal machines."""

    end: str
    memory: str = ""
    """A hash of external memory."""
    registers: tuple[tuple[str, int], ...] = ()
    """Values of the registers in READ: cycles, counters, status, error, what the host set."""
    marks: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Conditions:
    """How the bus behaves, and which beats it answers with SLVERR (offsets in external memory)."""

    stall_percent: int = 0
    seed: int = 0
    latency_cycles: int = 50
    read_error_at: int | None = None
    write_error_at: int | None = None
    watchdog_cycles: int = 20_000
    mem_base: int = dataclasses.field(default=MEM_BASE, repr=False)
    """MEM_BASE, which is not in the text: it is a register that is seen, as is what a host that polls reads."""
    polls: bool = dataclasses.field(default=False, repr=False)
    """The host reads all registers while the machine runs, one after the other."""


def begin(
    harness: Harness, config: Config, program: Stimulus, conditions: Conditions
) -> tuple[np.ndarray, Registers]:
    """Start a program on the machine as it is now, behind an error with a soft reset; its memory, and the registers."""
    memory, registers = made_ready(harness, config, program, conditions)
    stream = CoreProgram(program.program_address, program.program_bytes)
    registers.start(conditions.mem_base, len(memory), [stream], conditions.watchdog_cycles)
    return memory, registers


def made_ready(
    harness: Harness, config: Config, program: Stimulus, conditions: Conditions
) -> tuple[np.ndarray, Registers]:
    """All that `begin` does before it tells the machine of the program."""
    memory, registers = program.memory.copy(), Registers(harness)
    if registers.field("STATUS", "error"):
        registers.control("soft_reset")
        assert any(registers.field("STATUS", "idle") for _ in range(RESET_READS))
    harness.set_memory(memory, conditions.mem_base)
    bandwidth = thousandths(None, config.word_bytes)
    harness.set_timing(conditions.latency_cycles, bandwidth, conditions.stall_percent, conditions.seed)
    errors = (conditions.read_error_at, conditions.write_error_at)
    harness.set_errors(*(None if offset is None else conditions.mem_base + offset for offset in errors))
    return memory, registers


def run_on(
    harness: Harness,
    config: Config,
    program: Stimulus,
    conditions: Conditions = Conditions(),
    max_cycles: int = 200_000,
) -> Seen:
    """Run a program on the machine as it is now, without a reset; behind an error with a soft one, which it needs."""
    memory, registers = begin(harness, config, program, conditions)
    first, polled = harness.cycle, list[tuple[str, int]]()
    while conditions.polls and registers.field("STATUS", "running") and harness.cycle - first < max_cycles:
        polled += [(name, registers.read(name)) for name in READ]
    return finish(harness, registers, memory, max_cycles, polled)


def finish(
    harness: Harness,
    registers: Registers,
    memory: np.ndarray,
    max_cycles: int,
    before: Sequence[tuple[str, int]] = (),
) -> Seen:
    """Wait for the end of the program that runs; what is seen then, behind what was seen `before`."""
    outcome = harness.run(max_cycles)
    if outcome == PROTOCOL:
        return Seen(BROKE_AXI)
    if outcome == TIMEOUT:
        return Seen(HUNG)
    marks = tuple(registers.marks())
    reported = [(name, registers.read(name)) for name in READ]
    registers.acknowledge()
    return Seen(ENDED, hashlib.sha256(memory).hexdigest(), (*before, *reported), marks)


def assembled(config: Config, *commands, memory_bytes: int = MEMORY_BYTES) -> Stimulus:
    """A program of (opcode, fields), at the middle of a memory of counting bytes."""
    assembler = Assembler(config)
    for opcode, fields in commands:
        assembler.emit(opcode, **fields)
    memory = np.arange(memory_bytes).astype(np.uint8)
    return Stimulus(memory, memory_bytes // 2, assembler.place(memory, memory_bytes // 2))


def tokens_one_by_one(config: Config) -> Stimulus:
    """STORE waits three times for one semaphore while LOAD, slowly, brings each row anew: a token too many would let it
    store the row before."""
    commands = []
    for number in range(3):
        commands += [
            (Opcode.LOAD_GO, {"memory_address": 1000 * number + 5, "row_bytes": 1000, "rows": 1}),
            (Opcode.LOAD_SIGNAL, {"count": 1}),
            (Opcode.STORE_WAIT, {"count": 1}),
            (Opcode.STORE_GO, {"memory_address": 5000 + 1000 * number, "row_bytes": 1000, "rows": 1}),
            (Opcode.STORE_SIGNAL, {"semaphore": 1, "count": 1}),
            (Opcode.LOAD_WAIT, {"semaphore": 1, "count": 1}),
        ]
    return assembled(config, *commands)


def random_programs(config: Config, seeds) -> list[Stimulus]:
    """One of every kind that the configuration runs, for each seed."""
    kinds = [*KINDS, *(["decode"] if config.cabac_engines else []), *(["packed"] if config.unpackers else [])]
    return [random_program(config, kind, seed) for seed in seeds for kind in kinds]


__all__ = [
    *("Conditions", "Seen", "assembled", "begin", "finish", "made_ready", "random_programs", "run_on"),
    "tokens_one_by_one",
]
