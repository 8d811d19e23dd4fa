"""Tensor files: every algorithm and width, against the formulas of 5.2 and files written by hand."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.compiler.importers.nnef.bit_stream import pack, unpack
from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, read_tensor, write_tensor


def test_layout_of_the_header() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = b"\x4e\xef\x01\x00" + struct.pack("<II8I", 24, 2, 2, 3, 0, 0, 0, 0, 0, 0)
    expected += struct.pack("<IHH", 32, 0, 0) + bytes(32 + 44) + values.tobytes()
    assert write_tensor(values, ItemEncoding(Algorithm.FLOAT, 32)) == expected


def test_layout_of_a_quantized_header() -> None:
    data = write_tensor(np.array([0.0, 1.0]), ItemEncoding(Algorithm.LINEAR, 4, minimum=-1.0, maximum=1.0))
    assert data[44:60] == struct.pack("<IHHff", 4, 0, 0x10, -1.0, 1.0) and data[128:] == b"\x8f"


@pytest.mark.parametrize(
    ("bits", "items", "data"),
    [
        (1, [1, 0, 1, 1, 0, 0, 0, 1, 1], "b180"),
        (4, [1, 15, 7], "1f70"),
        (5, [1, 31, 0, 16], "0fc100"),
        (8, [1, 255], "01ff"),
        (12, [0xABC, 0xDEF], "abcdef"),
        (16, [0x1234], "3412"),
        (24, [0x123456, 1], "563412010000"),
        (32, [0x12345678], "78563412"),
        (64, [1 << 63], "0000000000000080"),
    ],
)
def test_bit_streams(bits: int, items: list[int], data: str) -> None:
    """Whole bytes little-endian, other widths from the most significant bit on."""
    packed = bytes.fromhex(data).ljust((len(items) * bits + 7) // 8, b"\0")
    assert pack(np.array(items, np.uint64), bits) == packed
    found, clean = unpack(packed, len(items), bits)
    assert found.tolist() == items and clean


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 64), st.booleans(), st.data())
def test_integers_of_every_width(bits: int, signed: bool, data: st.DataObject) -> None:
    low = -(2 ** (bits - 1)) if signed else 0
    items = data.draw(st.lists(st.integers(low, low + 2**bits - 1), min_size=1, max_size=20))
    values = np.array(items, np.int64 if signed else np.uint64)
    encoding = ItemEncoding(Algorithm.INTEGER, bits, signed)
    found, read = read_tensor(write_tensor(values, encoding), "v.dat")
    assert found.tolist() == items and read == encoding
    assert found.dtype.itemsize * 8 == next(width for width in (8, 16, 32, 64) if bits <= width)


def test_many_items_are_packed_in_chunks() -> None:
    items = np.random.default_rng(1).integers(0, 1 << 11, 200_003).astype(np.uint16)
    found, _ = read_tensor(write_tensor(items, ItemEncoding(Algorithm.INTEGER, 11)), "v.dat")
    assert np.array_equal(found, items)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_floats(bits: int) -> None:
    values = np.array([[0.0, -1.5], [np.inf, 2.0**-14]], f"f{bits // 8}")
    found, _ = read_tensor(write_tensor(values, ItemEncoding(Algorithm.FLOAT, bits)), "v.dat")
    assert found.dtype == values.dtype and np.array_equal(found, values)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.floats(-100, 99, width=32), st.floats(0.5, 100, width=32), st.data())
def test_linear_quantization(bits: int, low: float, span: float, data: st.DataObject) -> None:
    """Decoding is q/r*(max-min)+min, and encoding finds the nearest code of a clamped value."""
    high = float(np.float32(low + span))
    encoding = ItemEncoding(Algorithm.LINEAR, bits, minimum=low, maximum=high)
    x = data.draw(st.lists(st.floats(low - 10, high + 10), min_size=1, max_size=10))
    found, _ = read_tensor(write_tensor(np.array(x), encoding), "v.dat")
    r = 2**bits - 1
    for given_value, value in zip(x, found, strict=True):
        q = math.floor(min(max((given_value - low) / (high - low), 0.0), 1.0) * r + 0.5)
        assert value == np.float32(q / r * (high - low) + low)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 10), st.booleans(), st.floats(2.0**-5, 100, width=32), st.data())
def test_logarithmic_quantization(bits: int, signed: bool, high: float, data: st.DataObject) -> None:
    """x = 2^(q + m - r) with m = ceil(log2 max); a sign takes one of the bits."""
    encoding = ItemEncoding(Algorithm.LOGARITHMIC, bits, minimum=-high if signed else 0.0, maximum=high)
    x = data.draw(st.lists(st.floats(2.0**-20, 200), min_size=1, max_size=10))
    x = [-value if signed and i % 2 else value for i, value in enumerate(x)]
    found, read = read_tensor(write_tensor(np.array(x), encoding), "v.dat")
    assert read.sign_bit == signed
    r = 2 ** (bits - signed) - 1
    m = math.ceil(math.log2(high))
    for given_value, value in zip(x, found, strict=True):
        exponent = math.floor(min(max(math.log2(abs(given_value)), m - r), m) - (m - r) + 0.5) + m - r
        assert value == np.float32(math.copysign(2.0**exponent, given_value))


def test_logarithmic_codes_by_hand() -> None:
    encoding = ItemEncoding(Algorithm.LOGARITHMIC, 4, minimum=-4.0, maximum=4.0)
    data = write_tensor(np.array([4.0, -4.0, 1.0, -0.03125, 0.0]), encoding)
    assert data[128:].hex() == "7f5800"
    assert read_tensor(data, "v.dat")[0].tolist() == [4.0, -4.0, 1.0, -0.03125, 0.03125]


def test_integers_that_do_not_fit_are_refused() -> None:
    for values, encoding in (
        (np.array([8]), ItemEncoding(Algorithm.INTEGER, 3)),
        (np.array([-1]), ItemEncoding(Algorithm.INTEGER, 3)),
        (np.array([4]), ItemEncoding(Algorithm.INTEGER, 3, signed=True)),
        (np.array([0.5]), ItemEncoding(Algorithm.INTEGER, 8)),
    ):
        with pytest.raises(NnefError, match="3-bit|8-bit"):
            write_tensor(values, encoding)
    for values in (np.zeros((1,) * 9), np.zeros((0, 3)), np.array([np.nan])):
        with pytest.raises(NnefError):
            write_tensor(values, ItemEncoding(Algorithm.LINEAR, 8, minimum=0.0, maximum=1.0))
