"""Programs with hosts that ask where the machine is, that write single bytes of registers and do not wait for answers,
and that are not patient."""

import dataclasses
import random
from collections.abc import Iterator

from directed_edges import every_unit, placed
from directed_wide import wide_programs
from odd_hosts import Counting, Hasty, Impatient, Meddling, Scribbling, Thorough, Vast, Watchful
from one_machine import Conditions, assembled, random_programs

from tosaic.hw.config import Config
from tosaic.hw.csr_map import COUNTERS
from tosaic.hw.isa import Opcode
from tosaic.sim.stimulus import Stimulus

Run = tuple[Stimulus, Conditions]
STALLS = (0, 0, 15, 40, 75)
"""Percent of the cycles in which a host's channel hesitates."""
PATIENCE = (1, 2, 3, 5, 8)
"""Cycles in which nothing may move."""
LASTING = ("LOAD_BUSY", "LOAD_STALL_BUS", "ARRAY_WAIT", "VECTOR_WAIT", "STORE_WAIT", "STORE_BUSY")
LASTING += ("STORE_STALL_BUS", "FETCH_WAIT")
"""Counters of what may last for many cycles."""
MANY_READS = 2000
"""Number of reads of a counter, about three cycles each."""
MOMENTS = range(40, 440, 25)
"""Cycles in which a host loses its patience."""


def watched(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Random programs of all kinds, and many short instructions of each unit."""
    first = placed(every_unit(config))
    crowded = [
        each for name, each in wide_programs(config, range(2)) if "crowded" in name or "tokens" in name
    ]
    for number, program in enumerate((*random_programs(config, (930, 931)), *crowded)):
        slow = {
            "latency_cycles": (3, 30, 90)[number % 3],
            "stall_percent": (0, 40)[number % 2],
            "seed": number,
        }
        watches = Watchful(**slow, access_stalls=STALLS[number % len(STALLS)])
        yield f"watched {number}", [(first, Conditions()), (program, watches)]


def meddled(config: Config) -> Iterator[tuple[str, list[Run]]]:
    for seed, stalls in enumerate(STALLS):
        programs = (placed(every_unit(config)), random_programs(config, (940 + seed,))[0])
        yield (
            f"registers written in parts {seed}",
            [(program, Meddling(access_seed=seed, access_stalls=stalls)) for program in programs],
        )


def thorough(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """All places of the control port behind programs in which most is counted."""
    programs = (placed(every_unit(config)), *random_programs(config, (960,)))
    runs = [(program, Thorough(latency_cycles=90, stall_percent=40, seed=1)) for program in programs]
    yield "all places of the port", runs


def counting(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Each counter, while little is counted yet."""
    program = placed(every_unit(config))
    runs = [(program, Counting(latency_cycles=7, counter=name)) for name, _ in (("CYCLES", ""), *COUNTERS)]
    yield "counters from the start on", runs
    # A bus that nearly always hesitates: events in each of many cycles, while the host reads all the time.
    row = {"row_bytes": 400, "rows": 1}
    commands = [(Opcode.LOAD_GO, row), (Opcode.LOAD_SIGNAL, {"count": 3})]
    commands += [(Opcode[f"{unit}_WAIT"], {"count": 1}) for unit in ("ARRAY", "VECTOR", "STORE")]
    stuck = assembled(config, *commands, (Opcode.STORE_GO, row))
    slow = {"latency_cycles": 3, "stall_percent": 97, "seed": 1}
    runs = [(stuck, Counting(**slow, counter=name, reads=MANY_READS)) for name in LASTING]
    yield "counters while the bus is stuck", runs


def scribbling(config: Config) -> Iterator[tuple[str, list[Run]]]:
    yield "places that nobody may write", [(placed(every_unit(config)), Scribbling(latency_cycles=7))]


def impatient(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A watchdog that comes to wait for a few cycles only, in which nothing moves now and then: each unit is to blame
    at some moment."""
    programs = (placed(every_unit(config)), *random_programs(config, (950,)))
    for patience in PATIENCE:
        runs: list[Run] = []
        for number, moment in enumerate(MOMENTS):
            slow = {
                "latency_cycles": (3, 30, 120)[number % 3],
                "stall_percent": (0, 40)[number % 2],
                "seed": 1,
            }
            runs.append(
                (
                    programs[number % len(programs)],
                    Impatient(**slow, patient_cycles=moment + patience, patience=patience),
                )
            )
        yield f"patience of {patience} after a while", runs


def hasty(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A soft reset at many moments of programs in which all units work: nothing that is counted lives through it."""
    programs = (placed(every_unit(config)), *random_programs(config, (970,))[:2])
    for number, program in enumerate(programs):
        runs = [
            (program, Hasty(latency_cycles=(3, 40)[moment % 2], reset_after=moment))
            for moment in range(60, 600, 9)
        ]
        yield f"soft resets while all works {number}", runs


def vast_programs(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Lengths of programs that lie within the window, and are more than one can be."""
    program, runs = assembled(config, (Opcode.NOP, {})), []
    for bit in range(27, 32):
        longer = dataclasses.replace(program, program_address=0, program_bytes=(1 << bit) + 64)
        code = program.memory[program.program_address :][:64]
        longer.memory = program.memory.copy()
        longer.memory[:64] = code
        runs.append((longer, Vast(latency_cycles=5, mem_base=0, size=(1 << 32) - 1)))
    yield "vast programs", runs


def vast(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Windows of each power of two and something, most of which the bus does not know: a row that ends with the window
    is an error of the bus, one byte further one of the window."""
    rng = random.Random(2)
    for kind in ("LOAD", "STORE"):
        runs: list[Run] = []
        for bit in range(24, 32):
            size = (1 << bit) + rng.getrandbits(bit)
            for more in (0, 1):
                row_bytes = rng.randrange(1, 900)
                row = {"memory_address": size - row_bytes + more, "row_bytes": row_bytes, "rows": 1}
                # The window is at 0: it does not end before 2^32.
                host = Vast(latency_cycles=5, mem_base=0, size=size)
                runs.append((assembled(config, (Opcode[f"{kind}_GO"], row)), host))
        yield f"vast windows of {kind}", runs


def host_runs(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """The runs of each name follow one another."""
    yield from watched(config)
    yield from meddled(config)
    yield from thorough(config)
    yield from counting(config)
    yield from scribbling(config)
    yield from impatient(config)
    yield from vast(config)
    yield from vast_programs(config)
    yield from hasty(config)


__all__ = ["counting", "host_runs", "impatient", "meddled", "scribbling", "thorough", "vast", "watched"]
