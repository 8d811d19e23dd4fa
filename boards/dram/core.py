"""LiteDRAM's controller for a chip, as Verilog of one module."""

import functools
import re

from tosaic.boards.litex import litex_core, litex_versions, uncommented

from .chips import SdrChip

MODULE = "litedram_core"
PACKAGES = ("litedram", "litex", "migen")
EXTRA = "dram"
AXI_PORT, HOST_PORT = "user_port_axi_0", "user_port_host"
"""What the ports of the core begin with: AXI4 with words of the accelerator, Wishbone with words of the chip."""


def core_versions() -> tuple[str, ...]:
    """Returns the versions of the packages that make the core; raises PackageMissing where one is not installed."""
    return litex_versions(PACKAGES, EXTRA)


@functools.cache
def core_verilog(chip: SdrChip, part: str, clock_hz: float, word_bytes: int) -> str:
    """The Verilog of module MODULE: controller and pins of one chip for an ECP5 or a Gowin, at `clock_hz`.

    `word_bytes`: of the AXI4 port; 0: there is none, and all accesses come by the host's. The text is the same whenever
    and wherever it is made. PackageMissing as in `core_versions`.
    """
    core_versions()
    text = litex_core(f"{__package__}.generator", _request(chip, part, clock_hz, word_bytes), MODULE)
    return clean_verilog(text, chip.data_bits)


def _request(chip: SdrChip, part: str, clock_hz: float, word_bytes: int) -> dict:
    """What the generator is asked for, as its examples have it; it wants None as text."""
    axi = {"axi_0": {"type": "axi", "data_width": 8 * word_bytes, "id_width": 2}} if word_bytes else {}
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
            **axi,
            "host": {"type": "wishbone", "data_width": chip.data_bits},
        },
    }


def clean_verilog(text: str, data_bits: int) -> str:
    """Verilog that LiteX wrote, without comments, and with pins of data that go both ways: for an ECP5 it says they are
    inputs."""
    text, count = re.subn(
        rf"(?:input|inout)  wire +\[{data_bits - 1}:0\] sdram_dq\b",
        f"inout  wire   [{data_bits - 1}:0] sdram_dq",
        uncommented(text),
    )
    if count != 1:
        raise RuntimeError("LiteX writes other ports than those that are known here")
    return text
