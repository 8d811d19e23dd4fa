"""A core: sequencer, units and memories, and what connects them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, DomainRenamer, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring

from .array import ArrayUnit
from .config import Config
from .control import Events, Report
from .dma import LoadUnit, StoreUnit
from .isa import Error
from .memory import ActivationMemory, WeightMemory
from .sequencer import Sequencer
from .sequencer.arbiter import ReadArbiter
from .sequencer.fetch import AXI_ID as FETCH_ID
from .vector import VectorUnit

CORE_DOMAIN, UNITS_DOMAIN = "core", "units"
"""Clock domains, with the machine's clock: of what a soft reset resets; of what the start of a run resets, too."""

RunOrders = Any
"""The port of the signature control.RunControl."""
Status = Any
"""A port of the signature UnitStatus."""


@dataclasses.dataclass(frozen=True)
class Start:
    """What begins and ends a core's runs: signals."""

    start: Value
    """Run its program."""
    program_address: Value
    program_bytes: Value
    stop: Signal
    """Begin no bus transaction."""


class MachineCore:
    """A core, which is put into the module of the machine, or into one of its own where there are several.

    `arbiter.bus` and `units.store.axi` are its memory port, `sequencer` has its report and its tokens.
    """

    def __init__(self, config: Config, number: int = 0):
        self.sequencer = Sequencer(config, number)
        self.arbiter = ReadArbiter(config, FETCH_ID)
        self.units = Units(LoadUnit(config), ArrayUnit(config), VectorUnit(config), StoreUnit(config))
        self._config = config
        self._memories = ActivationMemory(config), WeightMemory(config)

    def build(self, m: Module, run: RunOrders, start: Start) -> None:
        """Puts the parts into `m` and connects them."""
        units, sequencer, arbiter = self.units, self.sequencer, self.arbiter
        m.submodules.am, m.submodules.wm = am, wm = self._memories
        in_core, in_units = DomainRenamer(CORE_DOMAIN), DomainRenamer(UNITS_DOMAIN)
        m.submodules.sequencer = in_core(sequencer)
        m.submodules.read_arbiter = in_core(arbiter)
        m.submodules.load = in_units(units.load)
        m.submodules.array = in_units(units.array)
        m.submodules.vector = in_units(units.vector)
        m.submodules.store = in_units(units.store)

        wiring.connect(m, sequencer.axi, arbiter.fetch)
        wiring.connect(m, units.load.axi, arbiter.load)
        units.connect_data(m, am, wm)
        wrong: dict[wiring.Component, Value] = {}
        if self._config.memory_parity:
            of_vector, of_array, of_store = am.wrong
            wrong = {units.array: of_array | wm.wrong, units.vector: of_vector, units.store: of_store}
        units.connect_control(m, run, sequencer, wrong)
        m.d.comb += [
            sequencer.start.eq(start.start),
            sequencer.program_address.eq(start.program_address),
            sequencer.program_bytes.eq(start.program_bytes),
            sequencer.mem_base.eq(run.mem_base),
            sequencer.mem_size.eq(run.mem_size),
            sequencer.watchdog_cycles.eq(run.watchdog_cycles),
            sequencer.halt.eq(start.stop),
            # After an error nothing more should be overwritten, so that it can be looked into.
            units.load.stop.eq(start.stop | sequencer.report.error),
            units.store.stop.eq(start.stop | sequencer.report.error),
            arbiter.fetch_low.eq(sequencer.fetch_low),
        ]

    @property
    def bus_idle(self) -> Value:
        """No transaction of it is outstanding."""
        return self.sequencer.fetch_idle & ~self.units.load.status.busy & ~self.units.store.status.busy

    @property
    def events(self) -> Value:
        """Returns what happens in this cycle, as control.Events."""
        events = self.units.events(self.sequencer.report) | {
            "fetch_beats": self.sequencer.fetch_beat,
            "fetch_wait": self.sequencer.fetch_wait,
            "queue_wait": self.sequencer.queue_wait,
        }
        return Cat(events[name] for name, _ in Events)


@dataclasses.dataclass(frozen=True)
class Units:
    """The four units, and what connects them."""

    load: LoadUnit
    array: ArrayUnit
    vector: VectorUnit
    store: StoreUnit

    def connect_data(self, m: Module, am: ActivationMemory, wm: WeightMemory) -> None:
        """Connects the units to the memories and to each other."""
        wiring.connect(m, self.array.accumulators, self.vector.accumulators)
        wiring.connect(m, self.vector.read, am.vector_read)
        wiring.connect(m, self.array.am, am.array_read)
        wiring.connect(m, self.store.am, am.store_read)
        wiring.connect(m, self.vector.write, am.vector_write)
        wiring.connect(m, self.load.am, am.load_write)
        wiring.connect(m, self.array.wm, wm.read)
        wiring.connect(m, self.load.wm, wm.write)
        m.d.comb += self.array.streamed_word.eq(self.load.streamed_word)

    def connect_control(
        self, m: Module, run: RunOrders, sequencer: Sequencer, wrong: Mapping[wiring.Component, Value]
    ) -> None:
        """Connects the units to the sequencer and to the host's orders. `wrong`: units of which a read of a memory had
        a wrong parity in this cycle."""
        ports = (
            (sequencer.load, self.load),
            (sequencer.array, self.array),
            (sequencer.vector, self.vector),
            (sequencer.store, self.store),
        )
        for port, unit in ports:
            wiring.connect(m, port.commands, unit.commands)
            wiring.connect(m, unit.tokens, port.tokens)
            _connect_status(m, unit.status, port.status, wrong.get(unit))
        wiring.connect(m, sequencer.vector_lookahead, self.vector.lookahead)
        for unit in (self.load, self.store):
            m.d.comb += [unit.mem_base.eq(run.mem_base), unit.mem_size.eq(run.mem_size)]
        m.d.comb += [
            self.array.clear.eq(run.start),
            sequencer.tested.eq(self.vector.tested),
            sequencer.test_value.eq(self.vector.test_value),
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


def _connect_status(m: Module, unit: Status, port: Status, wrong: Value | None) -> None:
    """A unit's status with its own faults and, where there is parity, those of its reads."""
    if wrong is None:
        wiring.connect(m, unit, port)
        return
    m.d.comb += [
        port.busy.eq(unit.busy),
        port.progress.eq(unit.progress),
        port.error.eq(unit.error | wrong),
        port.code.eq(Mux(unit.error, unit.code, Error.DATA)),
    ]
