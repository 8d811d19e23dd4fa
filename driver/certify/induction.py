"""Loops of which inputs tell the number of turns: what one turn keeps, all keep.

Graph and program stand side by side where the program tests the loop's condition. Of each byte of its memories one of
three is guessed: turns do not change it; it is that byte of the graph's state; or it may be anything. If a turn from
any such state leads to such a state, and both test the same condition, both end after equally many turns, in such a
state. Guesses come from turns that were seen, and are only hints: the turn from any state decides.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from tosaic.errors import DeviceError
from tosaic.sim.emulator import SteppedCore
from tosaic.sim.terms import (
    Loop,
    Terms,
    TermsDomain,
    UndecidedError,
    UnknownConditionError,
    name_of,
    range_of,
    select,
)

MOST_GUESSES = 12
MOST_WAYS = 64
"""Ways through one turn that are followed, by the conditions of its branches."""
_ANYTHING, _UNCHANGED = -1, -2
"""Origins of bytes of memories that are none of the state's."""


@dataclasses.dataclass
class _Moment:
    """Graph and program at the test of a loop's condition."""

    state: list[Terms]
    condition: Terms
    core: SteppedCore
    bytes: list[np.ndarray]
    """Cells [elements, bytes] of each tensor of the state, and of the condition."""

    @property
    def flat(self) -> np.ndarray:
        """All cells of the state, one after the other."""
        return np.concatenate([part.ravel() for part in self.bytes])


@dataclasses.dataclass
class _Guess:
    """What may hold at each test."""

    same: list[np.ndarray]
    """bool [elements] of each tensor of the state: turns do not change it."""
    classes: list[np.ndarray]
    """int [elements]: those with the same number are equal."""
    changed: np.ndarray
    """Places of bytes of the memories that turns change."""
    origins: np.ndarray
    """int: which byte of the state they are; -1: anything."""


