"""Payloads of the published editions of ISO/IEC 15938-17: skipped rows and adaptation windows before the levels.

What is written here was established from streams of the public codec nncodec 2.1.3 (docs/nnr.md, Editions). A payload
is, in this order: qp (iae(6 + qp_density), for floats only); whether rows are skipped and a flag per row, where the
tensor has more than one row and rows of more than one value; a parameter id per context; the levels of the rows that
are not skipped, coded as in the draft. Dependent quantization's states go through skipped rows as through zeros.
"""

import math

import numpy as np

from tosaic.nnr import jit
from tosaic.nnr.cabac_tables import GREATER, MIDDLE, SIG, SIGN, STEPS, context_count, tables
from tosaic.nnr.errors import NnrError
from tosaic.nnr.levels import (
    MAX_LEVELS_PER_BIT,
    QuantTensor,
    bypass,
    decode_quant_tensor,
    encode_behind,
    start,
)
from tosaic.nnr.memory import ITEM_BYTES, PAYLOAD_COPIES, default_limit_bytes

# Of each parameter id: the windows (an index into cabac_tables.WINDOWS) and states 0 and 1 at the start. Id 0 is the
# draft's only choice.
PARAMETERS = (
    (0, 0, 0),
    (0, -41, -654),
    (0, 95, 1519),
    (1, 0, 0),
    (2, 30, 482),
    (2, 95, 1519),
    (2, -21, -337),
    (3, 0, 0),
    (3, 30, 482),
)
PARAMETER_ID_BITS = 3
# Ids are coded for zero, negative, positive: the draft's numbers of these neighbours are 0, 2, 1 (E-11).
NEIGHBOURS = (0, 2, 1)
STATES_OF_DQ = 8
# A row's flag, and where it begins and ends.
ROW_BYTES = 32


def decode_published(
    payload: bytes,
    dimensions: tuple[int, ...],
    *,
    cabac_unary_length: int,
    dq_flag: bool,
    qp_bits: int = 0,
    limit_bytes: int | None = None,
) -> tuple[np.ndarray, int]:
    """The levels of a payload (flat, int32; skipped rows are 0), and qp as coded (0 without one).

    qp_bits: 6 + qp_density for floats, else 0. limit_bytes: of memory; None allows 64 MiB and 8 times the payload.
    Raises NnrError on a damaged payload and above the limit.
    """
    count = math.prod(dimensions)
    _check_memory(payload, count, dimensions[0] if dimensions else 1, limit_bytes)
    data, registers = start(payload)
    qp = bypass(data, registers, qp_bits)
    if qp_bits and qp >> (qp_bits - 1):
        qp -= 1 << qp_bits
    skipped = _skipped_rows(data, registers, dimensions, len(payload))
    coded = count - int(skipped.sum()) * (count // max(skipped.size, 1))
    if coded > MAX_LEVELS_PER_BIT * 8 * len(payload):
        raise NnrError(f"NNR payload of {len(payload)} bytes is too short for {coded} levels")
    contexts = _contexts(data, registers, len(payload), cabac_unary_length, dq_flag)
    tensor = QuantTensor(len(payload), count, cabac_unary_length, dq_flag, _runs(skipped, count))
    levels, _ = decode_quant_tensor(data, registers, tensor, contexts)
    return levels, qp


def _runs(skipped: np.ndarray, count: int) -> np.ndarray | None:
    """Begin and end of the levels between skipped rows; None where no row is skipped."""
    if not skipped.any():
        return None
    width = count // skipped.size
    edges = np.flatnonzero(np.diff(skipped, prepend=True, append=True)) * width
    return edges.reshape(-1, 2)


def _check_memory(payload: bytes, count: int, rows: int, limit_bytes: int | None) -> None:
    """Unlike in the draft, a payload may hold any number of values: those of skipped rows take no bits."""
    allowed_bytes = default_limit_bytes(len(payload)) if limit_bytes is None else limit_bytes
    needed_bytes = ITEM_BYTES * count + ROW_BYTES * rows + PAYLOAD_COPIES * len(payload)
    if needed_bytes > allowed_bytes:
        raise NnrError(
            f"NNR payload of {len(payload)} bytes holds {count} values, which take {needed_bytes >> 20} MiB; the "
            f"memory limit is {allowed_bytes >> 20} MiB; `tosaic nnr decode --memory-limit`, limit_bytes in Python, "
            "allows more"
        )


def _skipped_rows(
    data: object, registers: object, dimensions: tuple[int, ...], payload_bytes: int
) -> np.ndarray:
    """Which rows (of the first dimension) are skipped; no rows at all where the syntax has none."""
    if not _has_row_flags(dimensions) or not bypass(data, registers, 1):
        return np.zeros(0, bool)
    rows = dimensions[0]
    if rows > MAX_LEVELS_PER_BIT * 8 * payload_bytes:
        raise NnrError(f"NNR payload of {payload_bytes} bytes is too short for flags of {rows} rows")
    return _numbers(data, registers, payload_bytes, rows, 0) == 1


def _contexts(
    data: object, registers: object, payload_bytes: int, unary_length: int, dq_flag: bool
) -> object:
    """The contexts at the start of the levels, by the parameter ids that the payload holds of those in use."""
    used = _contexts_in_use(unary_length, dq_flag)
    ids = _numbers(data, registers, payload_bytes, len(used), PARAMETER_ID_BITS)
    entries = [(0, 0, MIDDLE)] * context_count(unary_length)
    for context, number in zip(used, ids.tolist(), strict=True):
        windows, state0, state1 = PARAMETERS[number]
        entries[context] = (state0, state1, MIDDLE + STEPS * windows)
    return jit.ints(number for entry in entries for number in entry)


def _contexts_in_use(unary_length: int, dq_flag: bool) -> list[int]:
    """The contexts that have a parameter id, in the order of the ids."""
    states = range(STATES_OF_DQ if dq_flag else 1)
    used = [SIG + 3 * state + neighbour for state in states for neighbour in NEIGHBOURS]
    used += [SIGN + neighbour for neighbour in NEIGHBOURS]
    return [*used, *range(GREATER, context_count(unary_length))]


def _has_row_flags(dimensions: tuple[int, ...]) -> bool:
    return bool(dimensions) and math.prod(dimensions) > dimensions[0] > 1


def encode_published(
    levels: np.ndarray,
    dimensions: tuple[int, ...],
    *,
    cabac_unary_length: int,
    dq_flag: bool,
    qp: int,
    qp_bits: int,
) -> bytes:
    """The mirror of `decode_published`: no row is skipped, and every context has the parameter id 0."""
    front = [(qp & ((1 << qp_bits) - 1), qp_bits), (0, int(_has_row_flags(dimensions)))]
    ids = len(_contexts_in_use(cabac_unary_length, dq_flag))
    return encode_behind(np.asarray(levels, np.int64).reshape(-1), cabac_unary_length, dq_flag, front, ids)


def _numbers(data: object, registers: object, payload_bytes: int, count: int, bits: int) -> np.ndarray:
    from tosaic.nnr import cabac_decode

    numbers = np.zeros(count, np.uint8)
    context = jit.ints((0, 0, MIDDLE))
    if not cabac_decode.decode_numbers(data, context, tables(), registers, 8 * payload_bytes, bits, numbers):
        raise NnrError(f"NNR payload of {payload_bytes} bytes is truncated: it ends before its levels")
    return numbers
