"""How a host drives the machine through its registers: the same steps for the simulated RTL and for hardware."""

from typing import Protocol

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import COUNTERS, REGISTER, REGISTERS, WATCHDOG_RESET_CYCLES, Access, Register

from .program import count_macs, decode_program
from .result import RunResult
from .status import device_error, standing

REGISTER_BYTES = 4


class ReportPort(Protocol):
    """Reads the control port, 32 bits a register."""

    def read_registers(self, offset: int, count: int) -> list[int]:
        """The values of `count` registers from byte `offset` on, which all exist."""


class RegisterPort(ReportPort, Protocol):
    """Reads and writes the control port."""

    def write_register(self, offset: int, value: int) -> None: ...


REPORTED: tuple[Register, ...] = tuple(
    register
    for register in REGISTERS
    if not register.mask(Access.RW, Access.PULSE) and register.name not in ("MARK_LAYER", "MARK_CYCLE")
)
"""The registers that tell what machine this is and how its run stands. Reading them changes nothing, and none of them
shows where the memory lies. The marks are not among them: MARK_INDEX chooses what they show."""


def _groups() -> list[list[Register]]:
    """The reported registers in groups without a gap, each of which is one read."""
    groups: list[list[Register]] = []
    for register in REPORTED:
        if groups and groups[-1][-1].offset + REGISTER_BYTES == register.offset:
            groups[-1].append(register)
        else:
            groups.append([register])
    return groups


class Report:
    """The registers by name, and what they tell of a run."""

    def __init__(self, port: ReportPort):
        self._port = port

    def read(self, name: str) -> int:
        return self._port.read_registers(REGISTER[name].offset, 1)[0]

    def field(self, register: str, field: str) -> int:
        return REGISTER[register].field(field).extract(self.read(register))

    def all(self) -> dict[str, int]:
        """The value of every register of `REPORTED`."""
        values: dict[str, int] = {}
        for group in _groups():
            read = self._port.read_registers(group[0].offset, len(group))
            values |= {register.name: value for register, value in zip(group, read, strict=True)}
        return values

    def failure(self, code: bytes) -> DeviceError | None:
        """What ended the program `code` before its end."""
        if not self.field("STATUS", "error"):
            return None
        return device_error(self.all(), code)

    def standing(self, code: bytes) -> str:
        """Where every unit is."""
        return standing(self.all(), code)

    def result(self, config: Config, code: bytes, marks: list[tuple[int, int]]) -> RunResult:
        """What was counted in the run that has ended; `marks` are its layer marks."""
        values = self.all()
        width = config.word_bytes
        return RunResult(
            cycles=values["CYCLES"] | values["CYCLES_HIGH"] << 32,
            dram_read_bytes=(values["LOAD_BEATS"] + values["FETCH_BEATS"]) * width,
            dram_write_bytes=values["STORE_BEATS"] * width,
            marks=marks,
            counters={name.lower(): values[name] for name, _ in COUNTERS},
            macs=count_macs(config, decode_program(code)),
        )


class Registers(Report):
    """The registers by name, to be written, too: the steps of a run."""

    def __init__(self, port: RegisterPort):
        super().__init__(port)
        self._writable = port

    def write(self, name: str, value: int) -> None:
        self._writable.write_register(REGISTER[name].offset, value)

    def control(self, *fields: str) -> None:
        """Write CONTROL with 1 in these fields and 0 in the others."""
        self.write("CONTROL", sum(REGISTER["CONTROL"].field(name).mask for name in fields))

    def start(
        self,
        memory_base: int,
        memory_bytes: int,
        program_address: int,
        program_bytes: int,
        watchdog_cycles: int = WATCHDOG_RESET_CYCLES,
    ) -> None:
        """Start the program; the interrupt tells when it is through."""
        self.write("MEM_BASE", memory_base)
        self.write("MEM_SIZE", memory_bytes)
        self.write("PROGRAM_ADDRESS", program_address)
        self.write("PROGRAM_BYTES", program_bytes)
        self.write("WATCHDOG", watchdog_cycles)
        self.control("irq_enable", "start")

    def marks(self) -> list[tuple[int, int]]:
        """(layer, cycle) of each mark of the run that has ended."""
        marks = []
        for index in range(self.read("MARK_COUNT")):
            self.write("MARK_INDEX", index)
            layer, cycle = self._port.read_registers(REGISTER["MARK_LAYER"].offset, 2)
            marks.append((layer, cycle))
        return marks

    def acknowledge(self) -> None:
        """Clear the interrupt."""
        irq = REGISTER["IRQ"]
        self.write("IRQ", irq.mask(Access.W1C))
