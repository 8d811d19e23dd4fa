"""A system on ULX3S: VexRiscv, 32 MiB of SDRAM by LiteDRAM, a UART, and the NPU."""

from litedram.modules import MT48LC16M16
from litedram.phy import GENSDRPHY
from litex.build.generic_platform import Pins, Subsignal
from litex.build.lattice import LatticePlatform
from litex.gen import LiteXModule
from litex.soc.integration.soc_core import SoCCore
from migen import ClockDomain
from migen.genlib.resetsync import AsyncResetSynchronizer

from tosaic.boards.litex_soc import Tosaic

CLOCK_HZ = 50_000_000
ROM_BYTES = 256 << 10
"""The firmware with its models."""
SRAM_BYTES = 16 << 10
_IO = [
    ("clk", 0, Pins(1)),
    ("rst", 0, Pins(1)),
    ("serial", 0, Subsignal("tx", Pins(1)), Subsignal("rx", Pins(1))),
    (
        "sdram",
        0,
        *(Subsignal(name, Pins(1)) for name in ("cs_n", "ras_n", "cas_n", "we_n", "cke")),
        *(Subsignal(name, Pins(bits)) for name, bits in (("a", 13), ("ba", 2), ("dm", 2), ("dq", 16))),
    ),
]


class Platform(LatticePlatform):
    """ULX3S' FPGA with pins that have no places yet: a simulation needs none."""

    def __init__(self):
        super().__init__("LFE5U-85F-6BG381C", io=_IO, toolchain="trellis")


class Clocks(LiteXModule):
    """The clock is given; on a board a PLL makes it, and the chip's, a quarter of a cycle later."""

    def __init__(self, platform):
        self.cd_sys = ClockDomain()
        self.comb += self.cd_sys.clk.eq(platform.request("clk"))
        self.specials += AsyncResetSynchronizer(self.cd_sys, platform.request("rst"))


class NpuSoc(SoCCore):
    """`firmware`: 32-bit words, from the reset on. `config`, `verilog`: as of Tosaic. `linux`: the processor has
    an MMU, supervisor mode and caches, as Linux wants it."""

    def __init__(self, platform, firmware, config, baud, verilog=True, linux=False):
        self.crg = Clocks(platform)
        SoCCore.__init__(
            self,
            platform,
            CLOCK_HZ,
            ident="Tosaic on ULX3S",
            # `lite` has no data cache: what the NPU writes is seen. Linux maps npu_memory uncached.
            cpu_type="vexriscv",
            cpu_variant="linux" if linux else "lite",
            integrated_rom_size=ROM_BYTES,
            integrated_rom_init=firmware,
            integrated_sram_size=SRAM_BYTES,
            uart_baudrate=baud,
        )
        chip = MT48LC16M16(CLOCK_HZ, "1:1")
        self.sdrphy = GENSDRPHY(platform.request("sdram"), CLOCK_HZ)
        self.add_sdram("sdram", phy=self.sdrphy, module=chip, l2_cache_size=0)
        self.npu = Tosaic(self, config, verilog=verilog)
