"""Ways to cut results over the cores: into ranges of the leading axis (images of a batch, rows), of the last one
(channels), or both."""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.cut.boxes import Box, leading_axis, whole


@dataclasses.dataclass(frozen=True, order=True)
class Grid:
    """Parts of the leading axis times parts of the last one; a core computes one of each."""

    leading: int
    last: int

    @property
    def cores(self) -> int:
        return self.leading * self.last

    def __str__(self) -> str:
        if self.cores == 1:
            return "one core"
        kinds = [(self.leading, "leading"), (self.last, "last")]
        return " and ".join(f"{parts} parts of the {name} axis" for parts, name in kinds if parts > 1)


ONE_CORE = Grid(1, 1)


def grids(cores: int) -> Iterator[Grid]:
    """The grids that use all cores, then a single one."""
    leading = cores
    while leading:
        yield Grid(leading, cores // leading)
        leading //= 2
    yield ONE_CORE


def box_of(shape: tuple[int, ...], grid: Grid, core: int, unit: int) -> Box | None:
    """The part of a result that a core computes; channels are cut at multiples of `unit`. None: nothing of it."""
    if core >= grid.cores or (core and not shape):
        return None
    if not shape:
        return ()
    box = list(whole(shape))
    axis, channel = leading_axis(shape), len(shape) - 1
    if grid.leading > 1:
        if axis == channel:
            return None if core else tuple(box)
        box[axis] = _part(shape[axis], grid.leading, core // grid.last, 1)
    if grid.last > 1:
        box[channel] = _part(shape[channel], grid.last, core % grid.last, unit)
    return None if any(first >= last for first, last in box) else tuple(box)


def _part(extent: int, parts: int, number: int, unit: int) -> tuple[int, int]:
    """One of even parts that begin at multiples of `unit`; the first ones are the larger ones."""
    units = -(-extent // unit)
    each, rest = divmod(units, parts)
    first = number * each + min(number, rest)
    last = first + each + (number < rest)
    return min(first * unit, extent), min(last * unit, extent)
