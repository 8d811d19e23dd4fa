"""Intervals against a dictionary of bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tosaic.compiler.schedule.intervals import Intervals

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
