"""Boxes: a range of each axis of a tensor."""

import dataclasses

import numpy as np

Range = tuple[int, int]
"""Indices [first, last)."""
Box = tuple[Range, ...]
"""A range of each axis."""


@dataclasses.dataclass(frozen=True)
class NotCut:
    """The answer where an operator cannot be cut so."""

    reason: str
    """What stands against it, as half a sentence for users."""


def whole(shape: tuple[int, ...]) -> Box:
    """All of a tensor."""
    return tuple((0, extent) for extent in shape)


def shape_of(box: Box) -> tuple[int, ...]:
    return tuple(last - first for first, last in box)


def is_empty(box: Box) -> bool:
    """Whether a box has no element."""
    return any(first >= last for first, last in box)


def hull(box: Box | None, other: Box) -> Box:
    """The smallest box that holds both."""
    if box is None:
        return other
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))


def meet(box: Box, other: Box) -> bool:
    """Whether two boxes of a tensor have elements in common."""
    return all(max(a, c) < min(b, d) for (a, b), (c, d) in zip(box, other, strict=True))


def leading_axis(shape: tuple[int, ...]) -> int:
    """The first axis of more than one element: ranges of it are contiguous. 0 if there is none."""
    return next((axis for axis, extent in enumerate(shape) if extent > 1), 0)


def part_of_array(data: np.ndarray, box: Box) -> np.ndarray:
    """A box of an array, a view of it."""
    return data[tuple(slice(first, last) for first, last in box)] if box else data
