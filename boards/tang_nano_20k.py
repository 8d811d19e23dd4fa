"""Sipeed Tang Nano 20K: Gowin GW2AR-18 with 8 MiB of SDRAM in its package."""

from .board import Board, Capacity, Family, Routed
from .dram.chips import M12L64322A

TANG_NANO_20K = Board(
    name="tang-nano-20k",
    title="Sipeed Tang Nano 20K",
    part="GW2AR-LV18QN88C8/I7",
    family=Family.GOWIN,
    capacity=Capacity(lut=20_736, ff=15_552, dsp=48, ram_kbit=46 * 18),
    config="nano",
    clock_hz=27e6,
    memory="8 MiB SDRAM in the package",
    transport="serial:///dev/ttyUSB1?baud=1000000",
    platform="tosaic.boards.platforms.tang_nano_20k:TangNano20kPlatform",
    memory_bytes=M12L64322A.memory_bytes,
    sdram=M12L64322A,
    baud=1_000_000,
    machine="micro-coded",
    leds=("led", "led", "led"),
    routed=Routed(77.0, "2026-11-26"),
)
