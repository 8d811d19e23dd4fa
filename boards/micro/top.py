"""The micro-coded machine with everything it needs on a board: BoardTop for parts that are too small for that."""

from amaranth.hdl import Module, ResetInserter
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.soc.block_ram import BlockRam
from tosaic.boards.soc.lamp import Lamp
from tosaic.boards.soc.sdram import SdramPins
from tosaic.boards.soc.spram import SinglePortRam
from tosaic.boards.soc.top import BLINK_SECONDS
from tosaic.hw.bridge.bridge import Bridge
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.bridge.uart import UartReceiver, UartTransmitter, bit_cycles
from tosaic.hw.config import Config
from tosaic.hw.micro.accelerator import MicroAccelerator
from tosaic.hw.micro.memory_map import MemoryMap
from tosaic.hw.micro.ram_port import WORD_BYTES

from .sdram_words import SdramWords

DATA_BYTES = 512
"""The bridge's buffer: one block RAM."""


class MicroBoardTop(wiring.Component):
    """Micro-coded machine, its RAM and UART bridge, all in the domain `sync` of `clock_hz`. The external memory is that
    of `memory`, or what MemoryMap leaves of the RAM.

    `firmware`: what the core executes. `name`: what the bridge says the board is. Ports: those of BoardTop; `led_busy`:
    a program ran in the last BLINK_SECONDS.
    """

    def __init__(
        self,
        config: Config,
        firmware: bytes,
        *,
        clock_hz: float,
        baud: int,
        name: str = "tosaic",
        memory: SdramWords | None = None,
    ):
        self.config, self.memory = config, memory
        external_bytes = memory.chip.memory_bytes if memory else 0
        self.regions = regions = MemoryMap(config, external_bytes)
        self.bit_cycles = bit_cycles(clock_hz, baud)
        self.blink_cycles = max(round(BLINK_SECONDS * clock_hz), 1)
        self.identity = Identity(name, regions.window_base, regions.window_bytes, round(clock_hz), DATA_BYTES)
        self.accelerator = MicroAccelerator(config, firmware, external_bytes)
        super().__init__(
            {
                "uart_rx": In(1, init=1),
                "uart_tx": Out(1, init=1),
                "led_busy": Out(1),
                "led_link": Out(1),
                "led_irq": Out(1),
            }
            | ({"sdram": Out(SdramPins(memory.chip))} if memory else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(self.bit_cycles)
        m.submodules.transmitter = transmitter = UartTransmitter(self.bit_cycles)
        m.submodules.bridge = bridge = Bridge(self.identity)
        accelerator = self.accelerator
        m.submodules.accelerator = ResetInserter(bridge.reset)(accelerator)
        ram: SinglePortRam | BlockRam
        if self.memory:
            # The machine's reset begins the chip's start anew.
            m.submodules.external = external = ResetInserter(bridge.reset)(self.memory)
            wiring.connect(m, accelerator.external, external.words)
            wiring.connect(m, external.pins, wiring.flipped(self.sdram))
            m.submodules.ram = ram = BlockRam(WORD_BYTES, self.regions.ram_bytes // WORD_BYTES)
        else:
            m.submodules.ram = ram = SinglePortRam(WORD_BYTES, self.regions.ram_bytes // WORD_BYTES)
        wiring.connect(m, bridge.memory, accelerator.memory)
        wiring.connect(m, bridge.registers, accelerator.registers)
        wiring.connect(m, bridge.line, transmitter.data)

        m.submodules.busy_lamp = busy_lamp = Lamp(self.blink_cycles)
        m.submodules.link_lamp = link_lamp = Lamp(self.blink_cycles)
        m.d.comb += [
            receiver.pin.eq(self.uart_rx),
            self.uart_tx.eq(transmitter.pin),
            bridge.received.eq(receiver.valid),
            bridge.received_byte.eq(receiver.data),
            ram.enable.eq(accelerator.ram.enable),
            ram.write.eq(accelerator.ram.write),
            ram.address.eq(accelerator.ram.address),
            ram.write_data.eq(accelerator.ram.write_data),
            ram.mask.eq(accelerator.ram.mask),
            accelerator.ram.data.eq(ram.data),
            busy_lamp.event.eq(accelerator.running),
            link_lamp.event.eq(bridge.answered),
            self.led_busy.eq(busy_lamp.lit),
            self.led_link.eq(link_lamp.lit),
            self.led_irq.eq(accelerator.irq),
        ]
        return m
