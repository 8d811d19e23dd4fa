"""The accumulator's adder: its values, and ECP5's carry chain proven equal to them by Yosys."""

import random

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Fragment, Module, Mux, Signal
from amaranth.sim import Simulator
from hypothesis import given
from hypothesis import strategies as st
from proving import run_proof

from tosaic.hw.array.accumulate import Accumulate

WORDS = st.integers(0, 2**32 - 1)


class Ecp5:
    """The part of a Lattice platform that the adder looks at."""

    family = "ecp5"


def carry_pair(kind, **ports):
    """Lattice's CCU2C, two bits of a sum: each a table of four inputs, whose lower quarter makes the carry."""
    assert kind == "CCU2C"
    m, carry = Module(), ports["i_CIN"]
    for half in (0, 1):
        assert ports[f"p_INJECT1_{half}"] == "NO"
        table, inputs = ports[f"p_INIT{half}"], [ports[f"i_{name}{half}"] for name in "ABCD"]
        propagate, generate, after = Signal(), Signal(), Signal()
        m.d.comb += [
            propagate.eq(table.bit_select(Cat(*inputs), 1)),
            generate.eq(table.bit_select(Cat(*inputs[:2]), 1)),
            ports[f"o_S{half}"].eq(propagate ^ carry),
            after.eq(Mux(propagate, carry, generate)),
        ]
        carry = after
    m.d.comb += ports["o_COUT"].eq(carry)
    return m


@given(
    st.lists(
        st.tuples(st.booleans(), WORDS, WORDS, st.integers(-(2**17), 2**17 - 1)), min_size=1, max_size=20
    )
)
def test_sum(cases):
    dut = Accumulate(18)

    async def process(ctx):
        for keep, own, above, product in cases:
            ctx.set(dut.keep, keep)
            ctx.set(dut.own, own)
            ctx.set(dut.above, above)
            ctx.set(dut.product, product)
            assert ctx.get(dut.sum) == ((own if keep else above) + product) % 2**32

    simulator = Simulator(dut)
    simulator.add_testbench(process)
    simulator.run()


def test_sum_of_the_carry_chain(monkeypatch):
    """300 numbers show it here: the proof is for the nightly run, because Yosys takes a minute to start."""
    dut, dice = Accumulate(18), random.Random(1)

    def word():
        return dice.choice([0, 1, 2**31, 2**32 - 1, dice.getrandbits(32)])

    async def process(ctx):
        for _ in range(300):
            keep, own, above, product = dice.getrandbits(1), word(), word(), dice.randint(-(2**17), 2**17 - 1)
            ctx.set(dut.keep, keep)
            ctx.set(dut.own, own)
            ctx.set(dut.above, above)
            ctx.set(dut.product, product)
            assert ctx.get(dut.sum) == ((own if keep else above) + product) % 2**32

    monkeypatch.setattr("tosaic.hw.array.accumulate.Instance", carry_pair)
    simulator = Simulator(Fragment.get(dut, Ecp5()))
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_the_carry_chain_is_the_same_sum(tmp_path):
    for name, platform in (("gold", None), ("gate", Ecp5())):
        text = rtlil.convert(Accumulate(18), name=name, platform=platform, emit_src=False)
        (tmp_path / f"{name}.il").write_text(text)
    script = """
        read_rtlil gold.il
        read_rtlil gate.il
        read_verilog -overwrite +/ecp5/cells_sim.v
        setattr -mod -unset top gold gate
        hierarchy
        proc gold gate CCU2C LUT4 LUT2
        flatten gold gate
        opt_clean
        miter -equiv -flatten -make_assert gold gate miter
        hierarchy -top miter
        opt -full
        techmap
        sat -verify -prove-asserts -set-def-inputs miter
    """
    run_proof("; ".join(line.strip() for line in script.strip().splitlines()), tmp_path)
