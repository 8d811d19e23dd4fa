"""Tensor payloads of the four types (5.2, Table 3): what a compressed data unit holds."""

import enum
import math
import operator
import warnings
from collections.abc import Sequence

import numpy as np

from tosaic.nnr import levels as coded
from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.memory import ITEM_BYTES

# Levels that are turned into values at a time: what that takes beside them stays small.
CHUNK_ITEMS = 1 << 16


class PayloadType(enum.IntEnum):
    """nnr_compressed_data_unit_payload_type (Table 3)."""

    INT32 = 0
    FLOAT32 = 1
    CB_FLOAT32 = 2
    RAW_FLOAT32 = 3


def decode_tensor(
    payload: bytes,
    shape: Sequence[int],
    *,
    payload_type: str | PayloadType = "int32",
    cabac_unary_length: int = 10,
    qp_density: int = 2,
    quantization_parameter: int = 0,
    codebook: Sequence[float] | np.ndarray | None = None,
    codebook_zero_offset: int = 0,
    limit_bytes: int | None = None,
) -> np.ndarray:
    """Decode one tensor (5.2.1 to 5.2.4); the payload must hold it and nothing else.

    payload_type: a `PayloadType`, or its name in lower case. An empty shape is a scalar. limit_bytes: of memory; None
    allows 64 MiB and 8 times the payload.
    Returns an array of `shape`: int32 for "int32", float32 for the others.
    Raises NnrError on a bad stream or on parameters outside their syntax elements' ranges.
    """
    kind = payload_type_of(payload_type)
    dimensions = _checked_shape(shape)
    count = math.prod(dimensions)
    payload = bytes(payload)
    if kind is PayloadType.RAW_FLOAT32:
        if len(payload) != 4 * count:
            raise NnrError(
                f"raw_float32 payload of {len(payload)} bytes must have {4 * count} for shape {dimensions}"
            )
        return shaped(np.frombuffer(payload, "<f4").astype(np.float32), dimensions)
    if kind is PayloadType.INT32:
        coded.check_memory(payload, count, limit_bytes)
        return shaped(coded.decode(payload, count, cabac_unary_length).levels, dimensions)
    if kind is PayloadType.CB_FLOAT32:
        if codebook is None:
            raise NnrError("a cb_float32 payload needs its codebook")
        table = np.asarray(codebook, np.float32).reshape(-1)
        check_codebook(table.size, codebook_zero_offset)
        coded.check_memory(payload, count, limit_bytes)
        found = coded.decode(payload, count, cabac_unary_length, has_dq_flag=False)
        return shaped(look_up(found.levels, table, codebook_zero_offset), dimensions)
    check_qp_density(qp_density)
    check_quantization_parameter(quantization_parameter)
    coded.check_memory(payload, count, limit_bytes)
    found = coded.decode(payload, count, cabac_unary_length, qp_bits=6 + qp_density)
    return shaped(dequantize(found.levels, found.qp + quantization_parameter, qp_density), dimensions)


def encode_tensor(levels: np.ndarray, *, cabac_unary_length: int = 10, dq: bool = False) -> bytes:
    """Code `QuantParam` values as an NNR_PT_INT32 payload (5.2.1); `decode_tensor` returns the same values.

    levels: integers within int32, any shape, C order. dq: code with dependent quantization's state machine; every
    non-zero value must then have the parity of the state it is reached in (`tosaic.nnr.quantize_dependent` makes
    such values). Raises NnrError when a value cannot be coded.
    """
    return coded.encode(np.asarray(levels), cabac_unary_length, dq_flag=dq)


def encode_float_tensor(
    levels: np.ndarray,
    qp: int,
    *,
    qp_density: int = 2,
    quantization_parameter: int = 0,
    cabac_unary_length: int = 10,
    dq: bool = False,
) -> bytes:
    """Code `QuantParam` values as an NNR_PT_FLOAT32 payload (5.2.2) of step size `step_size(qp, qp_density)`.

    qp: the tensor's parameter; the payload carries its difference to `quantization_parameter`.
    """
    check_qp_density(qp_density)
    check_quantization_parameter(quantization_parameter)
    bits = 6 + qp_density
    difference = qp - quantization_parameter
    if not -(1 << (bits - 1)) <= difference < 1 << (bits - 1):
        raise NnrError(f"qp {difference} does not fit iae({bits}); move quantization_parameter towards {qp}")
    return coded.encode(np.asarray(levels), cabac_unary_length, dq_flag=dq, qp=difference, qp_bits=bits)


def encode_codebook_tensor(
    indices: np.ndarray, *, codebook_zero_offset: int = 0, cabac_unary_length: int = 10
) -> bytes:
    """Code indices into a codebook as an NNR_PT_CB_FLOAT32 payload (5.2.3): level = index - codebook_zero_offset."""
    check_codebook(0, codebook_zero_offset)
    values = np.asarray(indices, np.int64) - codebook_zero_offset
    return coded.encode(values, cabac_unary_length, dq_flag=None)


