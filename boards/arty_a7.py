"""Digilent Arty A7. Its DDR3 is not used: the vendor's controller would need the vendor's tools to simulate."""

from .board import Board, Capacity, Family
from .ethernet import Ethernet, Phy
from .spi_flash import SpiFlash

_ETHERNET = Ethernet(Phy.MII, "eth_mii", reference_clock="eth_clk25")
_FLASH = SpiFlash("spi_flash_1x", offset=0x80_0000)
"""16 MiB; a bitstream of the 100T takes 3.7 MiB."""

ARTY_A7_35T = Board(
    name="arty-a7-35t",
    title="Digilent Arty A7-35T",
    part="xc7a35ticsg324-1L",
    family=Family.XILINX7,
    capacity=Capacity(lut=20_800, ff=41_600, dsp=90, ram_kbit=50 * 36),
    config="nano",
    clock_hz=50e6,
    memory="64 KiB on chip",
    transport="serial:///dev/ttyUSB1?baud=1000000",
    platform="arty_a7:ArtyA7_35Platform",
    memory_bytes=64 << 10,
    baud=1_000_000,
    leds=("led", "led", "led"),
    ethernet=_ETHERNET,
    flash=_FLASH,
    notes="PLL 100 to 50 MHz",
)

ARTY_A7_100T = Board(
    name="arty-a7-100t",
    title="Digilent Arty A7-100T",
    part="xc7a100ticsg324-1L",
    family=Family.XILINX7,
    capacity=Capacity(lut=63_400, ff=126_800, dsp=240, ram_kbit=135 * 36),
    config="small",
    clock_hz=50e6,
    memory="128 KiB on chip",
    transport="serial:///dev/ttyUSB1?baud=1000000",
    platform="arty_a7:ArtyA7_100Platform",
    memory_bytes=128 << 10,
    baud=1_000_000,
    leds=("led", "led", "led"),
    ethernet=_ETHERNET,
    flash=_FLASH,
    notes="PLL 100 to 50 MHz",
)
