"""The whole accelerator: cores and the control port, and its Verilog."""

import functools
import operator
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .config import Config
from .control import Control
from .control.idle import Idle
from .control.reset import SoftReset
from .core import CORE_DOMAIN, UNITS_DOMAIN, MachineCore, Start
from .cores import ReadShare, Reports, TokenExchange, WriteShare
from .interfaces import AxiLite, AxiRead, AxiWrite, high_address
from .memory.simulation import VERILOG as MEMORY_VERILOG
from .memory.simulation import SimulationPlatform
from .probe import probe_layout

VERILOG_NAME = "tosaic"
_PREFIXES = {"control": "s_axil_", "read": "m_axi_", "write": "m_axi_"}
_ADDRESSES = ("m_axi_araddr", "m_axi_awaddr")


class Accelerator(wiring.Component):
    """One accelerator, of one core or of several on one port.

    Ports:
        `control`: AXI4-Lite subordinate, the registers of `csr_map`.
        `read`: AXI4 manager, read channels. ID 0 is LOAD's, 1 the program's, plus twice the core's number; answers of
            one ID come in order.
        `write`: AXI4 manager, write channels.
        `irq`: interrupt, level.
        `idle`: no program runs and the bus owes nothing, so the clock may stop while no access of `control` is under
            way. A start ends it before its write is answered.
        `high_address`: with addresses of more than 32 bits, what all of `read` and `write` have above them; it changes
            with a start.
        `probe`: for simulations, where it is asked for: what each core does, see `probe`.

    The reset of the `sync` domain resets everything; memories keep their contents. It lasts two cycles at least, for
    cores are reset one cycle later than the rest: by registers. A soft reset first lets the bus come to rest, see
    SoftReset. A start resets the units, which are idle then: nothing that a program set up is there for the next one.
    """

    def __init__(self, config: Config, *, probe: bool = False):
        if not isinstance(config, Config):
            raise TypeError(f"config must be a Config, not {config!r}")
        self.config = config
        self._has_probe = probe
        super().__init__(
            {
                "control": In(AxiLite()),
                "read": Out(AxiRead(config, shared=True)),
                "write": Out(AxiWrite(config, shared=True)),
                "irq": Out(1),
                "idle": Out(1),
                **high_address(config, "high_address"),
                **({"probe": Out(probe_layout(config))} if probe else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.control_port = control = Control(config)
        m.submodules.soft_reset = soft_reset = SoftReset()
        m.submodules.quiet = idle = Idle()
        cores = [MachineCore(config, number) for number in range(config.cores)]
        run, first = control.run, cores[0]
        wiring.connect(m, wiring.flipped(self.control), control.axi)
        m.d.comb += [
            soft_reset.request.eq(run.soft_reset),
            soft_reset.bus_idle.eq(functools.reduce(operator.and_, (core.bus_idle for core in cores))),
            idle.busy.eq(
                run.report.running | run.start | run.soft_reset | soft_reset.resetting | ~soft_reset.bus_idle
            ),
            self.idle.eq(idle.idle),
            control.mark.eq(first.units.vector.mark),
            control.mark_layer.eq(first.units.vector.mark_layer),
            control.damaged.eq(first.units.load.damaged),
            control.events.as_value().eq(first.events),
            self.irq.eq(control.irq),
        ]
        _add_domain(m, CORE_DOMAIN, soft_reset.will_reset)
        _add_domain(m, UNITS_DOMAIN, soft_reset.will_reset | run.will_start)
        if config.cores == 1:
            first.build(m, run, _start(run.start, run, soft_reset))
            wiring.connect(m, first.arbiter.bus, wiring.flipped(self.read))
            wiring.connect(m, first.units.store.axi, wiring.flipped(self.write))
            m.d.comb += run.report.eq(first.sequencer.report)
        else:
            self._put_together(m, control, soft_reset, cores)
        m.d.comb += run.report.resetting.eq(soft_reset.resetting)
        if high_address(config, "high_address"):
            m.d.comb += self.high_address.eq(control.mem_base_high)
        if self._has_probe:
            counts = run.report.running & ~run.start & ~run.soft_reset
            for core, seen in zip(cores, self.probe, strict=True):
                m.d.comb += [
                    seen.events.as_value().eq(core.events),
                    seen.counts.eq(counts),
                    seen.mark.eq(core.units.vector.mark),
                    seen.mark_layer.eq(core.units.vector.mark_layer),
                    seen.unit_pcs.as_value().eq(core.sequencer.report.unit_pcs.as_value()),
                ]
        return m

    def _put_together(
        self, m: Module, control: Control, soft_reset: SoftReset, cores: list[MachineCore]
    ) -> None:
        """Several cores: one port, tokens between them, one report."""
        config, run = self.config, control.run
        in_core, reads, writes = DomainRenamer(CORE_DOMAIN), ReadShare(config), WriteShare(config)
        m.submodules.reads, m.submodules.writes = in_core(reads), in_core(writes)
        m.submodules.tokens = tokens = TokenExchange(config)
        m.submodules.reports = reports = Reports(config)
        wiring.connect(m, reads.bus, wiring.flipped(self.read))
        wiring.connect(m, writes.bus, wiring.flipped(self.write))
        any_moves = Signal()
        m.d.comb += [
            any_moves.eq(Cat(core.sequencer.moves for core in cores).any()),
            reports.start.eq(run.start),
            control.core.eq(reports.core),
            run.report.eq(reports.whole),
        ]
        for number, core in enumerate(cores):
            program = control.others[number - 1] if number else run
            has_program, own = program.program_bytes.any() | (number == 0), Module()
            core.build(own, run, _start(run.start & has_program, program, soft_reset))
            m.submodules[f"core{number}"] = own
            wiring.connect(m, core.arbiter.bus, reads.cores[number])
            wiring.connect(m, core.units.store.axi, writes.cores[number])
            wiring.connect(m, core.sequencer.foreign, tokens.cores[number])
            m.d.comb += [
                reports.has_program[number].eq(has_program),
                reports.cores[number].eq(core.sequencer.report),
                core.sequencer.others_move.eq(any_moves),
                core.sequencer.abandon.eq(reports.whole.error),
            ]
            if number:
                m.d.comb += [
                    program.report.eq(core.sequencer.report),
                    program.events.as_value().eq(core.events),
                    program.damaged.eq(core.units.load.damaged),
                ]


def _start(start: Value, program: Any, soft_reset: SoftReset) -> Start:
    return Start(start, program.program_address, program.program_bytes, soft_reset.stop)


def _add_domain(m: Module, name: str, resets: ValueLike) -> None:
    """A clock domain with the machine's clock, reset a cycle after `resets` or the machine's reset: by one register,
    for it goes to thousands of others, where logic behind two of them would go, too."""
    m.domains += (domain := ClockDomain(name, local=True))
    reset = Signal(init=1, name=f"{name}_reset")
    m.d.sync += reset.eq(resets)
    m.d.comb += [domain.clk.eq(ClockSignal()), domain.rst.eq(reset)]


class VerilogTop(wiring.Component):
    """An Accelerator whose ports have the names bus models look for: s_axil_awaddr, m_axi_araddr, irq.

    Addresses of the memory port have `address_bits` bits, and where the configuration gives AxCACHE or AxPROT, the port
    has both.
    """

    def __init__(self, config: Config, *, probe: bool = False):
        self.config = config
        self.accelerator = Accelerator(config, probe=probe)
        self._paths: dict[str, tuple[str, ...]] = {}
        members = {}
        for path, member, _ in self.accelerator.signature.flatten(self.accelerator):
            if path == ("high_address",):
                continue
            name = _PREFIXES.get(path[0], path[0]) + "_".join(path[1:])
            self._paths[name] = path
            members[name] = Out(config.address_bits) if name in _ADDRESSES else member
        self._constants = {}
        if config.axi_cache or config.axi_prot:
            for channel in ("ar", "aw"):
                self._constants[f"m_axi_{channel}cache"] = Const(config.axi_cache, 4)
                self._constants[f"m_axi_{channel}prot"] = Const(config.axi_prot, 3)
        super().__init__(members | {name: Out(len(value)) for name, value in self._constants.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.accelerator = self.accelerator
        for name, path in self._paths.items():
            inner = self.accelerator
            for step in path:
                inner = getattr(inner, step)
            outer = getattr(self, name)
            if name in _ADDRESSES and len(outer) > len(inner):
                inner = Cat(inner, self.accelerator.high_address)
            m.d.comb += inner.eq(outer) if self.signature.members[name].flow == In else outer.eq(inner)
        m.d.comb += [getattr(self, name).eq(value) for name, value in self._constants.items()]
        return m


def to_verilog(config: Config, *, simulation: bool = False, probe: bool = False) -> str:
    """Verilog of the module `tosaic` with clk, rst (synchronous, active high), s_axil_*, m_axi_* and irq.

    With `simulation` the big memories are instances of one behavioural module, included in the text, which Verilator
    compiles and runs faster; nothing else differs. `probe`: with the port of that name."""
    if not simulation:
        return verilog.convert(VerilogTop(config), name=VERILOG_NAME, emit_src=False)
    platform = SimulationPlatform()
    text = verilog.convert(
        VerilogTop(config, probe=probe), name=VERILOG_NAME, emit_src=False, platform=platform
    )
    return text + MEMORY_VERILOG
