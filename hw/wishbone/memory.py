"""The accelerator's AXI4 bursts as Wishbone cycles."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import MEMORY_ADDRESS_BITS, AxiRead, AxiWrite, high_address
from .signatures import WishboneMemory

RESP_OKAY, RESP_SLVERR = 0, 2
CTI_INCREMENTING, CTI_END = 2, 7


class MemoryBridge(wiring.Component):
    """One burst at a time, reads and writes in turn where both wait. `err` is answered as SLVERR.

    A write burst begins when its first beat is there, so that a read never waits for an accelerator that is not ready
    to write. The bus is held (`cyc`) from a burst's first beat to its last.

    Ports:
        read (AxiRead, in), write (AxiWrite, in): from the accelerator.
        wishbone (WishboneMemory, out): to the memory.
        high_address (in): with addresses of more than 32 bits, those above them, which stay during a burst.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "read": In(AxiRead(config, shared=True)),
                "write": In(AxiWrite(config, shared=True)),
                "wishbone": Out(WishboneMemory(config)),
                **{name: member.flip() for name, member in high_address(config, "high_address").items()},
            }
        )
        # Beats behind this one, and that there is no burst; the tests' proofs read them.
        self.left = Signal(8)
        self.idle = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        read, write, bus = self.read, self.write, self.wishbone
        shift = exact_log2(self.config.bus_bytes)
        address = Signal(MEMORY_ADDRESS_BITS - shift)
        left = self.left
        number = Signal.like(read.rid)
        failed, ended, wrote_last = Signal(), Signal(), Signal()
        may_write = Signal()
        m.d.comb += [
            bus.adr.eq(Cat(address, self.high_address) if len(bus.adr) > len(address) else address),
            bus.cti.eq(Mux(left == 0, CTI_END, CTI_INCREMENTING)),
            bus.dat_w.eq(write.wdata),
            bus.sel.eq(Mux(bus.we, write.wstrb, (1 << self.config.bus_bytes) - 1)),
            ended.eq(bus.cyc & bus.stb & (bus.ack | bus.err)),
            read.rid.eq(number),
            write.bid.eq(number),
            may_write.eq(write.awvalid & write.wvalid),
        ]
        with m.If(ended):
            m.d.sync += [address.eq(address + 1), left.eq(left - 1)]
        with m.FSM() as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                with m.If(may_write & ~(read.arvalid & wrote_last)):
                    m.d.comb += write.awready.eq(1)
                    m.d.sync += [
                        address.eq(write.awaddr >> shift),
                        left.eq(write.awlen),
                        number.eq(write.awid),
                        failed.eq(0),
                        wrote_last.eq(1),
                    ]
                    m.next = "WRITE"
                with m.Elif(read.arvalid):
                    m.d.comb += read.arready.eq(1)
                    m.d.sync += [
                        address.eq(read.araddr >> shift),
                        left.eq(read.arlen),
                        number.eq(read.arid),
                        wrote_last.eq(0),
                    ]
                    m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += [bus.cyc.eq(1), bus.we.eq(1), bus.stb.eq(write.wvalid), write.wready.eq(ended)]
                with m.If(ended):
                    m.d.sync += failed.eq(failed | bus.err)
                    with m.If(left == 0):
                        m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [write.bvalid.eq(1), write.bresp.eq(Mux(failed, RESP_SLVERR, RESP_OKAY))]
                with m.If(write.bready):
                    m.next = "IDLE"
            with m.State("READ"):
                # A beat is asked for when the register of `read.rdata` can take it.
                m.d.comb += [bus.cyc.eq(1), bus.stb.eq(~read.rvalid | read.rready)]
                with m.If(ended & (left == 0)):
                    m.next = "LAST"
            with m.State("LAST"):
                with m.If(~read.rvalid | read.rready):
                    m.next = "IDLE"
        with m.If(ended & ~bus.we):
            m.d.sync += [
                read.rvalid.eq(1),
                read.rdata.eq(bus.dat_r),
                read.rresp.eq(Mux(bus.err, RESP_SLVERR, RESP_OKAY)),
                read.rlast.eq(left == 0),
            ]
        with m.Elif(read.rready):
            m.d.sync += read.rvalid.eq(0)
        return m
