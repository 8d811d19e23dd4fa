"""Weights as NNR streams that the machine decodes on their way into weight memory (ISO/IEC 15938-17, clause 11)."""

import dataclasses
import hashlib

import numpy as np

from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, INSTRUCTION_BYTES, Opcode
from tosaic.hw.nnr_streams import interleave, stream_levels
from tosaic.nnr import levels as codec

METHODS = ("nnr",)
"""What weights may be compressed by."""
UNARY_LENGTH = 1
"""cabac_unary_length: int8 weights take the fewest cycles with it, and hardly more bytes than with any other."""
GROUP_BYTES = 1 << 14
"""Weights of neighbouring tiles are coded together up to this size: contexts learn, and the array need not wait for
the whole tensor."""
_WEIGHTS_PER_STREAM = 1 << 9
"""With fewer, what a stream of its own costs shows: its contexts learn from them alone."""
_GROUP_INSTRUCTIONS = 2
"""LOAD_STREAMS and LOAD_DECODE."""
_LENGTH_BITS = next(field.bits for field in FIELDS[Opcode.LOAD_STREAMS] if field.name == "length_0")


@dataclasses.dataclass(frozen=True)
class CodedBlock:
    """What LOAD_DECODE decodes to `weights` weights."""

    data: bytes
    lengths: tuple[int, ...]
    """Bytes of each stream."""
    weights: int


class WeightCoder:
    """Codes packed weights for one configuration. UnsupportedError when it has no decoder."""

    def __init__(self, config: Config):
        if not config.cabac_engines:
            raise UnsupportedError(
                f"configuration {config.name!r} has no decoder for compressed weights (cabac_engines is 0); "
                "compile without compression or for another configuration"
            )
        self._config = config
        self._known: dict[bytes, list[CodedBlock] | None] = {}
        """By what was coded: weights are laid out anew when the compiler tries again with less memory."""

    def group_bytes(self, blob_bytes: int) -> int:
        """Bytes of the whole blobs that are coded together."""
        limit = min(GROUP_BYTES, self._config.wm_bytes // 4)
        return max(1, limit // blob_bytes) * blob_bytes

    def code(self, data: np.ndarray, blob_bytes: int) -> list[CodedBlock] | None:
        """The blocks of int8 `data` in its order, or None where they are not smaller than it."""
        step, flat = self.group_bytes(blob_bytes), np.ascontiguousarray(data, np.int8).reshape(-1)
        key = hashlib.sha256(flat.tobytes() + step.to_bytes(8, "little")).digest()
        if key not in self._known:
            self._known[key] = self._coded(flat, step)
        return self._known[key]

    def _coded(self, flat: np.ndarray, step: int) -> list[CodedBlock] | None:
        """With as many streams as there are engines, or with fewer where only those are smaller than the weights."""
        streams = self._config.cabac_engines
        while streams:
            blocks = [self._block(flat[start : start + step], streams) for start in range(0, flat.size, step)]
            stored = sum(len(block.data) + _GROUP_INSTRUCTIONS * INSTRUCTION_BYTES for block in blocks)
            longest = max(length for block in blocks for length in block.lengths)
            if stored + INSTRUCTION_BYTES < flat.size and longest < 1 << _LENGTH_BITS:
                return blocks
            streams //= 2
        return None

    def _block(self, weights: np.ndarray, streams: int) -> CodedBlock:
        word_bytes = self._config.word_bytes
        while streams > 1 and weights.size < streams * _WEIGHTS_PER_STREAM:
            streams //= 2
        payloads, positions = [], []
        for slices in stream_levels(weights.size, streams, word_bytes):
            own = np.concatenate([weights[piece] for piece in slices])
            payloads.append(codec.encode(own, UNARY_LENGTH))
            found = codec.decode(payloads[-1], own.size, UNARY_LENGTH, with_positions=streams > 1)
            positions.append(found.positions.tolist())
        block = interleave(payloads, positions, weights.size, word_bytes)
        return CodedBlock(block, tuple(len(payload) for payload in payloads), weights.size)
