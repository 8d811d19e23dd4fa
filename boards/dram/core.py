"""LiteDRAM's controller for a chip, as Verilog of one module."""

import functools
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tosaic.hw.micro.packages import PackageMissing

from .chips import SdrChip

MODULE = "litedram_core"
PACKAGES = ("litedram", "litex", "migen")
HINT = "pip install 'tosaic[dram]'"
AXI_PORT, HOST_PORT = "user_port_axi_0", "user_port_host"
"""What the ports of the core begin with: AXI4 with words of the accelerator, Wishbone with words of the chip."""


def core_versions() -> tuple[str, ...]:
    """Of the packages that make the core; PackageMissing where one of them is not installed."""
    for name in PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise PackageMissing(f"the Python package {name} is missing; {HINT}")
    return tuple(importlib.metadata.version(name) for name in PACKAGES)


@functools.cache
def core_verilog(chip: SdrChip, part: str, clock_hz: float, word_bytes: int) -> str:
    """The Verilog of module MODULE: controller and pins of one chip for an ECP5, at `clock_hz`.

    It is the same whenever and wherever it is made. PackageMissing as in `core_versions`.
    """
    core_versions()
    with tempfile.TemporaryDirectory(prefix="tosaic-dram-") as name:
        folder = pathlib.Path(name)
        wanted = folder / "core.json"
        wanted.write_text(json.dumps(_request(chip, part, clock_hz, word_bytes)))
        module = f"{__package__}.generator"
        options = ("--no-compile", "--output-dir", str(folder), "--name", MODULE, str(wanted))
        done = subprocess.run(
            [sys.executable, "-m", module, *options],
            cwd=folder,
            # Names and their order come from sets.
            env=os.environ | {"PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise RuntimeError(f"LiteDRAM's generator failed: {said}")
        return clean_verilog((folder / "gateware" / f"{MODULE}.v").read_text(), chip.data_bits)


def _request(chip: SdrChip, part: str, clock_hz: float, word_bytes: int) -> dict:
    """What the generator is asked for, as its examples have it; it wants None as text."""
    return {
        "speedgrade": -6,
        "cpu": "None",
        "device": part,
        "memtype": "SDR",
        "sdram_module": chip.module,
        "sdram_module_nb": chip.data_bits // 8,
        "sdram_rank_nb": 1,
        "sdram_phy": "GENSDRPHY",
        "input_clk_freq": clock_hz,
        "sys_clk_freq": clock_hz,
        "cmd_buffer_depth": 16,
        "user_ports": {
            "axi_0": {"type": "axi", "data_width": 8 * word_bytes, "id_width": 2},
            "host": {"type": "wishbone", "data_width": chip.data_bits},
        },
    }


def clean_verilog(text: str, data_bits: int) -> str:
    """Verilog that LiteX wrote, without comments, which tell dates, and time scale, and with pins of data that go both
    ways: it declares them as inputs."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^(//|`timescale|\s*$).*\n", "", text, flags=re.MULTILINE)
    text, count = re.subn(
        rf"input  wire +\[{data_bits - 1}:0\] sdram_dq\b",
        f"inout  wire   [{data_bits - 1}:0] sdram_dq",
        text,
    )
    if count != 1:
        raise RuntimeError("LiteX writes other ports than those that are known here")
    return text
