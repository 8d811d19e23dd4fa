"""Blocks of NNR streams for hand-written programs."""

import numpy as np

from tosaic.hw.isa import Opcode, Space
from tosaic.hw.nnr_streams import interleave, stream_levels
from tosaic.nnr import levels as codec

from .assembler import Assembler


def code_block(
    weights: np.ndarray, streams: int, unary_length: int, word_bytes: int, *, dq: bool = False
) -> tuple[bytes, list[int]]:
    """The block that LOAD_DECODE decodes to `weights` (integers), and the bytes of each of its streams."""
    payloads, positions = [], []
    for slices in stream_levels(weights.size, streams, word_bytes):
        own = np.concatenate([weights[:0], *(weights[piece] for piece in slices)])
        payloads.append(codec.encode(own, unary_length, dq_flag=dq))
        found = codec.decode(payloads[-1], own.size, unary_length, with_positions=True)
        positions.append(found.positions.tolist())
    block = interleave(payloads, positions, weights.size, word_bytes)
    return block, [len(payload) for payload in payloads]


def emit_decode(
    assembler: Assembler,
    block: bytes,
    lengths: list[int],
    weights: int,
    memory_address: int,
    local_address: int,
    *,
    space: Space = Space.WM,
    unary_length: int = 1,
    tensor: int = 0,
    **settings: int,
) -> None:
    """Decode a block that lies at `memory_address` to `local_address`. `settings`: other fields of LOAD_TENSOR."""
    settings = {"dq_coded": 1, "log2_streams": len(lengths).bit_length() - 1} | settings
    assembler.emit(Opcode.LOAD_TENSOR, tensor=tensor, unary_length=unary_length, **settings)
    assembler.emit(
        Opcode.LOAD_STREAMS, **{f"length_{number}": length for number, length in enumerate(lengths)}
    )
    assembler.emit(
        Opcode.LOAD_DECODE,
        memory_address=memory_address,
        space=space,
        local_address=local_address,
        row_bytes=len(block),
        weights=weights,
    )
