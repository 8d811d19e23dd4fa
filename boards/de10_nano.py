"""Terasic DE10-Nano. Its ARM cores and their DDR3 are not used: an adapter for a UART goes to the Arduino header."""

from .board import Board, Capacity, Family

DE10_NANO = Board(
    name="de10-nano",
    title="Terasic DE10-Nano",
    part="5CSEBA6U23I7",
    family=Family.CYCLONE5,
    # 41,910 modules of two LUTs and four flip-flops.
    capacity=Capacity(lut=2 * 41_910, ff=4 * 41_910, dsp=112, ram_kbit=553 * 10),
    config="small",
    clock_hz=50e6,
    memory="64 KiB on chip",
    transport="serial:///dev/ttyUSB0?baud=1000000",
    platform="de10_nano:DE10NanoPlatform",
    memory_bytes=64 << 10,
    baud=1_000_000,
    leds=("led", "led", "led"),
    notes="UART of 3.3 V: receives at Arduino_IO0, sends at Arduino_IO1",
)
