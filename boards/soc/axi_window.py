"""What stands between an AXI4 manager and a memory that answers every address: bounds, and a gate."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.hw.config import Config
from tosaic.hw.interfaces import AxiRead, AxiWrite

RESP_OKAY, RESP_DECERR = 0, 3
UNDER_WAY = 31
"""Bursts of one direction at most between address and last answer."""


def inside(address: Value, base: int, memory_bytes: int) -> Value:
    """Whether a bus address is one of a memory of 2**n bytes at a multiple of its size."""
    bits = (memory_bytes - 1).bit_length()
    return address[bits:] == base >> bits


class ReadWindow(wiring.Component):
    """`memory_bytes`, a power of two, at bus address `base`. Bursts do not cross 4 KiB, so each is inside or outside.

    Ports:
        `manager`: its bursts outside are answered DECERR, after those before them.
        `memory`: gets bursts inside, with their bus addresses, unchanged and in order.
        `open` (in): bursts may begin; it stays high.
    """

    def __init__(self, config: Config, *, base: int, memory_bytes: int):
        self.base, self.memory_bytes = base, memory_bytes
        super().__init__(
            {
                "manager": In(AxiRead(config, shared=True)),
                "memory": Out(AxiRead(config, shared=True)),
                "open": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        manager, memory = self.manager, self.memory
        under_way, refusing, left = Signal(range(UNDER_WAY + 1)), Signal(), Signal(8)
        free, inside_, refuse, begins, ends = Signal(), Signal(), Signal(), Signal(), Signal()
        identifier = Signal.like(manager.arid)
        for name in ("arid", "araddr", "arlen", "arsize", "arburst"):
            m.d.comb += getattr(memory, name).eq(getattr(manager, name))
        m.d.comb += [
            inside_.eq(inside(manager.araddr, self.base, self.memory_bytes)),
            free.eq(self.open & ~refusing),
            refuse.eq(free & ~inside_ & (under_way == 0)),
            memory.arvalid.eq(manager.arvalid & free & inside_ & (under_way != UNDER_WAY)),
            manager.arready.eq(refuse | (memory.arready & free & inside_ & (under_way != UNDER_WAY))),
            begins.eq(memory.arvalid & memory.arready),
            ends.eq(memory.rvalid & memory.rready & memory.rlast),
            memory.rready.eq(manager.rready & ~refusing),
            manager.rvalid.eq(memory.rvalid | refusing),
            manager.rdata.eq(memory.rdata),
            manager.rid.eq(memory.rid),
            manager.rresp.eq(memory.rresp),
            manager.rlast.eq(memory.rlast),
        ]
        m.d.sync += under_way.eq(under_way + begins - ends)
        with m.If(refusing):
            m.d.comb += [
                manager.rid.eq(identifier),
                manager.rresp.eq(RESP_DECERR),
                manager.rlast.eq(left == 0),
            ]
            with m.If(manager.rready):
                m.d.sync += [left.eq(left - 1), refusing.eq(left != 0)]
        with m.Elif(refuse & manager.arvalid):
            m.d.sync += [refusing.eq(1), left.eq(manager.arlen), identifier.eq(manager.arid)]
        return m


class WriteWindow(wiring.Component):
    """The same for writes: data outside are taken and go nowhere. Data pass when their address has passed."""

    def __init__(self, config: Config, *, base: int, memory_bytes: int):
        self.base, self.memory_bytes = base, memory_bytes
        super().__init__(
            {
                "manager": In(AxiWrite(config, shared=True)),
                "memory": Out(AxiWrite(config, shared=True)),
                "open": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        manager, memory = self.manager, self.memory
        under_way, owed = Signal(range(UNDER_WAY + 1)), Signal(range(UNDER_WAY + 1))
        free, inside_, refuse = Signal(), Signal(), Signal()
        begins, sent, ends = Signal(), Signal(), Signal()
        refusing, answering, identifier = Signal(), Signal(), Signal.like(manager.awid)
        for name in ("awid", "awaddr", "awlen", "awsize", "awburst", "wdata", "wstrb", "wlast"):
            m.d.comb += getattr(memory, name).eq(getattr(manager, name))
        m.d.comb += [
            inside_.eq(inside(manager.awaddr, self.base, self.memory_bytes)),
            free.eq(self.open & ~refusing & ~answering),
            refuse.eq(free & ~inside_ & (under_way == 0)),
            memory.awvalid.eq(manager.awvalid & free & inside_ & (under_way != UNDER_WAY)),
            manager.awready.eq(refuse | (memory.awready & free & inside_ & (under_way != UNDER_WAY))),
            begins.eq(memory.awvalid & memory.awready),
            memory.wvalid.eq(manager.wvalid & (owed != 0)),
            manager.wready.eq(refusing | (memory.wready & (owed != 0))),
            sent.eq(memory.wvalid & memory.wready & memory.wlast),
            memory.bready.eq(manager.bready & ~answering),
            manager.bvalid.eq(memory.bvalid | answering),
            manager.bid.eq(memory.bid),
            manager.bresp.eq(memory.bresp),
            ends.eq(memory.bvalid & memory.bready),
        ]
        m.d.sync += [under_way.eq(under_way + begins - ends), owed.eq(owed + begins - sent)]
        with m.If(refusing):
            with m.If(manager.wvalid & manager.wlast):
                m.d.sync += [refusing.eq(0), answering.eq(1)]
        with m.Elif(answering):
            m.d.comb += [manager.bid.eq(identifier), manager.bresp.eq(RESP_DECERR)]
            with m.If(manager.bready):
                m.d.sync += answering.eq(0)
        with m.Elif(refuse & manager.awvalid):
            m.d.sync += [refusing.eq(1), identifier.eq(manager.awid)]
        return m
