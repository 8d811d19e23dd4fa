"""Reads a section of what the linker made. The compiler's own `objcopy` compiles itself at its first start, which takes
ten times as long as the firmware."""

import struct

_HEADER = struct.Struct("<16s2H5I6H")
_SECTION = struct.Struct("<10I")
_IDENTITY = b"\x7fELF\x01\x01"
"""32 bits, the least significant byte first."""


def elf_section(file: bytes, name: str) -> bytes:
    """The content of a section of a 32-bit file; ValueError where there is none of that name."""
    if file[: len(_IDENTITY)] != _IDENTITY:
        raise ValueError("this is no ELF file of 32 bits, little-endian")
    _, _, _, _, _, _, table, _, _, _, _, size, count, names = _HEADER.unpack_from(file)
    sections = [_SECTION.unpack_from(file, table + size * number) for number in range(count)]
    texts = _content(file, sections[names])
    for section in sections:
        first = section[0]
        if texts[first : texts.index(b"\0", first)] == name.encode():
            return _content(file, section)
    raise ValueError(f"there is no section {name}")


def _content(file: bytes, section: tuple[int, ...]) -> bytes:
    offset, size = section[4:6]
    return file[offset : offset + size]
