"""The image from which boards start a program without a host: what gateware, driver and docs share.

A head of two words, records, and a CRC-32 (that of zlib) of all before it. Words are little endian. The head is MAGIC
and the number of bytes of the records. A record is a head of three words (kind, address, number of bytes of data) and
its data. The hardware (boards/soc/flash_boot.py) reads the image twice: first it only checks it, so that of a damaged
one nothing is used.
"""

import dataclasses
import enum
import struct
import zlib
from collections.abc import Sequence

MAGIC = 0x42465354
"""ASCII "TSFB" as little-endian bytes."""
MAX_BYTES = 1 << 24
HEAD = struct.Struct("<II")
RECORD_HEAD = struct.Struct("<III")
CRC_BYTES = 4
BOOT_CODE, BOOT_CRC = 0xFF8, 0xFFC
"""Registers of a board that boots from flash, in the window of the machine's own: the BootCode, which a host may set to
LEFT; the CRC-32 of the image that was read."""


class RecordKind(enum.IntEnum):
    MEMORY = 1  # the data go to external memory, at a bus address
    REGISTERS = 2  # the data, words, go to registers, from an offset on
    RUN = 3  # wait for the end of the program that runs


class BootCode(enum.IntEnum):
    """How far the board is. From NO_IMAGE on, the host has the machine."""

    BOOTING = 0
    DONE = 1
    LEFT = 2  # there was an image, but a host has loaded something else since, or reset the board
    NO_IMAGE = 3  # the flash begins with something else there, or does not answer
    DAMAGED = 4  # the CRC-32, or the length in the head
    BAD_RECORD = 5  # a kind that there is not, or a length that does not fit
    NO_MEMORY = 6  # a byte outside of external memory
    NO_REGISTER = 7  # a register that does not take the write
    PROGRAM_FAILED = 8  # its registers say why

    @property
    def is_fault(self) -> bool:
        """It is blinked, by its number."""
        return self >= BootCode.DAMAGED


@dataclasses.dataclass(frozen=True)
class BootRecord:
    kind: RecordKind
    address: int = 0
    data: bytes = b""

    def to_bytes(self) -> bytes:
        return RECORD_HEAD.pack(self.kind, self.address, len(self.data)) + self.data


def boot_image(records: Sequence[BootRecord]) -> bytes:
    """The bytes to be written at the flash's offset; ValueError where they are more than it can address."""
    body = b"".join(record.to_bytes() for record in records)
    if len(body) >= MAX_BYTES:
        raise ValueError(f"the records take {len(body)} bytes, a boot image has less than {MAX_BYTES}")
    image = HEAD.pack(MAGIC, len(body)) + body
    return image + zlib.crc32(image).to_bytes(CRC_BYTES, "little")


def image_crc32(image: bytes) -> int:
    """Returns the value of BOOT_CRC after this image was read."""
    return int.from_bytes(image[-CRC_BYTES:], "little")
