"""The suite's arrays of floats that NumPy lacks: bf16 and fp8 are stored as their bits."""

import pathlib

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.ir.elements import decode, encode
from tosaic.errors import InputError, reading

_AS_BITS = (DType.BF16, DType.FP8E4M3, DType.FP8E5M2)


def load_input(file: pathlib.Path, dtype: DType | None) -> np.ndarray:
    """The array in an `.npy` file, as `dtype.numpy` holds it."""
    with reading(file, "generate the suite again", InputError):
        stored = np.load(file, allow_pickle=False)
    if dtype in _AS_BITS and stored.dtype.kind in "Vu":
        return decode(dtype, stored.shape, memoryview(stored.tobytes()), str(file))
    return stored


def as_bits(values: np.ndarray, dtype: DType) -> np.ndarray:
    """`values` in the form that tosa-tools takes: bf16 and fp8 as their bits, other types as they are."""
    if dtype not in _AS_BITS:
        return np.asarray(values, order="C")
    bits = np.frombuffer(encode(dtype, values), f"u{dtype.bits // 8}")
    return bits.reshape(values.shape)
