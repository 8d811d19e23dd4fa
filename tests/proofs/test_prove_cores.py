"""Turns on the port that the cores share, for all requests: somebody who asks goes next, and nobody waits for more than
one turn of each other one."""

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from proving import implies, prove_by_induction

from tosaic.hw.cores.round_robin import RoundRobin


@pytest.mark.parametrize("count", (2, 4))
def test_turns(tmp_path, count):
    m = Module()
    m.submodules.dut = dut = RoundRobin(count)
    chosen_asks = dut.asks.bit_select(dut.chosen, 1)
    m.d.comb += [
        Assume(implies(dut.next, dut.asks.any())),
        Assert(implies(dut.asks.any(), chosen_asks)),
    ]
    for number in range(count):
        # Turns of others since it began to ask, and how many may still come before its own.
        passed, ahead = (
            Signal(range(2 * count), name=f"passed{number}"),
            Signal(range(count), name=f"ahead{number}"),
        )
        gets = dut.next & (dut.chosen == number)
        m.d.sync += passed.eq(Mux(gets | ~dut.asks[number], 0, passed + dut.next))
        m.d.comb += [
            ahead.eq(number - dut.last - 1),
            Assert(passed + ahead <= count - 1),
        ]
    prove_by_induction(m, tmp_path, [dut.asks, dut.next], steps=2)
