"""TOSA's element types and how NumPy holds them."""

import enum

import numpy as np


class DType(enum.Enum):
    """Element type of a tensor, named as in the TOSA file format.

    Sub-byte, 48-bit and short float types are held in the next wider NumPy type (`numpy`); their own
    range is `min` .. `max`. UINT8 and UINT16 exist in 0.30 files only: the graph holds them as INT8 and
    INT16 bit patterns, with `input_unsigned`/`output_unsigned` on the RESCALE that reads or writes them.
    """

    BOOL = "BOOL"
    INT4 = "INT4"
    INT8 = "INT8"
    UINT8 = "UINT8"
    INT16 = "INT16"
    UINT16 = "UINT16"
    INT32 = "INT32"
    INT48 = "INT48"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP8E4M3 = "FP8E4M3"
    FP8E5M2 = "FP8E5M2"
    SHAPE = "SHAPE"

    def __repr__(self) -> str:
        return f"DType.{self.name}"

    @property
    def spelling(self) -> str:
        """The type as the specification spells it: `int8_t`, `bool_t`, `fp32_t`, `shape_t`."""
        return f"{self.name.lower()}_t"

    @property
    def numpy(self) -> np.dtype:
        """NumPy dtype that holds one element."""
        return _NUMPY[self]

    @property
    def bits(self) -> int:
        """Width of one element in the specification's memory model, in bits (BOOL 8, SHAPE 64)."""
        return _BITS[self]

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer; BOOL, SHAPE and floats are not."""
        return self.name.startswith(("INT", "UINT"))

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.name.startswith(("FP", "BF"))

    @property
    def is_unsigned(self) -> bool:
        """Whether it is UINT8 or UINT16."""
        return self.name.startswith("UINT")

    @property
    def min(self) -> int:
        """Smallest value of an integer type. INT4 is -7 (TOSA's int4 is symmetric). SHAPE is an int64."""
        if self is DType.INT4:
            return -7
        return 0 if self.is_unsigned else -(1 << (self._integer_bits() - 1))

    @property
    def max(self) -> int:
        """Largest value of an integer type."""
        return (1 << (self._integer_bits() - (0 if self.is_unsigned else 1))) - 1

    def _integer_bits(self) -> int:
        if not self.is_integer and self is not DType.SHAPE:
            raise ValueError(f"{self.name} is not an integer type, it has no integer range")
        return self.bits


_NUMPY = {
    DType.BOOL: np.dtype(np.bool_),
    DType.INT4: np.dtype(np.int8),
    DType.INT8: np.dtype(np.int8),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT16: np.dtype(np.int16),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT32: np.dtype(np.int32),
    DType.INT48: np.dtype(np.int64),
    DType.INT64: np.dtype(np.int64),
    DType.FP16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.float32),
    DType.FP32: np.dtype(np.float32),
    DType.FP8E4M3: np.dtype(np.float32),
    DType.FP8E5M2: np.dtype(np.float32),
    DType.SHAPE: np.dtype(np.int64),
}

_BITS = {
    DType.BOOL: 8,
    DType.INT4: 4,
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.UINT16: 16,
    DType.INT32: 32,
    DType.INT48: 48,
    DType.INT64: 64,
    DType.FP16: 16,
    DType.BF16: 16,
    DType.FP32: 32,
    DType.FP8E4M3: 8,
    DType.FP8E5M2: 8,
    DType.SHAPE: 64,
}
