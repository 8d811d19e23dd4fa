"""Transfers whose counters have one bit set when an error ends them, or end by themselves after many rows; words inside
which no row of weights may begin or end; patience as long as the bus needs; beats that come behind an error."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from one_machine import MEMORY_BYTES, Conditions, assembled

from tosaic.hw.config import Config
from tosaic.hw.constants import BURST_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.isa import Condition, Opcode, Space, width
from tosaic.sim.stimulus import Stimulus

Run = tuple[Stimulus, Conditions]
"""A program, and how the bus behaves; runs follow each other on one machine."""
KINDS = {"LOAD": "read_error_at", "STORE": "write_error_at"}
FENCE = (Opcode.BRANCH, {"condition": Condition.NEVER})
QUICK = Conditions(latency_cycles=5)
LONGEST_BITS = 19
WHOLE_ROWS = (("LOAD", 15, 1), ("LOAD", 16, 1), ("LOAD", 16, 2), ("STORE", 16, 1), ("STORE", 17, 0))
WHOLE_ROWS += tuple((kind, bits, bursts) for kind in KINDS for bits in (12, 13, 14) for bursts in (0, 1))
WHOLE_ROWS += (("STORE", 18, 0),)
"""Log2 of beats, and bursts more: an odd number and an even one of bursts begin while the bit is set."""
MOST_ROWS_BIT = 15


def long_rows(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Rows of which a power of two beats is left behind the first burst or the second one, where an error soon ends
    them; and the longest rows from each byte of a word, which need a beat more."""
    burst_bytes, word = BURST_BEATS * config.word_bytes, config.word_bytes
    for kind, place in KINDS.items():
        conditions = Conditions(**{place: 6 * burst_bytes})
        for bit in range(12, 24):
            runs = []
            for bursts in (1, 2):
                row = {"row_bytes": min((1 << bit) + bursts * burst_bytes + 20, (1 << 24) - 1), "rows": 1}
                program = assembled(config, (Opcode[f"{kind}_GO"], row))
                program.memory = np.resize(program.memory, 1 << bit + 1)
                runs.append((program, conditions))
            yield f"{kind}, 2^{bit} bytes are left", runs
        row = {"memory_address": word - 1, "row_bytes": (1 << 24) - 1, "rows": 1}
        program = assembled(config, (Opcode[f"{kind}_GO"], row))
        program.memory = np.resize(program.memory, (1 << 24) + word)
        yield f"{kind}, longest row", [(program, conditions)]


