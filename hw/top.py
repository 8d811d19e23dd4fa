"""The whole accelerator: sequencer, units, memories and the control port, and its Verilog."""

import dataclasses

from amaranth.back import verilog
from amaranth.hdl import Cat, Module, ResetInserter, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .array import ArrayUnit
from .config import Config
from .control import Control, Events, Report
from .control.reset import SoftReset
from .dma import LoadUnit, StoreUnit
from .interfaces import AxiLite, AxiRead, AxiWrite
from .memory import ActivationMemory, WeightMemory
from .memory.simulation import VERILOG as MEMORY_VERILOG
from .memory.simulation import SimulationPlatform
from .sequencer import Sequencer
from .sequencer.arbiter import ReadArbiter
from .sequencer.fetch import AXI_ID as FETCH_ID
from .vector import VectorUnit

VERILOG_NAME = "tosaic"
_PREFIXES = {"control": "s_axil_", "read": "m_axi_", "write": "m_axi_"}


class Accelerator(wiring.Component):
    """One accelerator.

    Ports:
        `control`: AXI4-Lite subordinate, the registers of `csr_map`.
        `read`: AXI4 manager, read channels. ID 0 is LOAD's, 1 the program's; answers of one ID come in order.
        `write`: AXI4 manager, write channels.
        `irq`: interrupt, level.

    The reset of the `sync` domain resets everything; memories keep their contents. A soft reset first lets
    the bus come to rest, see SoftReset. A start resets the units, which are idle then: nothing that a program set up
    is there for the next one.
    """

    def __init__(self, config: Config):
        if not isinstance(config, Config):
            raise TypeError(f"config must be a Config, not {config!r}")
        self.config = config
        super().__init__(
            {
                "control": In(AxiLite()),
                "read": Out(AxiRead(config)),
                "write": Out(AxiWrite(config)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.control_port = control = Control(config)
        m.submodules.soft_reset = soft_reset = SoftReset()
        m.submodules.am = am = ActivationMemory(config)
        m.submodules.wm = wm = WeightMemory(config)
        core_reset = ResetInserter(soft_reset.reset)
        sequencer, arbiter = Sequencer(config), ReadArbiter(config, FETCH_ID)
        m.submodules.sequencer = core_reset(sequencer)
        m.submodules.read_arbiter = core_reset(arbiter)
        units = _Units(LoadUnit(config), ArrayUnit(config), VectorUnit(config), StoreUnit(config))
        unit_reset = ResetInserter(soft_reset.reset | control.run.start)
        m.submodules.load = unit_reset(units.load)
        m.submodules.array = unit_reset(units.array)
        m.submodules.vector = unit_reset(units.vector)
        m.submodules.store = unit_reset(units.store)

        wiring.connect(m, wiring.flipped(self.control), control.axi)
        wiring.connect(m, sequencer.axi, arbiter.fetch)
        wiring.connect(m, units.load.axi, arbiter.load)
        wiring.connect(m, arbiter.bus, wiring.flipped(self.read))
        wiring.connect(m, units.store.axi, wiring.flipped(self.write))
        units.connect_data(m, am, wm)
        units.connect_control(m, control, sequencer)
        self._connect_runs(m, control, sequencer)
        report = sequencer.report
        m.d.comb += [
            soft_reset.request.eq(control.run.soft_reset),
            soft_reset.bus_idle.eq(sequencer.fetch_idle & ~units.load.status.busy & ~units.store.status.busy),
            sequencer.halt.eq(soft_reset.stop),
            # After an error nothing more should be overwritten, so that it can be looked into.
            units.load.stop.eq(soft_reset.stop | report.error),
            units.store.stop.eq(soft_reset.stop | report.error),
            arbiter.fetch_low.eq(sequencer.fetch_low),
            control.run.report.eq(report),
            control.run.report.resetting.eq(soft_reset.resetting),
            self.irq.eq(control.irq),
        ]
        events = units.events(report) | {
            "fetch_beats": sequencer.fetch_beat,
            "fetch_wait": sequencer.fetch_wait,
            "queue_wait": sequencer.queue_wait,
        }
        m.d.comb += control.events.as_value().eq(Cat(events[name] for name, _ in Events))
        return m

    def _connect_runs(self, m: Module, control: Control, sequencer: Sequencer) -> None:
        run = control.run
        m.d.comb += [
            sequencer.start.eq(run.start),
            sequencer.program_address.eq(run.program_address),
            sequencer.program_bytes.eq(run.program_bytes),
            sequencer.mem_base.eq(run.mem_base),
            sequencer.mem_size.eq(run.mem_size),
            sequencer.watchdog_cycles.eq(run.watchdog_cycles),
        ]


@dataclasses.dataclass(frozen=True)
class _Units:
    """The four units, and what connects them."""

    load: LoadUnit
    array: ArrayUnit
    vector: VectorUnit
    store: StoreUnit

    def connect_data(self, m: Module, am: ActivationMemory, wm: WeightMemory) -> None:
        """To the memories and to each other."""
        wiring.connect(m, self.array.accumulators, self.vector.accumulators)
        wiring.connect(m, self.vector.read, am.vector_read)
        wiring.connect(m, self.array.am, am.array_read)
        wiring.connect(m, self.store.am, am.store_read)
        wiring.connect(m, self.vector.write, am.vector_write)
        wiring.connect(m, self.load.am, am.load_write)
        wiring.connect(m, self.array.wm, wm.read)
        wiring.connect(m, self.load.wm, wm.write)
        m.d.comb += self.array.streamed_word.eq(self.load.streamed_word)

    def connect_control(self, m: Module, control: Control, sequencer: Sequencer) -> None:
        """To the sequencer and to the control port."""
        ports = (
            (sequencer.load, self.load),
            (sequencer.array, self.array),
            (sequencer.vector, self.vector),
            (sequencer.store, self.store),
        )
        for port, unit in ports:
            wiring.connect(m, port.commands, unit.commands)
            wiring.connect(m, unit.tokens, port.tokens)
            wiring.connect(m, unit.status, port.status)
        wiring.connect(m, sequencer.vector_lookahead, self.vector.lookahead)
        for unit in (self.load, self.store):
            m.d.comb += [unit.mem_base.eq(control.run.mem_base), unit.mem_size.eq(control.run.mem_size)]
        m.d.comb += [
            self.array.clear.eq(control.run.start),
            sequencer.tested.eq(self.vector.tested),
            sequencer.test_value.eq(self.vector.test_value),
            control.mark.eq(self.vector.mark),
            control.mark_layer.eq(self.vector.mark_layer),
            control.damaged.eq(self.load.damaged),
        ]

    def events(self, report: Report) -> dict[str, ValueLike]:
        """The counters' events of the units by name."""
        load, array, vector, store = self.load, self.array, self.vector, self.store
        load_waits, array_waits, vector_waits, store_waits = report.waiting
        return {
            "array_busy": array.status.busy,
            "array_active": array.active,
            "array_stall_am": array.stall_am,
            "array_stall_vector": array.stall_vector,
            "array_stall_weights": array.stall_weights,
            "array_wait": array_waits,
            "vector_busy": vector.status.busy,
            "vector_active": vector.active,
            "vector_stall_am": 0,  # its accesses go first
            "vector_stall_array": vector.stall_array,
            "vector_wait": vector_waits,
            "load_busy": load.status.busy,
            "load_beats": load.beat,
            "load_stall_bus": load.stall_bus,
            "load_stall_am": load.stall_am,
            "load_wait": load_waits,
            "store_busy": store.status.busy,
            "store_beats": store.beat,
            "store_stall_bus": store.stall_bus,
            "store_stall_am": store.stall_am,
            "store_wait": store_waits,
            "decode_active": load.decoding,
            "decode_hidden": load.decoding & (array.active | vector.active),
        }


class VerilogTop(wiring.Component):
    """An Accelerator whose ports have the names bus models look for: s_axil_awaddr, m_axi_araddr, irq."""

    def __init__(self, config: Config):
        self.accelerator = Accelerator(config)
        self._paths: dict[str, tuple[str, ...]] = {}
        members = {}
        for path, member, _ in self.accelerator.signature.flatten(self.accelerator):
            name = _PREFIXES.get(path[0], path[0]) + "_".join(path[1:])
            self._paths[name] = path
            members[name] = member
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.accelerator = self.accelerator
        for name, path in self._paths.items():
            inner = self.accelerator
            for step in path:
                inner = getattr(inner, step)
            outer = getattr(self, name)
            m.d.comb += inner.eq(outer) if self.signature.members[name].flow == In else outer.eq(inner)
        return m


def to_verilog(config: Config, *, simulation: bool = False) -> str:
    """Verilog of the module `tosaic` with clk, rst (synchronous, active high), s_axil_*, m_axi_* and irq.

    With `simulation` the big memories are instances of one behavioural module, included in the text, which Verilator
    compiles and runs faster; nothing else differs."""
    if not simulation:
        return verilog.convert(VerilogTop(config), name=VERILOG_NAME, emit_src=False)
    platform = SimulationPlatform()
    text = verilog.convert(VerilogTop(config), name=VERILOG_NAME, emit_src=False, platform=platform)
    return text + MEMORY_VERILOG
