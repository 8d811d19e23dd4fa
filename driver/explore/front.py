"""What nothing beats, and the best of it for a goal."""

import enum
from collections.abc import Sequence

from .point import Point

ENOUGH = 2.0
"""Cycles, as multiples of the fewest, that are still few enough for the goal `area`."""


class Goal(enum.Enum):
    """What is wanted of a machine."""

    LATENCY = "latency"
    """The fewest cycles."""
    THROUGHPUT = "throughput"
    """The fewest cycles for its share of LUTs: the most inferences of a part that is full of such machines."""
    AREA = "area"
    """The fewest LUTs of those that take at most ENOUGH times the fewest cycles."""


def front_of(points: Sequence[Point]) -> list[Point]:
    """Points that no other beats in cycles, LUTs and the memory's bandwidth at once; fewest LUTs first."""
    ordered = sorted(points, key=lambda each: (each.area.lut, each.score, each.bandwidth, each.config.name))
    front: list[Point] = []
    for each in ordered:
        if not any(_beats(other, each) for other in front):
            front.append(each)
    return front


def _beats(one: Point, other: Point) -> bool:
    """Whether `one` is nowhere worse; of equals the first stays."""
    return one.area.lut <= other.area.lut and one.score <= other.score and one.bandwidth <= other.bandwidth


def best_of(points: Sequence[Point], goal: Goal) -> Point | None:
    """The point for a goal; None where there is none."""
    if not points:
        return None
    if goal is Goal.LATENCY:
        return min(points, key=lambda each: (each.score, each.area.lut))
    if goal is Goal.THROUGHPUT:
        return min(points, key=lambda each: each.score * each.area.lut)
    enough = ENOUGH * min(each.score for each in points)
    return min(
        (each for each in points if each.score <= enough), key=lambda each: (each.area.lut, each.score)
    )
