"""Addresses: a memory, and a byte offset in it. What the offset counts from is settled when the image is laid out."""

import dataclasses
import enum


class Region(enum.Enum):
    """A memory, or a part of external memory."""

    ACTIVATION = "activation memory"
    WEIGHT = "weight memory"
    CONSTANTS = "constants in external memory"
    DATA = "inputs, outputs and spilled tensors in external memory"
    UNPACKED = "weights in external memory that the boot part decodes, once"
    CODED = "weights that external memory holds only as coded blocks; no instruction has such an address"

    # Enum's own hash is that of the name, by a function in Python.
    __hash__ = object.__hash__


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Byte `offset` of `region`."""

    region: Region
    offset: int

    def __add__(self, size_bytes: int) -> "Address":
        return Address(self.region, self.offset + size_bytes)

    def __sub__(self, other: "Address") -> int:
        """Bytes from `other`, of the same region, to here."""
        assert self.region is other.region
        return self.offset - other.offset

    def span(self, size_bytes: int) -> "Span":
        """The `size_bytes` bytes from here on."""
        return Span(self.region, self.offset, self.offset + size_bytes)


@dataclasses.dataclass(frozen=True, slots=True)
class Columns:
    """Some channels of all pixels: `count` times `width` bytes of every `pitch` bytes, counted from address
    0, from byte `first` on, `step` apart.
    """

    pitch: int
    first: int
    width: int
    step: int = 0
    count: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Bytes [start, end) of a region, or only those of `columns`."""

    region: Region
    start: int
    end: int
    columns: Columns | None = None


def activation_span(start: int, end: int) -> Span:
    """Bytes [start, end) of the activation memory."""
    return Span(Region.ACTIVATION, start, end)
