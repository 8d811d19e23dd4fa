"""The accelerator with everything it needs on a board that has nothing but a UART."""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.hw.bridge.bridge import Bridge
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.bridge.uart import UartReceiver, UartTransmitter, bit_cycles
from tosaic.hw.config import Config
from tosaic.hw.top import Accelerator

from .lamp import Lamp
from .memory import OnChipMemory
from .sdram import SdramMemory, SdramPins

MEMORY_BASE = 0x1000_0000
"""Bus address of the memory; anything but 0 shows a forgotten base."""
BLINK_SECONDS = 0.05


class BoardTop(wiring.Component):
    """Accelerator, external memory and UART bridge, all with the clock of the domain `sync`, of `clock_hz`.

    `memory`: the external memory, at MEMORY_BASE.
    `data_bytes`: the bridge's buffer, the most a frame carries. `name`: what the bridge says it is.

    Ports:
        `uart_rx`, `uart_tx`: the line to the host, 8N1 at `baud`; `uart_rx` is synchronised here.
        `led_busy`: the accelerator used its bus in the last BLINK_SECONDS.
        `led_link`: the bridge answered in that time.
        `led_irq`: the accelerator's interrupt is pending.
        `sdram`: with an SdramMemory, its pins.
    """

    def __init__(
        self,
        config: Config,
        *,
        memory: OnChipMemory | SdramMemory,
        clock_hz: float,
        baud: int,
        name: str = "tosaic",
        data_bytes: int = 1024,
    ):
        self.config = config
        self.bit_cycles = bit_cycles(clock_hz, baud)
        self.blink_cycles = max(round(BLINK_SECONDS * clock_hz), 1)
        if memory.base != MEMORY_BASE:
            raise ValueError(f"the memory must be at {MEMORY_BASE:#x}, not {memory.base:#x}")
        self.identity = Identity(name, MEMORY_BASE, memory.memory_bytes, round(clock_hz), data_bytes)
        self.memory = memory
        super().__init__(
            {
                "uart_rx": In(1, init=1),
                "uart_tx": Out(1, init=1),
                "led_busy": Out(1),
                "led_link": Out(1),
                "led_irq": Out(1),
            }
            | ({"sdram": Out(SdramPins(memory.chip))} if isinstance(memory, SdramMemory) else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(self.bit_cycles)
        m.submodules.transmitter = transmitter = UartTransmitter(self.bit_cycles)
        m.submodules.bridge = bridge = Bridge(self.identity)
        accelerator, external = Accelerator(self.config), self.memory
        # Thousands of registers all over the part have this reset: so it is one register, not logic behind two.
        reset = Signal(reset_less=True)
        m.domains.machine = machine = ClockDomain(local=True)
        m.d.sync += reset.eq(bridge.reset | ResetSignal(allow_reset_less=True))
        m.d.comb += [machine.clk.eq(ClockSignal()), machine.rst.eq(reset)]
        m.submodules.accelerator = DomainRenamer("machine")(accelerator)
        m.submodules.external = DomainRenamer("machine")(external)
        wiring.connect(m, accelerator.read, external.read)
        wiring.connect(m, accelerator.write, external.write)
        wiring.connect(m, bridge.memory, external.host)
        wiring.connect(m, bridge.registers, accelerator.control)
        wiring.connect(m, bridge.line, transmitter.data)
        if isinstance(external, SdramMemory):
            wiring.connect(m, external.pins, wiring.flipped(self.sdram))

        m.submodules.busy_lamp = busy_lamp = Lamp(self.blink_cycles)
        m.submodules.link_lamp = link_lamp = Lamp(self.blink_cycles)
        m.d.comb += [
            receiver.pin.eq(self.uart_rx),
            self.uart_tx.eq(transmitter.pin),
            bridge.received.eq(receiver.valid),
            bridge.received_byte.eq(receiver.data),
            busy_lamp.event.eq(external.read.rvalid | external.write.wvalid),
            link_lamp.event.eq(bridge.answered),
            self.led_busy.eq(busy_lamp.lit),
            self.led_link.eq(link_lamp.lit),
            self.led_irq.eq(accelerator.irq),
        ]
        return m
