"""What the emulator's memories hold and its units compute with: bytes and integers here, terms in `sim.terms`.

Memories, array and vector unit move cells (one for each byte) and lanes without looking into them; whatever they must
know or compute, they ask their domain. What a domain returns as lanes or sums has NumPy's shape, indices, `reshape`
and `copy`, and is taken by `np.concatenate` and `np.broadcast_to`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tosaic.hw.isa import Element, Instruction

from . import alu
from .alu import Value, VectorParameters
from .streams import ELEMENT_BOUNDS, ELEMENT_DTYPES

EXACT_FLOAT32 = 1 << 24
"""Sums of integers are exact in float32 as long as none is larger."""


class Domain(Protocol):
    """One kind of values. `Any` stands for its lanes, sums and operands."""

    cell: np.dtype
    """NumPy type of a byte in activation and external memory."""
    word: np.dtype
    """NumPy type of a byte in weight memory, as large as a cell."""
    sum: np.dtype
    """NumPy type of the sums of depthwise products, before `total`."""

    def begin(self, address: int) -> None:
        """The instruction at this byte of external memory is executed next."""

    def unwritten(self, shape: Sequence[int]) -> np.ndarray:
        """Cells that no program has written."""

    def cells(self, data: np.ndarray) -> np.ndarray:
        """Cells of the constants uint8 `data`."""

    def known(self, cells: np.ndarray) -> np.ndarray:
        """uint8 of cells; an error where they are no constants."""

    def offsets(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(int64 [samples, n], None) of the int32 in cells [samples, 4 * n]; where they are no constants (zeros, cells
        [samples, n, 4])."""

    def looked_up(
        self, offsets: np.ndarray, read: Callable[[int], np.ndarray], used_bytes: int
    ) -> np.ndarray:
        """Cells [.., bytes] that lie at offsets that are no constants, in cells [.., 4]. `read` returns those at the
        same offset for all; of each the first `used_bytes` count."""

    def placed(
        self, offset: np.ndarray, read: Callable[[int], np.ndarray], data: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(offsets [n], cells [samples, n, bytes]): what a store of `data` [samples, bytes] to an offset that is no
        constant, in cells [samples, 4], leaves where it may go. `read` returns what is at an offset before."""

    def operands(self, cells: np.ndarray, unsigned: bool, zero_point: int, dtype: np.dtype) -> np.ndarray:
        """Floats of 8-bit operands minus their zero point; the first axis may be longer, 0 stands for 0. An array that
        may not be written will be returned again."""

    def weights(self, words: np.ndarray, zero_point: int) -> Any:
        """Returns the weights minus their zero point: int16 where they are constants."""

    def exact_type(self, weights: Any, largest: int) -> np.dtype:
        """The float type in which sums of operands up to `largest` times weights [.., count, W] are exact."""

    def products(self, operands: np.ndarray, weights: Any, dtype: np.dtype) -> Any:
        """Sums [.., pixels, W] of operands [.., pixels, depth] times weights [.., depth, W], as int32."""

    def taps(self, weights: Any, dtype: np.dtype) -> Any:
        """Weights by which operands are multiplied, with the same first axis or one of 1; what `weighted` takes where
        they are no constants."""

    def used_taps(self, taps: Any) -> np.ndarray:
        """Bool [n]: which of taps [.., n, W] may be other than 0."""

    def weighted(self, operands: Sequence[np.ndarray], taps: Any) -> Any:
        """int32 [samples, m, W]: sums of n operands [.., m, W] times taps [1, n, W] that are no constants."""

    def total(self, sums: np.ndarray) -> Any:
        """int32 of sums of operands times `taps`."""

    def integers(self, sums: np.ndarray) -> np.ndarray:
        """Exact floats as the type `sum`."""

    def accumulate(self, sums: Any, before: Any) -> Any:
        """Returns the sum of both, as int32; `sums` may change."""

    def accumulators(self, shape: Sequence[int]) -> Any:
        """Sums that no GO has left."""

    def registers(self, shape: Sequence[int]) -> Any:
        """Lanes that no micro-operation has written."""

    def constant(self, number: int) -> Value:
        """The same number in all lanes."""

    def parameters(self, cells: np.ndarray, element: Element) -> Any:
        """Lanes of elements that VECTOR_PARAM or VECTOR_OFFSETS loads, [.., n]."""

    def load(self, cells: np.ndarray, element: Element) -> Value:
        """Lanes of the elements in cells [.., bytes]."""

    def store(self, lanes: Any, element: Element) -> np.ndarray:
        """Cells [.., bytes] of lanes [.., W]: of each the low bits."""

    def add(self, value: Value, other: Any) -> Value:
        """Adds an integer, or one for each lane."""

    def wrap(self, value: Value, bits: int) -> Value:
        """Two's complement of `bits` bits."""

    def operate(self, uop: Instruction, x: Value, b: Value, parameters: VectorParameters) -> Value:
        """The operation of a micro-operation alone."""

    def clamp(self, value: Value, low: int, high: int) -> Value:
        """Raises values to at least `low`, then lowers them to at most `high`."""


def micro_op(
    uop: Instruction,
    bounds: tuple[int, int],
    a: Value,
    b: Value,
    parameters: VectorParameters,
    bits: int,
    domain: "Domain | None" = None,
) -> Value:
    """The result of one micro-op, (A - a_zp + bias) op B, + out_zp, clamped to `bounds`, wrapped, in a vector unit of
    this many bits; of integers, where no other domain is named."""
    domain, x = domain or BYTES, a
    if uop.a_zp:
        x = domain.add(x, -uop.a_zp)
    if uop.bias:
        x = domain.add(x, parameters.bias)
    y = domain.operate(uop, domain.wrap(x, bits), b, parameters)
    if uop.out_zp:
        y = domain.add(y, uop.out_zp)
    y = domain.wrap(y, bits)
    if uop.clamp:
        y = domain.clamp(y, *bounds)
    return domain.wrap(y, 32) if uop.wrap32 else y


class Bytes:
    """Integers, as the machine has them; of each sample its own."""

    cell, word, sum = np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.int32)
    constant, add, wrap = staticmethod(alu.constant), staticmethod(alu.add), staticmethod(alu.wrap)
    operate, clamp = staticmethod(alu.operate), staticmethod(alu.clamp)

    def begin(self, address: int) -> None:
        pass

    def unwritten(self, shape: Sequence[int]) -> np.ndarray:
        return np.zeros(shape, np.uint8)

    def cells(self, data: np.ndarray) -> np.ndarray:
        return data

    def known(self, cells: np.ndarray) -> np.ndarray:
        return cells

    def offsets(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return np.ascontiguousarray(cells).view("<i4").astype(np.int64), None

    def looked_up(
        self, offsets: np.ndarray, read: Callable[[int], np.ndarray], used_bytes: int
    ) -> np.ndarray:
        raise AssertionError("all offsets are constants")

    def placed(
        self, offset: np.ndarray, read: Callable[[int], np.ndarray], data: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        raise AssertionError("all offsets are constants")

    def operands(self, cells: np.ndarray, unsigned: bool, zero_point: int, dtype: np.dtype) -> np.ndarray:
        operands = (cells if unsigned else cells.view(np.int8)).astype(dtype, order="C")
        if zero_point:
            operands -= zero_point
        return operands

    def weights(self, words: np.ndarray, zero_point: int) -> np.ndarray:
        return words.astype(np.int16) - np.int16(zero_point)

    def exact_type(self, weights: np.ndarray, largest: int) -> np.dtype:
        # Products are below 2**18, so that float64 sums of any depth that fits the memories are.
        bound = largest * int(np.abs(weights).sum(axis=1, dtype=np.int64).max(initial=0))
        return np.dtype(np.float32 if bound <= EXACT_FLOAT32 else np.float64)

    def products(self, operands: np.ndarray, weights: np.ndarray, dtype: np.dtype) -> np.ndarray:
        operands, weights = operands.astype(dtype, copy=False), weights.astype(dtype)
        if len(weights) > 1:
            return self.integers(operands @ weights)
        samples, pixels, depth = operands.shape
        return self.integers(operands.reshape(-1, depth) @ weights[0]).reshape(samples, pixels, -1)

    def taps(self, weights: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return weights.astype(dtype)

    def used_taps(self, taps: np.ndarray) -> np.ndarray:
        return taps.any(axis=(0, 2))

    def weighted(self, operands: Sequence[np.ndarray], taps: Any) -> Any:
        raise AssertionError("all taps are constants")

    def total(self, sums: np.ndarray) -> np.ndarray:
        return sums

    def integers(self, sums: np.ndarray) -> np.ndarray:
        """They wrap."""
        return sums.astype(np.int32) if sums.dtype == np.float32 else sums.astype(np.int64).astype(np.int32)

    def accumulate(self, sums: np.ndarray, before: np.ndarray) -> np.ndarray:
        sums += before
        return sums

    def accumulators(self, shape: Sequence[int]) -> np.ndarray:
        return np.zeros(shape, np.int32)

    def registers(self, shape: Sequence[int]) -> np.ndarray:
        return np.zeros(shape, np.int64)

    def parameters(self, cells: np.ndarray, element: Element) -> np.ndarray:
        return np.ascontiguousarray(cells).view(ELEMENT_DTYPES[element]).astype(np.int64)

    def load(self, cells: np.ndarray, element: Element) -> Value:
        return Value(cells.view(ELEMENT_DTYPES[element]).astype(np.int64), ELEMENT_BOUNDS[element])

    def store(self, lanes: np.ndarray, element: Element) -> np.ndarray:
        return np.ascontiguousarray(lanes.astype(ELEMENT_DTYPES[element])).view(np.uint8)


BYTES = Bytes()
