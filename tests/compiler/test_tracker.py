"""Which work waits for which."""

import random

import pytest

from tosaic.compiler.emit.commands import Work, command
from tosaic.compiler.machine_numbers import LOADS_AHEAD_ITEMS, SEMAPHORE_MOST_TOKENS
from tosaic.compiler.place.address import Columns, Region, Span
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.items import Item
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


def test_streamed_words_are_read_and_no_more() -> None:
    """Who reads them as well waits for LOAD alone, and who writes there waits for both."""
    tracker = Tracker()
    streamed_go(tracker)
    assert tracker.add(Work(Unit.STORE, [NOP], reads=[WORDS])).waits == {Unit.LOAD: 0}
    waits = tracker.add(Work(Unit.VECTOR, [NOP], writes=[WORDS])).waits
    assert waits == {Unit.LOAD: 0, Unit.ARRAY: 0, Unit.STORE: 0}


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


def most_tokens(tracker: Tracker) -> int:
    """The most tokens that a semaphore has in program order."""
    counts, most = dict[int, int](), 0
    for item in interleave(tracker.items):
        for each in item.commands():
            fields, kind = each.instruction.fields, each.instruction.opcode.name.rpartition("_")[2]
            if kind in ("WAIT", "SIGNAL"):
                change = fields["count"] if kind == "SIGNAL" else -fields["count"]
                counts[fields["semaphore"]] = counts.get(fields["semaphore"], 0) + change
                most = max(most, counts[fields["semaphore"]])
    assert not any(counts.values())
    return most


def test_a_layer_of_many_pieces_leaves_few_tokens() -> None:
    """STORE writes 5000 rows, then LOAD reads them one by one: a token each would let the counter wrap at 4096."""
    tracker = Tracker()
    rows = [Span(Region.DATA, 64 * number, 64 * number + 64) for number in range(5000)]
    for row in rows:
        tracker.add(Work(Unit.STORE, [NOP], writes=[row]))
    for row in rows:
        tracker.add(Work(Unit.LOAD, [NOP], reads=[row]))
    assert most_tokens(tracker) == SEMAPHORE_MOST_TOKENS + 1 - LOADS_AHEAD_ITEMS
    waits = [item.waits for item in tracker.items if item.waits]
    assert waits == [{Unit.STORE: number} for number in (*range(SEMAPHORE_MOST_TOKENS), len(rows) - 1)]


def test_work_that_consumes_the_array_never_waits_for_it_to_end() -> None:
    """It would wait for vectors to leave that only it takes."""
    tracker = Tracker()
    tiles = [
        Span(Region.ACTIVATION, 64 * number, 64 * number + 64) for number in range(SEMAPHORE_MOST_TOKENS + 4)
    ]
    for tile in tiles:
        tracker.add(Work(Unit.ARRAY, [NOP], reads=[tile]))
    for tile in tiles:
        array = tracker.add(Work(Unit.ARRAY, [NOP]))
        item = tracker.add(Work(Unit.VECTOR, [NOP], writes=[tile], array_vectors=1))
        assert item.waits.get(Unit.ARRAY, -1) < array.index
    assert most_tokens(tracker) == 1


@pytest.mark.parametrize("consumes", [False, True])
@pytest.mark.parametrize("producer", [Unit.ARRAY, Unit.LOAD])
def test_where_tokens_are_many_the_last_item_is_waited_for(producer: Unit, consumes: bool) -> None:
    """But the array's last item is the GO whose vectors work takes that consumes them: it waits for the one before."""
    tracker = Tracker()
    tiles = [
        Span(Region.ACTIVATION, 64 * number, 64 * number + 64) for number in range(SEMAPHORE_MOST_TOKENS + 1)
    ]
    for tile in tiles:
        tracker.add(Work(producer, [NOP], reads=[tile]))
    last = tracker.add(Work(producer, [NOP]))
    for tile in tiles[:-1]:
        tracker.add(Work(Unit.VECTOR, [NOP], writes=[tile]))
    taker = tracker.add(Work(Unit.VECTOR, [NOP], writes=[tiles[-1]], array_vectors=int(consumes)))
    assert taker.waits == {producer: last.index - (consumes and producer is Unit.ARRAY)}


PITCH = 8


def _span(first: int, count: int, columns: tuple[int, int, int] | None) -> Span:
    """Returns a span of some pitches, or of some columns of each: twice `columns`, two apart."""
    some = None if columns is None else Columns(PITCH, columns[0], columns[1], step=4, count=columns[2])
    return Span(Region.DATA, first * PITCH, (first + count) * PITCH, some)


def _bytes(span: Span) -> set[int]:
    if span.columns is None:
        return set(range(span.start, span.end))
    of, step = span.columns, span.columns.step
    places = {(of.first + turn * step + byte) % PITCH for turn in range(of.count) for byte in range(of.width)}
    return {byte for byte in range(span.start, span.end) if byte % PITCH in places}


