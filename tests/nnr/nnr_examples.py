"""Small units and bytes that several tests of the NNR codec look at."""

import struct
from collections.abc import Sequence

import numpy as np

from tosaic.nnr import encode_float_tensor, encode_tensor, read_units, write_unit
from tosaic.nnr.units import DataUnit, ModelParameterSet, StartUnit, Unit

LEVELS = np.arange(6).reshape(2, 3) - 3
TENSOR = DataUnit(0, ("a",), encode_tensor(LEVELS), (2, 3), 10)
FLOATS = DataUnit(1, ("f",), encode_float_tensor(LEVELS, -9), (2, 3))
START = write_unit(StartUnit())
PARAMETERS = write_unit(ModelParameterSet())


def unit_bytes(kind: int, body: bytes, counter: int = 0, flags: int = 0) -> bytes:
    """nnr_unit() with the 15-bit size, spelled out."""
    return struct.pack(">HBBB", 5 + len(body), kind, counter, flags) + body


def read(data: bytes) -> list[Unit]:
    """The units of a bitstream; of aggregates too."""
    return [placed.unit for placed in read_units(data)]


def reread(unit: Unit) -> Unit:
    """A unit written, and read after NNR_STR."""
    return read(START + write_unit(unit))[1]


def packed(*fields: tuple[int, int]) -> bytes:
    """Bits of (count, value) pairs, most significant first, with zeros up to the byte."""
    bits = "".join(f"{value & ((1 << count) - 1):0{count}b}" for count, value in fields)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def little_floats(values: Sequence[float]) -> bytes:
    """flt(32) each."""
    return struct.pack(f"<{len(values)}f", *values)
