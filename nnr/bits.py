"""Bits in the order of the syntax tables: most significant first (6.2), with the descriptors of 6.3."""

import struct

from tosaic.nnr.errors import NnrError


class BitReader:
    """Reads syntax elements from `data[start:end]`; `origin` names that piece in messages."""

    def __init__(self, data: bytes, start: int, end: int, origin: str) -> None:
        self._data, self._end_bits, self._origin = data, 8 * end, origin
        self._bits = 8 * start

    @property
    def position(self) -> int:
        """Position of the next byte; only where the pointer is on a byte boundary."""
        assert self.byte_aligned
        return self._bits >> 3

    @property
    def byte_aligned(self) -> bool:
        """Whether the position is byte_aligned()."""
        return self._bits & 7 == 0

    def error(self, message: str) -> NnrError:
        """An NnrError that says where the reader is."""
        return NnrError(f"{self._origin}, byte {self._bits >> 3}: {message}")

    def u(self, count: int, element: str) -> int:
        """u(n): an unsigned integer of `count` bits; `element` is the syntax element's name."""
        start, end = self._bits, self._bits + count
        if end > self._end_bits:
            raise self.error(f"the unit ends inside {element}")
        first, last = start >> 3, (end + 7) >> 3
        value = int.from_bytes(self._data[first:last], "big") >> (8 * last - end)
        self._bits = end
        return value & ((1 << count) - 1)

    def i(self, count: int, element: str) -> int:
        """Reads i(n): two's complement."""
        value = self.u(count, element)
        return value - (1 << count) if value >> (count - 1) else value

    def flag(self, element: str) -> bool:
        """Reads u(1)."""
        return bool(self.u(1, element))

    def octets(self, count: int, element: str) -> bytes:
        """`count` whole bytes from a byte boundary."""
        start = self.position
        if 8 * (start + count) > self._end_bits:
            raise self.error(f"the unit ends inside {element}")
        self._bits += 8 * count
        return self._data[start : start + count]

    def rest(self) -> bytes:
        """Every byte up to the end."""
        return self.octets((self._end_bits >> 3) - self.position, "payload")

    def flt32(self, element: str) -> float:
        """Reads flt(32): IEEE 754 single precision, little endian."""
        return struct.unpack("<f", self.octets(4, element))[0]

    def flt32_list(self, count: int, element: str) -> tuple[float, ...]:
        """Reads `count` times flt(32)."""
        return struct.unpack(f"<{count}f", self.octets(4 * count, element))

    def st(self, element: str) -> str:
        """Reads st(v): UTF-8 up to the next byte 0x00."""
        end = self._data.find(b"\0", self.position, self._end_bits >> 3)
        if end < 0:
            raise self.error(f"{element} has no terminating 0x00")
        text = self.octets(end - self.position, element)
        self._bits += 8
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise self.error(f"{element} is not UTF-8") from None

    def byte_alignment(self) -> None:
        """byte_alignment(): a 1 and zeros to the next boundary; a whole byte 0x80 when aligned already (E-33)."""
        bits = 8 - (self._bits & 7)
        if self.u(bits, "byte_alignment()") != 1 << (bits - 1):
            raise self.error("byte_alignment() is not a 1 followed by zeros")


class BitWriter:
    """Writes syntax elements; `octets()` returns them."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._value = 0
        self._bits = 0

    def u(self, count: int, value: int, element: str) -> None:
        """u(n); raises NnrError when `value` needs more than `count` bits."""
        if not 0 <= value < 1 << count:
            raise NnrError(f"{element} {value} does not fit {count} bits")
        self._value = (self._value << count) | value
        self._bits += count
        whole = self._bits >> 3
        self._bits &= 7
        self._data += (self._value >> self._bits).to_bytes(whole, "big")
        self._value &= (1 << self._bits) - 1

    def i(self, count: int, value: int, element: str) -> None:
        """Writes i(n): two's complement."""
        if not -(1 << (count - 1)) <= value < 1 << (count - 1):
            raise NnrError(f"{element} {value} does not fit {count} bits")
        self.u(count, value & ((1 << count) - 1), element)

    def octets(self, data: bytes = b"") -> bytes:
        """Append whole bytes; everything written so far."""
        assert self._bits == 0
        self._data += data
        return bytes(self._data)

    def flt32(self, value: float) -> None:
        """Writes flt(32), little endian."""
        self.octets(struct.pack("<f", value))

    def st(self, text: str, element: str) -> None:
        """st(v); raises NnrError when the text itself holds a 0x00."""
        if "\0" in text:
            raise NnrError(f"{element} {text!r} holds a 0x00, which ends a string")
        self.octets(text.encode() + b"\0")

    def byte_alignment(self) -> None:
        """Writes byte_alignment()."""
        bits = 8 - self._bits
        self.u(bits, 1 << (bits - 1), "byte_alignment()")
