"""How a host drives the machine through its registers: the same steps for the simulated RTL and for hardware."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import (
    LEAST_ADDRESS_BITS,
    MARKS,
    MOST_ADDRESS_BITS,
    REGISTER,
    WATCHDOG_RESET_CYCLES,
    FieldAccess,
    Register,
    of_core,
    registers_of,
)
from tosaic.hw.isa import CoreProgram
from tosaic.hw.legal import CORES

from .program import count_macs, decode_program
from .result import RunResult, counted_events
from .status import device_error, standing

REGISTER_BYTES = 4


_BY_NAME = {register.name: register for register in registers_of(max(CORES), MOST_ADDRESS_BITS)}


class ReportPort(Protocol):
    """Reads the control port, 32 bits a register."""

    def read_registers(self, offset: int, count: int) -> list[int]:
        """The values of `count` registers from byte `offset` on, which all exist."""


class RegisterPort(ReportPort, Protocol):
    """Reads and writes the control port."""

    def write_register(self, offset: int, value: int) -> None: ...


@runtime_checkable
class BulkPort(RegisterPort, Protocol):
    """Writes neighbouring registers of the control port at once."""

    def write_registers(self, offset: int, values: Sequence[int]) -> None:
        """Set the registers from byte `offset` on, which all exist."""


@runtime_checkable
class AskedPort(ReportPort, Protocol):
    """Has several reads of the control port under way."""

    def ask_registers(self, offset: int, count: int) -> Callable[[], list[int]]:
        """Asks for registers; their values are waited for when they are called for."""


def reported(cores: int = 1) -> tuple[Register, ...]:
    """The registers that tell what machine this is and how its run stands. Reading them changes nothing, and none of
    them shows where the memory lies. The marks are not among them: MARK_INDEX chooses what they show."""
    return tuple(
        register
        for register in registers_of(cores)
        if not register.mask(FieldAccess.RW, FieldAccess.PULSE)
        and register.name not in ("MARK_LAYER", "MARK_CYCLE")
    )


def _groups(registers: Iterable[Register]) -> list[list[Register]]:
    """The registers by ascending offset, in groups without a gap, each of which is one access of the host."""
    groups: list[list[Register]] = []
    for register in sorted(registers, key=lambda register: register.offset):
        if groups and groups[-1][-1].offset + REGISTER_BYTES == register.offset:
            groups[-1].append(register)
        else:
            groups.append([register])
    return groups


class RegisterReport:
    """The registers by name, and what they tell of a run on `cores` cores. `codes`: the programs of cores 0, 1, ..."""

    def __init__(self, port: ReportPort, cores: int = 1):
        self._port, self.cores = port, cores

    def read(self, name: str) -> int:
        return self._port.read_registers(REGISTER[name].offset, 1)[0]

    def field(self, register: str, field: str) -> int:
        return REGISTER[register].field(field).extract(self.read(register))

    def all(self) -> dict[str, int]:
        """The value of every reported register."""
        return self._values(reported(self.cores))

    def failure(self, codes: Sequence[bytes]) -> DeviceError | None:
        """Returns the error that ended the programs before their end."""
        if not self.field("STATUS", "error"):
            return None
        return device_error(self.all(), codes, self.cores)

    def standing(self, codes: Sequence[bytes]) -> str:
        """Says where every unit is."""
        return standing(self.all(), codes, self.cores)

    def result(self, config: Config, codes: Sequence[bytes], marks: Sequence[tuple[int, int]]) -> RunResult:
        """Returns what was counted in the run that has ended; `marks` are its layer marks. Bytes are those that the
        cores asked for: wide beats of a shared port may move more. They are 0 if the machine counts no events."""
        width = config.word_bytes
        names = counted_events(config)
        own = [{name: of_core(name.upper(), core) for name in names} for core in range(self.cores)]
        counted = ("CYCLES", "CYCLES_HIGH", *(register for core in own for register in core.values()))
        values = self._values(_BY_NAME[name] for name in counted)
        cores = [{name: values[register] for name, register in core.items()} for core in own]
        counters = {name: sum(core[name] for core in cores) for name in names}
        return RunResult(
            cycles=values["CYCLES"] | values["CYCLES_HIGH"] << 32,
            dram_read_bytes=(counters.get("load_beats", 0) + counters.get("fetch_beats", 0)) * width,
            dram_write_bytes=counters.get("store_beats", 0) * width,
            marks=marks,
            counters=counters,
            macs=sum(count_macs(config, decode_program(code)) for code in codes),
            cores=cores,
        )

    def _values(self, registers: Iterable[Register]) -> dict[str, int]:
        asked = [(group, self._ask(group[0].offset, len(group))) for group in _groups(registers)]
        return {
            register.name: value
            for group, values in asked
            for register, value in zip(group, values(), strict=True)
        }

    def _ask(self, offset: int, count: int) -> Callable[[], list[int]]:
        if isinstance(self._port, AskedPort):
            return self._port.ask_registers(offset, count)
        values = self._port.read_registers(offset, count)
        return lambda: values


class Registers(RegisterReport):
    """The registers by name, to be written, too: the steps of a run."""

    def __init__(self, port: RegisterPort, cores: int = 1):
        super().__init__(port, cores)
        self._writable = port

    def write(self, name: str, value: int) -> None:
        self._writable.write_register(_BY_NAME[name].offset, value)

    def write_all(self, values: Mapping[str, int]) -> None:
        """Set these registers, whose order means nothing; neighbours at once where the port can."""
        if isinstance(self._writable, BulkPort):
            for group in _groups(_BY_NAME[name] for name in values):
                self._writable.write_registers(group[0].offset, [values[register.name] for register in group])
        else:
            for name, value in values.items():
                self.write(name, value)

    def control(self, *fields: str) -> None:
        """Write CONTROL with 1 in these fields and 0 in the others."""
        self.write("CONTROL", sum(REGISTER["CONTROL"].field(name).mask for name in fields))

    def start(
        self,
        memory_base: int,
        memory_bytes: int,
        streams: Sequence[CoreProgram],
        watchdog_cycles: int = WATCHDOG_RESET_CYCLES,
    ) -> None:
        """Start the programs of cores 0, 1 ...; the interrupt tells when all are through. Cores without one do
        nothing. A base above 4 GiB needs a machine with MEM_BASE_HIGH, which keeps it."""
        high, low = divmod(memory_base, 1 << LEAST_ADDRESS_BITS)
        values = {"MEM_BASE": low, "MEM_SIZE": memory_bytes}
        if high:
            values["MEM_BASE_HIGH"] = high
        for core in range(self.cores):
            address, size = streams[core] if core < len(streams) else (0, 0)
            values[of_core("PROGRAM_ADDRESS", core)] = address
            values[of_core("PROGRAM_BYTES", core)] = size
        values["WATCHDOG"] = watchdog_cycles
        self.write_all(values)
        self.control("irq_enable", "start")

    def marks(self) -> list[tuple[int, int]]:
        """(layer, cycle) of each mark of the run that has ended; DeviceError for more than a machine keeps, which
        a damaged line or machine may answer."""
        asked, count = [], self.read("MARK_COUNT")
        if count > MARKS:
            raise DeviceError(f"the accelerator says that it has {count} layer marks, but it keeps {MARKS}")
        for index in range(count):
            asked.append(self._ask_mark(index))
        marks = []
        for index, values in enumerate(asked):
            chosen, layer, cycle = values()
            if chosen != index:
                # An answer was lost, and asked for again behind the writes that followed.
                _, layer, cycle = self._ask_mark(index)()
            marks.append((layer, cycle))
        return marks

    def _ask_mark(self, index: int) -> Callable[[], list[int]]:
        """Its index, layer and cycle."""
        self.write("MARK_INDEX", index)
        return self._ask(REGISTER["MARK_INDEX"].offset, 3)

    def acknowledge(self) -> None:
        """Clear the interrupt."""
        irq = REGISTER["IRQ"]
        self.write("IRQ", irq.mask(FieldAccess.W1C))
