"""The write channels of the shared port: whole bursts of the cores, one after the other."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import AXI_INCR, BURST_BEATS
from ..interfaces import AxiWrite
from .round_robin import RoundRobin

_ADDRESSES = 4
"""Bursts of a core that wait with their address."""
_ORDERED = 4
"""Bursts whose address is on the port before their data."""


def beats_kept(config: Config) -> int:
    """Beats of the shared port that are kept for a core: two of its longest bursts."""
    return 2 * (BURST_BEATS // config.bus_words + 1)


class WriteBeat(data.StructLayout):
    """A beat of the shared port."""

    def __init__(self, config: Config):
        super().__init__({"data": 8 * config.bus_bytes, "strobe": config.bus_bytes, "last": 1})


class WriteShare(wiring.Component):
    """Bursts of the cores take turns. A burst goes to the port once all of it is there, so that a core which is slow to
    deliver holds up no other one. Words become the wide beats that hold them, whose other bytes have no strobe.

    Ports:
        `cores`: each core's writes.
        `bus`: the shared port; `bready` is always high.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "cores": In(AxiWrite(config)).array(config.cores),
                "bus": Out(AxiWrite(config, shared=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, writers = self.bus, [CoreWriter(self.config) for _ in self.cores]
        m.submodules.turns = turns = RoundRobin(self.config.cores)
        m.submodules.order = order = SyncFIFO(width=len(turns.chosen), depth=_ORDERED)
        m.d.comb += [
            bus.bready.eq(1),
            turns.asks.eq(Cat(writer.complete for writer in writers)),
            turns.next.eq((~bus.awvalid | bus.awready) & order.w_rdy & turns.asks.any()),
            order.w_en.eq(turns.next),
            order.w_data.eq(turns.chosen),
        ]
        for core, (writer, port) in enumerate(zip(writers, self.cores, strict=True)):
            m.submodules[f"writer{core}"] = writer
            wiring.connect(m, wiring.flipped(port), writer.core)
            m.d.comb += [
                writer.taken.eq(turns.next & (turns.chosen == core)),
                writer.beats.ready.eq(bus.wready & order.r_rdy & (order.r_data == core)),
                writer.answered.eq(bus.bvalid & (bus.bid[1:] == core)),
                writer.answer.eq(bus.bresp),
            ]
        chosen = turns.chosen
        with m.If(bus.awready):
            m.d.sync += bus.awvalid.eq(0)
        with m.If(turns.next):
            m.d.sync += [
                bus.awvalid.eq(1),
                bus.awid.eq(Cat(Const(0, 1), chosen)),
                bus.awaddr.eq(Array(writer.address for writer in writers)[chosen]),
                bus.awlen.eq(Array(writer.length for writer in writers)[chosen]),
                bus.awsize.eq(exact_log2(self.config.bus_bytes)),
                bus.awburst.eq(AXI_INCR),
            ]
        beat = data.View(
            WriteBeat(self.config), Array(writer.beats.payload.as_value() for writer in writers)[order.r_data]
        )
        m.d.comb += [
            bus.wvalid.eq(order.r_rdy & Array(writer.beats.valid for writer in writers)[order.r_data]),
            bus.wdata.eq(beat.data),
            bus.wstrb.eq(beat.strobe),
            bus.wlast.eq(beat.last),
            order.r_en.eq(bus.wvalid & bus.wready & beat.last),
        ]
        return m


class CoreWriter(wiring.Component):
    """A core's side of the shared writes.

    Ports:
        `core`: its writes.
        `complete`: there is a burst all of whose data is here; from registers.
        `address`, `length`: that burst on the shared port, as `awaddr` and `awlen`.
        `taken`: in this cycle its address goes there.
        `beats`: the data of its bursts.
        `answered`, `answer`: one of them is answered in this cycle; its `bresp`.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "core": In(AxiWrite(config)),
                "complete": Out(1),
                "address": Out(32),
                "length": Out(8),
                "taken": In(1),
                "beats": Out(stream.Signature(WriteBeat(config))),
                "answered": In(1),
                "answer": In(2),
            }
        )
        # What is put together, for the tests' proofs: the words of the wide beat that came, the next one's number in
        # it, and that it is not the burst's first.
        self.earlier = Signal(8 * config.bus_bytes)
        self.earlier_strobe = Signal(config.bus_bytes)
        self.following = Signal(exact_log2(config.bus_words))
        self.inside = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core, layout = self.core, WriteBeat(self.config)
        burst = data.StructLayout({"address": 32, "length": 8})
        m.submodules.addresses = addresses = SyncFIFOBuffered(width=burst.size, depth=_ADDRESSES)
        m.submodules.kept = kept = SyncFIFOBuffered(width=layout.size, depth=beats_kept(self.config))
        given, head = data.View(burst, addresses.w_data), data.View(burst, addresses.r_data)
        whole = Signal(range(beats_kept(self.config) + 1))
        comes = Signal()
        m.d.comb += [
            core.bid.eq(0),
            core.bvalid.eq(self.answered),
            core.bresp.eq(self.answer),
            self.complete.eq((whole != 0) & addresses.r_rdy),
            self.address.eq(head.address),
            self.length.eq(head.length),
            addresses.r_en.eq(self.taken),
            addresses.w_en.eq(core.awvalid & core.awready),
            self.beats.payload.eq(kept.r_data),
            self.beats.valid.eq(kept.r_rdy),
            kept.r_en.eq(self.beats.ready),
            comes.eq(kept.w_en & kept.w_rdy & core.wlast),
        ]
        m.d.sync += whole.eq(whole + comes - self.taken)
        if self.config.bus_words == 1:
            m.d.comb += [
                core.awready.eq(addresses.w_rdy),
                given.address.eq(core.awaddr),
                given.length.eq(core.awlen),
                core.wready.eq(kept.w_rdy),
                kept.w_en.eq(core.wvalid),
                kept.w_data.eq(Cat(core.wdata, core.wstrb, core.wlast)),
            ]
        else:
            self._put_together(m, addresses, given, kept)
        return m

    def _put_together(
        self, m: Module, addresses: SyncFIFOBuffered, given: data.View, kept: SyncFIFOBuffered
    ) -> None:
        """Words wait for those that share their wide beat."""
        config, core = self.config, self.core
        lane_bits, word_bits = exact_log2(config.word_bytes), exact_log2(config.bus_words)
        m.submodules.firsts = firsts = SyncFIFO(width=word_bits, depth=_ADDRESSES)
        first, rest = core.awaddr[lane_bits:][:word_bits], core.awaddr[lane_bits + word_bits :]
        end, word, moves, fills = Signal(8 + word_bits), Signal(word_bits), Signal(), Signal()
        following, inside = self.following, self.inside
        earlier, earlier_strobe = self.earlier, self.earlier_strobe
        at = [word == number for number in range(config.bus_words)]
        words = [
            Mux(at[number], core.wdata, earlier.word_select(number, 8 * config.word_bytes))
            for number in range(config.bus_words)
        ]
        strobes = [
            Mux(at[number], core.wstrb, earlier_strobe.word_select(number, config.word_bytes))
            for number in range(config.bus_words)
        ]
        m.d.comb += [
            end.eq(first + core.awlen),
            given.address.eq(Cat(Const(0, lane_bits + word_bits), rest)),
            given.length.eq(end[word_bits:]),
            core.awready.eq(addresses.w_rdy & firsts.w_rdy),
            firsts.w_data.eq(first),
            firsts.w_en.eq(core.awvalid & core.awready),
            word.eq(Mux(inside, following, firsts.r_data)),
            core.wready.eq(kept.w_rdy & firsts.r_rdy),
            moves.eq(core.wvalid & core.wready),
            firsts.r_en.eq(moves & core.wlast),
            fills.eq(at[-1] | core.wlast),
            kept.w_en.eq(moves & fills),
            kept.w_data.eq(Cat(*words, *strobes, core.wlast)),
        ]
        with m.If(moves):
            m.d.sync += [
                inside.eq(~core.wlast),
                following.eq(word + 1),
                earlier.eq(Cat(*words)),
                earlier_strobe.eq(Mux(fills, 0, Cat(*strobes))),
            ]
