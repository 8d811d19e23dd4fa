"""Radiona ULX3S with the two large FPGAs and 32 MiB of SDRAM."""

from tosaic.hw.config_text import LEAN

from .board import Board, Capacity, Family, Routed
from .dram.chips import MT48LC16M16
from .ecp5.plans_85k import lean_on_85k, small_on_85k
from .spi_flash import SpiFlash

_FLASH = SpiFlash("spi_flash", offset=0x20_0000, configuration_clock=True)
"""4 MiB or more; a bitstream of the 85F takes less than 2 MiB."""
LEANER = f"am_banks=2,{LEAN},fetch_instructions=16,event_counters=0"
"""Decision 0039: two banks, half of the program's buffer, and no event counters, too."""
_ASKED_HZ = 69e6
"""What the router is asked for with it (decision 0043)."""
ULX3S_85F = Board(
    name="ulx3s-85f",
    title="Radiona ULX3S-85F",
    part="LFE5U-85F-6BG381C",
    family=Family.ECP5,
    capacity=Capacity(lut=83_640, ff=83_640, dsp=156, ram_kbit=208 * 18),
    config=f"small,{LEAN}",
    clock_hz=50e6,
    memory="32 MiB SDRAM",
    transport="serial:///dev/ttyUSB0?baud=1000000",
    platform="ulx3s:ULX3S_85F_Platform",
    memory_bytes=MT48LC16M16.memory_bytes,
    sdram=MT48LC16M16,
    memory_bandwidth=1.9,
    memory_latency=16,
    baud=1_000_000,
    leds=("led", "led", "led"),
    spare_block_ram=True,
    floorplan=lean_on_85k(),
    other_floorplans=(("small", small_on_85k()), (f"small,{LEANER}", lean_on_85k(_ASKED_HZ))),
    block_ram=80 << 10,
    flash=_FLASH,
    routed=Routed(58.0, "2026-11-27"),
    notes="PLL 25 to 50 MHz",
)

ULX3S_45F = Board(
    name="ulx3s-45f",
    title="Radiona ULX3S-45F",
    part="LFE5U-45F-6BG381C",
    family=Family.ECP5,
    capacity=Capacity(lut=43_848, ff=43_848, dsp=72, ram_kbit=108 * 18),
    config="nano",
    clock_hz=50e6,
    memory="32 MiB SDRAM",
    transport="serial:///dev/ttyUSB0?baud=1000000",
    platform="ulx3s:ULX3S_45F_Platform",
    memory_bytes=MT48LC16M16.memory_bytes,
    sdram=MT48LC16M16,
    memory_bandwidth=1.9,
    memory_latency=16,
    baud=1_000_000,
    leds=("led", "led", "led"),
    spare_block_ram=True,
    block_ram=64 << 10,
    flash=_FLASH,
    routed=Routed(56.6, "2026-11-27"),
    notes="PLL 25 to 50 MHz",
)
