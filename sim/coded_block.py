"""Blocks of NNR streams for hand-written programs."""

import dataclasses

import numpy as np

from tosaic.hw.isa import Opcode, Space
from tosaic.hw.nnr_streams import interleave, stream_levels
from tosaic.nnr import levels as codec

from .assembler import Assembler


@dataclasses.dataclass(frozen=True)
class StreamBlock:
    """`weights` coded weights, and the bytes of each stream of theirs."""

    data: bytes
    lengths: list[int]
    weights: int


def code_block(
    weights: np.ndarray, streams: int, unary_length: int, word_bytes: int, *, dq: bool = False
) -> StreamBlock:
    """The block that LOAD_DECODE decodes to `weights` (integers)."""
    payloads, positions = [], []
    for slices in stream_levels(weights.size, streams, word_bytes):
        own = np.concatenate([weights[:0], *(weights[piece] for piece in slices)])
        payloads.append(codec.encode(own, unary_length, dq_flag=dq))
        found = codec.decode(payloads[-1], own.size, unary_length, with_positions=True)
        positions.append(found.positions.tolist())
    block = interleave(payloads, positions, weights.size, word_bytes)
    return StreamBlock(block, [len(payload) for payload in payloads], weights.size)


def emit_decode(
    assembler: Assembler,
    block: StreamBlock,
    memory_address: int,
    local_address: int,
    *,
    space: Space = Space.WM,
    **settings: int,
) -> None:
    """Decode a block that lies at `memory_address` to `local_address`. `settings`: fields of LOAD_TENSOR."""
    streams = {"dq_coded": 1, "unary_length": 1, "log2_streams": len(block.lengths).bit_length() - 1}
    assembler.emit(Opcode.LOAD_TENSOR, **(streams | settings))
    lengths = {f"length_{number}": length for number, length in enumerate(block.lengths)}
    assembler.emit(Opcode.LOAD_STREAMS, **lengths)
    assembler.emit(
        Opcode.LOAD_DECODE,
        memory_address=memory_address,
        space=space,
        local_address=local_address,
        row_bytes=len(block.data),
        weights=block.weights,
    )
