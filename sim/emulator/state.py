"""The machine's storage, and the exception its units raise."""

import collections

import numpy as np

from tosaic.hw.config import Config

from .faults import Fault
from .hazards import Hazards


class ActivationMemory:
    """Byte-addressed memory whose addresses wrap; every read is of `word_bytes` bytes from any address."""

    def __init__(self, size_bytes: int, word_bytes: int):
        self.size_bytes = size_bytes
        self.word_bytes = word_bytes
        # The first word is repeated behind the last byte so that no read of a word has to wrap.
        self._bytes = np.zeros(size_bytes + word_bytes, np.uint8)
        self._words = np.lib.stride_tricks.sliding_window_view(self._bytes, word_bytes)

    def read_words(self, addresses: np.ndarray) -> np.ndarray:
        """uint8 [..., word_bytes] of int64 addresses [...]."""
        return self._words[addresses & (self.size_bytes - 1)]

    def read(self, address: int, count: int) -> np.ndarray:
        """`count` bytes from `address` on."""
        return self._bytes[(address + np.arange(count)) & (self.size_bytes - 1)]

    def write(self, addresses: np.ndarray, data: np.ndarray) -> None:
        """Scatter bytes; where addresses repeat, the last one in C order stays."""
        self._bytes[addresses & (self.size_bytes - 1)] = data
        self._mirror()

    def read_rows(self, rows: np.ndarray, row_bytes: int) -> np.ndarray:
        """uint8 [n, row_bytes] of rows that begin at the addresses `rows` [n]."""
        starts = rows & (self.size_bytes - 1)
        if starts.max() + row_bytes <= self.size_bytes:
            return np.lib.stride_tricks.sliding_window_view(self._bytes, row_bytes)[starts]
        return self._bytes[(starts[:, None] + np.arange(row_bytes)) & (self.size_bytes - 1)]

    def write_rows(self, rows: np.ndarray, data: np.ndarray) -> None:
        """The reverse of `read_rows`; where rows overlap, the later one stays."""
        for start, content in zip((rows & (self.size_bytes - 1)).tolist(), data, strict=True):
            if start + len(content) <= self.size_bytes:
                self._bytes[start : start + len(content)] = content
            else:
                self._bytes[(start + np.arange(len(content))) & (self.size_bytes - 1)] = content
        self._mirror()

    def _mirror(self) -> None:
        self._bytes[self.size_bytes :] = self._bytes[: self.word_bytes]


class AccumulatorQueue:
    """Vectors of W int32 on their way from the array to the vector unit."""

    def __init__(self, columns: int):
        self._columns = columns
        self._blocks: collections.deque[np.ndarray] = collections.deque()
        self.vectors = 0

    def push(self, block: np.ndarray) -> None:
        """Append int32 [vectors, W]."""
        if len(block):
            self._blocks.append(block)
            self.vectors += len(block)

    def pop(self, count: int) -> np.ndarray:
        """The next int32 [count, W]; Fault when there are fewer: the vector unit would wait forever."""
        if count > self.vectors:
            raise Fault(None, f"takes {count} vectors out of the array, which has sent {self.vectors}")
        self.vectors -= count
        taken = []
        while count:
            block = self._blocks.popleft()
            if len(block) > count:
                self._blocks.appendleft(block[count:])
                block = block[:count]
            taken.append(block)
            count -= len(block)
        return np.concatenate(taken) if taken else np.zeros((0, self._columns), np.int32)


class State:
    """Memories and connections shared by the units."""

    def __init__(self, config: Config, memory: np.ndarray, hazards: Hazards | None = None):
        self.config = config
        self.memory = memory
        self.hazards = hazards
        self.am = ActivationMemory(config.am_bytes, config.columns)
        self.wm = np.zeros((config.wm_words, config.columns), np.int8)
        self.accumulator_queue = AccumulatorQueue(config.columns)
        self.streamed_words: collections.deque[int] = collections.deque()
        """Weight memory words of `streamed` loads that no `streamed` ARRAY_GO has read yet."""
