"""What the core of the micro-coded machine finds where: gateware, linker script and C header derive from this.

All is little endian; the core accesses aligned bytes, half-words and words.
"""

import dataclasses

from tosaic.hw.config import Config

ROM_BASE = 0x0000_0000
"""Firmware: code and constants, block RAM that the bitstream fills, read only. The core starts at its first word."""
ROM_BYTES = 12 << 10
RAM_BASE = 0x1000_0000
"""The single-port RAM. It is not initialised, and keeps its content over every reset."""
RAM_BYTES = 128 << 10
"""The most there can be of it, and what there is without a memory outside."""
EXTERNAL_BASE = 0x4000_0000
"""Memory outside of the machine, where there is one (`MemoryMap.external_bytes`)."""
PORT_BASE = 0x2000_0000
"""The hardware's own registers, below."""
REGISTERS_BYTES = 1024
"""The end of the RAM: the register file that the host sees, one word at each offset of `csr_map`. The host reads and
writes it there without the firmware; CONTROL, STATUS, IRQ, CYCLES, CYCLES_HIGH and LOCK are the hardware's, their words
in the RAM mean nothing. The host's accesses wait until the firmware is READY."""

PORT_EVENTS = 0x0
"""Offset from PORT_BASE; reads as EVENT_* bits, takes SIGNAL_* bits."""
EVENT_RUN = 1 << 0
"""STATUS.running: the host wrote CONTROL.start; until the firmware says DONE or FAILED."""
EVENT_COLD = 1 << 1
"""The core starts from power-up or the bridge's RESET: the fields that the host writes get their reset values. 0: from
CONTROL.soft_reset, which keeps them."""
SIGNAL_READY = 1 << 0
"""After a reset: the register file is as it should be. STATUS gets idle; the host's accesses go on."""
SIGNAL_DONE = 1 << 1
"""The program ended: STATUS gets idle and done, IRQ done."""
SIGNAL_FAILED = 1 << 2
"""The program failed, ERROR is written: STATUS gets error, IRQ error. The next thing is a reset."""
PORT_CYCLES = 0x4
"""Offset from PORT_BASE: the low half of CYCLES, read only: clock cycles of the run, from 0 at its start."""

DATA_BYTES = 8 << 10
"""The least RAM for the firmware's variables and stack."""
WINDOW_GRANULE_BYTES = 1024
"""The external memory is a multiple of this."""


@dataclasses.dataclass(frozen=True)
class MemoryMap:
    """The RAM of a configuration: external memory, activation memory, weight memory, data, register file.

    `external_bytes`: the external memory is this much outside, at EXTERNAL_BASE, and the RAM is what the rest needs.
    """

    config: Config
    external_bytes: int = 0

    def __post_init__(self) -> None:
        if self.external_bytes & (self.external_bytes - 1) or self.external_bytes > EXTERNAL_BASE:
            raise ValueError(
                f"external_bytes must be a power of two up to {EXTERNAL_BASE}, or 0, not {self.external_bytes}"
            )
        if self.ram_bytes > RAM_BYTES:
            raise ValueError(
                f"am_bytes + wm_bytes of {self.config.name} do not fit into a RAM of {RAM_BYTES} bytes"
            )
        if self.window_bytes <= 0:
            raise ValueError(
                f"am_bytes + wm_bytes of {self.config.name} leave no external memory in {RAM_BYTES} bytes"
            )

    @property
    def _used_bytes(self) -> int:
        """Of the RAM, without external memory."""
        return REGISTERS_BYTES + DATA_BYTES + self.config.am_bytes + self.config.wm_bytes

    @property
    def ram_bytes(self) -> int:
        """A power of two, so that the register file's words are found by the low bits of their addresses."""
        return 1 << (self._used_bytes - 1).bit_length() if self.external_bytes else RAM_BYTES

    @property
    def window_base(self) -> int:
        """Bus address of the external memory, for the host and for the core."""
        return EXTERNAL_BASE if self.external_bytes else RAM_BASE

    @property
    def window_bytes(self) -> int:
        rest = RAM_BYTES - self._used_bytes
        return self.external_bytes or rest - rest % WINDOW_GRANULE_BYTES

    @property
    def am_base(self) -> int:
        return RAM_BASE if self.external_bytes else self.window_base + self.window_bytes

    @property
    def wm_base(self) -> int:
        return self.am_base + self.config.am_bytes

    @property
    def data_base(self) -> int:
        """Variables upwards from here, the stack downwards from `registers_base`."""
        return self.wm_base + self.config.wm_bytes

    @property
    def data_bytes(self) -> int:
        return self.registers_base - self.data_base

    @property
    def registers_base(self) -> int:
        return RAM_BASE + self.ram_bytes - REGISTERS_BYTES
