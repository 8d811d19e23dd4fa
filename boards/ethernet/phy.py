"""How a board is connected to Ethernet."""

import dataclasses
import enum
import ipaddress


class Phy(enum.Enum):
    """The interface of the PHY beside the FPGA."""

    MII = "mii"  # 100 Mbit/s, four bits per cycle of 25 MHz
    RGMII = "rgmii"  # 1 Gbit/s, four bits per edge of 125 MHz

    @property
    def clock_hz(self) -> float:
        return 25e6 if self is Phy.MII else 125e6


@dataclasses.dataclass(frozen=True)
class Ethernet:
    """A PHY, and the addresses of the board behind it."""

    phy: Phy
    resource: str
    """What amaranth_boards calls it."""
    reference_clock: str = ""
    """What amaranth_boards calls the pin by which the FPGA gives the PHY its clock; empty: the PHY has a crystal."""
    ip: str = "192.168.1.50"
    mac: int = 0x02_54_4F_53_00_01
    """A locally administered one: two boards on one network need two."""

    def __post_init__(self) -> None:
        ipaddress.IPv4Address(self.ip)
        if not 0 < self.mac < 1 << 48 or self.mac >> 40 & 1:
            raise ValueError(f"mac must be the address of one station, not {self.mac:#x}")

    @property
    def ip_number(self) -> int:
        return int(ipaddress.IPv4Address(self.ip))
