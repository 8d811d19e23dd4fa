"""LambdaConcept ECPIX-5 with the large FPGA. Its DDR3 is not used: its calibration cannot be tried (decision 0037)."""

from tosaic.hw.config_text import LEAN

from .board import Board, Capacity, Family, Routed, small_logic_ps
from .ecp5.plans_85k import lean_on_85k, small_on_85k, wide_on_85k
from .ethernet import Ethernet, Phy
from .spi_flash import SpiFlash

WIDE = (
    "rows=6,am_bytes=65536,am_banks=1,wm_bytes=32768,line_pixels=128,line_groups=3,weight_banks=1,lane_columns=4,"
    "vector_bits=34,queue_commands=16,cabac_engines=0,unpackers=0,fetch_instructions=16,event_counters=0"
)
"""Decision 0041: 96 multipliers; of `base`, in the order of a configuration's name."""
_CLOCK_HZ = 50e6
ECPIX5_85F = Board(
    name="ecpix5-85f",
    title="LambdaConcept ECPIX-5 85F",
    part="LFE5UM5G-85F-8BG554I",
    family=Family.ECP5,
    capacity=Capacity(lut=83_640, ff=83_640, dsp=156, ram_kbit=208 * 18),
    config=f"small,{LEAN}",
    clock_hz=_CLOCK_HZ,
    memory="80 KiB on chip",
    transport="serial:///dev/ttyUSB1?baud=1000000",
    platform="ecpix5:ECPIX585Platform",
    memory_bytes=80 << 10,
    logic_ps=small_logic_ps(_CLOCK_HZ),
    baud=1_000_000,
    floorplan=lean_on_85k(),
    other_floorplans=(("small", small_on_85k()), (f"base,{WIDE}", wide_on_85k())),
    ethernet=Ethernet(Phy.RGMII, "eth_rgmii"),
    flash=SpiFlash("spi_flash_1x", offset=0x20_0000, configuration_clock=True),
    routed=Routed(84.8, "2026-11-26"),
    notes="PLL 100 to 50 MHz",
)
