"""Hosts that do not only start a program and wait for its end."""

import dataclasses
import hashlib
import random
from collections.abc import Sequence

from one_machine import ENDED, KEPT, READ, RESET_READS, Conditions, Seen, begin, finish, made_ready, run_on

from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER, REGISTERS, FieldAccess
from tosaic.hw.isa import CoreProgram
from tosaic.sim.registers import REGISTER_BYTES, Registers
from tosaic.sim.rtl.library import Answer, ControlWrite, Harness
from tosaic.sim.stimulus import Stimulus

BLIND_CYCLES = 200
"""Cycles in which a short program ends, if it has begun."""
PORT_BYTES = 1 << 12
WRITABLE = tuple(
    register.offset
    for register in REGISTERS
    if register.mask(FieldAccess.RW, FieldAccess.W1C, FieldAccess.PULSE) or register.name == "LOCK"
)
FOR_THE_NEXT_RUN = tuple(REGISTER[name].offset for name in ("PROGRAM_ADDRESS", "PROGRAM_BYTES", "MARK_INDEX"))
"""What a host may write while a program runs."""
PLACES = tuple(REGISTER[name].offset for name in (*KEPT, "UNITS", "PC", "STATUS"))
"""Registers that tell where the machine is."""
ROUNDS, ACCESSES = 12, 30
"""Times that a host writes and reads many registers at once."""
COUNTED = 60
"""How often a host reads a counter without waiting for an answer."""
LOOKS = 8
"""How often a host asks for PLACES without waiting for an answer."""


@dataclasses.dataclass(frozen=True)
class Hasty(Conditions):
    """The host resets the machine softly while it works, and looks how long that takes."""

    reset_after: int = 0
    """Cycles."""
    rest_cycles: int = 0
    """Cycles before the host looks for the first time."""


@dataclasses.dataclass(frozen=True)
class Blind(Conditions):
    """The host resets the machine softly and starts the program again without a look at it."""

    start_after: int = 0
    """Cycles."""


@dataclasses.dataclass(frozen=True)
class Curious(Conditions):
    """The host asks at the end where each unit was. All of them must have taken something."""


@dataclasses.dataclass(frozen=True)
class Watchful(Conditions):
    """The host asks all the time where the machine is, and does not wait for the answers. All units must have taken
    something before."""

    access_stalls: int = 0
    """Percent of the cycles in which a channel of the control port hesitates."""


@dataclasses.dataclass(frozen=True)
class Meddling(Conditions):
    """The host writes any bytes of any registers, and reads, without waiting for an answer: before it starts the
    program, and while that runs."""

    access_seed: int = 1
    access_stalls: int = 0
    """Percent of the cycles in which a channel of the control port hesitates."""


@dataclasses.dataclass(frozen=True)
class Thorough(Conditions):
    """The host reads all places of the control port when the program has ended. All units must have taken something."""


@dataclasses.dataclass(frozen=True)
class Counting(Conditions):
    """The host reads one counter again and again, from the start of the program on."""

    counter: str = "LOAD_BUSY"
    reads: int = COUNTED


@dataclasses.dataclass(frozen=True)
class Scribbling(Conditions):
    """The host writes all places of the control port that nobody may write, before it starts the program, and looks
    what it may write."""


@dataclasses.dataclass(frozen=True)
class Distant(Conditions):
    """The program and its memory begin `offset` bytes behind the window's first byte. There is nothing before."""

    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Vast(Conditions):
    """The host says that the window has `size` bytes, of which the bus does not know most."""

    size: int = 0


@dataclasses.dataclass(frozen=True)
class Impatient(Conditions):
    """The host loses its patience: from some cycle on the watchdog waits for `patience` cycles."""

    patient_cycles: int = 0
    patience: int = 1


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


def run_watchfully(
    harness: Harness, config: Config, program: Stimulus, conditions: Watchful, max_cycles: int
) -> Seen:
    memory, registers = begin(harness, config, program, conditions)
    running, polled = REGISTER["STATUS"].field("running"), list[tuple[str, int]]()
    first, last = harness.cycle, running.mask
    while running.extract(last) and harness.cycle - first < max_cycles:
        places = PLACES * LOOKS
        found, _ = harness.control_accesses(places, [], conditions.access_stalls, harness.cycle)
        polled += _answered(places, found)
        last = found[-1].value
    return finish(harness, registers, memory, max_cycles, polled)


