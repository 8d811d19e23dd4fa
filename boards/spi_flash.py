"""The SPI flash beside an FPGA."""

import dataclasses

ADDRESS_BITS = 24


@dataclasses.dataclass(frozen=True)
class SpiFlash:
    """A chip that answers READ (0x03) with an address of 24 bits, as those do from which FPGAs are configured."""

    resource: str
    """What amaranth_boards calls it."""
    offset: int
    """Offset in bytes of the boot image, which follows the bitstream."""
    configuration_clock: bool = False
    """Says that the flash's clock is that of the FPGA's configuration, which a cell drives afterwards (ECP5:
    USRMCLK)."""

    def __post_init__(self) -> None:
        if not 0 <= self.offset < 1 << ADDRESS_BITS:
            raise ValueError(f"offset must be an address of {ADDRESS_BITS} bits, not {self.offset:#x}")
