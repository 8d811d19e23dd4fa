"""Where the host's window begins and ends, and how long the watchdog waits: programs with what comes of each."""

import dataclasses
import random
from collections.abc import Iterator

import numpy as np
from one_machine import Conditions, assembled

from tosaic.hw.config import Config
from tosaic.hw.isa import Condition, Error, Opcode
from tosaic.sim.rtl.simulator import MEM_BASE
from tosaic.sim.stimulus import Stimulus

BASES = (MEM_BASE, 0x35A6_9C40, 0xCA59_6380, 0x7FFF_F000, 0)
"""Where the host's window begins."""
SIZES = 8
Window = tuple[str, Stimulus, Conditions, Error]
"""A name, a program, the machine's conditions, and what comes of it."""


def long_transfers(config: Config) -> Iterator[Window]:
    """Rows of all lengths, in which an error soon comes, and many rows, of which one soon leaves the window."""
    for bit in range(12, 22):
        for kind in ("LOAD", "STORE"):
            row = {"row_bytes": (1 << bit) + 20, "rows": 1}
            program = assembled(config, (Opcode[f"{kind}_GO"], row))
            program.memory = np.resize(program.memory, 1 << bit + 1)
            place = {f"{'read' if kind == 'LOAD' else 'write'}_error_at": 256}
            error = Error.BUS_READ if kind == "LOAD" else Error.BUS_WRITE
            yield f"{kind} of 2^{bit} bytes", program, Conditions(**place), error
    for bit in range(6, 16):
        for kind in ("LOAD", "STORE"):
            pitch = (Opcode[f"{kind}_PITCH"], {"memory_pitch": 900, "local_pitch": 4})
            many = (Opcode[f"{kind}_GO"], {"row_bytes": 3, "rows": (1 << bit) + 1})
            yield f"{kind} of 2^{bit} rows", assembled(config, pitch, many), Conditions(), Error.MEMORY_RANGE


def windows(config: Config) -> Iterator[Window]:
    """Programs and rows that end with the window, or a byte behind it; windows of all sizes at all places. Patience of
    all lengths, and without an end."""
    rng = random.Random(1)
    for number in range(SIZES):
        whole, base = 1 << 13 + number, BASES[number % len(BASES)]
        size, row_bytes = rng.randrange(whole // 2 + 256, whole), rng.randrange(1, 900)
        row = {"memory_address": size - row_bytes, "row_bytes": row_bytes, "rows": 1}
        fence = (Opcode.BRANCH, {"condition": Condition.NEVER})
        moves = [(Opcode.LOAD_GO, row), fence, (Opcode.STORE_GO, row)]
        beyond = (Opcode.STORE_GO, row | {"memory_address": size - row_bytes + 1})
        slow = Conditions(mem_base=base, latency_cycles=300)
        for name, commands in (("to", moves), ("beyond", [*moves, beyond])):
            program = assembled(config, *commands, memory_bytes=whole)
            program = dataclasses.replace(program, memory=program.memory[:size])
            yield (
                f"{name} the end of {size}",
                program,
                slow,
                Error.MEMORY_RANGE if beyond in commands else Error.NONE,
            )
        at_end = assembled(config, memory_bytes=2 * (size // 64 * 64))
        for missing in (0, 1):
            memory = at_end.memory[: at_end.program_address + at_end.program_bytes - missing]
            program = dataclasses.replace(at_end, memory=memory)
            error = Error.MEMORY_RANGE if missing else Error.NONE
            yield f"{len(memory)} bytes, {missing} missing", program, Conditions(mem_base=base), error
    yield from long_transfers(config)
    waits = assembled(config, (Opcode.STORE_WAIT, {"semaphore": 2, "count": 1}))
    for patience in (*(1 << bit for bit in range(5, 14)), 0x1FFF, 0x1555, 0xAAA, 0x4F3D):
        impatient = Conditions(watchdog_cycles=patience, latency_cycles=20)
        yield f"patience of {patience}", waits, impatient, Error.WATCHDOG
    here = assembled(config)
    for bit in range(13, 32):
        for name in ("program_address", "program_bytes"):
            away = dataclasses.replace(here, **{name: getattr(here, name) + (1 << bit)})
            yield f"{name} further by 2^{bit}", away, Conditions(latency_cycles=5), Error.MEMORY_RANGE
    slow_load = assembled(config, (Opcode.LOAD_GO, {"row_bytes": 900, "rows": 1}))
    patient = Conditions(watchdog_cycles=0, latency_cycles=1500)
    yield "patience without an end", slow_load, patient, Error.NONE


__all__ = ["BASES", "windows"]
