"""The array unit: commands in, vectors of accumulators out."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..interfaces import AmPairRead, Command, Tokens, UnitStatus, WmRead, accumulators
from ..isa import Error
from .address_generator import AddressGenerator
from .commands import ArrayCommands
from .drain import Drain
from .operand_fetch import OperandFetch
from .pe_array import PeArray
from .slot_issue import SlotIssue


class ArrayUnit(wiring.Component):
    """Rows x columns multipliers in both modes of docs/timing.md.

    Address generator, issue, fetch, PE array and drain are one pipeline of slots. Only issue waits (for a grant of the
    activation memory, room to drain, or streamed weights); what it has issued runs through without a halt.

    Ports:
        commands (Command, in): instructions ARRAY_*.
        am (AmPairRead, out), wm (WmRead, out): activation and weight memory. A word that lies outside the image is not
            read.
        accumulators (accumulators, out): vectors of finished sums.
        tokens (Tokens, out): semaphores. A SIGNAL fires when the GOs before it have made their last read.
        status (Status, out): `busy` until the last vector is taken; error ILLEGAL for an illegal GO or opcode.
        streamed_word (1, in): a streamed word of weights is written in this cycle.
        clear (1, in): there is no streamed word any more.
        active (1, out): a slot that computes is issued.
        stall_am, stall_vector, stall_weights (1, out): a slot waits for a grant, for room, for streamed weights.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "commands": In(Command),
                "am": Out(AmPairRead(config)),
                "wm": Out(WmRead(config)),
                "accumulators": Out(accumulators(config)),
                "tokens": Out(Tokens(config.core_mask_bits)),
                "status": Out(UnitStatus()),
                "streamed_word": In(1),
                "clear": In(1),
                "active": Out(1),
                "stall_am": Out(1),
                "stall_vector": Out(1),
                "stall_weights": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.commands = commands = ArrayCommands(self._config)
        m.submodules.addresses = addresses = AddressGenerator(self._config)
        m.submodules.issue = issue = SlotIssue(self._config)
        m.submodules.fetch = fetch = OperandFetch(self._config)
        m.submodules.pe_array = pe_array = PeArray(self._config)
        m.submodules.drain = drain = Drain(self._config)
        connect(m, flipped(self.commands), commands.commands)
        connect(m, flipped(self.tokens), commands.tokens)
        connect(m, commands.jobs, addresses.jobs)
        connect(m, addresses.slots, issue.slots)
        connect(m, issue.am, flipped(self.am))
        connect(m, issue.wm, flipped(self.wm))
        connect(m, flipped(self.accumulators), drain.accumulators)
        m.d.comb += [
            commands.finished.eq(issue.issued & issue.last),
            issue.room.eq(drain.room),
            issue.weights_there.eq(self._streamed_weights(m, issue.weights_taken)),
            fetch.issued.eq(issue.issued),
            fetch.control.eq(issue.control),
            fetch.format.eq(issue.format),
            fetch.am_data.eq(self.am.data),
            fetch.am_second_data.eq(self.am.second_data),
            fetch.wm_data.eq(self.wm.data),
            fetch.part_data.eq(self.wm.part_data),
            pe_array.valid.eq(fetch.valid),
            pe_array.control.eq(fetch.out_control),
            pe_array.vectors.eq(fetch.vectors),
            pe_array.weights.eq(fetch.weights),
            pe_array.part_weights.eq(fetch.part_weights),
            drain.reserve.eq(issue.issued & issue.control.deliver),
            drain.write.eq(pe_array.delivered),
            drain.vector.eq(pe_array.accumulators),
            self.active.eq(issue.issued & (issue.control.mac | issue.control.stream)),
            self.stall_am.eq(issue.held_by_am),
            self.stall_vector.eq(issue.held_by_room),
            self.stall_weights.eq(issue.held_by_weights),
            self.status.busy.eq(
                commands.busy | issue.waiting | fetch.waiting | pe_array.waiting | ~drain.empty
            ),
            self.status.progress.eq(
                issue.issued
                | (self.commands.valid & self.commands.ready)
                | (self.accumulators.valid & self.accumulators.ready)
            ),
            self.status.error.eq(commands.fault),
            self.status.code.eq(Mux(commands.fault, Error.ILLEGAL, Error.NONE)),
        ]
        return m

    def _streamed_weights(self, m: Module, taken: Signal) -> Signal:
        """Whether there are streamed words that were written and not yet `taken`; a word counts from the cycle after
        its write on."""
        # Off the critical path: `taken` arrives late, so it only enables the counter, and `there` (words != 0) is a
        # register.
        words, there = Signal(range(self._config.wm_words + 1)), Signal()
        with m.If(self.clear):
            m.d.sync += [words.eq(0), there.eq(0)]
        with m.Elif(self.streamed_word ^ taken):
            m.d.sync += [
                words.eq(Mux(self.streamed_word, words + 1, words - 1)),
                there.eq(self.streamed_word | (words != 1)),
            ]
        return there
