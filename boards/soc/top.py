"""The accelerator with everything it needs on a board whose host is at a UART or behind Ethernet."""

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Module,
    Mux,
    ResetInserter,
    ResetSignal,
    Signal,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.ethernet.phy import Ethernet
from tosaic.boards.spi_flash import SpiFlash
from tosaic.hw.bridge.bridge import Bridge
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.bridge.uart import UartReceiver, UartTransmitter, bit_cycles
from tosaic.hw.config import Config
from tosaic.hw.csr_map import LEAST_ADDRESS_BITS
from tosaic.hw.top import Accelerator

from .boot_ports import BootPorts
from .flash_boot import BootLamp, FlashBoot
from .lamp import Lamp
from .memory import OnChipMemory
from .sdram import SdramMemory, SdramPins
from .spi_reader import SpiPins, SpiReader
from .udp_link import DATA_BYTES as DATAGRAM_BYTES
from .udp_link import PhyPins, UdpLink

DATA_BYTES = 1024
"""The bridge's buffer, the most a frame carries; with Ethernet it is smaller, and a frame is one datagram."""
MEMORY_BASE = 0x1000_0000
"""Bus address of the memory; anything but 0 shows a forgotten base."""
BLINK_SECONDS = 0.05
BLINK_STEP_SECONDS = 0.2
"""Seconds of a light, or of a pause between two, when a fault's number blinks."""


class BoardTop(wiring.Component):
    """Accelerator, external memory and UART bridge, all with the clock of the domain `sync`, of `clock_hz`.

    `memory`: the external memory, at MEMORY_BASE.
    `name`: what the bridge says it is. `ethernet`: the bridge listens there, too, and answers where it was
    asked. Two hosts at once disturb each other. `flash`: after a reset the machine is loaded from there; meanwhile the
    bridge waits for memory and registers.

    Ports:
        `uart_rx`, `uart_tx`: the line to the host, 8N1 at `baud`; `uart_rx` is synchronised here.
        `led_busy`: the accelerator used its bus in the last BLINK_SECONDS.
        `led_link`: the bridge answered in that time.
        `led_irq`: the accelerator's interrupt is pending; with a flash, a boot's fault is blinked.
        `sdram`: with an SdramMemory, its pins.
        `phy`: with Ethernet, the pins of its PHY.
        `spi`: with a flash, its pins.
    """

    def __init__(
        self,
        config: Config,
        *,
        memory: OnChipMemory | SdramMemory,
        clock_hz: float,
        baud: int,
        name: str = "tosaic",
        ethernet: Ethernet | None = None,
        flash: SpiFlash | None = None,
    ):
        self.config = config
        self.bit_cycles = bit_cycles(clock_hz, baud)
        self.blink_cycles = max(round(BLINK_SECONDS * clock_hz), 1)
        if config.address_bits != LEAST_ADDRESS_BITS or config.axi_cache or config.axi_prot:
            raise ValueError(
                "its memory has addresses of 32 bits and no caches: address_bits must be 32, axi_cache and axi_prot 0"
            )
        if memory.base != MEMORY_BASE:
            raise ValueError(f"the memory must be at {MEMORY_BASE:#x}, not {memory.base:#x}")
        self.ethernet, self.flash, self.clock_hz = ethernet, flash, clock_hz
        data_bytes = DATAGRAM_BYTES if ethernet else DATA_BYTES
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
            | ({"phy": Out(PhyPins(ethernet.phy))} if ethernet else {})
            | ({"spi": Out(SpiPins())} if flash else {})
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
        self._host(m, bridge, accelerator, external)
        self._link(m, bridge, receiver, transmitter)
        if isinstance(external, SdramMemory):
            wiring.connect(m, external.pins, wiring.flipped(self.sdram))

        m.submodules.busy_lamp = busy_lamp = Lamp(self.blink_cycles)
        m.submodules.link_lamp = link_lamp = Lamp(self.blink_cycles)
        m.d.comb += [
            receiver.pin.eq(self.uart_rx),
            self.uart_tx.eq(transmitter.pin),
            busy_lamp.event.eq(external.read.rvalid | external.write.wvalid),
            link_lamp.event.eq(bridge.answered),
            self.led_busy.eq(busy_lamp.lit),
            self.led_link.eq(link_lamp.lit),
        ]
        return m

    def _host(
        self, m: Module, bridge: Bridge, accelerator: Accelerator, external: OnChipMemory | SdramMemory
    ) -> None:
        """Memory and registers are the bridge's, or after a reset the flash's."""
        if self.flash is None:
            wiring.connect(m, bridge.memory, external.host)
            wiring.connect(m, bridge.registers, accelerator.control)
            m.d.comb += self.led_irq.eq(accelerator.irq)
            return
        m.submodules.flash = flash = SpiReader(self.flash.offset, self.clock_hz)
        # A reset of the machine in the middle of it begins anew.
        boot, restart = FlashBoot(), Signal()
        m.submodules.boot = ResetInserter(restart)(boot)
        m.submodules.boot_lamp = lamp = BootLamp(round(BLINK_STEP_SECONDS * self.clock_hz))
        m.submodules.boot_ports = ports = BootPorts()
        wiring.connect(m, flash.pins, wiring.flipped(self.spi))
        wiring.connect(m, flash.data, boot.data)
        wiring.connect(m, bridge.memory, ports.bridge_memory)
        wiring.connect(m, bridge.registers, ports.bridge_registers)
        wiring.connect(m, boot.memory, ports.boot_memory)
        wiring.connect(m, boot.registers, ports.boot_registers)
        wiring.connect(m, ports.memory, external.host)
        wiring.connect(m, ports.registers, accelerator.control)
        m.d.comb += [
            restart.eq(bridge.reset & boot.busy),
            flash.start.eq(boot.start),
            boot.leave.eq(ports.leave | bridge.reset),
            ports.busy.eq(boot.busy),
            ports.code.eq(boot.code),
            ports.crc32.eq(boot.crc32),
            lamp.code.eq(boot.code),
            self.led_irq.eq(accelerator.irq | lamp.lit),
        ]

    def _link(self, m: Module, bridge: Bridge, receiver: UartReceiver, transmitter: UartTransmitter) -> None:
        """The bridge hears who speaks, and answers to whom the request ended by."""
        if self.ethernet is None:
            wiring.connect(m, bridge.line, transmitter.data)
            m.d.comb += [bridge.received.eq(receiver.valid), bridge.received_byte.eq(receiver.data)]
            return
        m.submodules.udp = udp = UdpLink(self.ethernet)
        wiring.connect(m, udp.pins, wiring.flipped(self.phy))
        line, serial = bridge.line, transmitter.data
        with m.If(bridge.deframer.frame):
            m.d.sync += udp.asked.eq(~receiver.valid)
        m.d.comb += [
            udp.listening.eq(bridge.deframer.listen),
            bridge.received.eq(receiver.valid | udp.received),
            bridge.received_byte.eq(Mux(receiver.valid, receiver.data, udp.received_byte)),
            udp.line.payload.eq(line.payload),
            serial.payload.eq(line.payload),
            udp.line.valid.eq(line.valid & udp.asked),
            serial.valid.eq(line.valid & ~udp.asked),
            line.ready.eq(Mux(udp.asked, udp.line.ready, serial.ready)),
        ]
