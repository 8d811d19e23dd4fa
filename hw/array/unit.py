"""The array unit: commands in, vectors of accumulators out."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..interfaces import AmPairRead, Command, Status, Tokens, WmRead, accumulators
from ..isa import Error
from .drain import Drain
from .fetch import Fetch
from .front import Front
from .grid import Grid
from .issue import Issue
from .walker import Walker


class ArrayUnit(wiring.Component):
    """Rows x columns multipliers in both modes of docs/timing.md.

    Walker, issue, fetch, grid and drain are one pipeline of slots. Only issue waits (for an AM grant, or for
    room to drain); what it has issued runs through without a halt.

    commands: instructions ARRAY_*.
    am, wm: activation and weight memory. A word entirely outside the image, or of a pixel that is not there,
    is not read.
    accumulators: vectors of finished sums.
    tokens: semaphores. A SIGNAL fires when the GOs before it have made their last read.
    status: `busy` until the last vector is taken; error ILLEGAL for a GO whose counts are zero or out of
    range.
    streamed_word: a streamed word of weights is written in this cycle. clear: there is none any more.
    active: a slot that computes is issued. stall_am: one waits for a grant. stall_vector: one waits for room.
    stall_weights: one waits for a streamed word of weights.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "commands": In(Command),
                "am": Out(AmPairRead(config)),
                "wm": Out(WmRead(config)),
                "accumulators": Out(accumulators(config)),
                "tokens": Out(Tokens()),
                "status": Out(Status()),
                "streamed_word": In(1),
                "clear": In(1),
                "active": Out(1),
                "stall_am": Out(1),
                "stall_vector": Out(1),
                "stall_weights": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.front = front = Front(self._config)
        m.submodules.walker = walker = Walker(self._config)
        m.submodules.issue = issue = Issue(self._config)
        m.submodules.fetch = fetch = Fetch(self._config)
        m.submodules.grid = grid = Grid(self._config)
        m.submodules.drain = drain = Drain(self._config)
        connect(m, front.jobs, walker.jobs)
        connect(m, walker.slots, issue.slots)
        connect(m, flipped(self.commands), front.commands)
        connect(m, flipped(self.tokens), front.tokens)
        connect(m, flipped(self.accumulators), drain.accumulators)
        # Streamed words written and not read; a word is there for reads from the cycle after its write on.
        # `weights_taken` is late in its cycle: so the sums are not made with it. there: words != 0.
        words, there = Signal(range(self._config.wm_words + 1)), Signal()
        with m.If(self.clear):
            m.d.sync += [words.eq(0), there.eq(0)]
        with m.Elif(self.streamed_word ^ issue.weights_taken):
            m.d.sync += [
                words.eq(Mux(self.streamed_word, words + 1, words - 1)),
                there.eq(self.streamed_word | (words != 1)),
            ]
        m.d.comb += [
            issue.weights_there.eq(there),
            self.stall_weights.eq(issue.held_by_weights),
            self.am.prepare.eq(issue.am_prepare),
            self.am.request.eq(issue.am_request),
            self.am.address.eq(issue.am_address),
            self.am.paired.eq(issue.am_paired),
            self.am.second.eq(issue.am_second),
            issue.am_grant.eq(self.am.grant),
            self.wm.enable.eq(issue.wm_enable),
            self.wm.address.eq(issue.wm_address),
            issue.room.eq(drain.room),
            front.finished.eq(issue.issued & issue.last),
            fetch.issued.eq(issue.issued),
            fetch.control.eq(issue.control),
            fetch.operands.eq(issue.operands),
            fetch.am_data.eq(self.am.data),
            fetch.am_second_data.eq(self.am.second_data),
            fetch.wm_data.eq(self.wm.data),
            grid.valid.eq(fetch.valid),
            grid.control.eq(fetch.out_control),
            grid.vectors.eq(fetch.vectors),
            grid.weights.eq(fetch.weights),
            drain.reserve.eq(issue.issued & issue.control.deliver),
            drain.write.eq(grid.delivered),
            drain.vector.eq(grid.accumulators),
            self.active.eq(issue.issued & (issue.control.mac | issue.control.stream)),
            self.stall_am.eq(issue.held_by_am),
            self.stall_vector.eq(issue.held_by_room),
            self.status.busy.eq(front.busy | issue.waiting | fetch.waiting | grid.waiting | ~drain.empty),
            self.status.progress.eq(
                issue.issued
                | (self.commands.valid & self.commands.ready)
                | (self.accumulators.valid & self.accumulators.ready)
            ),
            self.status.error.eq(front.fault),
            self.status.code.eq(Mux(front.fault, Error.ILLEGAL, Error.NONE)),
        ]
        return m
