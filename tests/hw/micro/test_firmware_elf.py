"""Sections of an ELF file, made by hand."""

import struct

import pytest

from tosaic.hw.micro.firmware.elf import elf_section

NAMES = b"\0.text\0.shstrtab\0"
CODE = b"\x13\x00\x00\x00\x6f\x00"
HEADER_BYTES, ROW_BYTES = 52, 40


def file(identity: bytes = b"\x7fELF\x01\x01\x01") -> bytes:
    """The header, the table of an empty section, the names and the code, and what these two hold."""
    contents = HEADER_BYTES + 3 * ROW_BYTES
    header = struct.pack(
        "<16s2H5I6H", identity, 2, 243, 1, 0, 0, HEADER_BYTES, 0, HEADER_BYTES, 0, 0, ROW_BYTES, 3, 1
    )
    rows = [(0, 0, 0, 0, 0, 0), (7, 3, 0, 0, contents, len(NAMES))]
    rows.append((1, 1, 6, 0x8000, contents + len(NAMES), len(CODE)))
    table = b"".join(struct.pack("<10I", *row, 0, 0, 1, 0) for row in rows)
    return header + table + NAMES + CODE + b"behind"


def test_a_section_is_found_by_its_name():
    assert elf_section(file(), ".text") == CODE
    assert elf_section(file(), ".shstrtab") == NAMES


def test_what_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"^there is no section \.data$"):
        elf_section(file(), ".data")
    with pytest.raises(ValueError, match="^this is no ELF file of 32 bits, little-endian$"):
        elf_section(file(b"\x7fELF\x02\x01\x01"), ".text")
