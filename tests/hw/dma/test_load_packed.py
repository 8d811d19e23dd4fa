"""Packed rows through LOAD into WM, between ordinary loads, with stalls on every channel; and rows that are wrong."""

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
    assert_same,
    config_of,
    load_go,
    pitch,
    signal,
)

from tosaic.hw.dma import LoadUnit
from tosaic.hw.isa import Error, Space
from tosaic.hw.packed_weights import MOST_WORDS, WeightCoding, pack, unpack

BASE = 0x4000_0000
SIZE = 16 << 10


def weights_of(mode, words, width, seed, zeros=0.7):
    rng = np.random.default_rng(seed)
    if mode != WeightCoding.MASK:
        values = rng.integers(-128, 128, {WeightCoding.PALETTE_4: 4, WeightCoding.PALETTE_16: 16}[mode])
        return rng.choice(values, words * width).astype(np.int8)
    # Channels differ: some are dense.
    share = rng.random(width) * (1 - zeros) * 2
    kept = rng.random((words, width)) < share
    return np.where(kept, rng.integers(-128, 128, (words, width)), 0).astype(np.int8).reshape(-1)


def bench(program, rows, columns, stall=0.0, latency=20, seed=1, unpackers=1, **more):
    """A LOAD unit whose memory holds `rows` (address -> bytes)."""
    config = dataclasses.replace(config_of(columns), cabac_engines=0, unpackers=unpackers)
    rng = random.Random(seed)
    content = bytearray(random.Random(5).randbytes(SIZE))
    for address, data in rows.items():
        content[address : address + len(data)] = data
    axi = AxiReadModel(config, Memory(BASE, content), latency, Stalls(stall, rng), Stalls(stall, rng))
    local = LocalMemories(config, Stalls(stall, rng))
    return Bench(LoadUnit, axi, local, program, BASE, SIZE, **more)


@pytest.mark.parametrize("mode", WeightCoding)
@pytest.mark.parametrize("columns", [4, 8, 16, 32])
@pytest.mark.parametrize("words", [1, 7, 8, 9, 50])
def test_the_format_keeps_every_weight(mode, columns, words):
    for zeros in (0.0, 0.5, 0.95, 1.0):
        weights = weights_of(mode, words, columns, words, zeros)
        found, cycles = unpack(pack(weights, mode, columns), columns)
        np.testing.assert_array_equal(found, weights)
        assert cycles >= words + 2


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("columns", [4, 8, 16])
def test_packed_and_plain_loads_in_order(columns, stall):
    """Loads in front, between and behind write before and after the rows, to the same places."""
    made = {
        0: (WeightCoding.MASK, 40, 0.8),
        4096: (WeightCoding.PALETTE_16, 9, 0),
        6144: (WeightCoding.MASK, 70, 0.3),
        10240: (WeightCoding.PALETTE_4, 13, 0),
        12288: (WeightCoding.MASK, 1, 1.0),
        14336: (WeightCoding.MASK, 33, 0.97),
    }
    weights = {at: weights_of(mode, words, columns, at, zeros) for at, (mode, words, zeros) in made.items()}
    rows = {at: pack(weights[at], made[at][0], columns) for at in made}

    def packed(at, local):
        return load_go(at, local, len(rows[at]), space=Space.WM, packed=1)

    program = [
        load_go(1000, 100, 700),
        load_go(2048, 0, 64 * columns, space=Space.WM),
        packed(0, 10 * columns),
        signal("LOAD", 1, 1),
        packed(4096, 12 * columns),
        load_go(64, 14 * columns, 4 * columns, space=Space.WM),
        signal("LOAD", 2, 1),
        load_go(500, 3, 333),
        packed(6144, 30 * columns),
        packed(10240, WM_BYTES - 5 * columns),
        packed(12288, 2 * columns),
        packed(14336, 100 * columns),
        signal("LOAD", 3, 1),
    ]
    dut = bench(program, rows, columns, stall)
    wm_at_signal = {}
    dut.on_signal = lambda self: wm_at_signal.setdefault(len(self.signals), bytes(self.local.wm))
    dut.run(limit=20000)
    assert dut.errors == []
    am, wm = bytearray(AM_BYTES), bytearray(WM_BYTES)
    wm_after = []
    for command in program:
        if "local_address" not in command.fields:
            wm_after.append(bytes(wm))
            continue
        start = command.memory_address
        raw = dut.axi.memory.bytes[start : start + command.row_bytes]
        local = wm if command.space == Space.WM else am
        if command.packed:
            raw = weights[start].tobytes()
        for place, byte in enumerate(raw, command.local_address):
            local[place % len(local)] = byte
    assert_same(dut.local.am, am)
    assert_same(dut.local.wm, wm)
    assert [fired[1:] for fired in dut.signals] == [(1, 1), (2, 1), (3, 1)]
    # The first SIGNAL came when its row was written, and nothing behind it.
    assert_same(wm_at_signal[1], wm_after[0])


