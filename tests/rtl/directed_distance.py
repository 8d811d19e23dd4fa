"""Windows of all sizes: programs and rows behind each power of two bytes, with rows that cross it, and long rows that
end with the window or a byte behind it."""

from collections.abc import Iterator

import numpy as np
from odd_hosts import Distant
from one_machine import Conditions, assembled

from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, Condition, Error, Opcode
from tosaic.sim.stimulus import Stimulus

Run = tuple[Stimulus, Conditions]
FIRST_BASE = 1 << 12
"""Least base of a window that may reach to the end of all addresses."""
BEFORE = 2048
"""Bytes in front of a power of two."""
ROW_AT, PROGRAM_BYTES = 1 << 10, 1 << 10
ADDRESS_BITS = 32
FENCE = (Opcode.BRANCH, {"condition": Condition.NEVER})


def moves(config: Config, offset: int) -> Stimulus:
    """Rows that go up and down in memory, whose addresses begin at `offset`."""
    rows = {"row_bytes": 300, "rows": 4}
    return assembled(
        config,
        (Opcode.LOAD_PITCH, {"memory_pitch": 901, "local_pitch": 300}),
        (Opcode.LOAD_GO, rows | {"memory_address": offset + 65}),
        FENCE,
        (Opcode.STORE_PITCH, {"memory_pitch": (1 << ADDRESS_BITS) - 701, "local_pitch": 300}),
        (Opcode.STORE_GO, rows | {"memory_address": offset + 7500}),
        (Opcode.STORE_PITCH, {"memory_pitch": 450, "local_pitch": 300}),
        (Opcode.STORE_GO, rows | {"memory_address": offset + 1300}),
    )


def distances(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """Each power of two lies inside the memory that is there; and places of many bits."""
    rng = np.random.default_rng(5)
    offsets = [(1 << bit) - BEFORE for bit in range(13, ADDRESS_BITS)]
    offsets += [int(rng.integers(1 << 25, (1 << 26) - 256)) << 6 for _ in range(6)]
    runs = [
        (moves(config, each), Distant(latency_cycles=9, mem_base=FIRST_BASE, offset=each)) for each in offsets
    ]
    yield "behind each power of two", runs


def tight_rows(config: Config) -> Iterator[tuple[str, list[tuple[Stimulus, Conditions, Error]]]]:
    """Rows of all magnitudes, which an error soon ends if they are allowed, and what comes of them."""
    rng, bits = (
        np.random.default_rng(6),
        next(f.bits for f in FIELDS[Opcode.LOAD_GO] if f.name == "row_bytes"),
    )
    for kind, allowed in (("LOAD", Error.BUS_READ), ("STORE", Error.BUS_WRITE)):
        runs = []
        place = "read_error_at" if kind == "LOAD" else "write_error_at"
        for bit in range(10, bits):
            size = (1 << bit) + int(rng.integers(1, 1 << bit))
            row = {"memory_address": ROW_AT, "row_bytes": size, "rows": 1}
            for missing, error in ((0, allowed), (1, Error.MEMORY_RANGE)):
                program = assembled(config, (Opcode[f"{kind}_GO"], row), memory_bytes=PROGRAM_BYTES)
                program.memory = np.resize(program.memory, ROW_AT + size - missing)
                runs.append((program, Conditions(latency_cycles=5, **{place: ROW_AT + 256}), error))
        yield f"{kind}, rows to the end of the window", runs


def distance_runs(config: Config) -> Iterator[tuple[str, list[Run]]]:
    """The runs of each name follow one another."""
    yield from distances(config)
    for name, runs in tight_rows(config):
        yield name, [(program, conditions) for program, conditions, _ in runs]


__all__ = ["distance_runs", "distances", "moves", "tight_rows"]
