"""Quantized levels to and from a CABAC payload: bypass header, `quant_tensor_term()`, stream checks (11.1.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tosaic.hw.nnr_tables import STATE_TRANSITION
from tosaic.nnr import jit
from tosaic.nnr.cabac_tables import STATES_OF_CONTEXT, context_count, draft_contexts, tables
from tosaic.nnr.errors import NnrError
from tosaic.nnr.memory import ITEM_BYTES, PAYLOAD_COPIES, default_limit_bytes

# Every context-coded bin takes at least 2 off a range of 256..510 before the next bit is read, so a payload bit
# holds at most 128 bins: a bound on memory that needs no trust in the signalled dimensions.
MAX_LEVELS_PER_BIT = 128
# The engine's registers at the start (11.2.2.3).
FIRST_INTERVAL, ENGINE_BITS = 510, 9
# The register of `decode_levels` that holds stateId, and the zeros after which any stateId is itself again.
STATE, ZEROS_CYCLE = 6, 4


@dataclass(frozen=True)
class DecodedLevels:
    """What a CABAC payload holds: `QuantParam` (flat, int32), `qp` as coded (0 if not coded), `dq_flag`.

    positions: of each level, if asked for: bits read from the payload when it was decoded (int64).
    """

    levels: np.ndarray
    qp: int
    dq_flag: bool
    positions: np.ndarray


def check_memory(payload: bytes, count: int, limit_bytes: int | None) -> None:
    """Raise NnrError when the values of `count` levels, which `payload` can hold, are above the memory limit.

    limit_bytes: None is that of the payload's length (`memory.default_limit_bytes`).
    """
    if count > MAX_LEVELS_PER_BIT * 8 * len(payload):
        # `decode` tells that it cannot.
        return
    allowed_bytes = default_limit_bytes(len(payload)) if limit_bytes is None else limit_bytes
    needed_bytes = ITEM_BYTES * count + PAYLOAD_COPIES * len(payload)
    if needed_bytes > allowed_bytes:
        raise NnrError(
            f"NNR payload of {len(payload)} bytes holds {count} levels, which take {needed_bytes >> 20} MiB; the "
            f"memory limit is {allowed_bytes >> 20} MiB; `tosaic nnr decode --memory-limit`, limit_bytes in Python, "
            "allows more"
        )


def check_unary_length(cabac_unary_length: int) -> None:
    """Raise NnrError unless `cabac_unary_length` fits its u(8)."""
    if not 0 <= cabac_unary_length <= 255:
        raise NnrError(f"cabac_unary_length must be 0..255, not {cabac_unary_length}")


def decode(
    payload: bytes,
    count: int,
    unary_length: int,
    *,
    qp_bits: int = 0,
    has_dq_flag: bool = True,
    dq_flag: bool = False,
    with_positions: bool = False,
) -> DecodedLevels:
    """Decode one payload of `count` levels, all of it: 5.2.1 to 5.2.3 without the reconstruction.

    qp_bits: width of `qp` in front (6 + qp_density for NNR_PT_FLOAT32, else 0). dq_flag: its value where the
    payload has none. Raises NnrError on a stream that
    is truncated, too long, or breaks a rule of clause 11; the message gives the bit position or the level.
    """
    check_unary_length(unary_length)
    if count > MAX_LEVELS_PER_BIT * 8 * len(payload):
        raise NnrError(f"NNR payload of {len(payload)} bytes is too short for {count} levels")
    data, registers = start(payload)
    qp = bypass(data, registers, qp_bits)
    if qp_bits and qp >> (qp_bits - 1):
        qp -= 1 << qp_bits
    if has_dq_flag:
        dq_flag = bool(bypass(data, registers, 1))
    levels, positions = decode_quant_tensor(
        data,
        registers,
        QuantTensor(len(payload), count, unary_length, dq_flag),
        draft_contexts(unary_length),
        with_positions,
    )
    return DecodedLevels(levels, qp, dq_flag, positions)


@dataclass(frozen=True)
class QuantTensor:
    """What quant_tensor() is read with: the payload's length, how many levels, and how they are coded.

    runs: rows of begin and end of those levels that are coded, where others are skipped and are 0; None codes all.
    """

    payload_bytes: int
    count: int
    unary_length: int
    dq_flag: bool
    runs: np.ndarray | None = None


def start(payload: bytes) -> tuple[Any, Any]:
    """Initialize the arithmetic decoder (11.2.2.3): its data, and range, offset and position of the next bit."""
    from tosaic.nnr import cabac_decode

    data = jit.octets(payload, len(payload) + cabac_decode.PADDING_BYTES)
    offset = (int(data[0]) << 1) | (int(data[1]) >> 7)
    if 8 * len(payload) < ENGINE_BITS:
        raise NnrError(
            f"NNR payload of {len(payload)} bytes is truncated: the arithmetic decoder starts with 9 bits"
        )
    if offset >= FIRST_INTERVAL:
        raise NnrError(f"NNR payload starts with ivlOffset {offset}; 510 and 511 are not allowed (11.2.2.3)")
    return data, jit.ints((FIRST_INTERVAL, offset, ENGINE_BITS))


def bypass(data: Any, registers: Any, bits: int) -> int:
    """uae(bits) in front of the levels; `registers` as `start` returns them."""
    from tosaic.nnr import cabac_decode

    value, registers[1], registers[2] = cabac_decode.decode_bypass(data, bits, *registers)
    return int(value)


def decode_quant_tensor(
    data: Any, engine: Any, tensor: QuantTensor, contexts: Any, with_positions: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """quant_tensor() and quant_tensor_term() (11.1.2): the levels, and their positions if asked for.

    engine: the registers of `start`, with what is in front of the levels read. contexts: three numbers for each.
    """
    from tosaic.nnr import cabac_decode

    count, payload_bytes = tensor.count, tensor.payload_bytes
    registers = jit.ints((*engine, int(tensor.dq_flag), 8 * payload_bytes, 0, 0))
    try:
        # Memory that is not written is not taken: a count that lies costs nothing.
        levels = np.empty(count, np.int32) if tensor.runs is None else np.zeros(count, np.int32)
        positions = np.empty(count if with_positions else 0, np.int64)
    except MemoryError:
        raise NnrError(f"NNR tensor of {count} levels does not fit the memory") from None
    behind = 0
    for begin, end in ((0, count),) if tensor.runs is None else tensor.runs:
        if tensor.dq_flag:
            registers[STATE] = _state_after_zeros(int(registers[STATE]), int(begin - behind))
        status, index = cabac_decode.decode_levels(
            data, tensor.unary_length, contexts, tables(), registers, levels[begin:end], positions
        )
        if status != cabac_decode.DONE:
            raise _undecodable(status, int(begin + index), tensor)
        behind = end
    _check_termination(data, payload_bytes, registers)
    return levels, positions


def _state_after_zeros(state: int, zeros: int) -> int:
    """stateId behind `zeros` skipped levels: the state machine goes through them."""
    for _ in range(zeros % ZEROS_CYCLE):
        state = STATE_TRANSITION[state][0]
    return state


def _undecodable(status: int, index: int, tensor: QuantTensor) -> NnrError:
    from tosaic.nnr import cabac_decode

    if status == cabac_decode.PREFIX_TOO_LONG:
        return NnrError(
            f"NNR level {index} has 31 ones in its abs_level_greater_x2 prefix; int32 needs at most 30"
        )
    if status == cabac_decode.LEVEL_TOO_LARGE:
        return NnrError(f"NNR level {index} is outside int32")
    return NnrError(
        f"NNR payload of {tensor.payload_bytes} bytes is truncated: it ends inside level {index} of {tensor.count}"
    )


def _check_termination(data: bytes, length_bytes: int, registers: Sequence[int]) -> None:
    """Checks terminating_one_bit, the stop bit, nesting_zero_bit, and that nothing comes after them
    (11.2.4.3.5, E-08).
    """
    interval, offset, position = (int(register) for register in registers[:3])
    if position > 8 * length_bytes:
        raise NnrError(f"NNR payload of {length_bytes} bytes is truncated: it ends in its last level")
    if offset < interval - 2:
        raise NnrError(
            f"NNR payload has terminating_one_bit 0 at bit {position}: wrong dimensions or a damaged stream"
        )
    last = position - 1
    byte = int(data[last >> 3])
    if not (byte >> (7 - (last & 7))) & 1:
        raise NnrError(f"NNR payload has stop bit 0 at bit {last}; it must be 1 (11.2.4.3.5)")
    if byte & ((1 << (7 - (last & 7))) - 1):
        raise NnrError(f"NNR payload has a nesting_zero_bit of 1 after bit {last} (11.1.2.1)")
    used = (last >> 3) + 1
    if used != length_bytes:
        raise NnrError(f"NNR payload ends after {used} bytes, but {length_bytes} are given: trailing data")


def encode(
    levels: np.ndarray, unary_length: int, *, dq_flag: bool | None = False, qp: int = 0, qp_bits: int = 0
) -> bytes:
    """Code `QuantParam` values in C order: the mirror of `decode`.

    dq_flag: None codes no flag (NNR_PT_CB_FLOAT32). With True every non-zero value must have the parity of the
    state it is reached in (11.1.2.4). Raises NnrError on values that cannot be coded.
    """
    check_unary_length(unary_length)
    values = np.asarray(levels)
    if values.size and values.dtype.kind not in "iu":
        raise NnrError(f"NNR levels must be integers, not {values.dtype}")
    flat = values.reshape(-1)
    if flat.size and not (-(2**31) <= int(flat.min()) and int(flat.max()) < 2**31):
        raise NnrError("NNR levels must fit int32")
    return encode_any(np.ascontiguousarray(flat, np.int64), unary_length, dq_flag, qp, qp_bits)


def encode_any(
    flat: np.ndarray, unary_length: int, dq_flag: bool | None, qp: int = 0, qp_bits: int = 0
) -> bytes:
    """`encode` of flat int64 values of any range, for streams that a decoder must refuse."""
    front = [(qp & ((1 << qp_bits) - 1), qp_bits), (int(bool(dq_flag)), int(dq_flag is not None))]
    return encode_behind(flat, unary_length, bool(dq_flag), front)


def encode_behind(
    flat: np.ndarray,
    unary_length: int,
    dependent: bool,
    front: Sequence[tuple[int, int]],
    zero_flags: int = 0,
) -> bytes:
    """A payload: the bypass numbers `front` (value and bits), `zero_flags` flags of 0 with one context, the levels."""
    from tosaic.nnr import cabac_encode

    # What is in front is small arithmetic on the first bits: low stays below 9 + 14 bits.
    low, interval, queue = 0, FIRST_INTERVAL, 0
    for value, bits in front:
        low = (low << bits) + interval * value
        queue += bits
    out = jit.octets(b"", flat.size // 2 + 1024)
    low, queue, length = cabac_encode.write_queue(low, queue, out, 0)
    context = jit.zeros(STATES_OF_CONTEXT)
    for _ in range(zero_flags):
        low, interval, queue = cabac_encode.encode_decision(context, tables(), 0, 0, low, interval, queue)
        low, queue, length = cabac_encode.write_queue(low, queue, out, length)
    registers = jit.ints((low, interval, queue, length, 0, 0, 0))
    states = jit.zeros(STATES_OF_CONTEXT * context_count(unary_length))
    source = flat if jit.COMPILED else flat.tolist()
    while True:
        index = cabac_encode.encode_levels(
            source, unary_length, int(dependent), states, tables(), registers, out
        )
        if index < 0:
            _raise_uncodable(flat, -1 - index, dependent)
        if index == flat.size:
            return _finish(out, registers)
        out = jit.octets(bytes(out), 2 * len(out))


def _raise_uncodable(flat: np.ndarray, index: int, dq: bool) -> None:
    if dq and abs(int(flat[index])) < 2**31:
        raise NnrError(
            f"NNR level {index} is {flat[index]}, which dependent quantization cannot reach there: "
            "quantize with the trellis, or code with dq=False"
        )
    raise NnrError(f"NNR level {index} is {flat[index]}, too large for this cabac_unary_length")


def _finish(out: bytes, registers: Sequence[int]) -> bytes:
    """Codes terminating_one_bit, the stop bit and the alignment; returns the whole payload."""
    low, interval, queue, length = (int(register) for register in registers[:4])
    low = (low + interval - 2) | 1
    bits = 9 + queue
    written = int.from_bytes(b"\0" + bytes(out[:length]), "big")
    if low >> bits:
        # A carry into bytes already written.
        written += 1
        low &= (1 << bits) - 1
    padding = -bits % 8
    return written.to_bytes(length + 1, "big")[1:] + (low << padding).to_bytes((bits + padding) // 8, "big")
