"""Bounds-checked reading of flatbuffers.

The `flatbuffers` package trusts its input: a bad offset ends in a traceback, a bad count in a loop. Here
every offset and length is checked before use, and the work a file can cause is bounded by its size: tables
that share their parts may not multiply it (`Reader.charge`).
"""

import struct

import numpy as np

from tosaic.errors import ModelError, UnsupportedError

_OFFSET = struct.Struct("<I")
_SIGNED_OFFSET = struct.Struct("<i")
_VTABLE_ENTRY = struct.Struct("<H")

_WORK_PER_BYTE = 16
_WORK_ALLOWANCE = 1 << 16


class Reader:
    """A flatbuffer in memory and the budget of work it may cause."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self._budget = self.size * _WORK_PER_BYTE + _WORK_ALLOWANCE

    @property
    def identifier(self) -> bytes:
        """The four bytes that name the file format."""
        return bytes(self.data[4:8])

    def root(self) -> "FlatTable":
        """The root table."""
        return FlatTable(self, self.offset(0), "root table")

    def charge(self, amount: int) -> None:
        """Spends `amount` bytes' worth of work; ModelError when the file asks for more than its size allows."""
        self._budget -= amount
        if self._budget < 0:
            raise ModelError("malformed .tosa file: its tables refer to the same data over and over")

    def need(self, start: int, length: int, what: str) -> None:
        """Raises ModelError unless bytes `start` .. `start + length` are in the file."""
        if start < 0 or start + length > self.size:
            raise ModelError(
                f"malformed .tosa file: {what} needs bytes {start} to {start + length}, "
                f"the file has {self.size}"
            )

    def offset(self, position: int) -> int:
        """Follows the forward offset stored at `position`."""
        self.need(position, 4, "an offset")
        return position + _OFFSET.unpack_from(self.data, position)[0]

    def vector(self, position: int, item_bytes: int, what: str) -> tuple[int, int]:
        """First byte and number of items of the vector whose offset is stored at `position`."""
        start = self.offset(position)
        self.need(start, 4, what)
        count = _OFFSET.unpack_from(self.data, start)[0]
        self.need(start + 4, count * item_bytes, what)
        self.charge(count * item_bytes)
        return start + 4, count

    def string(self, position: int, what: str) -> str:
        """The string whose offset is stored at `position`."""
        start, count = self.vector(position, 1, what)
        try:
            return str(self.data[start : start + count], "utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"malformed .tosa file: {what} is not UTF-8 text") from None


class FlatTable:
    """One table. `what` names it in error messages; fields are numbered as in the schema, from 0."""

    __slots__ = ("_fields", "_position", "_reader", "_size", "_vtable", "what")

    def __init__(self, reader: Reader, position: int, what: str) -> None:
        reader.need(position, 4, what)
        vtable = position - _SIGNED_OFFSET.unpack_from(reader.data, position)[0]
        reader.need(vtable, 4, f"the vtable of {what}")
        vtable_bytes, self._size = struct.unpack_from("<HH", reader.data, vtable)
        reader.need(vtable, max(vtable_bytes, 4), f"the vtable of {what}")
        reader.need(position, max(self._size, 4), what)
        reader.charge(4)
        self._reader = reader
        self._position = position
        self._vtable = vtable
        self._fields = (vtable_bytes - 4) // 2
        self.what = what

    def has(self, field: int) -> bool:
        """Returns whether the field is stored (a default value need not be)."""
        return self._locate(field, 1) is not None

    def only(self, known: int) -> "FlatTable":
        """The table itself; UnsupportedError if a field from number `known` on is stored and is not zero.

        A newer schema adds fields behind the known ones, whose defaults are zero.
        """
        data, start = self._reader.data, self._vtable + 4
        if self._fields <= known:
            return self
        self._reader.charge(2 * self._fields + self._size)
        offsets = struct.unpack_from(f"<{self._fields}H", data, start)
        ends = sorted({*offsets, self._size})
        for number, offset in enumerate(offsets[known:]):
            end = next((each for each in ends if each > offset), offset)
            if offset == 0 or not any(data[self._position + offset : self._position + end]):
                continue
            raise UnsupportedError(
                f"{self.what} has the field number {known + number}, which is not at its default; the fields known "
                f"here end before it, so the file is of a newer version of TOSA"
            )
        return self

    def _locate(self, field: int, length: int) -> int | None:
        if field >= self._fields:
            return None
        offset = _VTABLE_ENTRY.unpack_from(self._reader.data, self._vtable + 4 + 2 * field)[0]
        if offset == 0:
            return None
        if offset + length > self._size:
            raise ModelError(f"malformed .tosa file: field {field} of {self.what} lies outside its table")
        return self._position + offset

    def _scalar(self, field: int, layout: struct.Struct, default: int) -> int:
        position = self._locate(field, layout.size)
        return default if position is None else layout.unpack_from(self._reader.data, position)[0]

    def int32(self, field: int, default: int = 0) -> int:
        """A signed 32-bit field."""
        return self._scalar(field, _SIGNED_OFFSET, default)

    def uint32(self, field: int, default: int = 0) -> int:
        """An unsigned 32-bit field (TOSA's enumerations)."""
        return self._scalar(field, _OFFSET, default)

    def uint64(self, field: int, default: int = 0) -> int:
        """An unsigned 64-bit field."""
        return self._scalar(field, struct.Struct("<Q"), default)

    def byte(self, field: int, default: int = 0) -> int:
        """An unsigned 8-bit field (a union's type)."""
        return self._scalar(field, struct.Struct("<B"), default)

    def bool(self, field: int, default: bool = False) -> bool:
        """A boolean field."""
        return bool(self.byte(field, int(default)))

    def float32(self, field: int, default: float = 0.0) -> float:
        """A 32-bit floating-point field."""
        position = self._locate(field, 4)
        return default if position is None else struct.unpack_from("<f", self._reader.data, position)[0]

    def string(self, field: int, default: str = "") -> str:
        """A string field."""
        position = self._locate(field, 4)
        return default if position is None else self._reader.string(position, f"a string of {self.what}")

    def bytes(self, field: int) -> memoryview | None:
        """A byte vector field, not copied; None if absent."""
        position = self._locate(field, 4)
        if position is None:
            return None
        start, count = self._reader.vector(position, 1, f"data of {self.what}")
        return memoryview(self._reader.data)[start : start + count]

    def ints(self, field: int, dtype: str = "<i4") -> list[int]:
        """A vector of integers; empty if absent."""
        position = self._locate(field, 4)
        if position is None:
            return []
        item = np.dtype(dtype)
        start, count = self._reader.vector(position, item.itemsize, f"a list of {self.what}")
        return np.frombuffer(self._reader.data, item, count, start).tolist()

    def strings(self, field: int) -> list[str]:
        """A vector of strings; empty if absent."""
        position = self._locate(field, 4)
        if position is None:
            return []
        start, count = self._reader.vector(position, 4, f"a list of {self.what}")
        name = f"a name in {self.what}"
        return [self._reader.string(start + 4 * index, name) for index in range(count)]

    def table(self, field: int, what: str) -> "FlatTable | None":
        """A table or union field; None if absent."""
        position = self._locate(field, 4)
        return None if position is None else FlatTable(self._reader, self._reader.offset(position), what)

    def tables(self, field: int, what: str) -> "list[FlatTable]":
        """A vector of tables; empty if absent."""
        position = self._locate(field, 4)
        if position is None:
            return []
        start, count = self._reader.vector(position, 4, f"a list of {self.what}")
        return [
            FlatTable(self._reader, self._reader.offset(start + 4 * index), f"{what} {index}")
            for index in range(count)
        ]
