"""Reads the program from external memory, ahead of its execution."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import AXI_INCR, FETCH_BURST_BYTES
from ..interfaces import AxiRead
from ..isa import INSTRUCTION_BYTES
from ..memory.blocks import Queue

AXI_ID = 1
"""`arid` of the program."""

Fetched = data.StructLayout({"instruction": 8 * INSTRUCTION_BYTES, "bus_error": 1})
"""16 bytes of program; `bus_error`: the bus answered one of their beats with an error."""


class Fetch(wiring.Component):
    """Turns `instructions` instructions from bus address `address` into a stream.

    Ports:
        `axi`: read channels; `arid` is AXI_ID. Answers are always accepted at once: there is room for all
            that is asked.
        `start`: begin with `address` (a multiple of 16) and `instructions`; only while `idle`. Drops what is
            left.
        `stop`: request nothing more.
        `out`: the program in order; with W > 16 one entry more when their number is odd.
        `low`: the prefetch buffer runs low: the arbiter should prefer the program.
        `beat`: a beat arrives in this cycle.
        `idle`: no transaction is outstanding.
    """

    def __init__(self, config: Config):
        self.config = config
        self._entry_bytes = max(INSTRUCTION_BYTES, config.word_bytes)
        self._depth = config.fetch_instructions * INSTRUCTION_BYTES // self._entry_bytes
        super().__init__(
            {
                "axi": Out(AxiRead(config)),
                "start": In(1),
                "address": In(32),
                "instructions": In(28),
                "stop": In(1),
                "out": Out(stream.Signature(Fetched)),
                "low": Out(1, init=1),
                "beat": Out(1),
                "idle": Out(1),
            }
        )
        # What is not requested yet: its first byte, and entries. The tests' proofs read it.
        self.next_address, self.entries_left = Signal(32), Signal(28)
        # A request that was found to fit, and its entries.
        self.fits, self.entries = Signal(), Signal(range(FETCH_BURST_BYTES // self._entry_bytes + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Answers are put together to entries, which are taken apart to instructions.
        m.submodules.entries = entries = ResetInserter(self.start)(
            Queue(width=8 * self._entry_bytes + 1, depth=self._depth, direct=True)
        )
        popped = Signal()
        m.d.comb += entries.r_en.eq(popped)
        self._request(m, popped)
        self._receive(m, entries)
        self._take_apart(m, entries, popped)
        # In a register, for the arbiter passes it on to LOAD.
        m.d.sync += self.low.eq(entries.level < self._depth // 4)
        with m.If(self.start):
            m.d.sync += self.low.eq(1)
        return m

    @property
    def _entry_bits(self) -> int:
        return exact_log2(self._entry_bytes)

    def _first_part(self) -> Value:
        """Returns the place of the first instruction in its entry."""
        return self.address[exact_log2(INSTRUCTION_BYTES) : self._entry_bits]

    def _request(self, m: Module, popped: Signal) -> None:
        """Bursts of whole entries, as long as there is room for their data."""
        axi, entry_bits = self.axi, self._entry_bits
        burst_entries = FETCH_BURST_BYTES // self._entry_bytes
        entry_beats = self._entry_bytes // self.config.word_bytes
        address, entries_left = self.next_address, self.entries_left
        entries, fits = self.entries, self.fits
        room = Signal(range(self._depth + 1), init=self._depth)
        to_boundary, ahead = (
            Signal(range(burst_entries + 1), name=name) for name in ("to_boundary", "ahead")
        )
        requests = Signal()
        outstanding = Signal(range(self._depth + 1))
        m.d.comb += [
            to_boundary.eq(burst_entries - address[entry_bits : exact_log2(FETCH_BURST_BYTES)]),
            ahead.eq(Mux(entries_left < to_boundary, entries_left, to_boundary)),
            requests.eq(~self.stop & ~axi.arvalid & fits),
            axi.arid.eq(AXI_ID),
            axi.arsize.eq(exact_log2(self.config.word_bytes)),
            axi.arburst.eq(AXI_INCR),
            self.idle.eq(outstanding == 0),
        ]
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        with m.If(requests):
            m.d.sync += [
                axi.arvalid.eq(1),
                axi.araddr.eq(address),
                axi.arlen.eq(entries * entry_beats - 1),
                address.eq(address + (entries << entry_bits)),
                entries_left.eq(entries_left - entries),
            ]
        m.d.sync += [
            # A request is known a cycle before it is made. In the cycle after one these are not true yet, but then its
            # address is still on offer.
            entries.eq(ahead),
            fits.eq((entries_left != 0) & (room >= ahead)),
            room.eq(room - Mux(requests, entries, 0) + popped),
            outstanding.eq(outstanding + requests - (axi.rvalid & axi.rlast)),
        ]
        with m.If(self.start):
            per_entry = self._entry_bytes // INSTRUCTION_BYTES
            last_part = self.instructions + self._first_part() + (per_entry - 1)
            m.d.sync += [
                address.eq(Cat(Const(0, entry_bits), self.address[entry_bits:])),
                entries_left.eq(last_part >> exact_log2(per_entry)),
                room.eq(self._depth),
                fits.eq(0),
            ]

    def _receive(self, m: Module, entries: Queue) -> None:
        """Beats are put together to entries."""
        axi, word_bytes = self.axi, self.config.word_bytes
        entry_beats = self._entry_bytes // word_bytes
        bad = axi.rresp != 0
        m.d.comb += [axi.rready.eq(1), self.beat.eq(axi.rvalid)]
        if entry_beats == 1:
            m.d.comb += [entries.w_en.eq(axi.rvalid), entries.w_data.eq(Cat(axi.rdata, bad))]
            return
        earlier = Signal(8 * (self._entry_bytes - word_bytes))
        earlier_bad = Signal()
        index = Signal(range(entry_beats))
        m.d.comb += [
            entries.w_en.eq(axi.rvalid & (index == entry_beats - 1)),
            entries.w_data.eq(Cat(earlier, axi.rdata, earlier_bad | bad)),
        ]
        with m.If(axi.rvalid):
            m.d.sync += [
                index.eq(index + 1),
                earlier.eq(Cat(earlier, axi.rdata)[8 * word_bytes :]),
                earlier_bad.eq((earlier_bad | bad) & (index != entry_beats - 1)),
            ]

    def _take_apart(self, m: Module, entries: Queue, popped: Signal) -> None:
        """An entry's instructions follow each other; with the last one it is `popped`."""
        per_entry = self._entry_bytes // INSTRUCTION_BYTES
        out, moves = self.out, Signal()
        m.d.comb += [
            out.valid.eq(entries.r_rdy),
            out.payload.bus_error.eq(entries.r_data[-1]),
            moves.eq(out.valid & out.ready),
        ]
        if per_entry == 1:
            m.d.comb += [out.payload.instruction.eq(entries.r_data[:-1]), popped.eq(moves)]
            return
        part = Signal(range(per_entry))
        m.d.comb += [
            out.payload.instruction.eq(entries.r_data[:-1].word_select(part, 8 * INSTRUCTION_BYTES)),
            popped.eq(moves & (part == per_entry - 1)),
        ]
        with m.If(moves):
            m.d.sync += part.eq(part + 1)
        with m.If(self.start):
            m.d.sync += part.eq(self._first_part())
