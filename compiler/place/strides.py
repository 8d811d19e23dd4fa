"""Where the elements of dense tensors are: bytes from one to the next, and what a box of them spans."""

import math


def dense_strides(shape: tuple[int, ...], size: int) -> list[int]:
    """Byte strides of a dense row-major tensor."""
    strides, step = [], size
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return strides[::-1]


def operand_strides(shape: tuple[int, ...], target: tuple[int, ...], size: int) -> list[int]:
    """Byte strides of a dense operand broadcast to the target's shape."""
    return broadcast_strides(shape, target, dense_strides(shape, size))


def broadcast_strides(shape: tuple[int, ...], target: tuple[int, ...], strides: list[int]) -> list[int]:
    """Byte strides of an operand along the axes of the target's shape; `strides` are those along its own."""
    return [
        0 if extent == 1 and wanted != 1 else stride
        for extent, wanted, stride in zip(shape, target, strides, strict=True)
    ]


def box_span(
    strides: tuple[int, ...], low: tuple[int, ...], counts: tuple[int, ...], size: int
) -> tuple[int, int]:
    """Bytes [start, stop) of an operand of elements of `size` bytes, `strides` bytes apart along the result's axes,
    from the first to the last that a box of the result needs, from `low` with `counts` elements."""
    start = sum(i * stride for i, stride in zip(low, strides, strict=True))
    last = sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True))
    return start, start + last + size


def operand_span(
    shape: tuple[int, ...], low: tuple[int, ...], counts: tuple[int, ...], size: int
) -> tuple[int, int]:
    """Bytes [start, stop) of an operand, perhaps broadcast, that a box of the result needs.

    The box, from `low` with `counts` elements, is contiguous in the result; then its operands are too.
    """
    strides = dense_strides(shape, size)
    start = sum(i * stride for i, stride, extent in zip(low, strides, shape, strict=True) if extent > 1)
    return start, start + size * math.prod(c for c, extent in zip(counts, shape, strict=True) if extent > 1)