def _spans(dice: random.Random) -> list[Span]:
    columns = ((0, 4, 1), (4, 4, 1), (2, 3, 2), (7, 2, 1))
    return [
        _span(dice.randrange(2), dice.randrange(3), dice.choice((None, *columns)))
        for _ in range(dice.choice((0, 1, 1, 2)))
    ]


@pytest.mark.parametrize("seed", range(10))
def test_waits_are_those_of_a_list_of_all_accesses(seed: int) -> None:
    """An item waits, for each other unit, for the last item that wrote its operands, or that read or wrote its
    results, unless its unit has waited for that item or a later one."""
    dice = random.Random(seed)
    for _ in range(60):
        tracker, done = Tracker(), list[tuple[Item, set[int], set[int]]]()
        synced = dict[tuple[Unit, Unit], int]()
        for _ in range(9):
            unit, reads, writes = (
                dice.choice((Unit.LOAD, Unit.VECTOR, Unit.STORE)),
                _spans(dice),
                _spans(dice),
            )
            item = tracker.add(Work(unit, [NOP], reads=reads, writes=writes))
            read, written = ({byte for span in spans for byte in _bytes(span)} for spans in (reads, writes))
            wanted = dict[Unit, int]()
            for earlier, earlier_read, earlier_written in done:
                other, meets = earlier.work.unit, earlier_written & (read | written) or earlier_read & written
                if other is not unit and meets and earlier.index > synced.get((other, unit), -1):
                    wanted[other] = earlier.index
            assert item.waits == wanted
            synced |= {(other, unit): index for other, index in wanted.items()}
            done.append((item, read, written))


def _drains(tracker: Tracker, blocks: int, vectors: int) -> None:
    for block in range(blocks):
        tracker.add(Work(Unit.ARRAY, [NOP]))
        written = Span(Region.ACTIVATION, 0, 6400, Columns(64, 16 * block, 16))
        tracker.add(Work(Unit.VECTOR, [NOP], writes=[written], array_vectors=vectors))


def _reads(block: int) -> list[Span]:
    return [Span(Region.ACTIVATION, 0, 6400, Columns(64, 16 * block, 16))]


def test_channels_are_waited_for_by_themselves() -> None:
    """Two tokens are needed in all: whoever waits for channels that are there waits for all of these."""
    tracker = Tracker()
    _drains(tracker, 4, vectors=100)
    waits = [tracker.add(Work(Unit.ARRAY, [NOP], reads=_reads(block))).waits for block in range(4)]
    assert waits == [{Unit.VECTOR: 2}, {}, {}, {Unit.VECTOR: 3}]


def test_drains_that_may_still_go_on_are_not_waited_for() -> None:
    tracker = Tracker()
    _drains(tracker, 4, vectors=8)
    waits = [tracker.add(Work(Unit.ARRAY, [NOP], reads=_reads(block))).waits for block in range(4)]
    assert waits == [{Unit.VECTOR: block} for block in range(4)]


def test_of_many_short_drains_those_that_are_over_are_waited_for() -> None:
    """There is room for 64 vectors behind the array: 17 drains of 4 are more."""
    tracker, early = Tracker(), Span(Region.ACTIVATION, 8000, 8064)
    tracker.add(Work(Unit.VECTOR, [NOP], writes=[early]))
    _drains(tracker, 40, vectors=4)
    assert tracker.add(Work(Unit.ARRAY, [NOP], reads=[early])).waits == {Unit.VECTOR: 40 - 17}


def test_a_drain_waits_for_no_token_of_the_go_that_it_drains() -> None:
    tracker = Tracker()
    tracker.add(Work(Unit.ARRAY, [NOP], reads=[TILE]))
    tracker.add(Work(Unit.VECTOR, [NOP], array_vectors=16))
    for _ in range(2):
        tracker.add(Work(Unit.ARRAY, [NOP]))
    assert tracker.add(Work(Unit.VECTOR, [NOP], writes=[TILE], array_vectors=32)).waits == {}


def test_vector_needs_no_token_of_an_array_whose_vectors_it_has_taken() -> None:
    """It turned to other vectors since: the array has made all reads of the GO before."""
    tracker, other = Tracker(), Span(Region.ACTIVATION, 64, 128)
    for source, target in ((TILE, other), (other, TILE)):
        tracker.add(Work(Unit.ARRAY, [NOP], reads=[source]))
        taker = tracker.add(Work(Unit.VECTOR, [NOP], writes=[target], array_vectors=16))
        assert Unit.ARRAY not in taker.waits


def test_vector_waits_for_an_array_that_may_still_read() -> None:
    tracker = Tracker()
    tracker.add(Work(Unit.ARRAY, [NOP], reads=[TILE]))
    tracker.add(Work(Unit.VECTOR, [NOP], array_vectors=16))
    # The rest of these vectors: not all are taken.
    rest = tracker.add(Work(Unit.VECTOR, [NOP], writes=[TILE], array_vectors=16))
    assert rest.waits == {Unit.ARRAY: 0}
