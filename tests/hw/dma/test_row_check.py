"""The CRC of loaded rows is that of zlib, for rows anywhere in memory."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator
from dma_models import config_of

from tosaic.hw.dma.row_check import RowCheck
from tosaic.hw.row_crc import rows_crc


def beats_of(start, row, word_bytes):
    """(data, lanes) of each beat; lanes that do not count hold anything."""
    first, end = start - start % word_bytes, start + len(row)
    for beat in range(first, end, word_bytes):
        places = range(beat, beat + word_bytes)
        data = bytes(row[at - start] if start <= at < end else random.randrange(256) for at in places)
        yield int.from_bytes(data, "little"), sum(1 << at - beat for at in places if start <= at < end)


@pytest.mark.parametrize("word_bytes", [4, 8, 32])
def test_against_zlib(word_bytes):
    """Several CHECKs one after the other, each with the right CRC and with one that differs in a bit."""
    dice, found = random.Random(word_bytes), []
    dut = RowCheck(config_of(word_bytes))

    async def testbench(ctx):
        for wrong_bit in (None, 0, 31, None, 17):
            crc = 0
            for _ in range(4):
                start, row = dice.randrange(500), dice.randbytes(dice.randrange(1, 100))
                crc = rows_crc(crc, [start], np.frombuffer(row, np.uint8)[None], word_bytes)
                for data, lanes in beats_of(start, row, word_bytes):
                    ctx.set(dut.data, data)
                    ctx.set(dut.lanes, lanes)
                    ctx.set(dut.beat, 1)
                    await ctx.tick()
                    ctx.set(dut.beat, 0)
                    for _ in range(dice.randrange(2)):
                        await ctx.tick()
            await ctx.tick()
            ctx.set(dut.expected, crc ^ (0 if wrong_bit is None else 1 << wrong_bit))
            ctx.set(dut.compare, 1)
            await ctx.tick()
            ctx.set(dut.compare, 0)
            found.append(bool(ctx.get(dut.wrong)))
            await ctx.tick()
            assert not ctx.get(dut.wrong)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert found == [False, True, True, False, True]


@pytest.mark.parametrize("starts", [[0, 16, 32], [3, 20, 61], [8, 15, 100]])
def test_rows_at_once_are_rows_one_by_one(starts):
    rows = np.random.default_rng(1).integers(0, 256, (3, 13), np.uint8)
    one_by_one = 0
    for start, row in zip(starts, rows, strict=True):
        one_by_one = rows_crc(one_by_one, [start], row[None], 8)
    assert rows_crc(0, starts, rows, 8) == one_by_one
