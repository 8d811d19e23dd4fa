"""External memory in an SDR SDRAM behind LiteDRAM's controller, for a machine that asks for words."""

from amaranth.hdl import ClockSignal, Instance, IOPort, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.dram.chips import SdrChip
from tosaic.boards.dram.core import HOST_PORT, MODULE
from tosaic.boards.soc.sdram import SdramPins, control_ports
from tosaic.boards.soc.sdram_init import SdramInit
from tosaic.hw.micro.external_port import ExternalBus
from tosaic.hw.micro.ram_port import WORD_BYTES


class SdramWords(wiring.Component):
    """All of a chip's words, which are the machine's; `data_pins`, resets and clocks as of SdramMemory.

    Ports:
        `words`: accesses; before the chip is started they wait.
        `pins`: to the chip.
    """

    def __init__(self, chip: SdrChip, *, clock_hz: float, data_pins: IOPort):
        if chip.data_bits != 8 * WORD_BYTES:
            raise ValueError(f"the chip must have words of {8 * WORD_BYTES} bits, not {chip.data_bits}")
        self.chip, self.clock_hz, self.data_pins = chip, clock_hz, data_pins
        super().__init__({"words": In(ExternalBus(chip.memory_bytes)), "pins": Out(SdramPins(chip))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.init = init = SdramInit(self.chip, self.clock_hz)
        words, asks = self.words, Signal()
        m.d.comb += asks.eq(words.request & init.ready)
        m.submodules.core = Instance(
            MODULE,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            **control_ports(init),
            **{
                f"i_{HOST_PORT}_adr": words.address,
                f"i_{HOST_PORT}_cyc": asks,
                f"i_{HOST_PORT}_stb": asks,
                f"i_{HOST_PORT}_we": words.write,
                f"i_{HOST_PORT}_sel": words.mask,
                f"i_{HOST_PORT}_dat_w": words.write_data,
                f"o_{HOST_PORT}_dat_r": words.read_data,
                f"o_{HOST_PORT}_ack": words.done,
            },
            **{f"o_sdram_{name}": getattr(self.pins, name) for name in self.pins.signature.members},
            io_sdram_dq=self.data_pins,
        )
        return m
