"""The memory between the parts of divided rows against a list."""

import random

import pytest
from component_bench import run

from tosaic.hw.array.part_sums import PartSums
from tosaic.hw.config_text import get_config

CONFIG = get_config("base,weight_banks=4")
SUM_BITS = 32


def lanes(vector: int) -> list[int]:
    return [vector >> SUM_BITS * column & (1 << SUM_BITS) - 1 for column in range(CONFIG.columns)]


@pytest.mark.parametrize("seed", range(3))
def test_a_part_adds_what_the_one_before_kept(seed: int) -> None:
    """Sums wrap at 32 bits, lane by lane; a place is read four slots after it was written, or later."""
    dut, dice = PartSums(CONFIG), random.Random(seed)
    kept: dict[int, tuple[int, list[int]]] = {}

    async def process(ctx):
        for slot in range(200):
            place = dice.randrange(CONFIG.rows // 2)
            known = place in kept and kept[place][0] + 4 <= slot
            add, gather = known and dice.random() < 0.7, dice.random() < 0.5
            ctx.set(dut.add, add)
            ctx.set(dut.place, place)
            await ctx.tick()
            sums = dice.getrandbits(SUM_BITS * CONFIG.columns)
            ctx.set(dut.sums, sums)
            ctx.set(dut.gather, gather)
            before = kept[place][1] if add else [0] * CONFIG.columns
            total = [(new + old) % (1 << SUM_BITS) for new, old in zip(lanes(sums), before, strict=True)]
            assert lanes(ctx.get(dut.total)) == total
            if gather:
                kept[place] = slot, total

    run(dut, process)
