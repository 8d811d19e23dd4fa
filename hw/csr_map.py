"""The register map of the control port: the one definition that hardware, driver and docs derive from.

Registers are 32 bits wide, little endian, at byte offsets of a 4 KiB window. Bits that no field names read as
zero.
"""

import dataclasses
import enum

ID_VALUE = 0x41534F54
"""ASCII "TOSA" read as little-endian bytes."""
VERSION_VALUE = 0x000401
"""major << 16 | minor << 8 | patch of this map."""
VERSION_PATCH_BITS = 8
"""Register maps that differ only in these bits of VERSION are read alike."""
WINDOW_BYTES = 0x1000
"""Bytes of the control port's window."""
WINDOW_ALIGNMENT = 32
"""What MEM_BASE, and the program's bus address, are a multiple of, in bytes."""
WATCHDOG_RESET_CYCLES = 65536
MARKS = 1024
"""Layer marks that the hardware keeps."""
RESP_OKAY = 0
RESP_SLVERR = 2
"""The answer to an address without a register, and to a write of a register that has nothing to write."""


class FieldAccess(enum.Enum):
    """What reading and writing a field does."""

    RO = "ro"  # the hardware sets it
    RW = "rw"  # keeps what was written; survives a soft reset
    PULSE = "w1"  # writing 1 acts, reads as zero
    W1C = "w1c"  # the hardware sets it, writing 1 clears it
    SET = "w1s"  # writing 1 sets it; only the reset `rst` clears it


BUS_ACCESS = {
    FieldAccess.RO: ("read-only", ""),
    FieldAccess.RW: ("read-write", ""),
    FieldAccess.PULSE: ("write-only", ""),
    FieldAccess.W1C: ("read-write", "oneToClear"),
    FieldAccess.SET: ("read-write", "oneToSet"),
}
"""What CMSIS-SVD and IP-XACT call it: who may do what, and what a write changes, where that is not the value."""


@dataclasses.dataclass(frozen=True)
class RegisterField:
    """Bits ``lsb`` to ``lsb + bits - 1`` of a register."""

    name: str
    lsb: int
    bits: int
    access: FieldAccess
    doc: str

    @property
    def mask(self) -> int:
        return ((1 << self.bits) - 1) << self.lsb

    def extract(self, value: int) -> int:
        """This field of a register's value."""
        return (value & self.mask) >> self.lsb


