"""Memory chips, as their data sheets have them."""

import dataclasses
import math

COMMAND_GAPS_NS = ("rcd", "rp", "ras", "rc", "rrd", "rfc", "wr")


@dataclasses.dataclass(frozen=True)
class SdrChip:
    """An SDR SDRAM. Times in nanoseconds; the gaps are the least from one command to another."""

    module: str
    """What LiteDRAM calls it."""
    row_bits: int = 13
    bank_bits: int = 2
    column_bits: int = 9
    data_bits: int = 16
    cas_latency: int = 2
    """Cycles from READ to its data."""
    rcd: float = 20
    """ACTIVE to READ or WRITE."""
    rp: float = 20
    """PRECHARGE to ACTIVE or REFRESH."""
    ras: float = 44
    """ACTIVE to PRECHARGE."""
    rc: float = 66
    """ACTIVE to ACTIVE of a bank."""
    rrd: float = 15
    """ACTIVE of a bank to ACTIVE of another one."""
    rfc: float = 66
    """REFRESH to ACTIVE or REFRESH."""
    wr: float = 15
    """Last data of a WRITE to PRECHARGE."""
    mode_cycles: int = 2
    """Cycles from LOAD MODE REGISTER to ACTIVE."""
    power_up_ns: float = 200_000
    """Nanoseconds from a stable clock to the first command."""
    refreshes: int = 8
    """REFRESHes before the first ACTIVE."""
    refresh_ns: float = 64e6
    """The longest time between two refreshes of a row."""

    @property
    def memory_bytes(self) -> int:
        return (self.data_bits // 8) << (self.row_bits + self.bank_bits + self.column_bits)

    @property
    def mode(self) -> int:
        """The mode register: single accesses."""
        return self.cas_latency << 4

    def gaps(self, clock_hz: float) -> dict[str, int]:
        """COMMAND_GAPS_NS in cycles of a clock."""
        return {name: math.ceil(getattr(self, name) * 1e-9 * clock_hz - 1e-9) for name in COMMAND_GAPS_NS}


M12L64322A = SdrChip("M12L64322A", row_bits=11, column_bits=8, data_bits=32, wr=74)
"""64 Mbit, 32 bits wide, as it is in the package of a GW2AR-18. Gowin names no maker; LiteX's board takes this one for
it. Gaps are those of slower chips, and `wr` is two cycles of 27 MHz, which some makers ask for whatever the clock."""
MT48LC16M16 = SdrChip("MT48LC16M16")
"""256 Mbit. The ULX3S is sold with this size and larger ones, of several makers: power_up_ns and refreshes are those of
the slowest of them, the gaps those of speed grade -75, which all of them keep."""
