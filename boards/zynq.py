"""Boards whose FPGA sits beside ARM cores: the accelerator is a peripheral, external memory is the processor's DDR."""

from tosaic.hw.config_text import LEAN

from .board import Board, Capacity, Family

PYNQ_Z2 = Board(
    name="pynq-z2",
    title="TUL PYNQ-Z2",
    part="xc7z020clg400-1",
    family=Family.ZYNQ7,
    capacity=Capacity(lut=53_200, ff=106_400, dsp=220, ram_kbit=140 * 36),
    # With all of base's rows the array would need 256 multipliers (decision 0036).
    config=f"base,rows=10,am_bytes={128 << 10},{LEAN}",
    clock_hz=50e6,
    memory="the processor's DDR3, 512 MiB",
    transport="uio:///dev/uio0?memory=/dev/udmabuf0",
    spare_block_ram=True,
    notes="clock FCLK0 of the processor; AXI by GP0 and HP0",
)

KV260 = Board(
    name="kv260",
    title="AMD Kria KV260",
    part="xck26-sfvc784-2LV-c",
    family=Family.ULTRASCALE,
    capacity=Capacity(lut=117_120, ff=234_240, dsp=1_248, ram_kbit=144 * 36 + 64 * 288),
    config="base",
    clock_hz=100e6,
    memory="the processor's DDR4, 4 GiB",
    transport="uio:///dev/uio4?memory=/dev/udmabuf0",
    spare_block_ram=True,
    vivado_board="xilinx.com:kv260_som:part0:1.4",
    notes="clock PL0 of the processor; AXI by HPM0_FPD and HP0_FPD",
)
