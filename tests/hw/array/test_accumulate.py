"""The accumulator's adder: its values, and ECP5's carry chain proven equal to them by Yosys."""

import pytest
from amaranth.back import rtlil
from amaranth.sim import Simulator
from hypothesis import given
from hypothesis import strategies as st
from proving import run_proof

from tosaic.hw.array.accumulate import Accumulate

WORDS = st.integers(0, 2**32 - 1)


class Ecp5:
    """As much of a Lattice platform as the adder looks at."""

    family = "ecp5"


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