class Induction:
    """Follows a program beside its graph. `core` is where the program is."""

    def __init__(self, core: SteppedCore, domain: TermsDomain):
        self.core, self._domain, self._algebra = core, domain, domain.algebra
        self._seeds = domain.algebra.seeds

    def loop(self, loop: Loop, state: list[Terms], condition: Terms) -> list[Terms]:
        """The graph's state where the loop ends; the program is about to end it, too."""
        self._reach(condition, None)
        entry, assumed = self._moment(loop, state, condition), self._algebra.assumed
        seen = [entry, *self._turns(loop, entry)]
        for _ in range(MOST_GUESSES):
            self._algebra.assumed = assumed
            guess = self._guess(seen, loop)
            start = self._start(loop, guess, entry)
            ends = self._turns(loop, start)
            broken = [end for end in ends if not self._holds(loop, guess, start, end)]
            if not broken:
                self.core = start.core
                self._algebra.suppose({name_of(start.condition): 0})
                return start.state
            seen += broken
        raise UndecidedError(f"{loop.operator}: no state was found that each turn keeps")

    # Steps.

    def _moment(self, loop: Loop, state: list[Terms], condition: Terms) -> _Moment:
        widths = [np.dtype(dtype.numpy).itemsize for dtype in loop.dtypes] + [1]
        cells = [
            self._domain.pool.store(own.plain().reshape(-1), width)
            for own, width in zip((*state, condition), widths, strict=True)
        ]
        return _Moment(state, condition, self.core, cells)

    def _reach(self, condition: Terms, counter: int | None) -> None:
        """Executes the program up to the test of a condition: there, or the next one that depends on inputs."""
        core, pool = self.core, self._domain.pool
        while (cell := core.next_test()) is not None:
            flag = pool.bytes(cell[None], signed=False).reshape(-1)
            if core.counter == counter or counter is None and not flag.constant:
                if (flag.field != condition.field.reshape(flag.field.shape)).any():
                    raise UndecidedError("a loop whose condition is another one in the program")
                if not core.is_idle:
                    raise UndecidedError("a loop that is tested while units work")
                return
            core.step()
        raise UndecidedError("a loop that the program does not have")

    def _turns(self, loop: Loop, start: _Moment) -> list[_Moment]:
        """Where a turn more leads, on each way through it."""
        ends, waiting, ways = list[_Moment](), [dict[tuple[int, ...], int]()], 0
        counter, again = start.core.counter, {name_of(start.condition): 1}
        while waiting:
            known, ways = waiting.pop(), ways + 1
            if ways > MOST_WAYS:
                raise UndecidedError(f"more than {MOST_WAYS} ways through a turn of {loop.operator}")
            with self._algebra.supposing({**again, **known}):
                self.core = start.core.copy()
                try:
                    # The test says: again.
                    self.core.step()
                    state = loop.body(start.state)
                    condition = loop.test(state)
                    self._reach(condition, counter)
                    ends.append(self._moment(loop, state, condition))
                except UnknownConditionError as unknown:
                    waiting += [{**known, unknown.name: value} for value in range(2)]
                except DeviceError as error:
                    raise UndecidedError(f"a turn of {loop.operator} in any state: {error}") from None
        return ends

    # Guesses.

    def _rows(self, cells: Sequence[np.ndarray]) -> np.ndarray:
        """uint64 [bytes, ..]: equal for bytes that were equal at all moments, of cells [bytes] for each moment."""
        return np.concatenate([self._domain.pool.marks(own) for own in cells]).T

    def _guess(self, seen: Sequence[_Moment], loop: Loop) -> _Guess:
        numbers, same, classes = dict[tuple[object, bytes], int](), list[np.ndarray](), list[np.ndarray]()
        elements = collections.defaultdict[int, dict[bytes, int]](dict)
        first = 0
        for dtype, *parts in zip((*loop.dtypes, None), *(moment.bytes for moment in seen), strict=True):
            count, width = parts[0].shape
            rows = self._rows([own.ravel() for own in parts]).reshape(count, width, len(seen), self._seeds)
            same.append((rows == rows[:, :, :1]).all(axis=(1, 2, 3)))
            keys = [row.tobytes() for row in rows]
            classes.append(
                np.array([numbers.setdefault((dtype, key), len(numbers)) for key in keys], np.int64)
            )
            for number, key in enumerate(keys):
                if not same[-1][number]:
                    elements[width].setdefault(key, first + width * number)
            first += parts[0].size
        cells = [moment.core.cells() for moment in seen]
        changed = np.flatnonzero(np.any([own != cells[0] for own in cells[1:]], axis=0))
        rows = self._rows([own[changed] for own in cells])
        changed = changed[(rows != np.tile(rows[:, : self._seeds], len(seen))).any(axis=1)]
        origins = self._origins(elements, cells, changed)
        changed = np.flatnonzero(origins != _UNCHANGED)
        return _Guess(same[:-1], classes[:-1], changed, origins[changed])

    def _origins(
        self, elements: dict[int, dict[bytes, int]], cells: list[np.ndarray], changed: np.ndarray
    ) -> np.ndarray:
        """int [cells]: which byte of the state they were at all moments. `elements`: by their width and by the rows of
        their bytes, where they begin."""
        origins = np.full(len(cells[0]), _UNCHANGED)
        origins[changed] = _ANYTHING
        for width in sorted(elements, reverse=True):
            # Most begin at a multiple of their width.
            for before in range(width):
                left = changed[origins[changed] == _ANYTHING]
                starts = np.unique(left // width * width if not before else left - before)
                starts = starts[(starts >= 0) & (starts <= len(origins) - width)]
                places = starts[:, None] + np.arange(width)
                rows = self._rows([own[places.ravel()] for own in cells]).reshape(
                    len(starts), width * len(cells) * self._seeds
                )
                for own, row in zip(places, rows, strict=True):
                    found = elements[width].get(row.tobytes())
                    if found is not None and (origins[own] < 0).all():
                        origins[own] = np.arange(found, found + width)
        return origins

    def _start(self, loop: Loop, guess: _Guess, entry: _Moment) -> _Moment:
        """Any state of which the guess is true."""
        count = 1 + max((int(own.max(initial=0)) for own in guess.classes), default=0)
        low, high = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for dtype, numbers in zip(loop.dtypes, guess.classes, strict=True):
            low[numbers], high[numbers] = range_of(dtype)
        anything = self._algebra.fresh((count,), low, high)
        state = [
            select(same, own.reshape(-1), anything[numbers]).reshape(own.shape)
            for own, same, numbers in zip(entry.state, guess.same, guess.classes, strict=True)
        ]
        try:
            condition = loop.test(state)
        except UnknownConditionError as unknown:
            raise UndecidedError(f"a condition of {unknown.operator} in that of {loop.operator}") from None
        if condition.constant:
            raise UndecidedError(f"{loop.operator}, whose condition does not depend on what turns change")
        self.core = entry.core.copy()
        start = self._moment(loop, state, condition)
        cells = entry.core.cells()
        cells[guess.changed] = self._domain.unwritten(guess.changed.shape)
        known = guess.origins >= 0
        cells[guess.changed[known]] = start.flat[guess.origins[known]]
        start.core.place(cells)
        return start

    def _holds(self, loop: Loop, guess: _Guess, start: _Moment, end: _Moment) -> bool:
        """Whether the guess is true behind a turn, too."""
        if start.core.setup() != end.core.setup():
            raise UndecidedError(f"{loop.operator}, whose turns leave the units set up in several ways")
        rows = dict[int, bytes]()
        for before, after, same, numbers in zip(
            start.bytes, end.bytes, guess.same, guess.classes, strict=False
        ):
            own = self._rows([after.ravel()]).reshape(len(after), -1)
            if (own != self._rows([before.ravel()]).reshape(own.shape))[same].any():
                return False
            if any(
                rows.setdefault(number, row.tobytes()) != row.tobytes()
                for number, row in zip(numbers, own, strict=True)
            ):
                return False
        before, after = start.core.cells(), end.core.cells()
        known = guess.origins >= 0
        found, wanted = after[guess.changed[known]], end.flat[guess.origins[known]]
        before[guess.changed] = after[guess.changed]
        others = np.flatnonzero(before != after)
        pairs = (found, wanted), (before[others], after[others])
        return all((self._rows([one]) == self._rows([other])).all() for one, other in pairs)
