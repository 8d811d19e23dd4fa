"""The micro-coded machine: core, firmware, and what the host sees of them."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..bridge.byte_port import BytePort
from ..config import Config
from ..interfaces import AxiLite
from .coprocessor import Coprocessor
from .core import Core, CoreBus
from .external_port import ExternalBus, ExternalPort
from .host_port import HostPort
from .memory_map import (
    EVENT_COLD,
    EVENT_RUN,
    PORT_BASE,
    PORT_CYCLES,
    PORT_EVENTS,
    RAM_BASE,
    ROM_BYTES,
    SIGNAL_DONE,
    SIGNAL_FAILED,
    SIGNAL_READY,
    MemoryMap,
)
from .ram_port import WORD_BYTES, RamPort
from .status import Status

_RAM_BIT = RAM_BASE.bit_length() - 1
_PORT_BIT = PORT_BASE.bit_length() - 1


def _host_side(regions: MemoryMap) -> dict:
    """The ports that machine and system have in common."""
    ports: dict = {
        "registers": In(AxiLite()),
        "memory": In(BytePort()),
        "ram": Out(RamPort()),
        "irq": Out(1),
        "running": Out(1),
    }
    return ports | ({"external": Out(ExternalBus(regions.window_bytes))} if regions.external_bytes else {})


class MicroSystem(wiring.Component):
    """Everything around the core: firmware, its way to the RAM, the host's, the registers.

    Ports:
        `bus`: the core's memory accesses.
        `core_runs`: while low, the core is to be in reset.
        `registers`: the host's, see HostPort.
        `memory`: the host's, bytes of the external memory.
        `ram`: RAM of `regions.ram_bytes`, which no reset may clear.
        `external`: the memory outside, where there is one.
        `irq`: the interrupt line.
        `running`: STATUS.running.
    """

    def __init__(self, config: Config, firmware: bytes, external_bytes: int = 0):
        if config.cores > 1:
            raise ValueError(f"a micro-coded machine has one core, not {config.cores}")
        if len(firmware) > ROM_BYTES:
            raise ValueError(f"firmware must have at most {ROM_BYTES} bytes, not {len(firmware)}")
        self.config, self.firmware = config, firmware
        self.regions = MemoryMap(config, external_bytes)
        super().__init__(_host_side(self.regions) | {"bus": In(CoreBus()), "core_runs": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.host = host = HostPort(self.regions)
        m.submodules.status = status = Status()
        wiring.connect(m, host.registers, wiring.flipped(self.registers))
        external = None
        if self.regions.external_bytes:
            m.submodules.external = external = ExternalPort(self.regions)
            wiring.connect(m, external.host, wiring.flipped(self.memory))
            wiring.connect(m, wiring.flipped(self.external), external.memory)
            m.d.comb += external.core_runs.eq(status.core_runs)
        else:
            wiring.connect(m, host.memory, wiring.flipped(self.memory))
        self._serve_core(m, status, external)
        self._share_ram(m, host)
        m.d.comb += [
            status.write_control.eq(host.write_control),
            status.write_irq.eq(host.write_irq),
            status.write_lock.eq(host.write_lock),
            status.write_data.eq(host.write_data),
            host.up.eq(status.up),
            host.held.eq(Cat(status.control, status.status, status.irq_pending, status.cycles, status.lock)),
            self.core_runs.eq(status.core_runs),
            self.irq.eq(status.irq),
            self.running.eq(status.running),
        ]
        return m

    def _serve_core(self, m: Module, status: Status, external: ExternalPort | None) -> None:
        """The core's reads, of the firmware, the RAM, the hardware's registers and the memory outside, and its signals
        to the hardware."""
        m.submodules.rom = rom = memory.Memory(
            shape=unsigned(8 * WORD_BYTES),
            depth=ROM_BYTES // WORD_BYTES,
            init=[
                int.from_bytes(self.firmware[place : place + WORD_BYTES], "little")
                for place in range(0, len(self.firmware), WORD_BYTES)
            ],
        )
        code, bus = rom.read_port(), self.bus
        was_ram, was_port = Signal(), Signal()
        port_value, events, signals = Signal(32), Signal(32), Signal(32)
        assert (PORT_EVENTS, PORT_CYCLES) == (0, WORD_BYTES)
        found = Mux(was_ram, self.ram.data, Mux(was_port, port_value, code.data))
        if external:
            # The core's side of it, but for what it answers.
            for name in ("read", "write", "address", "write_data", "mask"):
                m.d.comb += getattr(external.core, name).eq(getattr(bus, name))
            m.d.comb += bus.ready.eq(~external.waiting | external.core.ready)
            found = Mux(external.waiting, external.core.read_data, found)
        m.d.comb += [
            code.addr.eq(bus.address[2:]),
            bus.read_data.eq(found),
            events.eq(Mux(status.running, EVENT_RUN, 0) | Mux(status.cold, EVENT_COLD, 0)),
            status.ready.eq((signals & SIGNAL_READY) != 0),
            status.done.eq((signals & SIGNAL_DONE) != 0),
            status.failed.eq((signals & SIGNAL_FAILED) != 0),
        ]
        m.d.sync += [
            was_ram.eq(bus.address[_RAM_BIT]),
            was_port.eq(bus.address[_PORT_BIT]),
            port_value.eq(Mux(bus.address[2], status.cycles[:32], events)),
        ]
        with m.If(bus.write & bus.address[_PORT_BIT]):
            m.d.comb += signals.eq(bus.write_data)

    def _share_ram(self, m: Module, host: HostPort) -> None:
        """The core goes first; the host has the cycles that it leaves."""
        bus, ram = self.bus, self.ram
        core_ram = Signal()
        m.d.comb += [
            core_ram.eq((bus.read | bus.write) & bus.address[_RAM_BIT]),
            host.free.eq(~core_ram),
            host.ram.data.eq(ram.data),
        ]
        with m.If(core_ram):
            m.d.comb += [
                ram.enable.eq(1),
                ram.write.eq(bus.write),
                ram.address.eq(bus.address[2:]),
                ram.write_data.eq(bus.write_data),
                ram.mask.eq(bus.mask),
            ]
        with m.Else():
            m.d.comb += [
                ram.enable.eq(host.ram.enable),
                ram.write.eq(host.ram.write),
                ram.address.eq(host.ram.address),
                ram.write_data.eq(host.ram.write_data),
                ram.mask.eq(host.ram.mask),
            ]


class MicroAccelerator(wiring.Component):
    """The whole machine; `firmware`: what its core executes, `external_bytes`: see MemoryMap. Ports: of MicroSystem."""

    def __init__(self, config: Config, firmware: bytes, external_bytes: int = 0):
        self.system = MicroSystem(config, firmware, external_bytes)
        super().__init__(_host_side(self.system.regions))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.system = system = self.system
        m.submodules.core = core = Core()
        m.submodules.coprocessor = coprocessor = Coprocessor()
        wiring.connect(m, core.bus, system.bus)
        wiring.connect(m, core.coprocessor, coprocessor.port)
        wiring.connect(m, system.registers, wiring.flipped(self.registers))
        wiring.connect(m, system.memory, wiring.flipped(self.memory))
        wiring.connect(m, wiring.flipped(self.ram), system.ram)
        if system.regions.external_bytes:
            wiring.connect(m, wiring.flipped(self.external), system.external)
        m.d.comb += [core.run.eq(system.core_runs), self.irq.eq(system.irq), self.running.eq(system.running)]
        return m
