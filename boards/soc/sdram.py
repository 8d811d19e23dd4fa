"""External memory in an SDR SDRAM, behind LiteDRAM's controller."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, IOPort, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.dram.chips import SdrChip
from tosaic.boards.dram.core import AXI_PORT, HOST_PORT, MODULE
from tosaic.hw.bridge.byte_port import BytePort
from tosaic.hw.config import Config
from tosaic.hw.interfaces import AxiRead, AxiWrite

from .axi_window import ReadWindow, WriteWindow, inside
from .sdram_init import SdramInit


class SdramPins(wiring.Signature):
    """Pins to an SDR SDRAM, but for its clock and its data. Names and levels are the chip's."""

    def __init__(self, chip: SdrChip):
        strobes = ("cs_n", "ras_n", "cas_n", "we_n", "cke")
        widths = {"a": chip.row_bits, "ba": chip.bank_bits, "dm": chip.data_bits // 8}
        super().__init__(
            {name: Out(1) for name in strobes} | {name: Out(bits) for name, bits in widths.items()}
        )


class SdramMemory(wiring.Component):
    """All of a chip's bytes at bus address `base`, with a clock of `clock_hz`, in which the chip runs, too.

    `data_pins`: the chip's data. The chip's clock is the board's: a quarter to three quarters of a cycle late.

    Ports:
        `read`, `write`: AXI4 of INCR bursts of full-width beats that do not cross 4 KiB; what is outside of the chip is
            answered DECERR.
        `host`: single bytes.
        `pins`: to the chip.

    A reset begins the chip's start anew, MARGIN times the chip's `power_up_ns`, in which accesses wait. A write that
    was under way may be lost, and the machine that asked for it must have been reset, too.
    """

    def __init__(self, config: Config, chip: SdrChip, *, base: int, clock_hz: float, data_pins: IOPort):
        if base % chip.memory_bytes or not 0 <= base <= (1 << 32) - chip.memory_bytes:
            raise ValueError(f"base must be a multiple of {chip.memory_bytes:#x} below 2**32, not {base:#x}")
        self.config, self.chip, self.base, self.clock_hz = config, chip, base, clock_hz
        self.memory_bytes, self.data_pins = chip.memory_bytes, data_pins
        super().__init__(
            {
                "read": In(AxiRead(config, shared=True)),
                "write": In(AxiWrite(config, shared=True)),
                "host": In(BytePort()),
                "pins": Out(SdramPins(chip)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.init = init = SdramInit(self.chip, self.clock_hz)
        place = {"base": self.base, "memory_bytes": self.memory_bytes}
        m.submodules.read_window = reads = ReadWindow(self.config, **place)
        m.submodules.write_window = writes = WriteWindow(self.config, **place)
        wiring.connect(m, wiring.flipped(self.read), reads.manager)
        wiring.connect(m, wiring.flipped(self.write), writes.manager)
        m.d.comb += [reads.open.eq(init.ready), writes.open.eq(init.ready)]
        host_data, host_taken, host_asks = Signal(self.chip.data_bits), Signal(), Signal()
        self._host(m, init.ready, host_data, host_taken, host_asks)
        m.submodules.core = Instance(
            MODULE,
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            **control_ports(init),
            **self._axi_ports(reads.memory, writes.memory),
            **self._host_ports(host_data, host_taken, host_asks),
            **{f"o_sdram_{name}": getattr(self.pins, name) for name in self.pins.signature.members},
            io_sdram_dq=self.data_pins,
        )
        return m

    def _host(self, m: Module, ready: Signal, data: Signal, taken: Signal, asks: Signal) -> None:
        """A byte is a half of a word of the chip. `asks` is held until `taken`."""
        host = self.host
        m.d.sync += [host.done.eq(0), host.error.eq(0)]
        with m.If(asks):
            with m.If(taken):
                byte = data.word_select(host.address[0], 8)
                m.d.sync += [asks.eq(0), host.done.eq(1), host.read_data.eq(byte)]
        with m.Elif(host.request & ~host.done):
            with m.If(~inside(host.address, self.base, self.memory_bytes)):
                m.d.sync += [host.done.eq(1), host.error.eq(1)]
            with m.Elif(ready):
                m.d.sync += asks.eq(1)

    def _host_ports(self, data: Signal, taken: Signal, asks: Signal) -> dict:
        host, bits = self.host, (self.memory_bytes - 1).bit_length()
        return {
            f"i_{HOST_PORT}_adr": host.address[1:bits],
            f"i_{HOST_PORT}_cyc": asks,
            f"i_{HOST_PORT}_stb": asks,
            f"i_{HOST_PORT}_we": host.write,
            f"i_{HOST_PORT}_sel": Cat(~host.address[0], host.address[0]),
            f"i_{HOST_PORT}_dat_w": host.write_data.replicate(2),
            f"o_{HOST_PORT}_dat_r": data,
            f"o_{HOST_PORT}_ack": taken,
        }

    def _axi_ports(self, read: wiring.FlippedInterface, write: wiring.FlippedInterface) -> dict:
        ports: dict = {}
        for channels in (read, write):
            for name, member in channels.signature.members.items():
                value = getattr(channels, name)
                if name.endswith("addr"):
                    value = value[: (self.memory_bytes - 1).bit_length()]
                elif name.endswith("size"):
                    value = Cat(value, Const(0, 1))  # The core's is a bit wider than AXI's.
                ports[f"{'i' if member.flow == Out else 'o'}_{AXI_PORT}_{name}"] = value
        return ports


def control_ports(init: SdramInit) -> dict:
    """Returns the connections of a core's instance that start the chip."""
    return {
        "i_wb_ctrl_adr": Cat(init.address, Const(0, 30 - len(init.address))),
        "i_wb_ctrl_dat_w": Cat(init.data, Const(0, 32 - len(init.data))),
        "i_wb_ctrl_cti": Const(0, 3),
        "i_wb_ctrl_bte": Const(0, 2),
        "i_wb_ctrl_sel": Const(0xF, 4),
        "i_wb_ctrl_cyc": init.request,
        "i_wb_ctrl_stb": init.request,
        "i_wb_ctrl_we": Const(1, 1),
        "o_wb_ctrl_ack": init.done,
    }
