"""What to do with an array whose shape is not the wanted one: Python that keeps each element where it belongs.

A reshape that fits would scramble an image without an error, so axes are moved, added and dropped by name.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

Shape = tuple[int, ...]

_LAYOUTS: dict[int, tuple[Shape, ...]] = {
    2: ((1, 0),),
    3: ((2, 0, 1), (1, 2, 0), (0, 2, 1)),
    4: ((0, 3, 1, 2), (0, 2, 3, 1)),
    5: ((0, 4, 1, 2, 3), (0, 2, 3, 4, 1)),
}
"""Permutations between channels first and channels last, by rank: what frameworks differ in."""
_RANK_MAX = 6
_NAMED = 3
"""Permutations that are named where the sizes do not tell which is meant."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """How an array can be given."""

    expressions: tuple[str, ...]
    """Python of an array `x`: one, or as many as the sizes leave open; none where only samples are too many."""
    samples: int = 1
    """Samples that lie along the first axis then."""


def fit_of(shape: Sequence[int], wanted: Sequence[int]) -> Fit | None:
    """How an array of `shape` becomes one of `wanted`, or several samples of it; None where its size is another."""
    given, goal = tuple(shape), tuple(wanted)
    if max(len(given), len(goal)) > _RANK_MAX or not math.prod(given):
        return None
    if math.prod(given) == math.prod(goal):
        expressions = _expressions(given, goal)
        return Fit(expressions) if expressions else None
    if given[1:] == goal:
        return Fit((), given[0])
    if not given or not goal or given[0] % goal[0]:
        return None
    # The samples stay along the first axis.
    several = (given[0], *goal[1:])
    if several == given:
        return Fit((), given[0] // goal[0])
    expressions = _expressions(given, several, first=1)
    return Fit(expressions, given[0] // goal[0]) if expressions else None


def samples_advice(shape: Sequence[int], wanted: Sequence[int]) -> str:
    """What to append to the error on an array of samples, of a model that wants `wanted`; nothing where no move of its
    axes helps."""
    given, goal = tuple(shape), tuple(wanted)
    for inside in (goal[1:] if goal[:1] == (1,) else goal, goal):
        if len(given) == len(inside) + 1 and given:
            expressions = _expressions(given, (given[0], *inside), first=1) if given[1:] != inside else ()
            if expressions:
                return f": its axes are in another order, give {' or '.join(expressions)}"
    return ""


def _expressions(given: Shape, goal: Shape, first: int = 0) -> tuple[str, ...]:
    """Python that moves axes, and adds or drops those of size 1; axes before `first` stay."""
    more = len(goal) - len(given)
    choices = [axes for axes in _ones(goal if more > 0 else given, abs(more)) if not axes or axes[0] >= first]
    for moving in (False, True):
        for axes in choices:
            added, dropped = (axes, ()) if more > 0 else ((), axes)
            source = tuple(size for axis, size in enumerate(given) if axis not in dropped)
            target = tuple(size for axis, size in enumerate(goal) if axis not in added)
            before, after = _indexed(len(given), dropped), _indexed(len(goal), added, "None")
            if source == target:
                return (f"x{before}{after}",)
            found = _permutations(source, target, first) if moving else []
            if found:
                return tuple(f"x{before}.transpose{each}{after}" for each in _likely(found, source))
    return ()


def _ones(shape: Shape, count: int) -> Iterator[Shape]:
    """Each choice of axes of size 1, those at the front first."""
    return itertools.combinations([axis for axis, size in enumerate(shape) if size == 1], count)


def _permutations(given: Shape, goal: Shape, first: int) -> list[Shape]:
    """The permutations that fit, one of each order of the axes that are not 1; axes before `first` stay."""
    if sorted(given) != sorted(goal):
        return []
    found: dict[Shape, Shape] = {}
    for each in itertools.permutations(range(len(given))):
        if tuple(given[axis] for axis in each) == goal and each[:first] == tuple(range(first)):
            found.setdefault(_order(each, given), each)
    return list(found.values())


def _order(permutation: Shape, shape: Shape) -> Shape:
    """Returns the order in which the axes that are not 1 come: all that a permutation does to the elements."""
    return tuple(axis for axis in permutation if shape[axis] != 1)


def _likely(permutations: list[Shape], shape: Shape) -> list[Shape]:
    """The one that moves no element; those between layouts, if there are some; else the first few."""
    for each in permutations:
        if list(_order(each, shape)) == sorted(_order(each, shape)):
            return [each]
    layouts = [each for each in _LAYOUTS.get(len(shape), ()) if each in permutations]
    return layouts or permutations[:_NAMED]


def _indexed(rank: int, axes: Shape, by: str = "0") -> str:
    """An index that adds (None) or drops (0) the axes of an array, which then has, or had, this rank."""
    if not axes:
        return ""
    parts = [by if axis in axes else ":" for axis in range(rank)]
    if axes == tuple(range(len(axes))):
        parts = parts[: len(axes)]
    elif axes == tuple(range(rank - len(axes), rank)):
        parts = ["...", *parts[rank - len(axes) :]]
    return f"[{', '.join(parts)}]"
