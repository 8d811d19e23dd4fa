"""Which work waits for which."""

from tosaic.compiler.emit.commands import Work, command
from tosaic.compiler.place.address import Region, Span
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.hw.isa import Opcode, Unit

NOP = command(Opcode.NOP)
TILE = Span(Region.ACTIVATION, 0, 64)
WORDS = Span(Region.WEIGHT, 0, 256)


def streamed_go(tracker: Tracker) -> dict[Unit, int]:
    """What an array GO waits for whose weights are loaded just before it."""
    tracker.add(Work(Unit.LOAD, [NOP], writes=[WORDS]))
    return tracker.add(Work(Unit.ARRAY, [NOP], streams=[WORDS])).waits


def test_a_streamed_go_waits_for_no_token() -> None:
    tracker = Tracker()
    tracker.add(Work(Unit.LOAD, [NOP], writes=[TILE]))
    assert streamed_go(tracker) == {}


def test_a_streamed_go_waits_until_load_waits_for_vector_no_more() -> None:
    """Else it would hold back the vectors that VECTOR needs before LOAD brings the words: nobody would go on."""
    tracker = Tracker()
    tracker.add(Work(Unit.VECTOR, [NOP], reads=[TILE]))
    held = tracker.add(Work(Unit.LOAD, [NOP], writes=[TILE]))
    assert held.waits == {Unit.VECTOR: 0}
    assert streamed_go(tracker) == {Unit.LOAD: held.index}
    # The array knows now that LOAD has gone on.
    assert streamed_go(tracker) == {}


def test_a_streamed_go_waits_until_load_waits_for_no_other_core() -> None:
    """That core may wait for STORE, which stores the vectors that the GO would hold back."""
    tracker = Tracker()
    wait = tracker.add(Work(Unit.LOAD, [NOP], waits_for_core=True))
    assert streamed_go(tracker) == {Unit.LOAD: wait.index}
    # A load behind the wait that the GO waits for anyway is enough.
    tracker.add(Work(Unit.LOAD, [NOP], waits_for_core=True))
    rows = tracker.add(Work(Unit.LOAD, [NOP], writes=[TILE]))
    tracker.add(Work(Unit.LOAD, [NOP], writes=[WORDS]))
    assert tracker.add(Work(Unit.ARRAY, [NOP], reads=[TILE], streams=[WORDS])).waits == {
        Unit.LOAD: rows.index
    }
