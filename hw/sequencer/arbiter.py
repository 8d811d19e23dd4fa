"""Shares the AXI read channels between LOAD and the program."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import AxiRead


class ReadArbiter(wiring.Component):
    """Two requesters, one bus; bursts take turns.

    Ports:
        `load`: LOAD's reads.
        `fetch`: the program's reads; each requester has a constant `arid` of its own.
        `fetch_low`: `fetch` goes first, whoever's turn it is.
        `bus`: the manager. Its address channel comes from registers (one cycle later); a request that was
            made stays.

    Beats go to the requester whose `arid` is `rid`, combinationally.
    """

    def __init__(self, config: Config, fetch_id: int):
        if not 0 <= fetch_id < 4:
            raise ValueError(f"fetch_id must fit 2 bits, not {fetch_id}")
        self.fetch_id = fetch_id
        super().__init__(
            {
                "load": In(AxiRead(config)),
                "fetch": In(AxiRead(config)),
                "fetch_low": In(1),
                "bus": Out(AxiRead(config)),
            }
        )
        # The state, for the tests' proofs: whom the last burst is for.
        self.fetch_was_last = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        load, fetch, bus = self.load, self.fetch, self.bus

        fetch_was_last = self.fetch_was_last
        pick_fetch = Signal()
        free = Signal()
        m.d.comb += [
            free.eq(~bus.arvalid | bus.arready),
            pick_fetch.eq(fetch.arvalid & (~load.arvalid | self.fetch_low | ~fetch_was_last)),
            fetch.arready.eq(free & pick_fetch),
            load.arready.eq(free & ~pick_fetch),
        ]
        with m.If(free):
            m.d.sync += bus.arvalid.eq(fetch.arvalid | load.arvalid)
            with m.If(fetch.arvalid | load.arvalid):
                m.d.sync += [
                    fetch_was_last.eq(pick_fetch),
                    bus.arid.eq(Mux(pick_fetch, fetch.arid, load.arid)),
                    bus.araddr.eq(Mux(pick_fetch, fetch.araddr, load.araddr)),
                    bus.arlen.eq(Mux(pick_fetch, fetch.arlen, load.arlen)),
                    bus.arsize.eq(Mux(pick_fetch, fetch.arsize, load.arsize)),
                    bus.arburst.eq(Mux(pick_fetch, fetch.arburst, load.arburst)),
                ]

        to_fetch = Signal()
        m.d.comb += [
            to_fetch.eq(bus.rid == self.fetch_id),
            fetch.rvalid.eq(bus.rvalid & to_fetch),
            load.rvalid.eq(bus.rvalid & ~to_fetch),
            bus.rready.eq(Mux(to_fetch, fetch.rready, load.rready)),
        ]
        for requester in (load, fetch):
            m.d.comb += [
                requester.rid.eq(bus.rid),
                requester.rdata.eq(bus.rdata),
                requester.rresp.eq(bus.rresp),
                requester.rlast.eq(bus.rlast),
            ]
        return m
