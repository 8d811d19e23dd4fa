"""The control port: registers, counters, marks and the interrupt."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..cabac.job import DecodeReport
from ..config import Config
from ..csr_map import (
    COUNTERS,
    HIGH_BASE,
    ID_VALUE,
    LEAST_ADDRESS_BITS,
    REGISTER,
    VERSION_VALUE,
    of_core,
    registers_of,
)
from ..interfaces import AxiLite, high_address
from ..isa import ISA_HASH
from .axi_lite import AxiLiteSubordinate
from .counters import Counters, Events, Marks
from .registers import RegisterBank
from .run import CoreControl, RunControl


class Control(wiring.Component):
    """The registers of `csr_map` behind AXI4-Lite.

    Ports:
        `axi`: the control port; every transaction is answered.
        `run`: orders to the machine and its report. `start` is passed on only while the machine is idle.
        `events`: what the units do in this cycle, for the counters.
        `damaged`: the stream behind an error DECODE.
        `others`: the cores behind core 0. `run`'s report is that of core 0, but its `running`, `done`, `error`, `code`
            and `unit` are the machine's.
        `core`: the core at fault.
        `mark`: a layer ends in this cycle.
        `mark_layer`: its number.
        `mem_base_high`: only with addresses of more than 32 bits, those above them; it changes with a start.
        `irq`: level; high while an enabled interrupt is pending.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "axi": In(AxiLite()),
                "run": Out(RunControl()),
                "events": In(Events),
                "damaged": In(DecodeReport),
                "others": Out(CoreControl()).array(config.cores - 1),
                "core": In(range(config.cores)),
                "mark": In(1),
                "mark_layer": In(16),
                "irq": Out(1),
                **high_address(config, "mem_base_high"),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.axi_lite = axi_lite = AxiLiteSubordinate()
        m.submodules.bank = bank = RegisterBank(registers_of(self.config.cores, self.config.address_bits))
        wiring.connect(m, wiring.flipped(self.axi), axi_lite.axi)
        wiring.connect(m, axi_lite.bus, bank.bus)
        m.d.comb += [
            bank.id_value.eq(ID_VALUE),
            bank.version_value.eq(VERSION_VALUE),
            bank.isa_hash_value.eq(ISA_HASH),
            bank.config_hash_value.eq(self.config.hash),
        ]
        self._orders(m, bank)
        self._report(m, bank)
        self._report_core(m, bank, 0, self.run.report, self.damaged)
        counters = self._count(m, bank)
        self._count_core(m, bank, 0, counters, self.events)
        for core, port in enumerate(self.others, 1):
            m.d.comb += [
                port.program_address.eq(bank.stored(of_core("PROGRAM_ADDRESS", core))),
                port.program_bytes.eq(bank.stored(of_core("PROGRAM_BYTES", core))),
            ]
            self._report_core(m, bank, core, port.report, port.damaged)
            m.submodules[f"counters_{core}"] = others = self._counters()
            self._count_core(m, bank, core, others, port.events)
        self._interrupt(m, bank)
        if self.config.address_bits > LEAST_ADDRESS_BITS:
            m.d.comb += bank.status_value[HIGH_BASE.lsb].eq(1)
            # The bus is idle then: an address that is on offer does not change.
            with m.If(self.run.will_start):
                m.d.sync += self.mem_base_high.eq(bank.mem_base_high_stored)
        return m

    def _orders(self, m: Module, bank: RegisterBank) -> None:
        """Passes the host's orders on to the machine."""
        run, report = self.run, self.run.report
        control, status = REGISTER["CONTROL"], REGISTER["STATUS"]
        idle = Signal()
        m.d.comb += [
            idle.eq(~(report.running | report.error | report.resetting | run.start | run.soft_reset)),
            bank.status_value[status.field("idle").lsb].eq(idle),
            run.will_start.eq(bank.control_written[control.field("start").lsb] & idle),
            run.program_address.eq(bank.program_address_stored),
            run.program_bytes.eq(bank.program_bytes_stored),
            run.mem_base.eq(bank.mem_base_stored),
            run.mem_size.eq(bank.mem_size_stored),
            run.watchdog_cycles.eq(bank.watchdog_stored),
        ]
        # From registers: everything in the machine hears of them.
        m.d.sync += [
            run.start.eq(run.will_start),
            run.soft_reset.eq(bank.control_written[control.field("soft_reset").lsb]),
        ]

    def _report(self, m: Module, bank: RegisterBank) -> None:
        """Shows the state of the machine in the host's registers."""
        report, status = self.run.report, REGISTER["STATUS"]
        for level in ("running", "done", "error", "resetting"):
            m.d.comb += bank.status_value[status.field(level).lsb].eq(report[level])
        m.d.comb += [
            _part(bank.error_value, "ERROR", "code").eq(report.code),
            _part(bank.error_value, "ERROR", "unit").eq(report.unit),
            _part(bank.error_value, "ERROR", "core").eq(self.core),
        ]

    def _report_core(self, m: Module, bank: RegisterBank, core: int, report: Value, damaged: Value) -> None:
        """Shows the state of a core in the host's registers."""
        units = REGISTER["UNITS"]
        unit_pcs = [bank.value(of_core(f"{unit}_PC", core)) for unit in ("LOAD", "ARRAY", "VECTOR", "STORE")]
        decode_error = bank.value(of_core("DECODE_ERROR", core))
        m.d.comb += [
            bank.value(of_core("PC", core)).eq(report.pc),
            Cat(unit_pcs).eq(report.unit_pcs.as_value()),
            _part(decode_error, "DECODE_ERROR", "code").eq(damaged.code),
            _part(decode_error, "DECODE_ERROR", "stream").eq(damaged.stream),
            _part(decode_error, "DECODE_ERROR", "tensor").eq(damaged.tensor),
            bank.value(of_core("DECODE_POSITION", core)).eq(damaged.position),
        ]
        # What the units do is shown as of the cycle before, for it comes at the end of long paths.
        shown = Signal.like(bank.units_value, name=of_core("shown", core))
        m.d.comb += bank.value(of_core("UNITS", core)).eq(shown)
        for bit, unit in enumerate(("load", "array", "vector", "store")):
            m.d.sync += [
                shown[units.field(f"{unit}_busy").lsb].eq(report.busy[bit]),
                shown[units.field(f"{unit}_waiting").lsb].eq(report.waiting[bit]),
                shown[units.field(f"{unit}_queued").lsb].eq(report.queued[bit]),
            ]

    def _counters(self) -> Counters:
        return Counters(count_events=bool(self.config.event_counters))

    def _count_core(
        self, m: Module, bank: RegisterBank, core: int, counters: Counters, events: Value
    ) -> None:
        """A core's counters; they count while the machine runs, and a start or a soft reset clears them."""
        run, report = self.run, self.run.report
        m.d.comb += [
            counters.running.eq(report.running),
            counters.clear.eq(run.start | run.soft_reset),
            counters.events.eq(events),
            counters.read.eq(bank.bus.read),
            counters.index.eq(bank.bus.read_address),
            *(bank.value(of_core(name, core)).eq(counters.count) for name, _ in COUNTERS),
        ]

    def _count(self, m: Module, bank: RegisterBank) -> Counters:
        """Cycles and layer marks; a start or a soft reset clears both. The counters of core 0, which count cycles."""
        m.submodules.counters = counters = self._counters()
        m.submodules.marks = marks = Marks()
        run, report = self.run, self.run.report
        m.d.comb += [
            Cat(bank.cycles_value, bank.cycles_high_value).eq(counters.cycles),
            marks.mark.eq(self.mark & report.running),
            marks.mark_layer.eq(self.mark_layer),
            marks.cycle.eq(counters.cycles),
            marks.clear.eq(run.start | run.soft_reset),
            marks.index.eq(bank.mark_index_stored),
            bank.mark_count_value.eq(marks.count),
            bank.mark_layer_value.eq(marks.layer),
            bank.mark_cycle_value.eq(marks.shown_cycle),
        ]
        return counters

    def _interrupt(self, m: Module, bank: RegisterBank) -> None:
        """Pending from the end of a run until the host clears it."""
        run, report = self.run, self.run.report
        ended = Cat(report.done, report.error)
        ended_before, pending = Signal(2), Signal(2)
        m.d.sync += [
            ended_before.eq(ended),
            pending.eq(pending & ~bank.irq_written[:2] | ended & ~ended_before),
        ]
        with m.If(run.soft_reset):
            m.d.sync += pending.eq(0)
        enable = REGISTER["CONTROL"].field("irq_enable").lsb
        m.d.comb += [
            bank.irq_value.eq(pending),
            self.irq.eq(pending.any() & bank.control_stored[enable]),
        ]


def _part(value: Signal, register: str, name: str) -> Value:
    """The field called `name` of a register's value."""
    field = REGISTER[register].field(name)
    return value[field.lsb :][: field.bits]
