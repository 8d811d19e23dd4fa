"""Notices when nothing moves any more."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Watchdog(wiring.Component):
    """Fires after `limit_cycles` cycles of a run without progress.

    Ports:
        `running`: a program runs.
        `progress`: something moved in this cycle.
        `limit_cycles`: 0 switches the watchdog off.
        `fired`: high from the cycle after the last of `limit_cycles` successive cycles with `running` and no
            `progress`, until there is progress or the run ends.
    """

    running: In(1)
    progress: In(1)
    limit_cycles: In(32)
    fired: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        quiet_cycles = Signal(32)
        still = Signal()
        m.d.comb += still.eq(self.running & ~self.progress)
        m.d.sync += [
            quiet_cycles.eq(Mux(still, quiet_cycles + 1, 0)),
            self.fired.eq(
                still & (self.limit_cycles != 0) & (self.fired | (quiet_cycles + 1 == self.limit_cycles))
            ),
        ]
        return m
