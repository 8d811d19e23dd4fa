"""The AXI4-Lite end of the control port: transactions to single register accesses."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import RESP_OKAY, RESP_SLVERR
from ..interfaces import AxiLite


class RegisterBus(wiring.Signature):
    """Accesses to a bank of 32-bit registers, from the requester's side.

    In a cycle with `write`, `write_data` goes to the register at word `write_address`, only the bytes whose
    bit of `write_strobe` is set; `write_error` answers in the same cycle. In a cycle with `read`, `read_data` and
    `read_error` belong to `read_address`. Reading has no side effects.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "write": Out(1),
                "write_address": Out(10),
                "write_data": Out(32),
                "write_strobe": Out(4),
                "write_error": In(1),
                "read": Out(1),
                "read_address": Out(10),
                "read_data": In(32),
                "read_error": In(1),
            }
        )


class AxiLiteSubordinate(wiring.Component):
    """Answers every AXI4-Lite transaction with exactly one register access.

    Ports:
        `axi`: the control port. Address and data of a write may come in any order. An access with an error
            answers SLVERR. The low two bits of addresses and `awprot`/`arprot` are ignored.
        `bus`: the registers.

    Timing: a read answers 3 cycles after its address was accepted, a write 2 cycles after the later of
    address and data. One read and one write at a time; they do not wait for each other. `bus.read` is high in the first
    cycle of a read, what it finds is taken in the second.
    """

    axi: In(AxiLite())
    bus: Out(RegisterBus())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        axi, bus = self.axi, self.bus

        have_address = Signal()
        have_data = Signal()
        m.d.comb += [
            axi.awready.eq(~have_address),
            axi.wready.eq(~have_data),
            bus.write.eq(have_address & have_data & ~axi.bvalid),
        ]
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [have_address.eq(1), bus.write_address.eq(axi.awaddr[2:])]
        with m.If(axi.wvalid & axi.wready):
            m.d.sync += [have_data.eq(1), bus.write_data.eq(axi.wdata), bus.write_strobe.eq(axi.wstrb)]
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        with m.If(bus.write):
            m.d.sync += [have_address.eq(0), have_data.eq(0), axi.bvalid.eq(1)]
            with m.If(bus.write_error):
                m.d.sync += axi.bresp.eq(RESP_SLVERR)
            with m.Else():
                m.d.sync += axi.bresp.eq(RESP_OKAY)

        reading, found = Signal(), Signal()
        m.d.comb += [axi.arready.eq(~reading & ~found & ~axi.rvalid), bus.read.eq(reading)]
        m.d.sync += found.eq(reading)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [reading.eq(1), bus.read_address.eq(axi.araddr[2:])]
        with m.If(axi.rvalid & axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        with m.If(reading):
            m.d.sync += reading.eq(0)
        with m.If(found):
            m.d.sync += [axi.rvalid.eq(1), axi.rdata.eq(bus.read_data)]
            with m.If(bus.read_error):
                m.d.sync += axi.rresp.eq(RESP_SLVERR)
            with m.Else():
                m.d.sync += axi.rresp.eq(RESP_OKAY)
        return m
