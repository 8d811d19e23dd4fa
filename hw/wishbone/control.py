"""Wishbone accesses to the control port."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import RESP_OKAY
from ..interfaces import AxiLite
from .signatures import WishboneControl


class ControlBridge(wiring.Component):
    """One Wishbone cycle, one AXI4-Lite transaction; an answer other than OKAY is `err`.

    A cycle that its master gives up is brought to its end on the AXI side before the next one begins.

    Ports:
        wishbone (WishboneControl, in): from the SoC.
        axi (AxiLite, out): to the control port.
    """

    wishbone: In(WishboneControl())
    axi: Out(AxiLite())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, axi = self.wishbone, self.axi
        address = Signal(len(bus.adr))
        failed, given_up = Signal(), Signal()
        byte_address = address << 2
        m.d.comb += [axi.awaddr.eq(byte_address), axi.araddr.eq(byte_address)]
        with m.If(~(bus.cyc & bus.stb)):
            m.d.sync += given_up.eq(1)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += given_up.eq(0)
                m.d.sync += [address.eq(bus.adr), axi.wdata.eq(bus.dat_w), axi.wstrb.eq(bus.sel)]
                with m.If(bus.cyc & bus.stb & bus.we):
                    m.d.sync += [axi.awvalid.eq(1), axi.wvalid.eq(1)]
                    m.next = "WRITE"
                with m.Elif(bus.cyc & bus.stb):
                    m.d.sync += axi.arvalid.eq(1)
                    m.next = "READ"
            with m.State("WRITE"):
                with m.If(axi.awready):
                    m.d.sync += axi.awvalid.eq(0)
                with m.If(axi.wready):
                    m.d.sync += axi.wvalid.eq(0)
                m.d.comb += axi.bready.eq(1)
                with m.If(axi.bvalid):
                    m.d.sync += failed.eq(axi.bresp != RESP_OKAY)
                    m.next = "ANSWER"
            with m.State("READ"):
                with m.If(axi.arready):
                    m.d.sync += axi.arvalid.eq(0)
                m.d.comb += axi.rready.eq(1)
                with m.If(axi.rvalid):
                    m.d.sync += [failed.eq(axi.rresp != RESP_OKAY), bus.dat_r.eq(axi.rdata)]
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                with m.If(bus.cyc & bus.stb & ~given_up):
                    m.d.comb += [bus.ack.eq(~failed), bus.err.eq(failed)]
                m.next = "IDLE"
        return m
