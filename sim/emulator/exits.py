"""Whether a program comes to its end: loops that nothing ends are found, whatever the data."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np


@dataclasses.dataclass
class StraightPiece:
    """Instructions between two branches, with the set-up that one path brings. `source`: the byte of external memory
    that a LOAD_GO brings; None: what the machine has computed."""

    start: int
    """Program counter of its first instruction."""
    following: list[int] = dataclasses.field(default_factory=list)
    """Numbers of the pieces behind its branch; none: it comes to END."""
    tested: list[int] = dataclasses.field(default_factory=list)
    """Bytes of the activation memory that its VECTOR_TESTs test, in order."""
    changed: set[tuple[int, int | None]] = dataclasses.field(default_factory=set)
    """(byte that any VECTOR_TEST tests, source) of its writes."""
    stored: list[tuple[np.ndarray, int]] = dataclasses.field(default_factory=list)
    """Where rows of external memory begin that it writes, and their bytes."""


@dataclasses.dataclass(frozen=True)
class Loops:
    """Program counters of the first instruction of loops: those of which some end when data say so, and the first one
    that never ends."""

    data_dependent: tuple[int, ...]
    endless: int | None = None
    why: str = ""


def loops_of(pieces: Sequence[StraightPiece]) -> Loops:
    """All loops, those inside of others, too. Data that nothing in a loop changes do not end it."""
    waiting, ended = _loops(pieces, range(len(pieces))), set[int]()
    while waiting:
        loop = waiting.pop()
        start = min(pieces[number].start for number in loop)
        leaving = [number for number in loop if not loop.issuperset(pieces[number].following)]
        tested = {number: _tested(pieces, loop, number) for number in leaving}
        ends = [number for number in leaving if any(_changes(pieces, loop, byte) for byte in tested[number])]
        if not ends:
            same = sorted(set().union(*tested.values()))
            why = (
                f": nothing in it changes byte {same[0]} of the activation memory, which it tests"
                if same
                else ""
            )
            return Loops(tuple(sorted(ended)), start, why)
        ended.add(start)
        waiting += _loops(pieces, loop.difference(ends))
    return Loops(tuple(sorted(ended)))


def _tested(pieces: Sequence[StraightPiece], loop: set[int], number: int) -> set[int]:
    """The bytes that may have set the flag when the branch behind a piece looks at it, of those tested in the loop."""
    if pieces[number].tested:
        return {pieces[number].tested[-1]}
    return {byte for other in loop for byte in pieces[other].tested}


def _changes(pieces: Sequence[StraightPiece], loop: set[int], byte: int) -> bool:
    """Whether a byte of the activation memory may differ from turn to turn."""
    sources = {source for number in loop for written, source in pieces[number].changed if written == byte}
    if len(sources) != 1:
        return bool(sources)
    (source,) = sources
    if source is None:
        return True
    stored = [each for number in loop for each in pieces[number].stored]
    return any(((rows <= source) & (source < rows + row_bytes)).any() for rows, row_bytes in stored)


def _loops(pieces: Sequence[StraightPiece], inside: Iterable[int]) -> list[set[int]]:
    """The largest sets of some pieces in which each leads to each, and to itself. Tarjan's algorithm."""
    left, index, low = set(inside), dict[int, int](), dict[int, int]()
    path, on_path, found = list[int](), set[int](), list[set[int]]()
    for root in sorted(left):
        if root in index:
            continue
        work = [(root, iter(pieces[root].following))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            number, others = work[-1]
            other = next((other for other in others if other in left), None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == index[number]:
                    place = path.index(number)
                    members = set(path[place:])
                    del path[place:]
                    on_path -= members
                    if len(members) > 1 or number in pieces[number].following:
                        found.append(members)
            elif other not in index:
                index[other] = low[other] = len(index)
                path.append(other)
                on_path.add(other)
                work.append((other, iter(pieces[other].following)))
            elif other in on_path:
                low[number] = min(low[number], index[other])
    return found
