"""Rows that are read and written at an index which is computed at run time, and what a program's offset tells of it."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from . import field
from .algebra import Algebra, UndecidedError
from .noted import names_of
from .values import Terms, select

MOST_RESULTS = 1 << 20
"""Largest number of elements that a GATHER or a SCATTER at indices that are computed at run time may compute."""


def picked(algebra: Algebra, index: Terms, rows: Terms) -> Terms:
    """Entry `index` of each list in `rows` [n, ..], of an index from 0 to n - 1."""
    entries = [rows[number] for number in range(len(rows))]
    listed = algebra.listed(entries)
    index = index.plain()
    shape = np.broadcast_shapes(index.shape, listed.shape[1:])
    ends = (rows.low.min(axis=0), rows.high.max(axis=0))
    lists = Terms(listed, np.full(listed.shape[1:], -1), np.ones(listed.shape[1:], np.int64))
    result = algebra.function("PICK", [index, lists], ends, lambda *_: np.zeros(shape, np.int64))
    same = (rows.field == rows.field[:, :1]).all(axis=(0, 1))
    result = select(np.broadcast_to(same, shape), entries[0].broadcast(shape), result)
    known = index.low == index.high
    for number in np.unique(index.low[known]).tolist():
        own = np.broadcast_to(known & (index.low == number), shape)
        result = select(own, entries[number].broadcast(shape), result)
    return result


def put(algebra: Algebra, index: Terms, numbers: np.ndarray, new: Terms, old: Terms) -> Terms:
    """`new` where the index is the number, `old` elsewhere."""
    parts = [part.broadcast(np.broadcast_shapes(numbers.shape, new.shape, old.shape)) for part in (new, old)]
    new, old = (part.plain() for part in parts)
    ends = np.minimum(new.low, old.low), np.maximum(new.high, old.high)

    def concrete(at: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.where(at == numbers, one, other)

    result = algebra.function("PUT", [index.plain(), new, old], ends, concrete, integers=(numbers,))
    outside = (numbers < index.low) | (numbers > index.high)
    always = (index.low == index.high) & (index.low == numbers)
    unchanged = outside | (new.field == old.field).all(axis=0)
    return select(unchanged, old, select(np.broadcast_to(always, old.shape), new, result))


def gathered(algebra: Algebra, values: Terms, index: Terms) -> Terms:
    """[w, c]: rows `index` [w] of values [k, c]; the graph's."""
    result = values[np.clip(index.low, 0, len(values) - 1)].plain().copy()
    _check_size(result.size)
    for low, high in _intervals(index):
        own = np.flatnonzero((index.low == low) & (index.high == high))
        if low < high:
            turns = algebra.plus(index[own], -low)
            algebra.indexed.note_index(turns, high - low + 1)
            rows = values[low : high + 1].reshape(high - low + 1, 1, -1)
            result[own] = picked(algebra, turns.reshape(-1, 1), rows)
            algebra.indexed.note_results(result[own])
    return result


def scattered(algebra: Algebra, values: Terms, index: Terms, new: Terms) -> Terms:
    """[k, c]: values [k, c] whose rows `index` [w] are those of `new` [w, c]; the graph's."""
    result = values.plain().copy()
    _check_size(index.size * result.size)
    for number in range(index.size):
        at, own = index[number : number + 1], new[number : number + 1].plain()
        low, high = int(at.low[0]), int(at.high[0])
        if low == high:
            result[low : high + 1] = own
            continue
        turns, rows = algebra.plus(at, -low), slice(low, high + 1)
        algebra.indexed.note_index(turns, high - low + 1)
        places = np.arange(high - low + 1)[:, None]
        result[rows] = put(algebra, turns.reshape(1, 1), places, own, result[rows])
        algebra.indexed.note_results(result[rows])
    return result


def _check_size(elements: int) -> None:
    if elements > MOST_RESULTS:
        raise UndecidedError(f"indices that are computed at run time, of {elements} elements to compute")


def _intervals(terms: Terms) -> Iterable[tuple[int, int]]:
    return [
        (int(low), int(high)) for low, high in np.unique(np.stack([terms.low, terms.high]), axis=1).T.tolist()
    ]


def origin_of(algebra: Algebra, offsets: Terms) -> tuple[int, Terms, list[bytes]] | None:
    """(step, terms, their names) where offsets [n] of one interval are its low end plus `step` times terms from 0 on
    that the graph looks something up at; None where they are not."""
    low, high = int(offsets.low[0]), int(offsets.high[0])
    start = field.subtract(offsets.field, field.of_integers(np.asarray(low)))
    everywhere = np.ones(offsets.shape, bool)
    for count in algebra.indexed.counts:
        step, rest = divmod(high - low, count - 1)
        if rest or not step:
            continue
        inverse = np.asarray(pow(step, int(field.PRIME) - 2, int(field.PRIME)), np.uint64)
        terms = dataclasses.replace(
            offsets.plain(),
            field=field.multiply(start, inverse),
            low=np.zeros(offsets.shape, np.int64),
            high=np.full(offsets.shape, count - 1),
        )
        names = names_of(terms, everywhere)
        algebra.values += len(names)
        if all(algebra.indexed.has(name, count) for name in names):
            return step, terms, names
    return None
