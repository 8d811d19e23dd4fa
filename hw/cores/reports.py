"""One report of all cores: running while one runs, done when all are, the first fault of any."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..control.run import Report
from ..isa import Error


class Reports(wiring.Component):
    """Combinational, but for `uses`.

    Ports:
        `start`: the machine is started in this cycle.
        `has_program`: bit per core; looked at in that cycle.
        `cores`: their reports.
        `whole`: that of core 0, but `running`, `done`, `error`, `code` and `unit` are the machine's. After faults in
            several cores those of the first of them.
        `core`: the core at fault.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "has_program": In(config.cores),
                "cores": In(Report).array(config.cores),
                "whole": Out(Report),
                "core": Out(range(config.cores)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        uses = Signal(self.config.cores, init=1)
        with m.If(self.start):
            m.d.sync += uses.eq(self.has_program | 1)
        any_running, any_error, all_done = Signal(), Signal(), Signal()
        m.d.comb += self.whole.eq(self.cores[0])
        running, error, done = 0, 0, 1
        for core, report in enumerate(self.cores):
            running, error = running | report.running, error | report.error
            done = done & (report.done | ~uses[core])
        m.d.comb += [
            any_running.eq(running),
            any_error.eq(error),
            all_done.eq(done),
            self.whole.error.eq(any_error),
            # The cores that are not at fault stop a little later.
            self.whole.running.eq(any_running & ~any_error),
            self.whole.done.eq(all_done & ~any_running & ~any_error),
        ]
        for core, report in reversed(tuple(enumerate(self.cores))):
            with m.If(report.error & (report.code != Error.NONE)):
                m.d.comb += [
                    self.core.eq(core),
                    self.whole.code.eq(report.code),
                    self.whole.unit.eq(report.unit),
                ]
        return m
