"""Weights as NNR streams that the machine decodes: once before the first run, or in every run on their way into weight
memory (ISO/IEC 15938-17, clause 11)."""

import dataclasses
import enum
import hashlib
import zlib
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.cost.transfers import load_cycles
from tosaic.compiler.machine_numbers import (
    BOOT_BLOCK_AM_PART,
    BOOT_BLOCK_BYTES,
    BOOT_BLOCK_INSTRUCTIONS,
    CODED_BLOCK_INSTRUCTIONS,
    CODED_GROUP_BYTES,
    CODED_STREAM_WEIGHTS,
    CODED_UNARY_LENGTH,
    DECODED_SHARE,
    WEIGHT_GROUP_WM_PART,
)
from tosaic.errors import UnsupportedError
from tosaic.hw.cabac_timing import block_cycles
from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, INSTRUCTION_BYTES, Opcode
from tosaic.hw.nnr_streams import interleave, stream_levels


class Method(enum.Enum):
    """How weights may be compressed."""

    NNR = "nnr"
    """Decoded once, by the boot part; in every run where that is predicted to be faster than to load them."""
    NNR_STREAM = "nnr-stream"
    """Decoded in every run, for memory that has no room for decoded weights."""
    FAST = "fast"
    """Packed rows, no NNR, which LOAD unpacks, where that is predicted to be faster than to load them as they are."""


METHODS = tuple(method.value for method in Method)
_DQ_FLAG_BINS = 1
"""Bins of the flag of dependent quantization, which begins a stream."""
_LENGTH_BITS = next(field.bits for field in FIELDS[Opcode.LOAD_STREAMS] if field.name == "length_0")


@dataclasses.dataclass(frozen=True)
class CodedBlock:
    """What LOAD_DECODE decodes to `weights` weights."""

    data: bytes
    lengths: tuple[int, ...]
    """Bytes of each stream."""
    weights: int
    cycles: int
    """Cycles that the decoder takes."""
    crc32: int
    """CRC-32 of the weights."""


@dataclasses.dataclass(frozen=True)
class CodedWeights:
    """A weight tensor as blocks, in its order."""

    blocks: tuple[CodedBlock, ...]
    at_boot: bool
    """The boot part decodes them, once; else every run does."""

    @property
    def cycles(self) -> int:
        """That the decoder takes for all of them."""
        return sum(block.cycles for block in self.blocks)


class WeightCoder:
    """Codes packed weights for one configuration and a memory of `bytes_per_cycle` (None: the bus width).
    UnsupportedError when it has no decoder."""

    def __init__(self, config: Config, method: Method = Method.NNR, bytes_per_cycle: float | None = None):
        if not config.cabac_engines:
            raise UnsupportedError(
                f"configuration {config.name!r} has no decoder for compressed weights (cabac_engines is 0); "
                "compile without compression or for another configuration"
            )
        self._config, self._method = config, method
        self.bytes_per_cycle = min(bytes_per_cycle or config.word_bytes, config.word_bytes)
        self._known: dict[bytes, CodedWeights | None] = {}
        """Weights by what was coded: they are laid out anew when the compiler tries again with less memory."""

    def group_bytes(self, blob_bytes: int) -> int:
        """Bytes of the whole blobs that are decoded together in every run."""
        limit = min(CODED_GROUP_BYTES, self._config.wm_bytes // WEIGHT_GROUP_WM_PART)
        return max(1, limit // blob_bytes) * blob_bytes

    def code(self, data: np.ndarray, blob_bytes: int) -> CodedWeights | None:
        """int8 `data` coded, or None where that is not smaller."""
        flat = np.ascontiguousarray(data, np.int8).reshape(-1)
        key = hashlib.sha256(flat.tobytes() + blob_bytes.to_bytes(8, "little")).digest()
        if key not in self._known:
            self._known[key] = next(self._coded(flat, blob_bytes), None)
        return self._known[key]

    def _coded(self, flat: np.ndarray, blob_bytes: int) -> Iterator[CodedWeights]:
        """Yields the weights in the ways that the method has, the best first."""
        at_will = self._method is Method.NNR
        # An engine decodes one weight per cycle at most.
        if not at_will or self._config.cabac_engines > self.bytes_per_cycle:
            blocks = self._smaller(flat, self.group_bytes(blob_bytes), CODED_BLOCK_INSTRUCTIONS)
            coded = CodedWeights(blocks, at_boot=False) if blocks else None
            if coded and (
                not at_will or coded.cycles < DECODED_SHARE * load_cycles(flat.size, self.bytes_per_cycle)
            ):
                yield coded
        if at_will:
            blocks = self._smaller(
                flat,
                min(BOOT_BLOCK_BYTES, self._config.am_bytes // BOOT_BLOCK_AM_PART),
                BOOT_BLOCK_INSTRUCTIONS,
            )
            if blocks:
                yield CodedWeights(blocks, at_boot=True)

    def _smaller(self, flat: np.ndarray, step: int, instructions: int) -> tuple[CodedBlock, ...]:
        """Blocks of `step` weights with as many streams as there are engines, or with fewer where only those are
        smaller than the weights; none where they are not. `instructions`: of each block."""
        streams = self._config.cabac_engines
        while streams:
            blocks = [self._block(flat[start : start + step], streams) for start in range(0, flat.size, step)]
            stored = sum(len(block.data) + instructions * INSTRUCTION_BYTES for block in blocks)
            longest = max(length for block in blocks for length in block.lengths)
            if stored + INSTRUCTION_BYTES < flat.size and longest < 1 << _LENGTH_BITS:
                return tuple(blocks)
            streams //= 2
        return ()

    def _block(self, weights: np.ndarray, streams: int) -> CodedBlock:
        # Imported here: most networks keep their weights as they are.
        from tosaic.nnr import levels as codec

        word_bytes = self._config.word_bytes
        while streams > 1 and weights.size < streams * CODED_STREAM_WEIGHTS:
            streams //= 2
        payloads, positions, levels = [], [], []
        for slices in stream_levels(weights.size, streams, word_bytes):
            own = np.concatenate([weights[piece] for piece in slices])
            levels.append(own)
            payloads.append(codec.encode(own, CODED_UNARY_LENGTH))
            found = codec.decode(payloads[-1], own.size, CODED_UNARY_LENGTH, with_positions=streams > 1)
            positions.append(found.positions.tolist())
        block = interleave(payloads, positions, weights.size, word_bytes)
        cycles = block_cycles(
            levels, CODED_UNARY_LENGTH, word_bytes, dependent=False, header_bins=_DQ_FLAG_BINS
        )
        lengths = tuple(len(payload) for payload in payloads)
        return CodedBlock(block, lengths, weights.size, cycles, zlib.crc32(weights.tobytes()))