@dataclasses.dataclass(frozen=True)
class Register:
    name: str
    offset: int
    reset: int | None
    """Value after reset; None when it depends on the configuration or the instruction set."""
    doc: str
    fields: tuple[RegisterField, ...]
    lock: str = ""
    """Field of LOCK that, once set, makes the register ignore writes (they are answered as others are)."""

    def mask(self, *accesses: FieldAccess) -> int:
        """The bits whose field has one of the accesses."""
        return sum(field.mask for field in self.fields if field.access in accesses)

    def field(self, name: str) -> RegisterField:
        """The field called ``name``; KeyError when there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name}")


def version_text() -> str:
    """VERSION as major.minor.patch."""
    return f"{VERSION_VALUE >> 16}.{VERSION_VALUE >> 8 & 0xFF}.{VERSION_VALUE & 0xFF}"


def _whole(
    name: str,
    offset: int,
    doc: str,
    access: FieldAccess = FieldAccess.RO,
    reset: int | None = 0,
    *,
    lock: str = "",
) -> Register:
    return Register(name, offset, reset, doc, (RegisterField("value", 0, 32, access, "all bits"),), lock)


def _unit_bits(first: int, name: str, what: str) -> tuple[RegisterField, ...]:
    return tuple(
        RegisterField(f"{unit.lower()}_{name}", first + bit, 1, FieldAccess.RO, f"{unit} {what}")
        for bit, unit in enumerate(("LOAD", "ARRAY", "VECTOR", "STORE"))
    )


_IDENTITY = (
    _whole("ID", 0x000, 'always 0x41534F54, the bytes "TOSA"', reset=ID_VALUE),
    _whole("VERSION", 0x004, "version of this map: major << 16 | minor << 8 | patch", reset=VERSION_VALUE),
    _whole("ISA_HASH", 0x008, "hash of the instruction set (isa.ISA_HASH)", reset=None),
    _whole("CONFIG_HASH", 0x00C, "hash of the configuration (Config.hash)", reset=None),
)

_RUN = (
    Register(
        "CONTROL",
        0x010,
        0,
        "starts and resets the machine",
        (
            RegisterField(
                "start",
                0,
                1,
                FieldAccess.PULSE,
                "starts the program if STATUS.idle is 1; clears done, counters, marks and semaphores",
            ),
            RegisterField(
                "soft_reset",
                1,
                1,
                FieldAccess.PULSE,
                "ends a run: waits for the bus, then resets everything but the fields that the host writes",
            ),
            RegisterField("irq_enable", 2, 1, FieldAccess.RW, "the interrupt line follows IRQ"),
        ),
    ),
    Register(
        "STATUS",
        0x014,
        1,
        "what the machine is doing",
        (
            RegisterField(
                "idle", 0, 1, FieldAccess.RO, "neither running nor resetting nor in error: start is accepted"
            ),
            RegisterField("running", 1, 1, FieldAccess.RO, "a program runs"),
            RegisterField(
                "done", 2, 1, FieldAccess.RO, "the last program ended by END; cleared by start and soft_reset"
            ),
            RegisterField(
                "error",
                3,
                1,
                FieldAccess.RO,
                "the program stopped on an error (ERROR, PC); only soft_reset leaves this state",
            ),
            RegisterField(
                "resetting", 4, 1, FieldAccess.RO, "a soft reset waits for outstanding bus transactions"
            ),
        ),
    ),
    Register(
        "ERROR",
        0x018,
        0,
        "the first error of the run",
        (
            RegisterField("code", 0, 4, FieldAccess.RO, "isa.Error"),
            RegisterField(
                "unit", 8, 3, FieldAccess.RO, "isa.Unit that found it, or that the watchdog found stuck"
            ),
            RegisterField("core", 12, 2, FieldAccess.RO, "number of its core, whose registers have the rest"),
        ),
    ),
    _whole(
        "PC",
        0x01C,
        "byte offset in the program of the last dispatched instruction; after an error, of the faulty one (after "
        "BUS_READ, BUS_WRITE, DECODE and DATA, of the unit's last GO or SIGNAL, before which the faulty one is)",
    ),
    Register(
        "IRQ",
        0x020,
        0,
        "pending interrupts",
        (
            RegisterField("done", 0, 1, FieldAccess.W1C, "a program ended"),
            RegisterField("error", 1, 1, FieldAccess.W1C, "a program stopped on an error"),
        ),
    ),
    Register(
        "UNITS",
        0x024,
        0,
        "what the units are doing now (after an error: where they stand)",
        _unit_bits(0, "busy", "executes something")
        + _unit_bits(8, "waiting", "waits for a semaphore")
        + _unit_bits(16, "queued", "has commands in its queue"),
    ),
    _whole(
        "LOAD_PC",
        0x028,
        "byte offset of the WAIT that LOAD waits at, or of what it took last, but WAIT, PITCH, TENSOR and STREAMS",
    ),
    _whole("ARRAY_PC", 0x02C, "the same of ARRAY"),
    _whole("VECTOR_PC", 0x030, "the same of VECTOR"),
    _whole("STORE_PC", 0x034, "the same of STORE"),
)

_SETUP = (
    _whole(
        "PROGRAM_ADDRESS",
        0x040,
        f"byte offset of the program from MEM_BASE; the sum is a multiple of {WINDOW_ALIGNMENT}",
        FieldAccess.RW,
    ),
    _whole("PROGRAM_BYTES", 0x044, "length of the program, a multiple of 16", FieldAccess.RW),
    _whole(
        "MEM_BASE",
        0x048,
        f"bus address of the memory window, a multiple of {WINDOW_ALIGNMENT}",
        FieldAccess.RW,
        lock="memory",
    ),
    _whole(
        "MEM_SIZE",
        0x04C,
        "bytes of the memory window; MEM_BASE + MEM_SIZE is at most 2**32",
        FieldAccess.RW,
        lock="memory",
    ),
    _whole(
        "WATCHDOG",
        0x050,
        "cycles without progress after which a run ends in the error WATCHDOG; 0 switches it off",
        FieldAccess.RW,
        WATCHDOG_RESET_CYCLES,
    ),
    Register(
        "LOCK",
        0x054,
        0,
        "what the host cannot change any more; a soft reset does not unlock it",
        (RegisterField("memory", 0, 1, FieldAccess.SET, "MEM_BASE and MEM_SIZE ignore writes"),),
    ),
)

COUNTERS: tuple[tuple[str, str], ...] = (
    ("ARRAY_BUSY", "cycles in which ARRAY has a GO under way"),
    ("ARRAY_ACTIVE", "cycles in which ARRAY multiplies"),
    ("ARRAY_STALL_AM", "cycles in which ARRAY waits for a read of the activation memory"),
    ("ARRAY_STALL_VECTOR", "cycles in which ARRAY waits for VECTOR to take accumulators"),
    ("ARRAY_STALL_WEIGHTS", "cycles in which ARRAY waits for streamed weights"),
    ("ARRAY_WAIT", "cycles in which ARRAY waits for a semaphore"),
    ("VECTOR_BUSY", "cycles in which VECTOR executes something"),
    ("VECTOR_ACTIVE", "cycles in which VECTOR issues a vector"),
    ("VECTOR_STALL_AM", "cycles in which VECTOR waits for the activation memory"),
    ("VECTOR_STALL_ARRAY", "cycles in which VECTOR waits for accumulators"),
    ("VECTOR_WAIT", "cycles in which VECTOR waits for a semaphore"),
    ("LOAD_BUSY", "cycles in which LOAD executes something"),
    ("LOAD_BEATS", "beats of W bytes that LOAD received"),
    ("LOAD_STALL_BUS", "cycles in which LOAD waits for a beat it asked for"),
    ("LOAD_STALL_AM", "cycles in which LOAD waits to write the activation memory"),
    ("LOAD_WAIT", "cycles in which LOAD waits for a semaphore"),
    ("STORE_BUSY", "cycles in which STORE executes something"),
    ("STORE_BEATS", "beats of W bytes that STORE sent"),
    ("STORE_STALL_BUS", "cycles in which STORE has a beat that the bus does not take"),
    ("STORE_STALL_AM", "cycles in which STORE waits to read the activation memory"),
    ("STORE_WAIT", "cycles in which STORE waits for a semaphore"),
    ("FETCH_BEATS", "beats of W bytes of program received"),
    ("FETCH_WAIT", "cycles in which the sequencer waits for the program"),
    ("QUEUE_WAIT", "cycles in which the sequencer waits for room in a unit's queue"),
    ("DECODE_ACTIVE", "cycles in which LOAD decodes a block of compressed weights"),
    ("DECODE_HIDDEN", "those of them in which ARRAY multiplies or VECTOR issues a vector"),
)
"""Name and meaning of the 32-bit event counters, in the order of their registers."""

EVENT_COUNTERS = tuple(name.lower() for name, _ in COUNTERS)
"""What they are called in results of runs."""
_COUNTERS_OFFSET = 0x110
_COUNTERS = (
    _whole("CYCLES", 0x080, "cycles the program has run, low half (counters run in STATUS.running and wrap)"),
    _whole("CYCLES_HIGH", 0x084, "high half of CYCLES"),
    *(_whole(name, _COUNTERS_OFFSET + 4 * index, doc) for index, (name, doc) in enumerate(COUNTERS)),
)

_MARKS = (
    _whole("MARK_COUNT", 0x0C0, f"marks recorded (VECTOR_MARK), at most {MARKS}; later ones are dropped"),
    Register(
        "MARK_INDEX",
        0x0C4,
        0,
        "chooses the mark that MARK_LAYER and MARK_CYCLE show",
        (RegisterField("index", 0, (MARKS - 1).bit_length(), FieldAccess.RW, "from 0"),),
    ),
    _whole("MARK_LAYER", 0x0C8, "the mark's layer number; undefined from MARK_COUNT on", reset=None),
    _whole(
        "MARK_CYCLE", 0x0CC, "the low half of CYCLES at the mark; undefined from MARK_COUNT on", reset=None
    ),
)

_DECODE = (
    Register(
        "DECODE_ERROR",
        0x100,
        0,
        "the damaged stream behind an error DECODE",
        (
            RegisterField("code", 0, 4, FieldAccess.RO, "nnr_streams.DecodeError"),
            RegisterField("stream", 8, 2, FieldAccess.RO, "which stream of the block"),
            RegisterField("tensor", 16, 16, FieldAccess.RO, "its number, from LOAD_TENSOR"),
        ),
    ),
    _whole("DECODE_POSITION", 0x104, "bits of the stream read when the fault was found"),
)

REGISTERS: tuple[Register, ...] = tuple(
    sorted(_IDENTITY + _RUN + _SETUP + _COUNTERS + _MARKS + _DECODE, key=lambda register: register.offset)
)
"""All registers by ascending offset."""

REGISTER: dict[str, Register] = {register.name: register for register in REGISTERS}
"""The registers by name."""

CORE_BYTES = 0x400
"""Bytes from a register of a core to the same register of the next core."""
OF_EACH_CORE = (
    "PC",
    "UNITS",
    "LOAD_PC",
    "ARRAY_PC",
    "VECTOR_PC",
    "STORE_PC",
    "PROGRAM_ADDRESS",
    "PROGRAM_BYTES",
    "DECODE_ERROR",
    "DECODE_POSITION",
    *(name for name, _ in COUNTERS),
)
"""Registers that each core has: core i at CORE_BYTES * i behind core 0, which has those above."""


LEAST_ADDRESS_BITS, MOST_ADDRESS_BITS = 32, 64
"""Bits of addresses on the memory port."""
HIGH_BASE = RegisterField("high_base", 5, 1, FieldAccess.RO, "MEM_BASE_HIGH is there")
"""Field of STATUS, which reads 0 in a machine without that register."""


MEM_BASE_HIGH = _whole(
    "MEM_BASE_HIGH",
    0x058,
    "bits of the window's bus address above the 32 of MEM_BASE, of a machine that has them; a start takes them over",
    FieldAccess.RW,
    lock="memory",
)
"""What a machine with addresses of 64 bits has; others have fewer bits of it."""


def _with_high_base(address_bits: int) -> tuple[Register, ...]:
    """The registers with the one that addresses of more than 32 bits need."""
    status, (value,) = REGISTER["STATUS"], MEM_BASE_HIGH.fields
    fewer = dataclasses.replace(value, bits=address_bits - LEAST_ADDRESS_BITS)
    high = dataclasses.replace(MEM_BASE_HIGH, fields=(fewer,))
    changed = [dataclasses.replace(status, fields=(*status.fields, HIGH_BASE)), high]
    others = [register for register in REGISTERS if register is not status]
    return tuple(sorted((*others, *changed), key=lambda register: register.offset))


def of_core(name: str, core: int) -> str:
    """The name of a core's register that is called `name` in core 0."""
    return f"{name}_{core}" if core else name


def registers_of(cores: int, address_bits: int = LEAST_ADDRESS_BITS) -> tuple[Register, ...]:
    """All registers of a machine of `cores` cores whose addresses have `address_bits` bits, by ascending offset."""
    first = REGISTERS if address_bits == LEAST_ADDRESS_BITS else _with_high_base(address_bits)
    others = (
        dataclasses.replace(
            REGISTER[name],
            name=of_core(name, core),
            offset=REGISTER[name].offset + CORE_BYTES * core,
            doc=f"{name} of core {core}",
        )
        for core in range(1, cores)
        for name in sorted(OF_EACH_CORE, key=lambda name: REGISTER[name].offset)
    )
    return (*first, *others)