def run_thoroughly(
    harness: Harness, config: Config, program: Stimulus, conditions: Thorough, max_cycles: int
) -> Seen:
    seen = run_on(harness, config, program, conditions, max_cycles)
    shown = [REGISTER[name].offset for name in ("MARK_LAYER", "MARK_CYCLE")]
    places = [place for place in range(0, PORT_BYTES, REGISTER_BYTES) if place not in shown]
    found, _ = harness.control_accesses(places, [])
    return dataclasses.replace(seen, registers=(*seen.registers, *_answered(places, found)))


def run_counting(
    harness: Harness, config: Config, program: Stimulus, conditions: Counting, max_cycles: int
) -> Seen:
    memory, registers = begin(harness, config, program, conditions)
    places = [REGISTER[conditions.counter].offset] * conditions.reads
    found, _ = harness.control_accesses(places, [])
    return finish(harness, registers, memory, max_cycles, _answered(places, found))


def run_scribbling(
    harness: Harness, config: Config, program: Stimulus, conditions: Scribbling, max_cycles: int
) -> Seen:
    memory, registers = made_ready(harness, config, program, conditions)
    closed = [place for place in range(0, PORT_BYTES, REGISTER_BYTES) if place not in WRITABLE]
    _, answers = harness.control_accesses([], [ControlWrite(place, ~place & 0xFFFF_FFFF) for place in closed])
    seen = [(f"0x{place:x} written", answer) for place, answer in zip(closed, answers, strict=True)]
    seen += [(f"0x{place:x}", harness.control_read(place)) for place in WRITABLE]
    stream = CoreProgram(program.program_address, program.program_bytes)
    registers.start(conditions.mem_base, len(memory), [stream], conditions.watchdog_cycles)
    return finish(harness, registers, memory, max_cycles, seen)


def run_distantly(
    harness: Harness, config: Config, program: Stimulus, conditions: Distant, max_cycles: int
) -> Seen:
    memory, registers = made_ready(harness, config, program, conditions)
    harness.set_memory(memory, conditions.mem_base + conditions.offset)
    stream = CoreProgram(program.program_address + conditions.offset, program.program_bytes)
    size = conditions.offset + len(memory)
    registers.start(conditions.mem_base, size, [stream], conditions.watchdog_cycles)
    return finish(harness, registers, memory, max_cycles)


def run_vastly(
    harness: Harness, config: Config, program: Stimulus, conditions: Vast, max_cycles: int
) -> Seen:
    memory, registers = made_ready(harness, config, program, conditions)
    stream = CoreProgram(program.program_address, program.program_bytes)
    registers.start(conditions.mem_base, conditions.size, [stream], conditions.watchdog_cycles)
    return finish(harness, registers, memory, max_cycles)


def run_impatiently(
    harness: Harness, config: Config, program: Stimulus, conditions: Impatient, max_cycles: int
) -> Seen:
    memory, registers = begin(harness, config, program, conditions)
    harness.run(conditions.patient_cycles)
    registers.write("WATCHDOG", conditions.patience)
    return finish(harness, registers, memory, max_cycles)


def run_meddling(
    harness: Harness, config: Config, program: Stimulus, conditions: Meddling, max_cycles: int
) -> Seen:
    rng, answers = random.Random(conditions.access_seed), list[tuple[str, int]]()
    memory, registers = made_ready(harness, config, program, conditions)
    for _ in range(ROUNDS):
        answers += _meddle(harness, rng, conditions, [any_write(rng) for _ in range(ACCESSES)])
        answers += [(f"0x{place:x}", harness.control_read(place)) for place in WRITABLE]
    port = _Gathered()
    stream = CoreProgram(program.program_address, program.program_bytes)
    Registers(port).start(conditions.mem_base, len(memory), [stream], conditions.watchdog_cycles)
    answers += _meddle(harness, rng, conditions, port.writes)
    for _ in range(ROUNDS):
        allowed = [
            ControlWrite(rng.choice(FOR_THE_NEXT_RUN), rng.getrandbits(32), rng.randrange(16))
            for _ in range(4)
        ]
        answers += _meddle(harness, rng, conditions, allowed)
    return finish(harness, registers, memory, max_cycles, answers)


