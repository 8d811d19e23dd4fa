"""RESHAPE: the same elements in the same order, under another shape.

The axes fall into groups of as many elements before as after. Ranges of the first axis of a group that has more than
one element are neighbours in both shapes; ranges of the other axes are not.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping

from tosaic.compiler.cut.boxes import Box, NotCut, Range, leading_axis, whole
from tosaic.compiler.cut.nests import AxisCut, Cuttable

Shape = tuple[int, ...]

_APART = "of the axes that a RESHAPE joins or splits, the first one is cut: other cuts have elements from many places"


@dataclasses.dataclass(frozen=True)
class SameElements(Cuttable):
    """A RESHAPE from the shape `before`."""

    before: Shape
    shape: Shape

    def needs(self, box: Box, parts: Mapping[str, Range] | None = None) -> dict[int, Box]:
        return {0: _carried(box, self.shape, self.before)}

    def makes(self, operand: int, given: Box) -> Box | NotCut:
        for axis, cut in enumerate(given):
            if cut != (0, self.before[axis]) and _axis_cut(self.before, self.shape, axis).whole:
                return NotCut(_APART)
        return self.makes_of(_carried(given, self.before, self.shape))

    def axis(self, axis: int) -> AxisCut:
        return _axis_cut(self.shape, self.before, axis)


def _axis_cut(shape: Shape, other: Shape, axis: int) -> AxisCut:
    """How an axis of `shape` is cut so that the box is one of `other`, too."""
    if shape[axis] == 1:
        return AxisCut()
    mine, theirs = next(group for group in _groups(shape, other) if axis in group[0])
    leading, row = _leading(shape, mine)
    if axis != leading:
        return AxisCut(whole=_APART)
    other_row = _leading(other, theirs)[1]
    return AxisCut(other_row // math.gcd(other_row, row))


def _carried(box: Box, shape: Shape, other: Shape) -> Box:
    """The largest box of `other` whose elements are all in a box of `shape`."""
    found: list[Range] = list(whole(other))
    for mine, theirs in _groups(shape, other):
        if math.prod(shape[axis] for axis in mine) > 1:
            axis, row = _leading(shape, mine)
            there, other_row = _leading(other, theirs)
            found[there] = -(-box[axis][0] * row // other_row), box[axis][1] * row // other_row
    return tuple(found)


def _leading(shape: Shape, axes: range) -> tuple[int, int]:
    """The first axis of a group of more than one element, and the elements behind it in the group."""
    axis = axes[leading_axis(tuple(shape[each] for each in axes))]
    return axis, math.prod(shape[axis + 1 : axes.stop])


def _groups(shape: Shape, other: Shape) -> Iterator[tuple[range, range]]:
    """The axes of both shapes, group by group."""
    begins, ends = (0, 0), (0, 0)
    while ends != (len(shape), len(other)):
        here, there = (math.prod(each[a:b]) for each, a, b in zip((shape, other), begins, ends, strict=True))
        if here == there and ends[0] > begins[0] and ends[1] > begins[1] and here > 1:
            yield range(begins[0], ends[0]), range(begins[1], ends[1])
            begins = ends
        elif ends[1] == len(other) or (here <= there and ends[0] < len(shape)):
            ends = ends[0] + 1, ends[1]
        else:
            ends = ends[0], ends[1] + 1
    yield range(begins[0], ends[0]), range(begins[1], ends[1])
