"""Where the elements of dense tensors are: bytes from one to the next, and what a box of them spans."""

import math

from tosaic.compiler.place.stored_box import StoredBox


def dense_strides(shape: tuple[int, ...], size: int) -> list[int]:
    """Byte strides of a dense row-major tensor."""
    strides, step = [], size
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return strides[::-1]


def operand_strides(shape: tuple[int, ...], target: tuple[int, ...], size: int) -> list[int]:
    """Byte strides of an operand broadcast to the target's shape."""
    return [
        0 if extent == 1 and wanted != 1 else stride
        for extent, wanted, stride in zip(shape, target, dense_strides(shape, size), strict=True)
    ]


def operand_span(
    shape: tuple[int, ...], low: tuple[int, ...], counts: tuple[int, ...], size: int
) -> tuple[int, int]:
    """Bytes [start, stop) of an operand, perhaps broadcast, that a box of the result needs.

    The box, from `low` with `counts` elements, is contiguous in the result; then its operands are too.
    """
    strides = dense_strides(shape, size)
    start = sum(i * stride for i, stride, extent in zip(low, strides, shape, strict=True) if extent > 1)
    return start, start + size * math.prod(c for c, extent in zip(counts, shape, strict=True) if extent > 1)


def operand_box(
    shape: tuple[int, ...], low: tuple[int, ...], counts: tuple[int, ...], size: int
) -> StoredBox:
    """What a box of the result, from `low` with `counts` elements, needs of an operand, perhaps broadcast."""
    dims = [
        (count, stride, first)
        for count, stride, first, extent in zip(counts, dense_strides(shape, size), low, shape, strict=True)
        if extent > 1
    ]
    start = sum(first * stride for _, stride, first in dims)
    return StoredBox(start, tuple((count, stride) for count, stride, _ in dims), size).merged()