class _Gathered:
    """Writes to registers, which are not done yet."""

    def __init__(self) -> None:
        self.writes: list[ControlWrite] = []

    def read_registers(self, offset: int, count: int) -> list[int]:
        raise NotImplementedError

    def write_register(self, offset: int, value: int) -> None:
        self.writes.append(ControlWrite(offset, value))


def any_write(rng: random.Random) -> ControlWrite:
    """Some bytes of a register, or of a place without one; it starts, resets and locks nothing. The low bits of the
    address mean nothing."""
    place = rng.choice(WRITABLE) if rng.random() < 0.7 else rng.randrange(0, PORT_BYTES, REGISTER_BYTES)
    strobe, value = rng.randrange(16), rng.getrandbits(32)
    if place in (REGISTER["CONTROL"].offset, REGISTER["LOCK"].offset):
        orders = REGISTER["CONTROL"].mask(FieldAccess.PULSE) | REGISTER["LOCK"].mask(FieldAccess.SET)
        if strobe & 1:
            value &= ~orders
    return ControlWrite(place + rng.randrange(REGISTER_BYTES), value, strobe)


def any_place(rng: random.Random) -> int:
    """Returns an offset in a register that has the same value on all machines, or where there is no register."""
    known = [each.offset for each in REGISTERS if each.reset is not None and each.name not in KEPT]
    place = rng.choice(known) if rng.random() < 0.8 else rng.randrange(PORT_BYTES // 2, PORT_BYTES)
    return place | rng.randrange(REGISTER_BYTES)


def _meddle(
    harness: Harness, rng: random.Random, conditions: Meddling, writes: list[ControlWrite]
) -> list[tuple[str, int]]:
    """All answers to these writes and to as many reads, of registers and of other places."""
    reads = [any_place(rng) for _ in writes]
    found, responses = harness.control_accesses(
        reads, writes, conditions.access_stalls, rng.getrandbits(30) + 1
    )
    return [
        *_answered(reads, found),
        *((f"0x{write.offset:x} written", code) for write, code in zip(writes, responses, strict=True)),
    ]


def _answered(places: Sequence[int], found: Sequence[Answer]) -> list[tuple[str, int]]:
    return [
        (f"0x{place:x} read", answer.value << 2 | answer.response)
        for place, answer in zip(places, found, strict=True)
    ]


def run_any(
    harness: Harness, config: Config, program: Stimulus, conditions: Conditions, max_cycles: int
) -> Seen:
    """Runs a program with the host that its conditions describe."""
    match conditions:
        case Hasty():
            return run_hastily(harness, config, program, conditions)
        case Blind():
            return run_blindly(harness, config, program, conditions, BLIND_CYCLES)
        case Watchful():
            return run_watchfully(harness, config, program, conditions, max_cycles)
        case Thorough():
            return run_thoroughly(harness, config, program, conditions, max_cycles)
        case Counting():
            return run_counting(harness, config, program, conditions, max_cycles)
        case Scribbling():
            return run_scribbling(harness, config, program, conditions, max_cycles)
        case Distant():
            return run_distantly(harness, config, program, conditions, max_cycles)
        case Vast():
            return run_vastly(harness, config, program, conditions, max_cycles)
        case Impatient():
            return run_impatiently(harness, config, program, conditions, max_cycles)
        case Meddling():
            return run_meddling(harness, config, program, conditions, max_cycles)
        case Curious():
            return run_curiously(harness, config, program, conditions, max_cycles)
    return run_on(harness, config, program, conditions, max_cycles)


__all__ = [
    "Blind",
    "Counting",
    "Curious",
    "Hasty",
    "Impatient",
    "Meddling",
    "Scribbling",
    "Thorough",
    "Vast",
    "Watchful",
    "run_any",
]
