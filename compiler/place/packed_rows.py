"""Weights as packed rows, which LOAD unpacks at nearly a word per cycle (`hw/packed_weights.py`): for slow memory."""

import dataclasses
import hashlib
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.cost.transfers import packed_row_cycles
from tosaic.compiler.machine_numbers import CODED_GROUP_BYTES, PACKED_ROWS_SHARE, WEIGHT_GROUP_WM_PART
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.packed_weights import PALETTE_SIZE, WeightCoding, pack


@dataclasses.dataclass(frozen=True)
class PackedRows:
    """A weight tensor as rows, in its order."""

    rows: tuple[bytes, ...]
    group_bytes: int
    """Bytes of weights of each row but perhaps the last."""
    weights: int


class RowPacker:
    """Packs weights for one configuration and a memory of `bytes_per_cycle` (None: the bus width).
    UnsupportedError when it has no unpacker."""

    def __init__(self, config: Config, bytes_per_cycle: float | None = None):
        if not config.unpackers:
            raise UnsupportedError(
                f"configuration {config.name!r} has no unpacker for packed weights (unpackers is 0); "
                "compile without compression or for another configuration"
            )
        self._config = config
        self._bytes_per_cycle = min(bytes_per_cycle or config.word_bytes, config.word_bytes)
        self._known: dict[bytes, PackedRows | None] = {}

    def group_bytes(self, blob_bytes: int) -> int:
        """Bytes of the whole blobs that are a row."""
        limit = min(CODED_GROUP_BYTES, self._config.wm_bytes // WEIGHT_GROUP_WM_PART)
        return max(1, limit // blob_bytes) * blob_bytes

    def code(self, data: np.ndarray, blob_bytes: int) -> PackedRows | None:
        """int8 `data` packed, or None where it is loaded about as fast as it is."""
        flat = np.ascontiguousarray(data, np.int8).reshape(-1)
        key = hashlib.sha256(flat.tobytes() + blob_bytes.to_bytes(8, "little")).digest()
        if key not in self._known:
            self._known[key] = self._packed(flat, self.group_bytes(blob_bytes))
        return self._known[key]

    def _packed(self, flat: np.ndarray, step: int) -> PackedRows | None:
        """Packs with the mode that is the fastest for each row."""
        word_bytes = self._config.word_bytes
        rows, cycles, rate = [], 0.0, self._bytes_per_cycle
        for start in range(0, flat.size, step):
            found = [
                (packed_row_cycles(len(row), mode, len(own) // word_bytes, word_bytes, rate), row)
                for own in (flat[start : start + step],)
                for mode in _modes(own)
                for row in (pack(own, mode, word_bytes),)
            ]
            if not found:
                return None
            best, row = min(found)
            rows.append(row)
            cycles += best
        if cycles >= PACKED_ROWS_SHARE * flat.size / rate:
            return None
        return PackedRows(tuple(rows), step, flat.size)


def _modes(weights: np.ndarray) -> Iterator[WeightCoding]:
    """Those that may make the weights smaller."""
    if 8 * np.count_nonzero(weights) + weights.size < 8 * weights.size:
        yield WeightCoding.MASK
    values = len(np.unique(weights))
    for mode in (WeightCoding.PALETTE_4, WeightCoding.PALETTE_16):
        if values <= PALETTE_SIZE[mode]:
            yield mode
            return
