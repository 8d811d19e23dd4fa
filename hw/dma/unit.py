"""What the LOAD and the STORE unit share: commands become bursts, complete bursts fire SIGNALs, a fault halts."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import MEMORY_ADDRESS_BITS, Command, Tokens, UnitStatus
from ..isa import Unit
from .bursts import BurstSplitter
from .completion import Completion
from .issue import CommandIssue


class DmaUnit(wiring.Component):
    """A DMA unit without its bus and its memories. WAIT stops only what follows it; a SIGNAL fires when everything
    before it is complete.

    A subclass adds ports. It drives `can_issue`, takes `burst` in a cycle with `issues`, and tells `completion`
    which bursts are complete.

    Ports:
        commands (stream of instructions, in): those of this unit, in order.
        tokens (Tokens, out): see there.
        status (Status, out): see there; `busy` does not include a command at the head of `commands`.
        mem_base (MEMORY_ADDRESS_BITS, in): first byte of the window in external memory; stable while busy.
        mem_size (MEMORY_ADDRESS_BITS, in): bytes of the window, which ends at 2**32 or before; stable while busy.
        beat (1, out): a data beat passed the bus in this cycle.
        stall_bus (1, out): the unit waits for the bus in this cycle.
        stall_am (1, out): the unit waits for a grant of the AM in this cycle.
        stop (1, in): behave as after an error from the next cycle on.
    """

    def __init__(self, unit: Unit, config: Config, ports: dict[str, Any]):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "tokens": Out(Tokens(config.core_mask_bits)),
                "status": Out(UnitStatus()),
                "mem_base": In(MEMORY_ADDRESS_BITS),
                "mem_size": In(MEMORY_ADDRESS_BITS),
                "beat": Out(1),
                "stall_bus": Out(1),
                "stall_am": Out(1),
                "stop": In(1),
                **ports,
            }
        )
        self.splitter = BurstSplitter(config)
        self.issue = CommandIssue(unit, config)
        self.completion = Completion(config.core_mask_bits)
        self.burst = self.splitter.bursts.payload
        self.can_issue = Signal()
        self.issues = Signal()
        self.halted = Signal()

    def _issue_commands(self, m: Module) -> None:
        """Commands become transfers, and these become bursts. A SIGNAL leaves the bursts here."""
        m.submodules.issue, m.submodules.splitter = self.issue, self.splitter
        m.submodules.completion = self.completion
        issue, splitter, completion = self.issue, self.splitter, self.completion
        wiring.connect(m, wiring.flipped(self.commands), issue.commands)
        wiring.connect(m, issue.transfers, splitter.transfers)
        is_signal, bursts = self.burst.purpose.is_signal, splitter.bursts
        m.d.comb += [
            splitter.mem_base.eq(self.mem_base),
            splitter.mem_size.eq(self.mem_size),
            bursts.ready.eq(Mux(is_signal, completion.signals.ready, self.can_issue)),
            self.issues.eq(bursts.valid & ~is_signal & self.can_issue),
            completion.issued.eq(self.issues),
            completion.signals.valid.eq(bursts.valid & is_signal),
            completion.signals.payload.eq(self.burst.purpose.tokens),
            issue.halt.eq(self.halted),
            splitter.halt.eq(self.halted),
            completion.halt.eq(self.halted | self.tokens.signal_full),
            self.tokens.wait.eq(issue.wait),
            self.tokens.semaphore.eq(issue.semaphore),
            self.tokens.count.eq(issue.count),
            issue.ok.eq(self.tokens.ok),
            self.tokens.signal.eq(completion.signal),
            self.tokens.signal_semaphore.eq(completion.signal_semaphore),
            self.tokens.signal_count.eq(completion.signal_count),
            self.tokens.signal_cores.eq(completion.signal_cores),
        ]

    def _halt_on(self, m: Module, error: ValueLike, code: ValueLike) -> None:
        """Report `error` with `code`; it or `stop` halts the unit until reset."""
        m.d.comb += [self.status.error.eq(error), self.status.code.eq(code)]
        with m.If(self.status.error | self.stop):
            m.d.sync += self.halted.eq(1)
