"""The on-chip storage of the machine, for each sample of a batch, and the connections of its units."""

import collections
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import Error

from .domain import BYTES, Domain
from .external_memory import ExternalBytes
from .faults import Diverged, Fault
from .hazards import Hazards


class ActivationBytes:
    """Byte-addressed memory whose addresses wrap; a read of a word is of `word_bytes` bytes from any address.

    Each sample has its own contents. Addresses have one row for each sample, or a single one for all. With `parity` a
    read of a byte with an odd number of flipped bits is a Fault.
    """

    def __init__(
        self, samples: int, size_bytes: int, word_bytes: int, domain: Domain = BYTES, *, parity: bool = False
    ):
        self.size_bytes = size_bytes
        self.word_bytes = word_bytes
        # The first word is repeated behind the last byte so that no read of a word has to wrap.
        self._bytes = domain.unwritten((samples, size_bytes + word_bytes))
        self._mirror()
        self._parity = parity
        self._wrong: ActivationBytes | None = None
        """1 for each byte whose parity is wrong; None until one is."""

    def flip(self, address: int, bit: int) -> None:
        """Change a bit of a byte, as radiation does."""
        self._bytes[:, address] ^= 1 << bit
        self._mirror()
        if self._parity:
            self._wrong = self._wrong or ActivationBytes(len(self._bytes), self.size_bytes, self.word_bytes)
            self._wrong.flip(address, 0)

    def read_words(self, addresses: np.ndarray) -> np.ndarray:
        """uint8 [samples, ..., word_bytes] of int64 addresses [1 or samples, ...]."""
        if self._wrong:
            _check_parity(self._wrong.read_words(addresses))
        result = np.empty((len(self._bytes), *addresses.shape[1:]), self._item(self.word_bytes))
        for sample, (words, starts) in enumerate(self._items(addresses, self.word_bytes)):
            result[sample] = words[starts]
        return result[..., None].view(self._bytes.dtype)

    def read(self, address: int, count: int) -> np.ndarray:
        """uint8 [samples, count] from `address` on, each sample's in one piece; a view where they do not wrap."""
        if self._wrong:
            _check_parity(self._wrong.read(address, count))
        start = address & (self.size_bytes - 1)
        if start + count <= self._bytes.shape[1]:
            return self._bytes[:, start : start + count]
        return np.take(self._bytes, (start + np.arange(count)) & (self.size_bytes - 1), axis=1)

    def nested(self, address: int, counts: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray | None:
        """uint8 [samples, *counts]: the bytes that nested loops of these counts and strides reach from `address` on, as
        a view where they do not wrap. None where they lie further apart than the memory is large."""
        reaches = [(count - 1) * stride for count, stride in zip(counts, strides, strict=True)]
        before, count = -sum(min(reach, 0) for reach in reaches), sum(map(abs, reaches)) + 1
        if count > self.size_bytes:
            return None
        if self._wrong:
            _check_parity(self._wrong.nested(address, counts, strides))
        start, content = (address - before) & (self.size_bytes - 1), self._bytes
        if start + count > content.shape[1]:
            start, content = 0, self.read(address - before, count)
        shape, (pitch, cell) = (len(content), *counts), content.strides
        steps = [cell * stride for stride in strides]
        return np.ndarray(shape, content.dtype, content.data, cell * (start + before), (pitch, *steps))

    def write(self, addresses: np.ndarray, data: np.ndarray) -> None:
        """Scatter uint8 [samples, n, bytes] to addresses [1 or samples, n]; where they overlap, the last one stays."""
        width = data.shape[-1]
        if not width or not addresses.size:
            return
        if self._wrong:
            self._wrong.write(addresses, np.zeros_like(data))
        if (addresses & (self.size_bytes - 1)).max() + width <= self.size_bytes:
            content = np.ascontiguousarray(data).view(self._item(width))[..., 0]
            for own, (items, starts) in zip(content, self._items(addresses, width), strict=True):
                items[starts] = own
        else:
            places = (addresses[..., None] + np.arange(width)) & (self.size_bytes - 1)
            for own, content, starts in zip(self._bytes, data, _each(places, len(data)), strict=True):
                own[starts] = content
        self._mirror()

    def read_rows(self, rows: np.ndarray, row_bytes: int) -> np.ndarray:
        """uint8 [samples, n, row_bytes] of rows that begin at the addresses `rows` [n]."""
        return np.stack([self.read(start, row_bytes) for start in rows.tolist()], axis=1)

    def write_rows(self, rows: np.ndarray, data: np.ndarray) -> None:
        """Place uint8 [1 or samples, n, row_bytes]; where rows overlap, the later one stays."""
        if self._wrong:
            self._wrong.write_rows(rows, np.zeros_like(data))
        size, row_bytes = self.size_bytes, data.shape[-1]
        for start, content in zip((rows & (size - 1)).tolist(), data.swapaxes(0, 1), strict=True):
            if start + row_bytes <= size:
                self._bytes[:, start : start + row_bytes] = content
            else:
                self._bytes[:, (start + np.arange(row_bytes)) & (size - 1)] = content
        self._mirror()

    def _items(self, addresses: np.ndarray, width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Returns, for each sample, an item of `width` bytes from every address on, and the wrapped `addresses`."""
        size = self._bytes.shape[1]
        shape = (len(self._bytes), size - width + 1)
        items: np.ndarray = np.ndarray(shape, self._item(width), self._bytes.data, 0, self._bytes.strides)
        return zip(items, _each(addresses & (self.size_bytes - 1), len(items)), strict=True)

    def _item(self, width: int) -> np.dtype:
        """Returns the type as which NumPy moves `width` bytes at once."""
        return np.dtype((np.void, width * self._bytes.itemsize))

    def content(self) -> np.ndarray:
        """Returns a view [samples, bytes] of all; `settle` after a change."""
        return self._bytes[:, : self.size_bytes]

    def settle(self) -> None:
        """`content` may have been changed."""
        self._mirror()

    def _mirror(self) -> None:
        self._bytes[:, self.size_bytes :] = self._bytes[:, : self.word_bytes]


def _check_parity(wrong: np.ndarray | None) -> None:
    """Fault where one of the bytes or words that are read has a wrong parity."""
    if wrong is not None and wrong.any():
        raise Fault(Error.DATA, "a bit of what it reads from on-chip memory has flipped")


def _each(values: np.ndarray, samples: int) -> np.ndarray:
    """One row of [1 or samples, ...] for each sample."""
    return values if len(values) == samples else np.broadcast_to(values, (samples, *values.shape[1:]))


class WeightWords:
    """Words of weights, kept once where they are the same for all samples of a batch. With `parity` a read of a word
    with an odd number of flipped bits is a Fault."""

    def __init__(
        self, samples: int, words: int, columns: int, domain: Domain = BYTES, *, parity: bool = False
    ):
        self._samples = samples
        self._common = domain.unwritten((words, columns)).view(domain.word)
        self._own: np.ndarray | None = None
        """int8 [samples, words, columns]; None until one is needed."""
        self._differs = np.zeros(words, bool)
        """Words that are in `_own`."""
        self._parity = parity
        self._wrong: np.ndarray | None = None
        """bool [words]; None until one is."""

    def flip(self, word: int, column: int, bit: int) -> None:
        """Change a bit of a weight, as radiation does."""
        for words in (self._common[None],) if self._own is None else (self._common[None], self._own):
            words.view(np.uint8)[:, word, column] ^= 1 << bit
        if self._parity:
            self._wrong = np.zeros(len(self._common), bool) if self._wrong is None else self._wrong
            self._wrong[word] ^= True

    def places(self, first: int, count: int) -> np.ndarray | slice:
        """Returns the places of `count` words from number `first` on; numbers wrap."""
        size = len(self._differs)
        first %= size
        return slice(first, first + count) if first + count <= size else (first + np.arange(count)) % size

    def write(self, places: np.ndarray | slice, words: np.ndarray) -> None:
        """Place int8 [1 or samples, n, columns]."""
        self._differs[places] = len(words) > 1
        if self._wrong is not None:
            self._wrong[places] = False
        if len(words) == 1:
            self._common[places] = words[0]
            return
        if self._own is None:
            self._own = np.zeros((self._samples, *self._common.shape), self._common.dtype)
        self._own[:, places] = words

    def content(self) -> np.ndarray:
        """Returns a view [words, columns] of what all samples have."""
        return self._common

    def read(self, places: np.ndarray | slice) -> np.ndarray:
        """int8 [1 or samples, n, columns]; may be a view."""
        if self._wrong is not None:
            _check_parity(self._wrong[places])
        common = self._common[places][None]
        if self._own is None or not (differs := self._differs[places]).any():
            return common
        return np.where(differs[:, None], self._own[:, places], common)


class KnownLanes(NamedTuple):
    """Lanes of a vector of the array, from lane 0 on, that only known weights have a part in."""

    lanes: int
    unknown_byte: int = 0
    """Address in weight memory of a byte that nothing has written and that the next lane depends on."""


class AccumulatorQueue:
    """Vectors of W int32 on their way from the array to the vector unit, of every sample."""

    def __init__(self, samples: int, columns: int, domain: Domain = BYTES):
        self._empty = domain.accumulators((samples, 0, columns))
        self._blocks: collections.deque[np.ndarray] = collections.deque()
        self._lanes: collections.deque[tuple[int, KnownLanes]] = collections.deque()
        """(vectors, what is known of each)."""
        self.vectors = 0

    def push(self, block: np.ndarray, lanes: KnownLanes | None = None) -> None:
        """Append int32 [samples, vectors, W]; `lanes`: those that are known, where somebody wants to know."""
        if block.shape[1]:
            self._blocks.append(block)
            self.vectors += block.shape[1]
            if lanes is not None:
                self._lanes.append((block.shape[1], lanes))

    def pop(self, count: int) -> np.ndarray:
        """The next int32 [samples, count, W]; Fault when there are fewer: the vector unit would wait forever."""
        if count > self.vectors:
            raise Fault(None, f"takes {count} vectors out of the array, which has sent {self.vectors}")
        self.vectors -= count
        taken = []
        while count:
            block = self._blocks.popleft()
            if block.shape[1] > count:
                self._blocks.appendleft(block[:, count:])
                block = block[:, :count]
            taken.append(block)
            count -= block.shape[1]
        if len(taken) == 1:
            return taken[0]
        return np.concatenate(taken, axis=1) if taken else self._empty

    def pop_lanes(self, count: int) -> list[KnownLanes]:
        """Returns the known lanes of each of the `count` vectors that were taken."""
        taken = list[KnownLanes]()
        while count > len(taken):
            there, lanes = self._lanes.popleft()
            missing = count - len(taken)
            if there > missing:
                self._lanes.appendleft((there - missing, lanes))
            taken += [lanes] * min(there, missing)
        return taken


class CoreState:
    """Memories and connections shared by the units."""

    def __init__(self, config: Config, memory: ExternalBytes, hazards: Hazards | None = None):
        self.config = config
        self.samples = samples = memory.samples
        self.memory = memory
        self.hazards = hazards
        self.domain = domain = memory.domain
        parity = bool(config.memory_parity)
        self.am = ActivationBytes(samples, config.am_bytes, config.columns, domain, parity=parity)
        self.wm = WeightWords(samples, config.wm_words, config.columns, domain, parity=parity)
        self.accumulator_queue = AccumulatorQueue(samples, config.columns, domain)
        self.streamed_words: collections.deque[np.ndarray] = collections.deque()
        """Weight memory words of rows of `streamed` loads that no `streamed` ARRAY_GO has read yet."""
        self.crc = 0
        """The CRC of the checked rows that LOAD brought since the last LOAD_CHECK."""
        self.programs: list[range] = []
        """Bytes of external memory from which programs are read, which STORE may not write."""

    def read_known(self, address: int, count: int) -> bytes:
        """Bytes of external memory that are the same for all samples, and no results of a computation."""
        return agreed(self.domain.known(self.memory.read(address, count))).tobytes()


def agreed(values: np.ndarray) -> np.ndarray:
    """Returns the values that [samples, ...] holds for all samples alike; Diverged where they differ."""
    if len(values) == 1:
        return values[0]
    same = (values == values[:1]).reshape(len(values), -1).all(axis=1)
    if not same.all():
        raise Diverged(same)
    return values[0]
