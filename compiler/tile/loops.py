"""Loops over tensors, and what joins them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Axis:
    """One loop: its length, and for every stream (loads first, the store last) its stride in bytes."""

    count: int
    strides: tuple[int, ...]


def merge(axes: list[Axis]) -> list[Axis]:
    """Joins neighbours (slowest first) that every stream walks as one; drops axes of length 1."""
    out: list[Axis] = []
    for axis in axes:
        if axis.count == 1:
            continue
        if out and all(o == i * axis.count for o, i in zip(out[-1].strides, axis.strides, strict=True)):
            out[-1] = Axis(out[-1].count * axis.count, axis.strides)
        else:
            out.append(axis)
    return out
