"""The STORE unit: activation memory to external memory."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import AXI_INCR
from ..interfaces import AM_READ_LATENCY, LOCAL_ADDRESS_BITS, MEMORY_ADDRESS_BITS, AmRead, AxiWrite
from ..isa import Error, Unit
from ..memory.blocks import Queue
from .bursts import BEAT_BITS, BurstPart, lanes_of
from .late_queue import LateQueue
from .unit import DmaUnit

AXI_ID = 0
"""`awid` of the STORE unit, the only writer."""
_BURSTS_AHEAD = 8
"""Largest number of bursts whose address was issued and whose data is not yet read."""
BEATS_BUFFERED = 8
"""Largest number of beats between the preparation of their read and the bus: more than a credit's round trip of 7
cycles."""


class StoreUnit(DmaUnit):
    """Executes STORE_* instructions.

    GOs become write bursts. Their beats are read from the AM into a small buffer, unaligned, so that they fill the
    aligned beats of the bus. A burst is complete when it is answered (B channel).

    After an error, or `stop`, no further burst begins and no SIGNAL fires; bursts that began are completed
    with their data; `busy` falls when the last one is answered. Before it applies reset, the top must raise
    `stop` and wait until `busy` is low (the AM must go on serving reads meanwhile): then the bus is idle.

    Timing: the address of the first burst is valid 3 cycles after its GO is at the head of `commands`, its
    first beat AM_READ_LATENCY + 6 cycles after; then one beat per cycle. SIGNAL fires from one cycle after
    the last B answer on.

    Ports beside those of DmaUnit:
        axi (AxiWrite, out): `awid` is AXI_ID. Data follows no earlier than its `awvalid`, but does not wait for
            `awready`. `bready` is always high.
        am (AmRead, out): one read per cycle; a read that is not granted waits.
    """

    def __init__(self, config: Config):
        super().__init__(Unit.STORE, config, {"axi": Out(AxiWrite(config)), "am": Out(AmRead(config))})
        word_bytes = config.word_bytes
        # Bursts whose beats are not all read. That one is comes late, with the grant of its last read.
        self.reading = BurstPart(config, "local_address", "last_beat", "first_lane", "last_lane")
        self.pending = LateQueue(width=self.reading.size, depth=_BURSTS_AHEAD)
        self.beat_mark = data.StructLayout({"last": 1, "strobe": word_bytes})
        beat = data.StructLayout({"mark": self.beat_mark, "data": 8 * word_bytes})
        self.beats = Queue(width=beat.size, depth=BEATS_BUFFERED + 1)
        self.output = data.View(beat, self.beats.r_data)
        # A read is granted; `mark` belongs to it. A beat is sent.
        self.taken, self.sent = Signal(), Signal()
        self.mark = Signal(self.beat_mark)
        # Beats that may still be read, one less where a read was `prepared` in the cycle before; the number of the next
        # one in its burst, and whether it is 0; for the proofs.
        self.credit, self.prepared = Signal(range(BEATS_BUFFERED + 1), init=BEATS_BUFFERED), Signal()
        self.index = Signal(BEAT_BITS)
        self.is_first = Signal(init=1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._issue_commands(m)
        self._issue_writes(m)
        self._read(m)
        self._send(m)
        self._report(m)
        return m

    def _issue_writes(self, m: Module) -> None:
        """A burst goes to the address register and to the reader in one cycle."""
        burst, write = self.burst, self.axi
        m.submodules.pending = self.pending
        valid = Signal()
        address = Signal(MEMORY_ADDRESS_BITS, reset_less=True)
        length = Signal(BEAT_BITS, reset_less=True)
        m.d.comb += [
            self.can_issue.eq((~valid | write.awready) & self.pending.w_rdy & self.completion.room),
            self.pending.w_en.eq(self.issues),
            self.pending.w_data.eq(self.reading.of(burst)),
            write.awid.eq(AXI_ID),
            write.awaddr.eq(address),
            write.awlen.eq(length),
            write.awsize.eq(exact_log2(self.config.word_bytes)),
            write.awburst.eq(AXI_INCR),
            write.awvalid.eq(valid),
        ]
        with m.If(self.issues):
            m.d.sync += [valid.eq(1), address.eq(burst.address), length.eq(burst.last_beat)]
        with m.Elif(write.awready):
            m.d.sync += valid.eq(0)

    def _read(self, m: Module) -> None:
        """One access per beat of the oldest burst, while `credit` promises the answer a place in the buffer."""
        head, am, pending = data.View(self.reading, self.pending.r_data), self.am, self.pending
        index, credit, is_first = self.index, self.credit, self.is_first
        next_address = Signal(LOCAL_ADDRESS_BITS, reset_less=True)
        # Of the beat that is asked for. Off the critical path: its lanes follow from these a cycle later.
        lanes = {"first_lane": len(head.first_lane), "last_lane": len(head.last_lane)}
        asked = Signal(data.StructLayout({"is_first": 1, "is_last": 1, **lanes}), reset_less=True)
        is_last, wanted, prepares, asking = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            is_last.eq(index == head.last_beat),
            wanted.eq(pending.r_rdy & (credit != self.prepared)),
            prepares.eq(wanted & (~asking | am.grant)),
            am.prepare.eq(prepares),
            am.address.eq(Mux(is_first, head.local_address, next_address)),
            am.request.eq(asking),
            self.taken.eq(asking & am.grant),
            self.stall_am.eq(am.request & ~am.grant),
            pending.r_en.eq(prepares & is_last),
            self.mark.last.eq(asked.is_last),
            self.mark.strobe.eq(lanes_of(asked, asked.is_first, asked.is_last, self.config.word_bytes)),
        ]
        with m.If(~asking | am.grant):
            m.d.sync += asking.eq(wanted)
        with m.If(prepares):
            m.d.sync += [
                asked.is_first.eq(is_first),
                asked.is_last.eq(is_last),
                asked.first_lane.eq(head.first_lane),
                asked.last_lane.eq(head.last_lane),
                next_address.eq(am.address + self.config.word_bytes),
                index.eq(Mux(is_last, 0, index + 1)),
                is_first.eq(is_last),
            ]
        # Off the critical path: the grant arrives late, so a read is counted a cycle later.
        m.d.sync += self.prepared.eq(prepares)
        with m.If(self.sent ^ self.prepared):
            m.d.sync += credit.eq(Mux(self.sent, credit + 1, credit - 1))

    def _send(self, m: Module) -> None:
        """The data of a read meets its mark, AM_READ_LATENCY cycles after the grant, in the buffer before the bus."""
        m.submodules.beats = beats = self.beats
        write, granted = self.axi, Cat(self.taken, self.mark)
        for stage in range(AM_READ_LATENCY):
            later = Signal(len(granted), name=f"granted{stage + 1}")
            m.d.sync += later.eq(granted)
            granted = later
        m.d.comb += [
            beats.w_en.eq(granted[0]),
            beats.w_data.eq(Cat(granted[1:], self.am.data)),
            write.wvalid.eq(beats.r_rdy),
            write.wdata.eq(self.output.data),
            write.wstrb.eq(self.output.mark.strobe),
            write.wlast.eq(self.output.mark.last),
            self.sent.eq(write.wvalid & write.wready),
            beats.r_en.eq(self.sent),
            self.beat.eq(self.sent),
            self.stall_bus.eq(write.wvalid & ~write.wready),
            write.bready.eq(1),
            self.completion.completed.eq(write.bvalid),
        ]

    def _report(self, m: Module) -> None:
        """Busy, progress and faults."""
        write, splitter, completion = self.axi, self.splitter, self.completion
        bus_error = write.bvalid & (write.bresp != 0) & ~self.halted
        m.d.comb += [
            self.status.busy.eq(
                completion.outstanding | (~self.halted & (splitter.busy | completion.waiting))
            ),
            self.status.progress.eq(
                (self.commands.valid & self.commands.ready)
                | (write.awvalid & write.awready)
                | self.taken
                | self.sent
                | write.bvalid
            ),
        ]
        self._halt_on(m, bus_error | splitter.error, Mux(bus_error, Error.BUS_WRITE, splitter.code))