def test_rows_of_one_go_are_packed_each_by_itself():
    width = 8
    pieces = [weights_of(WeightCoding.MASK, 20, width, seed) for seed in range(3)]
    rows = [pack(piece, WeightCoding.MASK, width) for piece in pieces]
    size = max(map(len, rows))
    # Rows of one GO have one size: one with more words of weights is searched for the shorter ones.
    same = [index for index, row in enumerate(rows) if len(row) == size]
    memory = {1024 * place: rows[index] for place, index in enumerate(same)}
    program = [
        pitch("LOAD", 1024, 32 * width),
        load_go(0, 0, size, rows=len(same), space=Space.WM, packed=1),
        signal("LOAD", 1, 1),
    ]
    dut = bench(program, memory, width)
    dut.run(limit=2000)
    assert dut.errors == []
    for place, index in enumerate(same):
        found = bytes(dut.local.wm[place * 32 * width :][: pieces[index].size])
        assert_same(found, pieces[index].tobytes())


@pytest.mark.parametrize("mode", WeightCoding)
def test_cycles_are_those_of_the_format(mode):
    """The time from the first beat to the SIGNAL is that of unpacking, and a few cycles to write and to signal."""
    width, words = 16, 120
    weights = weights_of(mode, words, width, 3, 0.6)
    row = pack(weights, mode, width)
    dut = bench(
        [load_go(0, 0, len(row), space=Space.WM, packed=1), signal("LOAD", 1, 1)], {0: row}, width, latency=50
    )
    dut.run(limit=2000)
    taken = dut.signals[0][0] - dut.axi.beat_cycles[0]
    assert taken == unpack(row, width)[1] + 4


def wrong_rows(width):
    good = pack(weights_of(WeightCoding.MASK, 40, width, 1, 0.5), WeightCoding.MASK, width)
    palette = pack(weights_of(WeightCoding.PALETTE_16, 40, width, 1), WeightCoding.PALETTE_16, width)
    return {
        "no words": bytes(width) + good[width:],
        "an unknown mode": (40 | 3 << 16).to_bytes(width, "little") + good[width:],
        "too short": good[:-width],
        "only a header": good[:width],
        "too long": good + bytes(width),
        "half a palette": palette[: 9 * width],
        "more words than there are": (MOST_WORDS).to_bytes(width, "little") + good[width:],
    }


@pytest.mark.parametrize("what", wrong_rows(8))
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_a_wrong_row_is_illegal(what, stall):
    row = wrong_rows(8)[what]
    program = [
        load_go(0, 0, len(row), space=Space.WM, packed=1),
        signal("LOAD", 1, 1),
        load_go(4096, 8, 4000, space=Space.WM),
    ]
    dut = bench(program, {0: row}, 8, stall)
    dut.run(limit=3000)
    assert [code for _, code in dut.errors] == [Error.ILLEGAL]
    assert dut.signals == []


@pytest.mark.parametrize(
    ("go", "unpackers"),
    [
        (load_go(0, 0, 64, packed=1), 1),
        (load_go(0, 0, 64, space=Space.WM, packed=1), 0),
        (load_go(0, 0, 60, space=Space.WM, packed=1), 1),
    ],
)
def test_what_cannot_be_unpacked_is_illegal(go, unpackers):
    dut = bench([go], {}, 8, unpackers=unpackers)
    dut.run(limit=300)
    assert [code for _, code in dut.errors] == [Error.ILLEGAL]
