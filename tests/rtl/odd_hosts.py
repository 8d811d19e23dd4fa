"""Hosts that do not only start a program and wait for its end."""

import dataclasses
import hashlib

from one_machine import ENDED, KEPT, READ, RESET_READS, Conditions, Seen, begin, run_on

from tosaic.hw.config import Config
from tosaic.sim.registers import Registers
from tosaic.sim.rtl.library import Harness
from tosaic.sim.stimulus import Stimulus

BLIND_CYCLES = 200
"""In which a short program ends, if it has begun."""


@dataclasses.dataclass(frozen=True)
class Hasty(Conditions):
    """The host resets the machine softly while it works, and looks how long that takes."""

    reset_after: int = 0
    """Cycles."""
    rest_cycles: int = 0
    """Before the host looks for the first time."""


@dataclasses.dataclass(frozen=True)
class Blind(Conditions):
    """The host resets the machine softly and starts the program again without a look at it."""

    start_after: int = 0
    """Cycles."""


@dataclasses.dataclass(frozen=True)
class Curious(Conditions):
    """The host asks at the end where each unit was. All of them must have taken something."""


def run_hastily(harness: Harness, config: Config, program: Stimulus, conditions: Hasty) -> Seen:
    memory, registers = begin(harness, config, program, conditions)
    harness.run(conditions.reset_after)
    registers.control("soft_reset")
    if conditions.rest_cycles:
        harness.run(conditions.rest_cycles)
    looks = 0
    while not registers.field("STATUS", "idle") and looks < RESET_READS:
        looks += 1
    reported = [(name, registers.read(name)) for name in READ]
    if conditions.rest_cycles:
        # The bus may still owe an answer, which is nobody's.
        harness.reset()
    return Seen(ENDED, hashlib.sha256(memory).hexdigest(), (("looks", looks), *reported))


def run_blindly(
    harness: Harness, config: Config, program: Stimulus, conditions: Blind, max_cycles: int
) -> Seen:
    memory, registers = begin(harness, config, program, conditions)
    harness.run(max_cycles)
    registers.acknowledge()
    registers.control("soft_reset")
    harness.run(conditions.start_after)
    registers.control("irq_enable", "start")
    harness.run(max_cycles)
    reported = tuple((name, registers.read(name)) for name in READ)
    registers.acknowledge()
    return Seen(ENDED, hashlib.sha256(memory).hexdigest(), reported)


def run_curiously(
    harness: Harness, config: Config, program: Stimulus, conditions: Conditions, max_cycles: int
) -> Seen:
    seen, registers = run_on(harness, config, program, conditions, max_cycles), Registers(harness)
    places = tuple((name, registers.read(name)) for name in KEPT)
    return dataclasses.replace(seen, registers=(*seen.registers, *places))


def run_any(
    harness: Harness, config: Config, program: Stimulus, conditions: Conditions, max_cycles: int
) -> Seen:
    """Of a program with the host that its conditions tell of."""
    match conditions:
        case Hasty():
            return run_hastily(harness, config, program, conditions)
        case Blind():
            return run_blindly(harness, config, program, conditions, BLIND_CYCLES)
        case Curious():
            return run_curiously(harness, config, program, conditions, max_cycles)
    return run_on(harness, config, program, conditions, max_cycles)


__all__ = ["Blind", "Curious", "Hasty", "run_any"]