def encode_raw_tensor(values: np.ndarray) -> bytes:
    """A NNR_PT_RAW_FLOAT32 payload (5.2.4): float32, little endian, NaN payloads kept.

    Raises NnrError if float32 does not hold a value exactly: lossless is what this payload is for.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise NnrError(f"a raw_float32 payload holds numbers, not {given.dtype}")
    with np.errstate(over="ignore", under="ignore"):
        narrowed = given.astype("<f4")
    if given.dtype.itemsize >= ITEM_BYTES and not np.array_equal(
        narrowed, given, equal_nan=given.dtype.kind == "f"
    ):
        raise NnrError(
            f"raw_float32 would round values of {given.dtype}; narrow them yourself: values.astype(numpy.float32)"
        )
    return narrowed.tobytes()


def step_size(qp: int, qp_density: int) -> tuple[int, int]:
    """Returns stepSize of 5.2.2 as (mantissa, exponent of 2); `qp` includes quantization_parameter (E-17)."""
    mul = (1 << qp_density) + (qp & ((1 << qp_density) - 1))
    return mul, (qp >> qp_density) - qp_density


def dequantize(levels: np.ndarray, qp: int, qp_density: int) -> np.ndarray:
    """Returns QuantParam * stepSize, computed exactly and rounded once, to nearest even (E-20); in the memory
    of `levels`.

    Warns when float32 does not hold a product exactly, which the text forbids a bitstream to cause.
    """
    mul, exponent = step_size(qp, qp_density)
    values, inexact = levels.view(np.float32), False
    for start in range(0, levels.size, CHUNK_ITEMS):
        some = levels[start : start + CHUNK_ITEMS]
        # int32 * 8 bits is exact in float64, and so is the power of two until far below float32's range.
        with np.errstate(over="ignore", under="ignore"):
            exact = np.ldexp(some.astype(np.float64) * mul, exponent)
            rounded = exact.astype(np.float32)
        # What float64 itself cannot hold is 0 or infinite there and in float32 alike.
        lost = ((exact == 0) & (some != 0)).any() or np.isinf(exact).any()
        inexact = inexact or bool(lost) or not np.array_equal(rounded, exact)
        values[start : start + CHUNK_ITEMS] = rounded
    if inexact:
        warnings.warn(f"NNR values of qp {qp} are rounded to float32 (5.2.2)", NnrWarning, stacklevel=3)
    return values


def look_up(levels: np.ndarray, codebook: np.ndarray, codebook_zero_offset: int) -> np.ndarray:
    """codebook[QuantParam + codebook_zero_offset] (5.2.3), in the memory of `levels`; an index outside the codebook is
    an error (E-19)."""
    values = levels.view(np.float32)
    for start in range(0, levels.size, CHUNK_ITEMS):
        indices = levels[start : start + CHUNK_ITEMS].astype(np.int64) + codebook_zero_offset
        wrong = np.flatnonzero((indices < 0) | (indices >= codebook.size))
        if wrong.size:
            first = int(wrong[0])
            raise NnrError(
                f"NNR level {start + first} selects entry {indices[first]} of a codebook of {codebook.size}"
            )
        values[start : start + CHUNK_ITEMS] = codebook[indices]
    return values


def payload_type_of(name: str | PayloadType) -> PayloadType:
    """The payload type called "int32", "float32", "cb_float32" or "raw_float32"; a payload type is itself."""
    if isinstance(name, PayloadType):
        return name
    try:
        return PayloadType[name.upper()]
    except KeyError:
        names = ", ".join(kind.name.lower() for kind in PayloadType)
        raise NnrError(f"NNR payload type {name!r} is not one of {names}") from None


def check_qp_density(qp_density: int) -> None:
    """Raise NnrError unless `qp_density` fits its u(3)."""
    if not 0 <= qp_density <= 7:
        raise NnrError(f"qp_density must be 0..7, not {qp_density}")


def check_quantization_parameter(quantization_parameter: int) -> None:
    """Raise NnrError unless `quantization_parameter` fits its i(13)."""
    if not -4096 <= quantization_parameter <= 4095:
        raise NnrError(f"quantization_parameter must be -4096..4095, not {quantization_parameter}")


def check_codebook(size: int, codebook_zero_offset: int) -> None:
    """Raise NnrError unless codebook_size fits its u(16) and `codebook_zero_offset` its u(8)."""
    if size > 65535:
        raise NnrError(f"codebook_size must be 0..65535, not {size}")
    if not 0 <= codebook_zero_offset <= 255:
        raise NnrError(f"codebook_zero_offset must be 0..255, not {codebook_zero_offset}")


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    dimensions = tuple(operator.index(size) for size in shape)
    if any(size < 0 for size in dimensions):
        raise NnrError(f"tensor_dimensions {dimensions} has a negative size")
    return dimensions


def shaped(values: np.ndarray, dimensions: tuple[int, ...]) -> np.ndarray:
    """`values` in their shape; NnrError where NumPy has none: the syntax has up to 255 dimensions, and sizes beside a 0
    that no memory holds."""
    try:
        return values.reshape(dimensions)
    except (ValueError, OverflowError) as error:
        raise NnrError(
            f"{len(dimensions)} tensor_dimensions are more than NumPy can shape: {error}"
        ) from None
