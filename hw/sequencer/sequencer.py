"""The sequencer: from a program in memory to commands in the units' queues, and back to one report."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..control.run import Report
from ..csr_map import WINDOW_ALIGNMENT
from ..interfaces import AxiRead, Command, Lookahead, Tokens, UnitStatus
from ..isa import INSTRUCTION_BYTES, Error, Unit
from .classify import OFFSET_BITS, byte_offset
from .dispatch import ADDRESS_BITS, Dispatch
from .faults import Fault, Faults
from .fetch import Fetch
from .queue import INDEX_BITS, CommandQueue
from .semaphores import ForeignTokens, Semaphores
from .watchdog import Watchdog

UNITS = ("load", "array", "vector", "store")
"""The units in the order of isa.Unit and of every bit mask."""


class UnitPort(wiring.Signature):
    """All that the sequencer exchanges with a unit, from the sequencer's side."""

    def __init__(self, core_mask_bits: int = 0) -> None:
        super().__init__(
            {"commands": Out(Command), "tokens": In(Tokens(core_mask_bits)), "status": In(UnitStatus())}
        )


class Sequencer(wiring.Component):
    """Runs programs.

    Ports:
        `axi`: reads of the program.
        `fetch_low`: they should be preferred now.
        `fetch_beat`: a beat of the program arrived.
        `fetch_idle`: no read is outstanding.
        `fetch_wait`: the program is waited for.
        `queue_wait`: room in a queue is waited for.
        `load`, `array`, `vector`, `store`: the units.
        `start`: run the program; accepted when neither running nor in error.
        `program_address`, `program_bytes`: where it lies, relative to `mem_base`. A program outside the
            window, or one whose bus address is not a multiple of 32, ends in MEMORY_RANGE with the sequencer
            as unit. At most 2**28 bytes.
        `mem_base`, `mem_size`: the memory window. All four are there in the cycle before `start`.
        `watchdog_cycles`: 0 switches the watchdog off.
        `vector_lookahead`: the instruction behind the one that VECTOR is offered.
        `tested`: a VECTOR_TEST is executed in this cycle.
        `test_value`: what it found, for the branches behind it. A run begins with 0.
        `halt`: fetch nothing more (a reset is coming).
        `foreign`: in a machine of several cores, tokens from and to the others.
        `moves`: something moved here; `others_move`: somewhere else, which keeps the watchdog quiet.
        `abandon`: another core has a fault: this one ends, too, in an error with the code NONE.
        `report`: state and first error; stays until the next start or reset. `resetting` is left 0.
    """

    def __init__(self, config: Config, core: int = 0):
        self.config, self._core = config, core
        super().__init__(
            {
                "axi": Out(AxiRead(config)),
                "fetch_low": Out(1),
                "fetch_beat": Out(1),
                "fetch_idle": Out(1),
                "fetch_wait": Out(1),
                "queue_wait": Out(1),
                **{name: Out(UnitPort(config.core_mask_bits)) for name in UNITS},
                "start": In(1),
                "program_address": In(ADDRESS_BITS),
                "program_bytes": In(ADDRESS_BITS),
                "mem_base": In(ADDRESS_BITS),
                "mem_size": In(ADDRESS_BITS),
                "watchdog_cycles": In(32),
                "vector_lookahead": Out(Lookahead()),
                "tested": In(1),
                "test_value": In(1),
                "halt": In(1),
                "foreign": Out(ForeignTokens(config.core_mask_bits)),
                "moves": Out(1),
                "others_move": In(1),
                "abandon": In(1),
                "report": Out(Report),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fetch = fetch = Fetch(self.config)
        m.submodules.dispatch = dispatch = Dispatch(self.config)
        m.submodules.semaphores = semaphores = Semaphores(self.config, self._core)
        m.submodules.watchdog = watchdog = Watchdog()
        m.submodules.faults = faults = Faults()
        wiring.connect(m, wiring.flipped(self.axi), fetch.axi)
        wiring.connect(m, fetch.out, dispatch.program)
        start = self._begin(m, fetch, dispatch)
        m.d.comb += semaphores.clear.eq(start)
        wiring.connect(m, semaphores.foreign, wiring.flipped(self.foreign))
        self._connect_units(m, dispatch, semaphores, faults)
        self._wait_for_quiet(m, dispatch, fetch)
        self._report_faults(m, dispatch, faults)
        m.d.comb += [
            self.fetch_low.eq(fetch.low),
            self.fetch_beat.eq(fetch.beat),
            self.fetch_idle.eq(fetch.idle),
            self.fetch_wait.eq(dispatch.starving),
            self.queue_wait.eq(dispatch.queue_full),
            faults.waiting.eq(semaphores.waiting),
            faults.starving.eq(dispatch.starving),
            faults.watchdog.eq(watchdog.fired),
            watchdog.running.eq(dispatch.running),
            watchdog.limit_cycles.eq(self.watchdog_cycles),
            self.report.running.eq(dispatch.running),
            self.report.done.eq(dispatch.done),
            self.report.error.eq(dispatch.error),
            self.report.code.eq(dispatch.code),
            self.report.unit.eq(dispatch.unit),
            self.report.pc.eq(dispatch.pc),
            self.report.waiting.eq(semaphores.waiting),
        ]
        # In registers, one for each that moves: what moves is known late in the cycle.
        moves = Cat(dispatch.progress, fetch.beat, *(u.status.progress for u in self._units().values()))
        moved = Signal(len(moves) + 1)
        m.d.comb += [self.moves.eq(moves.any()), watchdog.progress.eq(moved.any())]
        m.d.sync += moved.eq(Cat(moves, self.others_move))
        return m

    def _units(self) -> dict[str, wiring.PureInterface]:
        """The ports of the units by name, in the order of every bit mask."""
        return {"load": self.load, "array": self.array, "vector": self.vector, "store": self.store}

    def _begin(self, m: Module, fetch: Fetch, dispatch: Dispatch) -> Signal:
        """Lets a program begin, or go on behind a branch; high in the cycle in which one begins."""
        start, bad_range, flag = Signal(), Signal(), Signal()
        address = Signal(ADDRESS_BITS)
        base = Signal(
            ADDRESS_BITS
        )  # the program's, while it runs: the host may set the registers for the next run
        program_end = Signal(ADDRESS_BITS + 1)
        instructions = self.program_bytes // INSTRUCTION_BYTES
        with m.If(start):
            m.d.sync += [base.eq(address), flag.eq(0)]
        with m.Elif(self.tested):
            m.d.sync += flag.eq(self.test_value)
        offered = Signal(ADDRESS_BITS)
        # Sums of what the host wrote in earlier cycles.
        m.d.sync += [
            address.eq(offered),
            bad_range.eq(
                (program_end > self.mem_size)
                | (offered % WINDOW_ALIGNMENT != 0)
                | (self.program_bytes >> (INDEX_BITS + OFFSET_BITS) != 0)
            ),
        ]
        m.d.comb += [
            start.eq(self.start & ~dispatch.running & ~dispatch.error),
            offered.eq(self.mem_base + self.program_address),
            program_end.eq(self.program_address + self.program_bytes),
            fetch.start.eq(start | dispatch.jump),
            fetch.address.eq(Mux(start, address, base + byte_offset(dispatch.target))),
            fetch.instructions.eq(Mux(start, Mux(bad_range, 0, instructions), dispatch.remaining)),
            fetch.stop.eq(self.halt | ~dispatch.dispatching),
            dispatch.start.eq(start),
            dispatch.instructions.eq(instructions),
            dispatch.bad_range.eq(bad_range),
            dispatch.flag.eq(flag),
        ]
        return start

    def _connect_units(self, m: Module, dispatch: Dispatch, semaphores: Semaphores, faults: Faults) -> None:
        outputs = (dispatch.load, dispatch.array, dispatch.vector, dispatch.store)
        tokens = (semaphores.load, semaphores.array, semaphores.vector, semaphores.store)
        statuses = (faults.load, faults.array, faults.vector, faults.store)
        report = self.report
        for bit, (name, unit) in enumerate(self._units().items()):
            is_vector = name == "vector"
            queue = CommandQueue(Unit[name.upper()], self.config, looks_ahead=is_vector)
            m.submodules[f"{name}_queue"] = queue
            wiring.connect(m, outputs[bit], queue.dispatched)
            wiring.connect(m, queue.commands, wiring.flipped(unit.commands))
            wiring.connect(m, wiring.flipped(unit.tokens), tokens[bit])
            wiring.connect(m, wiring.flipped(unit.status), statuses[bit])
            if is_vector:
                wiring.connect(m, queue.lookahead, wiring.flipped(self.vector_lookahead))
            m.d.comb += [
                # A unit that finds a fault has taken its instruction, whatever waits behind it.
                queue.at_head.eq(unit.tokens.wait & ~unit.status.error),
                report.busy[bit].eq(unit.status.busy),
                report.queued[bit].eq(~queue.empty),
                report.unit_pcs[bit].eq(byte_offset(queue.index)),
            ]

    def _wait_for_quiet(self, m: Module, dispatch: Dispatch, fetch: Fetch) -> None:
        """A unit has one cycle from taking a command to showing busy, so two quiet cycles are waited for. They are
        known when they are over, for a unit's `busy` comes late in its cycle."""
        quiet, quiet_before = Signal(), Signal()
        m.d.sync += [
            quiet.eq(~(self.report.busy.any() | self.report.queued.any()) & fetch.idle),
            quiet_before.eq(quiet),
        ]
        m.d.comb += dispatch.quiet.eq(quiet & quiet_before)

    def _report_faults(self, m: Module, dispatch: Dispatch, faults: Faults) -> None:
        """A fault is reported in the cycle after it: from a unit's queue through its checks to all that stops would be
        the longest path of the machine."""
        fault = Signal(Fault)
        m.d.sync += fault.eq(faults.fault)
        with m.If(self.abandon & ~faults.fault.valid):
            m.d.sync += [fault.valid.eq(1), fault.code.eq(Error.NONE)]
        # By number of isa.Unit: where the units were in the cycle of the fault; the sequencer itself stays at the
        # instruction it would dispatch next.
        pcs = Array([dispatch.pc, *(self.report.unit_pcs[bit] for bit in range(len(UNITS)))])
        m.d.comb += [
            dispatch.fault.eq(fault),
            dispatch.fault_pc.eq(pcs[Mux(fault.unit > Unit.STORE, 0, fault.unit)]),
        ]
