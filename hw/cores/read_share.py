"""The read channels of the shared port: whose burst goes next, and who gets which words of what comes back."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import (
    AXI_INCR,
    FETCH_BURST_BYTES,
    OUTSTANDING_BEATS,
    OUTSTANDING_BURSTS,
)
from ..interfaces import AxiRead
from ..isa import INSTRUCTION_BYTES
from .round_robin import RoundRobin


def _fetch_bursts(config: Config) -> int:
    """Returns the largest number of bursts of a program that are requested and not received: the first and the last
    one may be short."""
    return 2 + config.fetch_instructions * INSTRUCTION_BYTES // FETCH_BURST_BYTES


def beats_kept(config: Config) -> int:
    """Returns the largest number of beats of the shared port that a core has requested and not taken, for LOAD and
    for the program. A burst may touch one wide beat more than its words fill."""
    program = config.fetch_instructions * max(INSTRUCTION_BYTES, config.word_bytes) // config.word_bytes
    words, bursts = OUTSTANDING_BEATS + program, OUTSTANDING_BURSTS + _fetch_bursts(config)
    return words if config.bus_words == 1 else words // config.bus_words + bursts


class WordSpan(data.StructLayout):
    """Where a burst of words lies in wide beats: its first word in the first beat, and its last word in the last
    one."""

    def __init__(self, config: Config):
        bits = exact_log2(config.bus_words)
        super().__init__({"first": bits, "last": bits})


class ReadBeat(data.StructLayout):
    """A beat of the shared port for one core."""

    def __init__(self, config: Config):
        super().__init__({"data": 8 * config.bus_bytes, "resp": 2, "last": 1, "of_program": 1})


class ReadShare(wiring.Component):
    """Bursts of the cores take turns. A burst of words becomes one of the wide beats that hold them.

    What comes back is kept for its core in a buffer with a place for all that the core may have asked for: `rready` is
    always high, and a core that does not take its data holds up no other one.

    Ports:
        `cores`: each core's reads; bit 0 of `arid` tells LOAD from the program.
        `bus`: the shared port; its address channel comes from registers.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "cores": In(AxiRead(config)).array(config.cores),
                "bus": Out(AxiRead(config, shared=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, readers = self.bus, [CoreReader(self.config) for _ in self.cores]
        m.submodules.turns = turns = RoundRobin(self.config.cores)
        free = Signal()
        m.d.comb += [
            bus.rready.eq(1),
            free.eq(~bus.arvalid | bus.arready),
            turns.asks.eq(Cat(port.arvalid for port in self.cores)),
            turns.next.eq(free & turns.asks.any()),
        ]
        for core, (reader, port) in enumerate(zip(readers, self.cores, strict=True)):
            m.submodules[f"reader{core}"] = reader
            wiring.connect(m, wiring.flipped(port), reader.core)
            m.d.comb += [
                reader.taken.eq(turns.next & (turns.chosen == core)),
                reader.beats.valid.eq(bus.rvalid & (bus.rid[1:] == core)),
                reader.beats.payload.of_program.eq(bus.rid[0]),
                reader.beats.payload.last.eq(bus.rlast),
                reader.beats.payload.resp.eq(bus.rresp),
                reader.beats.payload.data.eq(bus.rdata),
            ]
        chosen = turns.chosen
        with m.If(free):
            m.d.sync += bus.arvalid.eq(turns.asks.any())
        with m.If(turns.next):
            m.d.sync += [
                bus.arid.eq(Cat(Array(port.arid[0] for port in self.cores)[chosen], chosen)),
                bus.araddr.eq(Array(reader.address for reader in readers)[chosen]),
                bus.arlen.eq(Array(reader.length for reader in readers)[chosen]),
                bus.arsize.eq(exact_log2(self.config.bus_bytes)),
                bus.arburst.eq(AXI_INCR),
            ]
        return m


class CoreReader(wiring.Component):
    """A core's side of the shared reads.

    Ports:
        `core`: its reads; `arready` is `taken`.
        `taken`: in this cycle its burst goes to the shared port.
        `address`, `length`: that burst there, as `araddr` and `arlen`.
        `beats`: what comes back for it; always taken.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "core": In(AxiRead(config)),
                "taken": In(1),
                "address": Out(32),
                "length": Out(8),
                "beats": In(stream.Signature(ReadBeat(config), always_ready=True)),
            }
        )
        # What is taken apart, for the tests' proofs. Bit 0 LOAD, 1 the program: its next beat is the first one of a
        # burst. The beat's next word, which is not the first one that is wanted of it.
        self.begins = Signal(2, init=3)
        self.inside = Signal()
        self.following = Signal(exact_log2(config.bus_words))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat, core = ReadBeat(self.config), self.core
        m.submodules.kept = kept = SyncFIFOBuffered(width=beat.size, depth=beats_kept(self.config))
        head = data.View(beat, kept.r_data)
        m.d.comb += [
            core.arready.eq(self.taken),
            kept.w_data.eq(self.beats.payload),
            kept.w_en.eq(self.beats.valid),
            core.rid.eq(head.of_program),
            core.rresp.eq(head.resp),
            core.rvalid.eq(kept.r_rdy),
        ]
        if self.config.bus_words == 1:
            m.d.comb += [
                self.address.eq(core.araddr),
                self.length.eq(core.arlen),
                core.rdata.eq(head.data),
                core.rlast.eq(head.last),
                kept.r_en.eq(core.rready),
            ]
        else:
            self._take_apart(m, kept, head)
        return m

    def _spans(self, m: Module) -> list[SyncFIFO]:
        """Builds a queue of the `WordSpan`s of LOAD's outstanding bursts, and one for those of the program's fetch."""
        config, core = self.config, self.core
        lane_bits, word_bits = exact_log2(config.word_bytes), exact_log2(config.bus_words)
        span, end = Signal(WordSpan(config)), Signal(8 + word_bits)
        first = core.araddr[lane_bits : lane_bits + word_bits]
        m.d.comb += [
            end.eq(first + core.arlen),
            span.first.eq(first),
            span.last.eq(end[:word_bits]),
            self.address.eq(Cat(Const(0, lane_bits + word_bits), core.araddr[lane_bits + word_bits :])),
            self.length.eq(end[word_bits:]),
        ]
        fifos = []
        for of_program, depth in enumerate((OUTSTANDING_BURSTS, _fetch_bursts(config))):
            fifo = SyncFIFO(width=WordSpan(config).size, depth=depth)
            m.submodules[("load_spans", "program_spans")[of_program]] = fifo
            m.d.comb += [
                fifo.w_data.eq(span),
                fifo.w_en.eq(self.taken & (core.arid[0] == of_program)),
            ]
            fifos.append(fifo)
        return fifos

    def _take_apart(self, m: Module, kept: SyncFIFOBuffered, head: data.View) -> None:
        """A wide beat's words follow each other; with the last one that was asked for it leaves."""
        config, core = self.config, self.core
        word_bits = exact_log2(config.bus_words)
        spans = self._spans(m)
        # The beats of LOAD and of the program may come mixed.
        begins, inside, following = self.begins, self.inside, self.following
        word, last = Signal(word_bits), Signal(word_bits)
        at_end, moves = Signal(), Signal()
        span = data.View(WordSpan(config), Mux(head.of_program, spans[1].r_data, spans[0].r_data))
        m.d.comb += [
            word.eq(Mux(inside, following, Mux(begins.bit_select(head.of_program, 1), span.first, 0))),
            last.eq(Mux(head.last, span.last, config.bus_words - 1)),
            at_end.eq(word == last),
            moves.eq(core.rvalid & core.rready),
            core.rdata.eq(head.data.word_select(word, 8 * config.word_bytes)),
            core.rlast.eq(head.last & at_end),
            kept.r_en.eq(moves & at_end),
        ]
        for of_program, fifo in enumerate(spans):
            ends = moves & at_end & (head.of_program == of_program)
            m.d.comb += fifo.r_en.eq(ends & head.last)
            with m.If(ends):
                m.d.sync += begins[of_program].eq(head.last)
        with m.If(moves):
            m.d.sync += [inside.eq(~at_end), following.eq(word + 1)]
