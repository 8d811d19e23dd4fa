"""The accelerator with Wishbone ports."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import high_address
from ..top import Accelerator
from .control import ControlBridge
from .memory import MemoryBridge
from .signatures import WishboneControl, WishboneMemory

VERILOG_NAME = "tosaic_wishbone"


class WishboneAccelerator(wiring.Component):
    """One accelerator.

    Ports:
        control (WishboneControl, in): the registers of `csr_map`, at word addresses.
        memory (WishboneMemory, out): to the memory that programs and tensors lie in.
        irq (1, out): interrupt, level.
        idle (1, out): the clock may stop while no access of `control` is under way.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(WishboneControl()),
                "memory": Out(WishboneMemory(config)),
                "irq": Out(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.accelerator = accelerator = Accelerator(self.config)
        m.submodules.control_bridge = control = ControlBridge()
        m.submodules.memory_bridge = memory = MemoryBridge(self.config)
        wiring.connect(m, control.axi, accelerator.control)
        wiring.connect(m, accelerator.read, memory.read)
        wiring.connect(m, accelerator.write, memory.write)
        wiring.connect(m, wiring.flipped(self.control), control.wishbone)
        wiring.connect(m, memory.wishbone, wiring.flipped(self.memory))
        if high_address(self.config, "high_address"):
            m.d.comb += memory.high_address.eq(accelerator.high_address)
        m.d.comb += [self.irq.eq(accelerator.irq), self.idle.eq(accelerator.idle)]
        return m
