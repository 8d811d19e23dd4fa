"""The Tosaic NPU as a LiteX module: copy this file into your project.

tosaic verilog --config small -o npu/            # once: the accelerator as Verilog

self.npu = TosaicNpu(platform, "npu", columns=8)
self.npu.attach(self)                             # registers, interrupt, SDRAM
"""

import pathlib

from litedram.frontend.axi import LiteDRAMAXI2Native
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal

REGISTER_BYTES = 0x1000
ID_BITS = 2
# Of AXI4's channels: what the accelerator drives, and what it is driven by.
_ADDRESS = (("id", "addr", "len", "size", "burst", "valid"), ("ready",))
_CHANNELS = {
    "ar": _ADDRESS,
    "r": (("ready",), ("id", "data", "resp", "last", "valid")),
    "aw": _ADDRESS,
    "w": (("data", "strb", "last", "valid"), ("ready",)),
    "b": (("ready",), ("id", "resp", "valid")),
}
_LITE_CHANNELS = {
    "ar": (("ready",), ("addr", "prot", "valid")),
    "r": (("data", "resp", "valid"), ("ready",)),
    "aw": (("ready",), ("addr", "prot", "valid")),
    "w": (("ready",), ("data", "strb", "valid")),
    "b": (("resp", "valid"), ("ready",)),
}


class TosaicNpu(LiteXModule):
    """`verilog`: the folder that `tosaic verilog` wrote. `columns`: the configuration's, bytes of a bus word.

    control: AXI4-Lite, the registers. memory: AXI4, the accelerator's data. ev.done: the interrupt, as long as it is
    pending in the register IRQ.
    """

    def __init__(self, platform, verilog, columns):
        self.control = AXILiteInterface(data_width=32, address_width=32)
        self.memory = AXIInterface(data_width=8 * columns, address_width=32, id_width=ID_BITS)
        self.ev = EventManager()
        self.ev.done = EventSourceLevel(description="A run has ended.")
        self.ev.finalize()
        self.specials += Instance(
            "tosaic",
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            o_irq=self.ev.done.trigger,
            **_ports("m_axi_", self.memory, _CHANNELS),
            **_ports("s_axil_", self.control, _LITE_CHANNELS),
        )
        for path in sorted(pathlib.Path(verilog, "rtl").glob("tosaic*.v")):
            platform.add_source(str(path))

    def attach(self, soc, name="npu"):
        """Connects it to a SoC with SDRAM, of which `self` is the module called `name`: registers on its bus,
        data on a port of the SDRAM's own, the interrupt to its processor.

        A processor that caches the SDRAM does not see what the accelerator writes: have no data cache and no L2, or
        clean and forget its lines (tosaic_mapped.h)."""
        soc.bus.add_slave(name, self.control, region=SoCRegion(size=REGISTER_BYTES, mode="rw", cached=False))
        soc.irq.add(name, use_loc_if_exists=True)
        port = soc.sdram.crossbar.get_port(data_width=self.memory.data_width)
        base = soc.bus.regions["main_ram"].origin
        self.dma = LiteDRAMAXI2Native(self.memory, port, base_address=base)


def _ports(prefix, bus, channels):
    """Ports of the Instance: those that it drives, and those that the bus drives."""
    ports = {}
    for channel, (driven, seen) in channels.items():
        record = getattr(bus, channel)
        for direction, names in (("o", driven), ("i", seen)):
            for name in names:
                signal = 0 if name == "prot" else getattr(record, name)
                ports[f"{direction}_{prefix}{channel}{name}"] = signal
    return ports
