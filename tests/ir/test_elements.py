"""Element types and their stored form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tosaic.compiler.ir import DType
from tosaic.compiler.ir.elements import decode, encode, stored_bytes
from tosaic.errors import ModelError, ModelWarning

INTEGERS = [dtype for dtype in DType if dtype.is_integer]


def round_trip(dtype: DType, values: np.ndarray) -> np.ndarray:
    data = encode(dtype, values)
    assert len(data) == stored_bytes(dtype, values.size)
    return decode(dtype, values.shape, memoryview(data), "test")


@pytest.mark.long
@pytest.mark.parametrize("dtype", INTEGERS)
@given(data=st.data())
def test_integers_round_trip(dtype: DType, data: st.DataObject) -> None:
    listed = data.draw(st.lists(st.integers(dtype.min, dtype.max), min_size=1, max_size=9))
    again = round_trip(dtype, np.array(listed, dtype.numpy))
    assert again.dtype == dtype.numpy
    assert again.tolist() == listed


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_booleans_round_trip(listed: list[bool]) -> None:
    assert round_trip(DType.BOOL, np.array(listed, bool)).tolist() == listed


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9))
def test_floats_round_trip(listed: list[float]) -> None:
    assert round_trip(DType.FP32, np.array(listed, np.float32)).tolist() == listed


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8E4M3, DType.FP8E5M2, DType.FP16])
def test_short_floats_round_trip(dtype: DType) -> None:
    codes = np.arange(256, dtype=np.uint8)
    stored = codes.tobytes() if dtype.bits == 8 else np.arange(0, 1 << 16, 97, dtype="<u2").tobytes()
    count = len(stored) * 8 // dtype.bits
    values = decode(dtype, (count,), memoryview(stored), "test")
    again = decode(dtype, (count,), memoryview(encode(dtype, values)), "test")
    assert np.array_equal(values, again, equal_nan=True)


def test_known_bytes() -> None:
    assert encode(DType.INT4, np.array([1, -2, 7])) == b"\xe1\x07"
    assert decode(DType.INT4, (3,), memoryview(b"\xe1\x07"), "t").tolist() == [1, -2, 7]
    assert encode(DType.INT48, np.array([-2])) == b"\xfe\xff\xff\xff\xff\xff"
    assert decode(DType.INT48, (1,), memoryview(b"\x00\x00\x00\x00\x00\x80"), "t").tolist() == [-(1 << 47)]
    assert decode(DType.BOOL, (2,), memoryview(b"\x00\x02"), "t").tolist() == [False, True]
    assert decode(DType.FP8E4M3, (3,), memoryview(b"\x38\x7e\xb8"), "t").tolist() == [1.0, 448.0, -1.0]
    assert decode(DType.FP8E5M2, (3,), memoryview(b"\x3c\x7b\xfc"), "t").tolist() == [1.0, 57344.0, -np.inf]
    assert decode(DType.BF16, (1,), memoryview(b"\x80\x3f"), "t").tolist() == [1.0]


def test_padding_to_8_bytes_is_accepted_and_nothing_else() -> None:
    for size in range(3, 9):
        assert decode(DType.INT8, (3,), memoryview(bytes(size)), "w").tolist() == [0, 0, 0]
    assert decode(DType.SHAPE, (0,), memoryview(bytes(8)), "s").tolist() == []
    for size in (0, 2, 9):
        with pytest.raises(ModelError, match=rf"w \(int8\[3\]\) has {size} bytes of data, it needs 3"):
            decode(DType.INT8, (3,), memoryview(bytes(size)), "w")


@pytest.mark.parametrize(
    ("dtype", "stored", "value"),
    [
        (DType.INT8, bytes([5] * 16), 5),
        (DType.INT8, bytes([5] * 3), 5),
        (DType.INT8, bytes([251] * 10 + [0] * 6), -5),
        (DType.INT8, bytes(16), 0),
        (DType.INT16, bytes([0, 128] * 9), -32768),
        (DType.INT48, bytes([1, 0, 0, 0, 0, 0] * 4), 1),
    ],
)
def test_equal_values_stand_for_one(dtype: DType, stored: bytes, value: int) -> None:
    """ExecuTorch stores the zero points of all channels under shape [1]."""
    with pytest.warns(ModelWarning, match=r"shape \[1\] holds several equal values, the first is taken"):
        assert decode(dtype, (1,), memoryview(stored), "w").tolist() == [value]


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [
        (DType.INT8, bytes([5] * 15 + [4])),
        (DType.INT8, bytes([5, 4, 0, 0, 0, 0, 0, 0])),
        (DType.INT8, bytes([5] * 8 + [0] * 8)),
        (DType.INT8, bytes([5] * 8 + [0] * 7)),
        (DType.INT16, bytes([5, 0] * 4 + [5])),
    ],
)
def test_different_values_do_not_stand_for_one(dtype: DType, stored: bytes) -> None:
    message = rf"\[1\]\) has {len(stored)} bytes of data, it needs \d; .* only if they are equal"
    with pytest.raises(ModelError, match=message):
        decode(dtype, (1,), memoryview(stored), "w")


@pytest.mark.parametrize("shape", [(0,), (4, 1 << 31, 1 << 31, 0), (1,) * 33, (1,) * 1000])
def test_shapes_that_no_constant_has(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="w: a constant must have rank 0 to 32 and at least one element"):
        decode(DType.INT8, shape, memoryview(bytes(8)), "w")


def test_a_value_that_fp8_lacks() -> None:
    with pytest.raises(ModelError, match=r"1\.1\d* is not a value of fp8e4m3_t"):
        encode(DType.FP8E4M3, np.array([1.1], np.float32))


def test_ranges() -> None:
    assert (DType.INT4.min, DType.INT4.max) == (-7, 7)
    assert (DType.INT8.min, DType.INT8.max) == (-128, 127)
    assert (DType.UINT8.min, DType.UINT8.max) == (0, 255)
    assert (DType.UINT16.min, DType.UINT16.max) == (0, 65535)
    assert (DType.INT48.min, DType.INT48.max) == (-(1 << 47), (1 << 47) - 1)
    assert (DType.SHAPE.min, DType.SHAPE.max) == (-(1 << 63), (1 << 63) - 1)
    assert [d.name for d in DType if d.is_float] == ["FP16", "BF16", "FP32", "FP8E4M3", "FP8E5M2"]
    assert not DType.BOOL.is_integer
    assert not DType.SHAPE.is_integer
    with pytest.raises(ValueError, match="FP32 is not an integer type"):
        _ = DType.FP32.max
