"""The LOAD unit: external memory to activation or weight memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import AmWrite, AxiRead, Command, Status, Tokens, WmWrite
from ..isa import Error, Unit
from .bursts import BURST_BEATS, Burst, BurstSplitter
from .completion import OUTSTANDING_BURSTS, Completion
from .issue import CommandIssue
from .skid import SkidBuffer

AXI_ID = 0
"""`arid` of the LOAD unit."""
OUTSTANDING_BEATS = 256
"""Beats requested and not received, at most: hides 220 cycles of latency and leaves the fetcher a way in."""
INCR = 1
"""AXI burst type."""


class LoadUnit(wiring.Component):
    """Executes LOAD_* instructions.

    An issue side turns GOs into read bursts, well ahead of a retire side that writes what comes back, in
    order. WAIT stops the issue side only; SIGNAL fires when all data before it is written.

    Ports:
        `commands`: instructions of the LOAD unit, in order.
        `axi`: read channels; `arid` is AXI_ID, answers are expected in order. `rready` comes from a register.
        `am`, `wm`: one beat per cycle; a write the AM does not grant holds the beat.
        `tokens`, `status`: see their signatures. `busy` does not include a command that is still at the head
            of `commands`.
        `mem_base`, `mem_size`: the window in external memory in bytes, stable while busy; `mem_base` a
            multiple of W if WM is loaded, `mem_base` + `mem_size` at most 2**32.
        `beat`: a data beat was accepted from the bus in this cycle.
        `stop`: behave as after an error from the next cycle on.

    After an error, or `stop`, nothing new is issued, no SIGNAL fires and nothing is written; answers that are
    under way are accepted and dropped; `busy` falls once there are none. Before it applies reset, the top
    must raise `stop` and wait until `busy` is low: then the bus is idle.

    Timing: the address of the first burst is valid 3 cycles after its GO is at the head of `commands`; one
    burst per cycle. A beat accepted in cycle t is written in t + 1, and SIGNAL fires from t + 2 on.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "axi": Out(AxiRead(config)),
                "am": Out(AmWrite(config)),
                "wm": Out(WmWrite(config)),
                "tokens": Out(Tokens()),
                "status": Out(Status()),
                "mem_base": In(32),
                "mem_size": In(32),
                "beat": Out(1),
                "stop": In(1),
            }
        )
        self._splitter = BurstSplitter(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        word_bytes, lane_bits = config.word_bytes, exact_log2(config.word_bytes)
        all_lanes = Const((1 << word_bytes) - 1, word_bytes)
        halted = Signal()
        m.submodules.issue = issue = CommandIssue(Unit.LOAD)
        m.submodules.splitter = splitter = self._splitter
        m.submodules.completion = completion = Completion()
        m.submodules.beats = beats = SkidBuffer(data.StructLayout({"data": 8 * word_bytes, "resp": 2}))
        m.submodules.descriptors = descriptors = SyncFIFOBuffered(
            width=Burst(config).size, depth=OUTSTANDING_BURSTS + 1
        )
        wiring.connect(m, wiring.flipped(self.commands), issue.commands)
        wiring.connect(m, issue.jobs, splitter.jobs)

        # Issue: a burst goes to the address register, the descriptors and the count at once.
        burst = splitter.bursts.payload
        read = self.axi
        read_valid = Signal()
        read_address = Signal(32, reset_less=True)
        read_length = Signal(exact_log2(BURST_BEATS), reset_less=True)
        beats_under_way = Signal(range(OUTSTANDING_BEATS + 1))
        can_issue = Signal()
        issues = Signal()
        m.d.comb += [
            can_issue.eq(
                (~read_valid | read.arready)
                & descriptors.w_rdy
                & completion.room
                & (beats_under_way <= OUTSTANDING_BEATS - BURST_BEATS)
            ),
            splitter.bursts.ready.eq(Mux(burst.is_signal, completion.signals.ready, can_issue)),
            issues.eq(splitter.bursts.valid & ~burst.is_signal & can_issue),
            completion.signals.valid.eq(splitter.bursts.valid & burst.is_signal),
            completion.signals.payload.semaphore.eq(burst.semaphore),
            completion.signals.payload.signal_count.eq(burst.signal_count),
            completion.issued.eq(issues),
            descriptors.w_en.eq(issues),
            descriptors.w_data.eq(burst),
            read.arid.eq(AXI_ID),
            read.araddr.eq(read_address),
            read.arlen.eq(read_length),
            read.arsize.eq(lane_bits),
            read.arburst.eq(INCR),
            read.arvalid.eq(read_valid),
        ]
        with m.If(issues):
            m.d.sync += [read_valid.eq(1), read_address.eq(burst.address), read_length.eq(burst.last_beat)]
        with m.Elif(read.arready):
            m.d.sync += read_valid.eq(0)

        # Retire: the beat in the buffer belongs to the oldest descriptor.
        head = data.View(Burst(config), descriptors.r_data)
        index = Signal(exact_log2(BURST_BEATS))
        next_address = Signal(24, reset_less=True)
        address = Signal(24)
        is_first = Signal()
        is_last = Signal()
        bad = Signal()
        retires = Signal()
        m.d.comb += [
            beats.input.valid.eq(read.rvalid),
            beats.input.payload.data.eq(read.rdata),
            beats.input.payload.resp.eq(read.rresp),
            read.rready.eq(beats.input.ready),
            self.beat.eq(read.rvalid & read.rready),
            is_first.eq(index == 0),
            is_last.eq(index == head.last_beat),
            address.eq(Mux(is_first, head.local_address, next_address)),
            bad.eq(beats.output.payload.resp != 0),
            beats.output.ready.eq(descriptors.r_rdy & (halted | bad | head.to_wm | self.am.grant)),
            retires.eq(beats.output.valid & beats.output.ready),
            self.am.request.eq(beats.output.valid & descriptors.r_rdy & ~(halted | bad | head.to_wm)),
            self.am.address.eq(address),
            self.am.data.eq(beats.output.payload.data),
            self.am.mask.eq(
                (all_lanes << Mux(is_first, head.first_lane, 0))
                & (all_lanes >> Mux(is_last, ~head.last_lane, 0))
            ),
            self.wm.enable.eq(beats.output.valid & descriptors.r_rdy & ~(halted | bad) & head.to_wm),
            self.wm.address.eq(address[lane_bits:]),
            self.wm.data.eq(beats.output.payload.data),
            descriptors.r_en.eq(retires & is_last),
            completion.completed.eq(retires & is_last),
        ]
        with m.If(retires):
            m.d.sync += [next_address.eq(address + word_bytes), index.eq(Mux(is_last, 0, index + 1))]
        m.d.sync += beats_under_way.eq(
            beats_under_way + Mux(issues, Cat(burst.last_beat, Const(0, 1)) + 1, 0) - retires
        )

        bus_error = retires & bad & ~halted
        m.d.comb += [
            splitter.mem_base.eq(self.mem_base),
            splitter.mem_size.eq(self.mem_size),
            issue.halt.eq(halted),
            splitter.halt.eq(halted),
            completion.halt.eq(halted),
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
                | (read.arvalid & read.arready)
                | self.beat
                | retires
            ),
            self.status.error.eq(bus_error | splitter.error),
            self.status.code.eq(Mux(bus_error, Error.BUS_READ, splitter.code)),
        ]
        with m.If(self.status.error | self.stop):
            m.d.sync += halted.eq(1)
        return m
