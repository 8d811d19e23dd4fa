"""The address generators of the vector unit."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from tosaic.hw.isa import STREAM_DIMS, Element, Instruction, Opcode

ELEMENT_DTYPES: dict[Element, np.dtype] = {
    Element.INT8: np.dtype(np.int8),
    Element.UINT8: np.dtype(np.uint8),
    Element.INT16: np.dtype("<i2"),
    Element.UINT16: np.dtype("<u2"),
    Element.INT32: np.dtype("<i4"),
    Element.INT48: np.dtype("<i8"),
}
ELEMENT_BOUNDS = {
    Element.INT8: 1 << 7,
    Element.UINT8: 1 << 8,
    Element.INT16: 1 << 15,
    Element.UINT16: 1 << 16,
    Element.INT32: 1 << 31,
    Element.INT48: 1 << 63,
}
"""Largest magnitude of what lies in memory."""


class Accesses(NamedTuple):
    """Accesses of a stream, numbered from the GO's start: [batches, slots] of them from `first` on, `stride` apart from
    one batch to the next."""

    first: int
    batches: int
    slots: int
    stride: int

    @property
    def numbers(self) -> np.ndarray:
        """int64 [batches, slots], not to be changed."""
        return _numbers(self)


@functools.lru_cache(1 << 8)
def _numbers(accesses: Accesses) -> np.ndarray:
    return (accesses.first + accesses.stride * np.arange(accesses.batches))[:, None] + np.arange(
        accesses.slots
    )


@functools.lru_cache(1 << 10)
def _walk(accesses: Accesses, counts: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """int64 [batches, slots]: bytes from the stream's address to those of its accesses. The GOs of a layer take the
    same walk, from other addresses."""
    result, rest = np.zeros((accesses.batches, accesses.slots), np.int64), accesses.numbers
    for count, stride in zip(counts, strides, strict=True):
        if count > 1:
            rest, index = np.divmod(rest, count)
            if stride:
                result += index * stride
    return result


@dataclasses.dataclass
class Stream:
    """A walk through activation memory: six nested dimensions, dim 0 fastest, over and over. If `indexed`, offsets
    add to the address, one for each turn of dim 1."""

    address: int = 0
    element: Element = Element.INT8
    splat: bool = False
    indexed: bool = False
    counts: list[int] = dataclasses.field(default_factory=lambda: [1] * STREAM_DIMS)
    strides: list[int] = dataclasses.field(default_factory=lambda: [0] * STREAM_DIMS)

    def configure(self, instruction: Instruction) -> None:
        """Take a VECTOR_STREAM or VECTOR_DIMS."""
        if instruction.opcode == Opcode.VECTOR_STREAM:
            self.element = Element(instruction.element)
            self.address, self.splat = instruction.address, bool(instruction.splat)
            self.indexed = bool(instruction.indexed)
        else:
            dim = 2 * instruction.pair
            self.counts[dim : dim + 2] = [instruction.count_low, instruction.count_high]
            self.strides[dim : dim + 2] = [instruction.stride_low, instruction.stride_high]

    def addresses(self, accesses: "Accesses", offsets: np.ndarray) -> np.ndarray:
        """Byte addresses (before wrapping), [1 or samples, ...], of accesses [...], which are numbered from the GO's
        start; `offsets` int64 [samples, n]."""
        result = self.address + _walk(accesses, tuple(self.counts), tuple(self.strides))
        if self.indexed:
            return result + offsets[:, self.turns(accesses)]
        return result[None]

    def turns(self, accesses: "Accesses") -> np.ndarray:
        """Returns the turns of dimension 1, which choose offsets, of accesses."""
        return accesses.numbers // self.counts[0] % self.counts[1]

    def address_of(self, access: int) -> int:
        """Byte address (before wrapping, without offset) of one access."""
        result = self.address
        for count, stride in zip(self.counts, self.strides, strict=True):
            if not access:
                break
            if count > 1:
                access, index = divmod(access, count)
                result += index * stride
        return result

    def at_last_turn(self, accesses: np.ndarray) -> np.ndarray:
        """Whether dim 0 is at its last turn."""
        return accesses % self.counts[0] == self.counts[0] - 1
