"""Estimates where cells will lie, by those that have a place, and which of them lie together."""

import numpy as np

from .wires import Cells, Wires, site_of

_ROUNDS = 60
"""Rounds, in each of which the cells move to the middle of what they are connected with."""
_LOCAL_ENDS = 24
"""A wire with more ends says nothing about where its cells lie."""


def places(cells: Cells, wires: Wires) -> dict[str, np.ndarray]:
    """Returns about where each cell will lie, (column, row), from the cells that have a place already."""
    number = {name: index for index, name in enumerate(cells)}
    fixed = {number[name]: site for name, cell in cells.items() if (site := site_of(cell))}
    here, there, weight = list[int](), list[int](), list[float]()
    for net, (source, _) in wires.driver.items():
        ends = {name for name, _, _ in wires.ends[net]} - {source}
        if 0 < len(ends) <= _LOCAL_ENDS:
            here += [number[source]] * len(ends)
            there += sorted(number[name] for name in ends)
            weight += [1 / len(ends)] * len(ends)
    a, b = np.array([*here, *there], int), np.array([*there, *here], int)
    w = np.array([*weight, *weight])
    sums = np.maximum(np.bincount(a, w, len(cells)), np.finfo(float).tiny)
    kept, where = np.array(list(fixed), int), np.array(list(fixed.values()), float).reshape(-1, 2)
    at = np.tile(where.mean(axis=0) if fixed else np.zeros(2), (len(cells), 1))
    linked = np.bincount(a, minlength=len(cells)) > 0
    for _ in range(_ROUNDS):
        at[kept] = where
        moved = np.stack([np.bincount(a, w * at[b, axis], len(cells)) / sums for axis in (0, 1)], axis=1)
        at[linked] = moved[linked]
    at[kept] = where
    return dict(zip(cells, at, strict=True))


def neighbourhoods(at: np.ndarray, most: int, span: float = np.inf) -> list[np.ndarray]:
    """Numbers of places (n, 2), parted until there are at most `most` in each, as many on both sides, and none is
    further than `span` from another, in the middle between them; across the longer side."""
    parts, left = [], [np.arange(len(at))]
    while left:
        part = left.pop()
        sides = np.ptp(at[part], axis=0)
        if len(part) <= most and sides.max() <= span:
            parts.append(part)
            continue
        along = at[part, int(np.argmax(sides))]
        order = part[np.argsort(along, kind="stable")]
        middle = (along.min() + along.max()) / 2
        first = len(order) // 2 if len(part) > most else np.count_nonzero(along <= middle)
        left += [order[first:], order[:first]]
    return parts


__all__ = ["neighbourhoods", "places"]
