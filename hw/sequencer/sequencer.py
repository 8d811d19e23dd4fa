"""The sequencer: from a program in memory to commands in the units' queues, and back to one report."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..control.run import Report
from ..interfaces import AxiRead, Command, Lookahead, Status, Tokens
from ..isa import INSTRUCTION_BYTES, Unit
from .dispatch import Dispatch
from .faults import Fault, Faults
from .fetch import Fetch
from .queue import INDEX_BITS, CommandQueue
from .semaphores import Semaphores
from .watchdog import Watchdog

UNITS = ("load", "array", "vector", "store")
"""The units in the order of isa.Unit and of every bit mask."""
_ADDRESS_ALIGNMENT = 32


class UnitPort(wiring.Signature):
    """All that the sequencer exchanges with a unit, from the sequencer's side."""

    def __init__(self) -> None:
        super().__init__({"commands": Out(Command), "tokens": In(Tokens()), "status": In(Status())})


class Sequencer(wiring.Component):
    """Runs programs.

    Ports:
        `axi`: reads of the program; `fetch_low`: they should be preferred now; `fetch_beat`: a beat arrived.
        `load`, `array`, `vector`, `store`: the units.
        `fetch_wait`: the program is waited for; `queue_wait`: room in a queue is.
        `start`: run the program; accepted when neither running nor in error.
        `program_address`, `program_bytes`: where it lies, relative to `mem_base`. A program outside the
            window, or one whose bus address is not a multiple of 32, ends in MEMORY_RANGE with the sequencer
            as unit. At most 2**28 bytes.
        `mem_base`, `mem_size`: the memory window.
        `watchdog_cycles`: 0 switches the watchdog off.
        `tested`, `test_value`: what a VECTOR_TEST found, for the branches behind it. A run begins with 0.
        `halt`: fetch nothing more (a reset is coming).
        `fetch_idle`: no read is outstanding.
        `report`: state and first error; stays until the next start or reset. `resetting` is left 0.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "axi": Out(AxiRead(config)),
                "fetch_low": Out(1),
                "fetch_beat": Out(1),
                "fetch_idle": Out(1),
                "fetch_wait": Out(1),
                "queue_wait": Out(1),
                **{name: Out(UnitPort()) for name in UNITS},
                "start": In(1),
                "program_address": In(32),
                "program_bytes": In(32),
                "mem_base": In(32),
                "mem_size": In(32),
                "watchdog_cycles": In(32),
                "vector_lookahead": Out(Lookahead()),
                "tested": In(1),
                "test_value": In(1),
                "halt": In(1),
                "report": Out(Report),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, report = self.config, self.report
        m.submodules.fetch = fetch = Fetch(config)
        m.submodules.dispatch = dispatch = Dispatch(config)
        m.submodules.semaphores = semaphores = Semaphores(config)
        m.submodules.watchdog = watchdog = Watchdog()
        m.submodules.faults = faults = Faults()
        queues = {
            name: CommandQueue(Unit[name.upper()], config, looks_ahead=name == "vector") for name in UNITS
        }
        wiring.connect(m, queues["vector"].lookahead, wiring.flipped(self.vector_lookahead))
        units = {name: getattr(self, name) for name in UNITS}

        start = Signal()
        address = Signal(32)
        program_end = Signal(33)
        bad_range = Signal()
        base = Signal(32)
        flag = Signal()
        with m.If(start):
            # The host may set the registers for the next run.
            m.d.sync += [base.eq(address), flag.eq(0)]
        with m.Elif(self.tested):
            m.d.sync += flag.eq(self.test_value)
        m.d.comb += [
            start.eq(self.start & ~report.running & ~report.error),
            address.eq(self.mem_base + self.program_address),
            program_end.eq(self.program_address + self.program_bytes),
            bad_range.eq(
                (program_end > self.mem_size)
                | (address % _ADDRESS_ALIGNMENT != 0)
                | (self.program_bytes >> (INDEX_BITS + 4) != 0)
            ),
            fetch.start.eq(start | dispatch.jump),
            fetch.address.eq(Mux(start, address, base + Cat(Const(0, 4), dispatch.target))),
            fetch.instructions.eq(
                Mux(
                    start,
                    Mux(bad_range, 0, self.program_bytes // INSTRUCTION_BYTES),
                    dispatch.remaining,
                )
            ),
            dispatch.flag.eq(flag),
            fetch.stop.eq(self.halt | ~dispatch.dispatching),
            self.fetch_low.eq(fetch.low),
            self.fetch_beat.eq(fetch.beat),
            self.fetch_idle.eq(fetch.idle),
            self.fetch_wait.eq(dispatch.starving),
            self.queue_wait.eq(dispatch.queue_full),
            dispatch.start.eq(start),
            dispatch.instructions.eq(self.program_bytes // INSTRUCTION_BYTES),
            dispatch.bad_range.eq(bad_range),
            semaphores.clear.eq(start),
        ]
        wiring.connect(m, wiring.flipped(self.axi), fetch.axi)
        wiring.connect(m, fetch.out, dispatch.program)

        for bit, name in enumerate(UNITS):
            queue, unit = queues[name], units[name]
            m.submodules[f"{name}_queue"] = queue
            wiring.connect(m, getattr(dispatch, name), queue.dispatched)
            wiring.connect(m, queue.commands, wiring.flipped(unit.commands))
            wiring.connect(m, wiring.flipped(unit.tokens), getattr(semaphores, name))
            wiring.connect(m, wiring.flipped(unit.status), getattr(faults, name))
            m.d.comb += [
                # VECTOR finds faults before it takes an instruction; the others after, whatever waits behind it.
                queue.at_head.eq(Mux(unit.status.error, int(name == "vector"), unit.tokens.wait)),
                report.busy[bit].eq(unit.status.busy),
                report.queued[bit].eq(~queue.empty),
                report.unit_pcs[bit].eq(Cat(Const(0, 4), queue.index)),
            ]

        # A unit has one cycle from taking a command to showing busy, so two quiet cycles are waited for; they are known
        # when they are over, for a unit's `busy` comes late in its cycle.
        quiet = Signal()
        quiet_before = Signal()
        m.d.sync += [
            quiet.eq(~(report.busy.any() | report.queued.any()) & fetch.idle),
            quiet_before.eq(quiet),
        ]

        # A fault is reported in the cycle after it: from a unit's queue through its checks to all that stops would be
        # the longest path of the machine. The same holds for what keeps the watchdog quiet.
        fault = Signal(Fault)
        progress = Signal()
        # By number of isa.Unit: where the units were in the cycle of the fault; the sequencer itself stays at the
        # instruction it would dispatch next.
        pcs = Array([dispatch.pc, *(report.unit_pcs[bit] for bit in range(len(UNITS)))])
        m.d.comb += [
            dispatch.quiet.eq(quiet & quiet_before),
            watchdog.running.eq(dispatch.running),
            watchdog.progress.eq(progress),
            watchdog.limit_cycles.eq(self.watchdog_cycles),
            faults.waiting.eq(semaphores.waiting),
            faults.starving.eq(dispatch.starving),
            faults.watchdog.eq(watchdog.fired),
            dispatch.fault.eq(fault),
            dispatch.fault_pc.eq(pcs[Mux(fault.unit > Unit.STORE, 0, fault.unit)]),
            report.running.eq(dispatch.running),
            report.done.eq(dispatch.done),
            report.error.eq(dispatch.error),
            report.code.eq(dispatch.code),
            report.unit.eq(dispatch.unit),
            report.pc.eq(dispatch.pc),
            report.waiting.eq(semaphores.waiting),
        ]
        m.d.sync += [
            fault.eq(faults.fault),
            progress.eq(
                dispatch.progress | fetch.beat | Cat(unit.status.progress for unit in units.values()).any()
            ),
        ]
        return m
