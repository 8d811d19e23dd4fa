"""1BitSquared iCEBreaker: iCE40 UP5K, too small for the array machine; external memory in SPRAM."""

from .board import Board, Capacity, Family, Routed

ICEBREAKER = Board(
    name="icebreaker",
    title="1BitSquared iCEBreaker",
    part="iCE40UP5K-SG48",
    family=Family.ICE40,
    capacity=Capacity(lut=5_280, ff=5_280, dsp=8, ram_kbit=30 * 4 + 4 * 256),
    config="nano",
    clock_hz=12e6,
    memory="71 KiB SPRAM",
    transport="serial:///dev/ttyUSB1?baud=500000",
    platform="icebreaker:ICEBreakerPlatform",
    memory_bytes=71 << 10,
    baud=500_000,
    machine="micro-coded",
    leds=("led_g", "led_r"),
    routed=Routed(17.6, "2026-11-22"),
)
