"""LiteEth's UDP core for a PHY, as Verilog of one module."""

import functools
import re

from tosaic.boards.litex import litex_core, litex_versions

from .phy import Phy

MODULE = "liteeth_core"
PACKAGES = ("liteeth", "litex", "migen")
EXTRA = "ethernet"
WORD_BYTES = 4
"""Bytes of a datagram that pass per cycle: at 50 MHz, one byte would be too slow for 1 Gbit/s."""


def core_versions() -> tuple[str, ...]:
    """Returns the versions of the packages that make the core; raises PackageMissing where one is not installed."""
    return litex_versions(PACKAGES, EXTRA)


@functools.cache
def core_verilog(phy: Phy, part: str, clock_hz: float, mac: int) -> str:
    """The Verilog of module MODULE: ARP, ICMP, IP and UDP at one port, at `clock_hz`, down to the pins of the PHY.

    PackageMissing as in `core_versions`."""
    core_versions()
    text = litex_core(f"{__package__}.generator", _request(phy, part, clock_hz, mac), MODULE)
    # It declares this pin, which goes both ways, as an input, and then drives it.
    return re.sub(r"input  wire( +)rgmii_mdio\b", r"inout  wire\1rgmii_mdio", text)


def _request(phy: Phy, part: str, clock_hz: float, mac: int) -> dict:
    """What the generator is asked for, as its examples have it. The IP address is a port."""
    xilinx = phy is Phy.MII
    return {
        "vendor": "xilinx" if xilinx else "lattice",
        "toolchain": "vivado" if xilinx else "trellis",
        "device": part,
        "phy": "LiteEthPHYMII" if xilinx else "LiteEthECP5PHYRGMII",
        "clk_freq": int(clock_hz),
        "core": "udp",
        "mac_address": mac,
        "data_width": 8 if xilinx else 8 * WORD_BYTES,
        "udp_ports": {"udp": {"mode": "raw", "data_width": 8 * WORD_BYTES}},
    }