def many_rows(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """A power of two rows and some more, of which one leaves the window when the power of two is left; and many rows to
    their end."""
    for kind in KINDS:
        pitch = (Opcode[f"{kind}_PITCH"], {"memory_pitch": 900, "local_pitch": 4})
        runs = []
        for bit in range(5, 16):
            many = (Opcode[f"{kind}_GO"], {"row_bytes": 3, "rows": (1 << bit) + 4})
            runs.append((assembled(config, pitch, many), QUICK))
        yield f"{kind}, a power of two rows is left", runs
        runs = []
        for bit in range(width(Opcode[f"{kind}_GO"], "rows")):
            whole = (Opcode[f"{kind}_GO"], {"row_bytes": 3, "rows": 1 << bit})
            runs.append((assembled(config, pitch, whole), QUICK))
        yield f"{kind}, exactly a power of two rows", runs
        short = (Opcode[f"{kind}_PITCH"], {"memory_pitch": 1, "local_pitch": 1})
        all_rows = (Opcode[f"{kind}_GO"], {"row_bytes": 1, "rows": 300})
        yield f"{kind}, 300 rows", [(assembled(config, short, all_rows), QUICK)]
        runs = []
        for rows in range(66, 82):
            runs.append(
                (assembled(config, short, (Opcode[f"{kind}_GO"], {"row_bytes": 1, "rows": rows})), QUICK)
            )
        yield f"{kind}, some more than 64 rows", runs


def most_rows(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Many rows of a byte, to their end: the highest bit of their count is set while an odd number of rows begins, or
    an even one."""
    for kind in KINDS:
        runs = []
        for more in (2, 3):
            rows = (Opcode[f"{kind}_GO"], {"row_bytes": 1, "rows": (1 << MOST_ROWS_BIT) + more})
            runs.append((assembled(config, rows), QUICK))
        yield f"{kind}, most rows", runs


def whole_rows(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Rows whose count of beats loses its highest bit in one of the first bursts, to their end."""
    for kind, bits, bursts in WHOLE_ROWS:
        row_bytes = ((1 << bits) + bursts * BURST_BEATS + BURST_BEATS // 2) * config.word_bytes
        program = assembled(config, (Opcode[f"{kind}_GO"], {"row_bytes": row_bytes, "rows": 1}))
        yield f"{kind} of 2^{bits} beats and {bursts} bursts", [(behind(program, row_bytes), QUICK)]


def longest_run(config: Config) -> Stimulus:
    """A row of 2^19 beats and some, which keeps STORE busy for as many cycles: counts of that size."""
    row_bytes = ((1 << LONGEST_BITS) + BURST_BEATS + BURST_BEATS // 2) * config.word_bytes
    program = assembled(config, (Opcode.STORE_GO, {"row_bytes": row_bytes, "rows": 1}))
    return behind(program, row_bytes)


def behind(program: Stimulus, size: int) -> Stimulus:
    """The program, moved behind `size` bytes that it loads or overwrites."""
    code = program.memory[program.program_address :][: program.program_bytes]
    place = -(-size // MEMORY_BYTES) * MEMORY_BYTES
    memory = np.resize(program.memory, place + MEMORY_BYTES)
    memory[place : place + len(code)] = code
    return Stimulus(memory, place, program.program_bytes)


def odd_words(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Rows of weights that begin, or end, inside a word of one of the memories."""
    word, runs = config.word_bytes, []
    for name in ("memory_address", "local_address", "row_bytes"):
        for odd in range(word):
            row = {"memory_address": 2 * word, "local_address": 2 * word, "row_bytes": 2 * word, "rows": 1}
            row[name] += odd
            runs.append((assembled(config, (Opcode.LOAD_GO, row | {"space": Space.WM})), QUICK))
    yield "parts of words of weights", runs


def patience(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """The watchdog waits about as long as the bus: whatever moves then counts."""
    latency = 60
    for kind in KINDS:
        program = assembled(config, (Opcode[f"{kind}_GO"], {"row_bytes": 4, "rows": 1}), memory_bytes=1 << 9)
        runs = [
            (program, Conditions(latency_cycles=latency, watchdog_cycles=latency + more))
            for more in range(-8, 20)
        ]
        yield f"{kind}, patience of a latency", runs
    # Weights are written behind the last beat. A bus may also take an address, or data, late.
    row = {"space": Space.WM, "row_bytes": 4 * config.word_bytes, "rows": 3}
    program = assembled(config, (Opcode.LOAD_GO, row), memory_bytes=1 << 9)
    runs = [
        (program, Conditions(latency_cycles=latency, watchdog_cycles=latency + more))
        for more in range(-8, 12)
    ]
    yield "weights, patience of a latency", runs
    for kind in KINDS:
        rows = (Opcode[f"{kind}_GO"], {"row_bytes": 3 * config.word_bytes, "rows": 9})
        program = assembled(config, rows, memory_bytes=1 << 9)
        runs = [
            (program, Conditions(latency_cycles=2, stall_percent=80, seed=seed, watchdog_cycles=8 + seed))
            for seed in range(1, 24)
        ]
        yield f"{kind}, patience with a bus that hesitates", runs
    # All else has moved before LOAD may begin.
    row = {"row_bytes": 4, "rows": 1}
    late = [(Opcode.LOAD_WAIT, {"count": 1}), (Opcode.LOAD_GO, row)]
    late += [(Opcode.STORE_GO, row), (Opcode.STORE_SIGNAL, {"count": 1})]
    program = assembled(config, *late, memory_bytes=1 << 10)
    slow = Conditions(latency_cycles=latency, stall_percent=85, seed=1)
    yield (
        "LOAD, patience of a late latency",
        [(program, dataclasses.replace(slow, watchdog_cycles=latency + more)) for more in range(18, 30)],
    )


def behind_errors(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Beats that come behind an error are not written: the next program stores what is there."""
    row = {"row_bytes": 600, "rows": 1}
    first = assembled(config, (Opcode.LOAD_GO, row | {"memory_address": 1000}), FENCE)
    again = assembled(config, (Opcode.LOAD_GO, row))
    shows = assembled(config, (Opcode.STORE_GO, row | {"memory_address": 2000}))
    for place in (0, 40, 400):
        runs = [(first, QUICK), (again, Conditions(read_error_at=place, latency_cycles=5)), (shows, QUICK)]
        yield f"beats behind an error at {place}", runs


def under_way(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Yields as many bursts under way as the machine may have, of each length in beats, by one unit and by both."""
    word = config.word_bytes
    for kinds in (["LOAD"], ["STORE"], ["LOAD", "STORE"]):
        runs = []
        for size in (1, word + 1, 4 * word, BURST_BEATS * word, BURST_BEATS * word + 1):
            rows = {"row_bytes": size, "rows": 100}
            far = {"LOAD": 0, "STORE": MEMORY_BYTES // 2 + 512}
            commands = [
                command
                for kind in kinds
                for command in (
                    (Opcode[f"{kind}_PITCH"], {"memory_pitch": 17, "local_pitch": word + 1}),
                    (Opcode[f"{kind}_GO"], rows | {"memory_address": far[kind], "local_address": far[kind]}),
                )
            ]
            for latency, stall_percent in ((150, 0), (400, 40)):
                slow = Conditions(latency_cycles=latency, stall_percent=stall_percent, seed=size)
                runs.append((assembled(config, *commands), slow))
        yield f"{' and '.join(kinds)}, many bursts under way", runs


def some_under_way(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Yields about as many bursts as may be under way, in rows of one beat: the last one is issued before the first
    answer, or waits for that."""
    pitch = {"memory_pitch": config.word_bytes, "local_pitch": config.word_bytes}
    for kind in KINDS:
        runs = []
        for rows in range(OUTSTANDING_BURSTS - 8, OUTSTANDING_BURSTS + 4):
            many = (Opcode[f"{kind}_GO"], {"row_bytes": config.word_bytes, "rows": rows})
            program = assembled(config, (Opcode[f"{kind}_PITCH"], pitch), many)
            runs.append((program, Conditions(latency_cycles=150)))
        yield f"{kind}, a number of bursts under way", runs


def row_ends(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Rows of a power of two bytes and a few, that begin and end at each byte of a word. What they leave alone around
    their ends is seen."""
    word, place, around = config.word_bytes, 100, 64
    for kind in KINDS:
        runs = []
        for bit in range(7, 18):
            size = (1 << bit) + word + bit % word
            row = {"memory_address": 64 + (bit + bit // word) % word, "row_bytes": size, "rows": 1}
            commands = [(Opcode[f"{kind}_GO"], row | {"local_address": place})]
            if kind == "LOAD":
                near = {"local_address": (place + size - around) % config.am_bytes, "row_bytes": 2 * around}
                commands += [FENCE, (Opcode.STORE_GO, near | {"memory_address": 0, "rows": 1})]
            program = behind(assembled(config, *commands), 2 * around + size)
            # Nothing repeats: a row may be longer than the local memory.
            first = program.program_address
            program.memory[:first] = np.random.default_rng(bit).integers(0, 256, first)
            runs.append((program, QUICK))
        yield f"{kind}, ends of rows", runs


def transfer_runs(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """All of them, by name."""
    for family in (
        long_rows,
        many_rows,
        most_rows,
        whole_rows,
        odd_words,
        patience,
        behind_errors,
        under_way,
        some_under_way,
        row_ends,
    ):
        yield from family(config)


__all__ = ["MEMORY_BYTES", "Run", "longest_run", "transfer_runs"]
