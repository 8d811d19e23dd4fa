"""LOAD_DECODE: a block of NNR streams to weights, by the software codec."""

import numpy as np

from tosaic.errors import Error as TosaicError
from tosaic.hw.cabac_timing import block_cycles
from tosaic.hw.config import Config
from tosaic.hw.isa import Error, Instruction, Opcode
from tosaic.hw.nnr_streams import UNARY_MAX, block_words, separate, stream_levels

from .faults import Fault
from .hazards import AM, MEMORY, WM
from .state import CoreState


def decode(state: CoreState, go: Instruction, setup: dict[Opcode, Instruction]) -> int:
    """Execute LOAD_DECODE with the last LOAD_TENSOR and LOAD_STREAMS in `setup`; the cycles that the decoder takes."""
    config, word_bytes = state.config, state.config.word_bytes
    tensor, streams = setup.get(Opcode.LOAD_TENSOR), setup.get(Opcode.LOAD_STREAMS)
    if not config.cabac_engines:
        raise Fault(Error.ILLEGAL, f"configuration {config.name} has no decoder for compressed weights")
    if tensor is None or streams is None:
        raise Fault(Error.ILLEGAL, "there was no LOAD_TENSOR and LOAD_STREAMS before it")
    count = 1 << tensor.log2_streams
    lengths = [streams.fields[f"length_{number}"] for number in range(4)][:count]
    _check(config, go, count, lengths)
    end = go.memory_address + go.row_bytes
    if end > len(state.memory):
        raise Fault(
            Error.MEMORY_RANGE,
            f"bytes {go.memory_address}..{end - 1} leave the {len(state.memory)} bytes of external memory",
        )
    block = state.read_known(go.memory_address, go.row_bytes)
    levels, dependent = _levels(block, lengths, go.weights, tensor, word_bytes)
    low, high = (-8, 7) if tensor.int4 else (-128, 127)
    weights = np.zeros(-(-go.weights // word_bytes) * word_bytes, np.int8)
    for own, slices in zip(levels, stream_levels(go.weights, count, word_bytes), strict=True):
        outside = (own < low) | (own > high)
        if outside.any():
            value = own[outside][0]
            raise Fault(
                Error.DECODE, f"{value} is outside the weights' {low}..{high}", tensor_number=tensor.tensor
            )
        position = 0
        for piece in slices:
            size = piece.stop - piece.start
            weights[piece] = own[position : position + size]
            position += size
    _write(state, go, weights)
    return block_cycles(
        levels,
        tensor.unary_length,
        word_bytes,
        dependent,
        header_bins=tensor.header_bins + tensor.dq_coded,
    )


def _check(config: Config, go: Instruction, count: int, lengths: list[int]) -> None:
    """Fault ILLEGAL where the hardware finds the fields wrong."""
    word_bytes = config.word_bytes
    if count > config.cabac_engines:
        raise Fault(Error.ILLEGAL, f"{count} streams need as many cabac_engines, not {config.cabac_engines}")
    if not go.weights or not go.row_bytes:
        raise Fault(Error.ILLEGAL, "weights and row_bytes must be at least 1")
    for name in ("memory_address", "local_address", "row_bytes"):
        if go.fields[name] % word_bytes:
            raise Fault(Error.ILLEGAL, f"{name} {go.fields[name]} must be a multiple of {word_bytes}")
    wanted = block_words(lengths, word_bytes) * word_bytes
    if go.row_bytes != wanted:
        raise Fault(
            Error.ILLEGAL, f"row_bytes is {go.row_bytes}, but streams of {lengths} bytes take {wanted}"
        )


def _levels(
    block: bytes, lengths: list[int], weights: int, tensor: Instruction, word_bytes: int
) -> tuple[list[np.ndarray], bool]:
    """The levels of each stream, and whether dependent quantization is on."""
    if tensor.unary_length > UNARY_MAX:
        reason = f"cabac_unary_length {tensor.unary_length} is above {UNARY_MAX}"
        raise Fault(Error.DECODE, reason, tensor_number=tensor.tensor)
    # Imported here: most programs have no coded weights.
    from tosaic.nnr import levels as codec

    levels, dependent = [], False
    payloads = separate(block, lengths, word_bytes)
    shares = stream_levels(weights, len(lengths), word_bytes)
    for number, (payload, slices) in enumerate(zip(payloads, shares, strict=True)):
        try:
            found = codec.decode(
                payload,
                sum(piece.stop - piece.start for piece in slices),
                tensor.unary_length,
                qp_bits=tensor.header_bins,
                has_dq_flag=bool(tensor.dq_coded),
                dq_flag=bool(tensor.dq),
            )
        except TosaicError as error:
            raise Fault(
                Error.DECODE, f"stream {number} is damaged: {error}", tensor_number=tensor.tensor
            ) from None
        levels.append(found.levels)
        dependent |= found.dq_flag
    return levels, dependent


def _write(state: CoreState, go: Instruction, weights: np.ndarray) -> None:
    if state.hazards:
        state.hazards.read(MEMORY, go.memory_address + np.arange(go.row_bytes))
        state.hazards.write(WM if go.space else AM, go.local_address + np.arange(weights.size))
    cells = state.domain.cells(weights.view(np.uint8))
    if not go.space:
        state.am.write_rows(np.array([go.local_address]), cells[None, None])
        return
    words = cells.view(state.domain.word).reshape(1, -1, state.config.word_bytes)
    start = go.local_address // state.config.word_bytes
    state.wm.write((start + np.arange(words.shape[1])) % state.config.wm_words, words)
