"""Sets of which a term is the smallest: what makes the index of the first maximum out of keys."""

from collections.abc import Callable, Iterable

import numpy as np

from .values import Terms

Members = np.ndarray
"""uint64 [seeds, n]: the values of n terms."""


class SmallestKeys:
    """Remembers of MINs what they are the smallest of, as soon as a graph has an ARGMAX.

    A set's name is the sum of its members' hashes, for all seeds.
    """

    def __init__(self) -> None:
        self.on = False
        self._members = dict[bytes, Members | tuple[bytes, bytes]]()
        """Of a set the members, or the names of two sets that make it."""
        self._indices = dict[tuple[bytes, int], Terms]()
        """Of a set and a number of bits what these low bits of its smallest are."""

    def joined(self, names: Iterable[bytes], a: Iterable[bytes], b: Iterable[bytes]) -> None:
        """Each set `names` has the members of those in `a` and `b`."""
        self._members.update(zip(names, zip(a, b, strict=True), strict=True))

    def alone(self, names: Iterable[bytes], members: Members) -> None:
        """Each set `names` has one member."""
        for number, name in enumerate(names):
            self._members.setdefault(name, members[:, number : number + 1])

    def changed(
        self, name: bytes, do: Callable[[Members], Members], named: Callable[[Members], np.ndarray]
    ) -> np.ndarray | None:
        """uint64 [seeds]: the set whose members are `do(members)`; None where the set is not known."""
        found, left = list[Members](), [name]
        while left:
            members = self._members.get(left.pop())
            if members is None:
                return None
            if isinstance(members, tuple):
                left += members
            else:
                found.append(members)
        changed = do(np.concatenate(found, axis=1))
        result = named(changed)
        self._members[result.tobytes()] = changed
        return result

    def note_index(self, name: bytes, bits: int, index: Terms) -> None:
        """Note what the low bits of the set's smallest are."""
        self._indices[name, bits] = index

    def index(self, name: bytes, bits: int) -> Terms | None:
        """What was noted."""
        return self._indices.get((name, bits))
