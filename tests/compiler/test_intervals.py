"""Intervals against a dictionary of bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.compiler.place.address import Columns
from tosaic.compiler.place.intervals import Intervals

ranges = st.tuples(st.integers(0, 30), st.integers(1, 12))


@settings(deadline=None)
@given(st.lists(st.tuples(ranges, st.booleans()), max_size=30), ranges)
def test_intervals(steps: list[tuple[tuple[int, int], bool]], asked: tuple[int, int]) -> None:
    intervals, known = Intervals(), {}
    for number, ((start, size), put) in enumerate(steps):
        if put:
            intervals.put(start, start + size, number)
            known |= dict.fromkeys(range(start, start + size), number)
        else:
            intervals.clear(start, start + size)
            known = {byte: n for byte, n in known.items() if not start <= byte < start + size}
        start, size = asked
        wanted = max((known.get(byte, -1) for byte in range(start, start + size)), default=-1)
        assert intervals.latest(start, start + size) == wanted


def _bytes(start: int, size: int, columns: Columns | None) -> set[int]:
    if columns is None:
        return set(range(start, start + size))
    offsets = {
        (columns.first + piece * columns.step + byte) % columns.pitch
        for piece in range(columns.count)
        for byte in range(columns.width)
    }
    return {byte for byte in range(start, start + size) if byte % columns.pitch in offsets}


some_columns = st.one_of(
    st.none(),
    st.builds(Columns, st.just(6), st.integers(0, 9), st.integers(1, 3)),
    st.builds(Columns, st.just(10), st.integers(0, 3), st.integers(1, 2), st.just(4), st.just(2)),
)


@settings(deadline=None)
@given(st.lists(st.tuples(ranges, some_columns), max_size=20), ranges, some_columns)
def test_columns(steps: list, asked: tuple[int, int], wanted: Columns | None) -> None:
    """A number is never too small: whoever waits for it waits for all that touched these bytes."""
    intervals, known = Intervals(), dict[int, int]()
    for number, ((start, size), columns) in enumerate(steps):
        intervals.put(start, start + size, number, columns)
        known |= dict.fromkeys(_bytes(start, size, columns), number)
    start, size = asked
    exact = max((known.get(byte, -1) for byte in _bytes(start, size, wanted)), default=-1)
    found = intervals.latest(start, start + size, wanted)
    assert found >= exact


def test_other_columns_of_one_pitch_are_not_met() -> None:
    intervals = Intervals()
    intervals.put(0, 640, 3)
    for block in range(4):
        intervals.put(0, 640, 10 + block, Columns(64, 16 * block, 16))
    assert [intervals.latest(0, 640, Columns(64, 16 * block, 16)) for block in range(4)] == [10, 11, 12, 13]
    assert intervals.latest(0, 640) == 13 and intervals.latest(0, 640, Columns(32, 0, 16)) == 13


@pytest.mark.parametrize(
    "columns, places",
    [
        (Columns(10, 3, 2), [3, 4]),
        (Columns(10, 9, 3), [9, 0, 1]),
        (Columns(10, 3, 2, 4, 2), [3, 4, 7, 8]),
        (Columns(20, 17, 2, 5, 3), [17, 18, 2, 3, 7, 8]),
    ],
)
def test_bytes_of_columns(columns: Columns, places: list[int]) -> None:
    """Who asks for one byte of each pitch meets the number of those alone who touch it."""
    intervals = Intervals()
    intervals.put(0, 640, 3)
    intervals.put(0, 640, 7, columns)
    found = [intervals.latest(0, 640, Columns(columns.pitch, byte, 1)) for byte in range(columns.pitch)]
    assert [byte for byte, number in enumerate(found) if number == 7] == sorted(places)
    assert set(found) == {3, 7}
