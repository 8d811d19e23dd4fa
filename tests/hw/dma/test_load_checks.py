"""LOAD's CRC of checked rows, among others, with stalls on every channel; and rows in which a bit has flipped."""

import dataclasses
import random

import numpy as np
import pytest
from dma_models import (
    AM_BYTES,
    WM_BYTES,
    AxiReadModel,
    Bench,
    LocalMemories,
    Memory,
    Stalls,
    config_of,
    load_go,
    pitch,
    signal,
)

from tosaic.hw.dma import LoadUnit
from tosaic.hw.isa import Error, Opcode, Space, make
from tosaic.hw.packed_weights import WeightCoding, pack
from tosaic.hw.row_crc import rows_crc

BASE, SIZE = 0x4000_0000, 8 << 10
COLUMNS = 8
PACKED_AT = 4096
PACKED = pack(np.arange(-40, 40, dtype=np.int8).repeat(2) * 0 + 3, WeightCoding.PALETTE_4, COLUMNS)


def content():
    memory = bytearray(random.Random(5).randbytes(SIZE))
    memory[PACKED_AT : PACKED_AT + len(PACKED)] = PACKED
    return memory


def check_of(*rows):
    """LOAD_CHECK of rows (start, bytes)."""
    crc, memory = 0, np.frombuffer(bytes(content()), np.uint8)
    for start, row_bytes in rows:
        crc = rows_crc(crc, [start], memory[None, start : start + row_bytes], COLUMNS)
    return make(Opcode.LOAD_CHECK, crc=crc)


PROGRAM = [
    load_go(1000, 100, 700),
    load_go(2043, 5, 301, checked=1),
    load_go(512, 0, 24, space=Space.WM),
    pitch("LOAD", 1003, 64),
    load_go(1, 2000, 13, 3, checked=1),
    load_go(PACKED_AT, 80, len(PACKED), space=Space.WM, packed=1, checked=1),
    check_of((2043, 301), (1, 13), (1004, 13), (2007, 13), (PACKED_AT, len(PACKED))),
    signal("LOAD", 1, 1),
    load_go(2048, 0, 256, space=Space.WM, checked=1),
    check_of((2048, 256)),
    check_of(),
    signal("LOAD", 2, 1),
]
FIRST = {*range(2043, 2344), *range(1, 14), *range(1004, 1017), *range(2007, 2020)}
SECOND = set(range(2048, 2304))


def run(memory, stall=0.0, seed=1):
    config = dataclasses.replace(config_of(COLUMNS), cabac_engines=0, load_crc=1)
    dice = random.Random(seed)
    axi = AxiReadModel(config, Memory(BASE, memory), 20, Stalls(stall, dice), Stalls(stall, dice))
    local = LocalMemories(config, Stalls(stall, dice))
    local.am[:], local.wm[:] = bytes(AM_BYTES), bytes(WM_BYTES)
    bench = Bench(LoadUnit, axi, local, PROGRAM, BASE, SIZE)
    return bench.run(stop_when=lambda self, _: self.errors or len(self.signals) == 2)


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_right_rows(stall):
    bench = run(content(), stall)
    assert (bench.errors, len(bench.signals)) == ([], 2)


def test_flipped_bits():
    """In the first rows, in the last one, and beside them in the same words."""
    dice = random.Random(2)
    beside = {at + near for at in (1, 2343) for near in (-1, 1)} - FIRST - SECOND
    for at in [*dice.sample(sorted(FIRST), 4), *dice.sample(sorted(SECOND), 2), *sorted(beside)]:
        memory = content()
        memory[at] ^= 1 << dice.randrange(8)
        bench = run(memory, dice.choice([0.0, 0.3]), at)
        if at in beside:
            assert (bench.errors, len(bench.signals)) == ([], 2)
            continue
        ((_, code),) = bench.errors
        # A byte of both: the first CHECK tells it.
        assert (code, len(bench.signals)) == (Error.DATA, 0 if at in FIRST else 1), at
