"""The unpacker alone: rows of every mode while beats come and words are taken at random times."""

import random

import numpy as np
import pytest
from dma_models import config_of
from kept_simulator import kept_simulator

from tosaic.hw.dma.unpack import Unpacker
from tosaic.hw.packed_weights import PALETTE_SIZE, WeightCoding, pack


def random_rows(width, seed, count=6):
    """(weights, row) of random modes, lengths and densities; channels differ, too."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        mode, words = WeightCoding(rng.integers(3)), int(rng.integers(1, 60))
        if mode == WeightCoding.MASK:
            share = rng.random(width) ** rng.integers(1, 6)
            kept = rng.random((words, width)) < share
            weights = np.where(kept, rng.integers(-128, 128, (words, width)), 0).reshape(-1)
        else:
            weights = rng.choice(rng.integers(-128, 128, PALETTE_SIZE[mode]), words * width)
        yield weights.astype(np.int8), pack(weights.astype(np.int8), mode, width)


@pytest.mark.parametrize(("comes", "taken"), [(1.0, 1.0), (0.3, 1.0), (1.0, 0.3), (0.6, 0.6)])
@pytest.mark.parametrize("width", [4, 16])
def test_random_rows_with_random_back_pressure(width, comes, taken):
    rows = list(random_rows(width, width + round(10 * comes)))
    beats = [
        (int.from_bytes(row[at : at + width], "little"), at + width == len(row))
        for _, row in rows
        for at in range(0, len(row), width)
    ]
    wanted = b"".join(weights.tobytes() for weights, _ in rows)
    dut, _, simulator = kept_simulator(Unpacker, config_of(width))
    found, dice = bytearray(), random.Random(3)
    made_at_last: list[int] = []

    async def testbench(ctx):
        place, offered = 0, False
        for _ in range(20000):
            offered = place < len(beats) and (offered or dice.random() < comes)
            ctx.set(dut.beats.valid, offered)
            if offered:
                ctx.set(dut.beats.payload, beats[place][0])
                ctx.set(dut.last, beats[place][1])
            ctx.set(dut.weights.ready, dice.random() < taken)
            assert not ctx.get(dut.wrong)
            if ctx.get(dut.weights.valid) and ctx.get(dut.weights.ready):
                found.extend(ctx.get(dut.weights.payload).to_bytes(width, "little"))
            if offered and ctx.get(dut.beats.ready):
                if beats[place][1]:
                    made_at_last.append(len(found))
                place, offered = place + 1, False
            if place == len(beats):
                return
            await ctx.tick()

    simulator.run(testbench)
    assert bytes(found) == wanted
    # A row's last beat leaves with its last word, and no earlier: what follows it comes after the row.
    assert made_at_last == np.cumsum([weights.size for weights, _ in rows]).tolist()
