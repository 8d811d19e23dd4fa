"""What is noted of a graph's terms while it is evaluated, for the program: found again by the terms' values."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from . import field
from .hashing import digest
from .values import PLAIN, Terms

Name = tuple[int, ...]
"""The values of a term, of all seeds."""


def name_of(term: Terms) -> Name:
    """The name of the first of some terms."""
    return tuple(term.field.reshape(len(term.field), -1)[:, 0].tolist())


def names_of(terms: Terms, which: np.ndarray) -> list[bytes]:
    """The values of all seeds, of those of the terms that are chosen."""
    return values_at(terms.field, np.broadcast_to(which, terms.shape))


def values_at(values: np.ndarray, which: np.ndarray) -> list[bytes]:
    """[seeds, ...] of all seeds, where chosen."""
    rows = np.stack([np.broadcast_to(own, which.shape)[which] for own in values], axis=-1)
    return [row.tobytes() for row in rows]


class Lookups:
    """What becomes of terms of few values: of each what a graph computes from it, by the table of all results."""

    def __init__(self) -> None:
        self._places = dict[bytes, dict[str, int]]()
        """Tensors that have a term, and where, by the term minus its low end."""
        self._results = dict[tuple[str, str], Terms]()

    def copy(self) -> "Lookups":
        """The same, to which others may be added."""
        result = Lookups()
        result._places = {name: dict(places) for name, places in self._places.items()}
        result._results = dict(self._results)
        return result

    def note(self, origin: str, names: Iterable[bytes], values: np.ndarray, results: Terms) -> None:
        """The elements of tensor `origin` have these names; `results` are the entries of `values` that they lead to."""
        if (origin, "") not in self._results:
            self._results[origin, ""] = results
            for number, name in enumerate(names):
                self._places.setdefault(name, {})[origin] = number
        self._results[origin, digest(values)] = results.reshape(-1)

    def find(self, name: bytes, values: np.ndarray) -> Terms | None:
        """The result [1] of a term, whose table this is; None where the graph computes no such."""
        for origin, number in self._places.get(name, {}).items():
            results = self._results.get((origin, digest(values)))
            if results is not None:
                return results[number : number + 1]
        return None


class Indexed:
    """What a graph looks up, by the terms of index and result. Of the bytes that a program copies from or to an index,
    these tell which belong together."""

    def __init__(self) -> None:
        self.counts = set[int]()
        """Numbers of values that an index has."""
        self._indices = set[tuple[bytes, int]]()
        self._results = set[bytes]()

    def note_index(self, terms: Terms, count: int) -> list[bytes]:
        """Something is looked up at these terms from 0 to count - 1; their names."""
        names = names_of(terms, np.ones(terms.shape, bool))
        if count > 1:
            self.counts.add(count)
            self._indices.update((name, count) for name in names)
        return names

    def has(self, name: bytes, count: int) -> bool:
        """Whether something is looked up at the term of that name."""
        return (name, count) in self._indices

    def note_results(self, terms: Terms) -> None:
        """These are what was looked up."""
        self._results.update(names_of(terms, np.ones(terms.shape, bool)))

    def results_in(self, terms: Terms) -> np.ndarray:
        """Returns which of the terms were noted as results."""
        found = [name in self._results for name in names_of(terms, np.ones(terms.shape, bool))]
        return np.array(found, bool).reshape(terms.shape)


class TermIntervals:
    """The intervals of a graph's terms. A program comes to the same terms by other sums, of which less is known."""

    def __init__(self, on: bool):
        self.on = on
        self._noted = list[Terms]()
        self._sorted: Terms | None = None

    def copy(self) -> "TermIntervals":
        """The same, to which others may be added."""
        result = TermIntervals(self.on)
        result._noted, result._sorted = list(self._noted), self._sorted
        return result

    def note(self, terms: Terms) -> None:
        """These intervals hold for all inputs."""
        if self.on and terms.size:
            self._noted.append(terms.plain().reshape(-1))
            self._sorted = None

    def narrow(self, terms: Terms) -> tuple[Terms, int]:
        """The same terms, with intervals no wider than those noted; how many became narrower."""
        if not self._noted or not terms.size:
            return terms, 0
        if self._sorted is None:
            parts = [np.concatenate([getattr(own, name) for own in self._noted], -1) for name in _PARTS]
            order = np.argsort(parts[0][0], kind="stable")
            self._sorted = Terms(*(part[..., order] for part in parts))
        there, own = self._sorted, terms.field.reshape(len(terms.field), -1)
        places = np.minimum(np.searchsorted(there.field[0], own[0]), there.size - 1)
        same = (there.field[:, places] == own).all(axis=0).reshape(terms.shape)
        ends = (part[places].reshape(terms.shape) for part in (there.low, there.high))
        low, high = (
            np.where(same, pick(end, before), before)
            for pick, end, before in zip((np.maximum, np.minimum), ends, (terms.low, terms.high), strict=True)
        )
        narrower = (low <= high) & ((low > terms.low) | (high < terms.high))
        count = int(narrower.sum())
        if not count:
            return terms, 0
        low, high = np.where(narrower, low, terms.low), np.where(narrower, high, terms.high)
        return dataclasses.replace(terms, low=low, high=high), count


_PARTS = ("field", "low", "high")


class PathFacts:
    """What terms of 0 or 1 are where certain branches are taken: the condition of a path."""

    def __init__(self, values: Mapping[Name, int] | None = None):
        self.values = dict(values or {})
        prime = int(field.PRIME)
        opposites = {
            tuple((1 - each) % prime for each in name): 1 - value for name, value in self.values.items()
        }
        self._all = {**opposites, **self.values}
        self._first = np.array([name[0] for name in self._all], np.uint64)

    def applied(self, terms: Terms) -> Terms:
        """The terms, with those that are known as constants."""
        if not self._all or not np.isin(terms.field[0], self._first).any():
            return terms
        result = terms.copy()
        for name, value in self._all.items():
            seeds = np.array(name, np.uint64).reshape(-1, *(1,) * terms.ndim)
            own = (terms.field == seeds).all(axis=0) & (terms.low != terms.high)
            if own.any():
                result.field = np.where(own, np.uint64(value), result.field)
                result.low, result.high = (np.where(own, value, end) for end in (result.low, result.high))
                if result.kind is not None:
                    result.kind = np.where(own, PLAIN, result.kind).astype(np.uint8)
        return result
