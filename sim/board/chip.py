"""The SDRAM of a virtual board: its setting and what it tells, as sdram_chip.h has them."""

import ctypes
import dataclasses

RULES = (
    "ACTIVE to READ or WRITE (tRCD)",
    "PRECHARGE to the next command of the bank (tRP)",
    "ACTIVE to PRECHARGE (tRAS)",
    "ACTIVE to ACTIVE of a bank (tRC)",
    "ACTIVE to ACTIVE of another bank (tRRD)",
    "REFRESH to the next command (tRFC)",
    "LOAD MODE REGISTER to the next command (tMRD)",
    "WRITE to PRECHARGE (tWR)",
    "the wait after power-up",
    "the start: PRECHARGE of all banks, refreshes, LOAD MODE REGISTER",
    "a bank must be closed",
    "a bank must be open",
    "every row must be refreshed in time",
    "one side at a time drives the data",
    "the mode: single accesses of the latency that the controller is made for",
)
"""What is broken, in the order of sdram_chip.h's Rule."""


@dataclasses.dataclass(frozen=True)
class ChipSetting:
    """An SDR SDRAM. Times are cycles of its clock."""

    row_bits: int
    bank_bits: int
    column_bits: int
    data_bits: int
    """Bits of the data bus: 16 or 32."""
    cas_latency: int
    rcd: int
    rp: int
    ras: int
    rc: int
    rrd: int
    rfc: int
    wr: int
    mode: int
    power_up: int
    refreshes: int
    refresh: int
    """Cycles in which every row must be refreshed once."""

    @property
    def memory_bytes(self) -> int:
        return (self.data_bits // 8) << (self.row_bits + self.bank_bits + self.column_bits)


class ChipSettingC(ctypes.Structure):
    """The same for the library."""

    _fields_ = [
        *((field.name, ctypes.c_uint32) for field in dataclasses.fields(ChipSetting)[:-1]),
        ("refresh", ctypes.c_uint64),
    ]


class BrokenC(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_uint32),
        ("rule", ctypes.c_uint32),
        ("bank", ctypes.c_uint32),
        ("cycle", ctypes.c_uint64),
    ]


@dataclasses.dataclass(frozen=True)
class ChipReport:
    """`broken`: how many rules its controller has broken; `first` tells of the first one."""

    broken: int
    first: str
    reads: int
    writes: int
    activates: int
    refreshes: int


def report_of(broken: BrokenC, commands: ctypes.Array) -> ChipReport:
    first = f"{RULES[broken.rule]}, bank {broken.bank}, in cycle {broken.cycle}" if broken.count else ""
    return ChipReport(broken.count, first, *commands)
