"""The STORE unit: activation memory to external memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import AM_READ_LATENCY, AmRead, AxiWrite, Command, Status, Tokens
from ..isa import Error, Unit
from .bursts import BURST_BEATS, Burst, BurstSplitter
from .completion import Completion
from .issue import CommandIssue
from .load import INCR

AXI_ID = 0
"""`awid` of the STORE unit, the only writer."""
_BURSTS_AHEAD = 8
"""Bursts whose address was issued while their data is not yet read."""
_BEATS_BUFFERED = 8
"""Beats between the grant of their read and the bus: more than a credit's round trip of 7 cycles."""


class StoreUnit(wiring.Component):
    """Executes STORE_* instructions.

    GOs become write bursts; their beats are read from the AM, unaligned so that they fill the aligned beats
    of the bus, into a small buffer. WAIT stops new GOs only; SIGNAL fires when everything before it is
    answered (B channel).

    Ports:
        `commands`: instructions of the STORE unit, in order.
        `axi`: write channels; `awid` is AXI_ID. Data of a burst follows no earlier than its `awvalid`, but
            does not wait for `awready`. `bready` is always high.
        `am`: one read per cycle; a read that is not granted waits.
        `tokens`, `status`: see their signatures. `busy` does not include a command that is still at the head
            of `commands`.
        `mem_base`, `mem_size`: the window in external memory in bytes, stable while busy, at most 2**32 in
            all.
        `beat`: a data beat was accepted by the bus in this cycle.
        `stop`: behave as after an error from the next cycle on.

    After an error, or `stop`, no further burst begins and no SIGNAL fires; bursts that began are completed
    with their data; `busy` falls when the last one is answered. Before it applies reset, the top must raise
    `stop` and wait until `busy` is low (the AM must go on serving reads meanwhile): then the bus is idle.

    Timing: the address of the first burst is valid 3 cycles after its GO is at the head of `commands`, its
    first beat AM_READ_LATENCY + 6 cycles after; then one beat per cycle. SIGNAL fires from one cycle after
    the last B answer on.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "axi": Out(AxiWrite(config)),
                "am": Out(AmRead(config)),
                "tokens": Out(Tokens()),
                "status": Out(Status()),
                "mem_base": In(32),
                "mem_size": In(32),
                "beat": Out(1),
                "stall_bus": Out(1),
                "stall_am": Out(1),
                "stop": In(1),
            }
        )
        self._splitter = BurstSplitter(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        word_bytes, lane_bits = config.word_bytes, exact_log2(config.word_bytes)
        all_lanes = Const((1 << word_bytes) - 1, word_bytes)
        beat_layout = data.StructLayout({"last": 1, "strobe": word_bytes, "data": 8 * word_bytes})
        halted = Signal()
        m.submodules.issue = issue = CommandIssue(Unit.STORE, config)
        m.submodules.splitter = splitter = self._splitter
        m.submodules.completion = completion = Completion()
        m.submodules.pending = pending = SyncFIFO(width=Burst(config).size, depth=_BURSTS_AHEAD)
        m.submodules.beats = beats = SyncFIFOBuffered(width=beat_layout.size, depth=_BEATS_BUFFERED + 1)
        wiring.connect(m, wiring.flipped(self.commands), issue.commands)
        wiring.connect(m, issue.jobs, splitter.jobs)
        write = self.axi

        # Issue: a burst goes to the address register, the reader and the count at once.
        burst = splitter.bursts.payload
        address_valid = Signal()
        write_address = Signal(32, reset_less=True)
        write_length = Signal(exact_log2(BURST_BEATS), reset_less=True)
        can_issue = Signal()
        issues = Signal()
        m.d.comb += [
            can_issue.eq((~address_valid | write.awready) & pending.w_rdy & completion.room),
            splitter.bursts.ready.eq(Mux(burst.is_signal, completion.signals.ready, can_issue)),
            issues.eq(splitter.bursts.valid & ~burst.is_signal & can_issue),
            completion.signals.valid.eq(splitter.bursts.valid & burst.is_signal),
            completion.signals.payload.semaphore.eq(burst.semaphore),
            completion.signals.payload.signal_count.eq(burst.signal_count),
            completion.issued.eq(issues),
            pending.w_en.eq(issues),
            pending.w_data.eq(burst),
            write.awid.eq(AXI_ID),
            write.awaddr.eq(write_address),
            write.awlen.eq(write_length),
            write.awsize.eq(lane_bits),
            write.awburst.eq(INCR),
            write.awvalid.eq(address_valid),
        ]
        with m.If(issues):
            m.d.sync += [
                address_valid.eq(1),
                write_address.eq(burst.address),
                write_length.eq(burst.last_beat),
            ]
        with m.Elif(write.awready):
            m.d.sync += address_valid.eq(0)

        # Read: one access per beat of the oldest burst, while the buffer is sure to have room for the answer.
        head = data.View(Burst(config), pending.r_data)
        index = Signal(exact_log2(BURST_BEATS))
        credit = Signal(range(_BEATS_BUFFERED + 1), init=_BEATS_BUFFERED)
        next_address = Signal(24, reset_less=True)
        is_first = Signal(init=1)  # index == 0
        is_last = Signal()
        there, prepares, asking, taken = Signal(), Signal(), Signal(), Signal()
        strobe = Signal(word_bytes)
        sent = Signal()
        m.d.comb += [
            is_last.eq(index == head.last_beat),
            there.eq(pending.r_rdy & (credit != 0)),
            prepares.eq(there & (~asking | self.am.grant)),
            self.am.prepare.eq(prepares),
            self.am.address.eq(Mux(is_first, head.local_address, next_address)),
            self.am.request.eq(asking),
            taken.eq(asking & self.am.grant),
            strobe.eq(
                (all_lanes << Mux(is_first, head.first_lane, 0))
                & (all_lanes >> Mux(is_last, ~head.last_lane, 0))
            ),
            pending.r_en.eq(prepares & is_last),
        ]
        known = Signal(1 + word_bytes, name="known0", reset_less=True)
        with m.If(~asking | self.am.grant):
            m.d.sync += asking.eq(there)
        with m.If(prepares):
            m.d.sync += [
                known.eq(Cat(is_last, strobe)),
                next_address.eq(self.am.address + word_bytes),
                index.eq(Mux(is_last, 0, index + 1)),
                is_first.eq(is_last),
            ]
        # A grant is late in its cycle: so the sum is not made with it.
        with m.If(sent ^ prepares):
            m.d.sync += credit.eq(Mux(sent, credit + 1, credit - 1))

        # The answer meets what was known about it at the time of the request.
        known = Cat(taken, known)
        for stage in range(AM_READ_LATENCY):
            later = Signal(len(known), name=f"known{stage + 1}")
            m.d.sync += later.eq(known)
            known = later
        output = data.View(beat_layout, beats.r_data)
        m.d.comb += [
            beats.w_en.eq(known[0]),
            beats.w_data.eq(Cat(known[1:], self.am.data)),
            write.wvalid.eq(beats.r_rdy),
            write.wdata.eq(output.data),
            write.wstrb.eq(output.strobe),
            write.wlast.eq(output.last),
            sent.eq(write.wvalid & write.wready),
            beats.r_en.eq(sent),
            self.beat.eq(sent),
            self.stall_bus.eq(write.wvalid & ~write.wready),
            self.stall_am.eq(self.am.request & ~self.am.grant),
            write.bready.eq(1),
            completion.completed.eq(write.bvalid),
        ]

        bus_error = write.bvalid & (write.bresp != 0) & ~halted
        m.d.comb += [
            splitter.mem_base.eq(self.mem_base),
            splitter.mem_size.eq(self.mem_size),
            issue.halt.eq(halted),
            splitter.halt.eq(halted),
            completion.halt.eq(halted | self.tokens.signal_full),
            self.tokens.wait.eq(issue.wait),
            self.tokens.semaphore.eq(issue.semaphore),
            self.tokens.count.eq(issue.count),
            issue.ok.eq(self.tokens.ok),
            self.tokens.signal.eq(completion.signal),
            self.tokens.signal_semaphore.eq(completion.signal_semaphore),
            self.tokens.signal_count.eq(completion.signal_count),
            self.status.busy.eq(completion.outstanding | (~halted & (splitter.busy | completion.waiting))),
            self.status.progress.eq(
                (self.commands.valid & self.commands.ready)
                | (write.awvalid & write.awready)
                | taken
                | sent
                | write.bvalid
            ),
            self.status.error.eq(bus_error | splitter.error),
            self.status.code.eq(Mux(bus_error, Error.BUS_WRITE, splitter.code)),
        ]
        with m.If(self.status.error | self.stop):
            m.d.sync += halted.eq(1)
        return m
