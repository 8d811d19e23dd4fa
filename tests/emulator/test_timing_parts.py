"""What the units of the cycle model share, each against a cycle-by-cycle model or by hand."""

import random
from collections.abc import Callable

import pytest

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Instruction, Opcode, Unit, make
from tosaic.sim.bandwidth import THOUSAND, thousandths
from tosaic.sim.emulator.events import Process, Timeline
from tosaic.sim.emulator.timing_parts import (
    AccessesBefore,
    BurstBeats,
    Bus,
    Channel,
    CoreFabric,
    SharedReads,
    SharedWrites,
    StreamedWeights,
    TimedQueue,
    bursts,
)

BASE = get_config("base")
PAIR = get_config("base,cores=2,bus_words=2")


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields)


# --- the bus


class SavingMemory:
    """Cycle by cycle: each one brings some bytes of credit, up to two beats; a beat takes its own."""

    def __init__(self, beat: int, bandwidth: int):
        self.beat, self.bandwidth, self.cycle, self.credit = beat, bandwidth, 0, 2 * beat

    def _pass(self, beats: int) -> None:
        self.credit = min(self.credit + self.bandwidth, 2 * self.beat) - beats * self.beat
        self.cycle += 1

    def transfer(self, beats: int, asked: int) -> tuple[int, int]:
        while self.cycle < asked:
            self._pass(0)
        found: list[int] = []
        while len(found) < beats:
            ready = min(self.credit + self.bandwidth, 2 * self.beat) >= self.beat
            found += [self.cycle] * ready
            self._pass(ready)
        return found[0], self.cycle

    def held_until(self, time: int) -> None:
        while self.cycle < time:
            self._pass(0)


@pytest.mark.parametrize("seed", range(16))
def test_a_memory_that_is_slower_than_the_bus(seed: int) -> None:
    dice = random.Random(seed)
    beat_bytes, latency = dice.choice((4, 16)), dice.choice((0, 1, 30))
    bandwidth = dice.choice((beat_bytes * THOUSAND, 1000, 1700, 2000, 3999, dice.randint(300, 4000)))
    timeline, total = Timeline(), 0
    channel = Channel(timeline, beat_bytes, bandwidth, latency)
    memory = SavingMemory(beat_bytes * THOUSAND, bandwidth)
    assert channel.beat_cycles == beat_bytes * THOUSAND / bandwidth
    for _ in range(30):
        timeline.now += dice.choice((0, 1, 2, 5, 40))
        beats, delay = dice.choice((1, 2, 3, 7, 32)), dice.choice((0, 2, 5))
        total += beats
        asked = timeline.now + delay + latency
        assert channel.transfer(BurstBeats(beats, beats), delay) == memory.transfer(beats, asked)
        assert channel.beats == total
        if dice.random() < 0.3:
            held = memory.cycle + dice.choice((-3, 0, 1, 6, 50))
            channel.held_until(held)
            memory.held_until(held)
    assert channel.through(BurstBeats(3, 2), 17) == 17


@pytest.mark.parametrize(
    "bytes_per_cycle, found",
    [(None, 16000), (16, 16000), (17, 16000), (15.9994, 15999), (0.0001, 1), (0.0016, 2), (0, 1)],
)
def test_bandwidth_in_thousandths_of_a_byte(bytes_per_cycle: float | None, found: int) -> None:
    assert thousandths(bytes_per_cycle, 16) == found


@pytest.mark.parametrize("latency, first", [(0, 3), (1, 3), (5, 7)])
def test_reads_wait_for_the_memory_and_writes_do_not(latency: int, first: int) -> None:
    """A cycle at least."""
    bus = Bus(BASE, None, latency)
    reads, writes = bus.ports()
    assert reads.transfer(BurstBeats(4, 4), 2) == (first, first + 4)
    assert writes.transfer(BurstBeats(3, 3), 2) == (2, 5)
    assert bus.traffic() == (4 * BASE.bus_bytes, 3 * BASE.bus_bytes)
    assert bus.latency_cycles == max(latency, 1)


def test_a_core_reads_words_of_a_bus_that_is_wider() -> None:
    """Two words come with a beat, two cycles after it, and the address takes one more; the core takes a word in a
    cycle."""
    timeline = Timeline()
    bus = Channel(timeline, 32, 32 * THOUSAND, 10)
    reads = SharedReads(bus, 2)
    assert reads.beat_cycles == 1
    # Beats in cycles 13 to 16.
    assert reads.transfer(BurstBeats(8, 4), 2) == (15, 23)
    # In 17 and 18, behind the words before.
    assert reads.transfer(BurstBeats(3, 2), 2) == (23, 26)
    timeline.now = 20
    assert reads.transfer(BurstBeats(1, 1), 2) == (35, 36)
    reads.held_until(100)
    assert reads.transfer(BurstBeats(2, 1), 2) == (100, 102)
    reads.held_until(101)
    assert reads.transfer(BurstBeats(2, 1), 2) == (102, 104)


def test_a_core_reads_of_a_slow_bus() -> None:
    """A beat of two words in four cycles: the last one's words come when it does."""
    reads = SharedReads(Channel(Timeline(), 32, 8 * THOUSAND, 10), 2)
    assert reads.beat_cycles == 2
    # Beats in 13 and 14 (two are saved), 17, 21 and 25.
    assert reads.transfer(BurstBeats(10, 5), 2) == (15, 29)
    # An odd number of words ends with the first one of a beat.
    reads = SharedReads(Channel(Timeline(), 32, 8 * THOUSAND, 10), 2)
    assert reads.transfer(BurstBeats(9, 5), 2) == (15, 28)
    assert SharedReads(Channel(Timeline(), 32, 24 * THOUSAND, 10), 2).beat_cycles == 1


def test_a_core_writes_bursts_that_are_there_as_a_whole() -> None:
    """Two may wait while one comes: the fourth waits for the first to be through."""
    timeline = Timeline()
    writes = SharedWrites(Channel(timeline, 32, 8 * THOUSAND, 0), timeline)
    ends = []
    for beats in (8, 4, 2, 2):
        first, end = writes.transfer(BurstBeats(beats, beats // 2), 5)
        ends.append((first, end, writes.through(BurstBeats(beats, beats // 2), end)))
        writes.held_until(end)
    # Beats of the bus in 14 and 15 (two are saved), 18 and 22; then every four cycles.
    assert ends == [(5, 13, 23), (13, 17, 31), (17, 19, 35), (23, 25, 39)]
    timeline.now = 60
    assert writes.through(BurstBeats(2, 1), 50) == 62


# --- queues


def run(timeline: Timeline, *processes: Process) -> None:
    for process in processes:
        timeline.resume_at(0, process)
    timeline.run()


def test_a_queue_has_room_for_its_depth() -> None:
    timeline, log = Timeline(), list[tuple[str, int, int]]()
    queue = TimedQueue(timeline, 2, 3)
    items = [command(Opcode.LOAD_WAIT, semaphore=number) for number in range(4)]

    def sender() -> Process:
        for number, item in enumerate(items):
            yield from queue.put(item)
            log.append(("put", number, timeline.now))

    def taker() -> Process:
        for _ in items:
            item = yield from queue.head()
            assert queue.items[0][1] is item
            log.append(("head", item.semaphore, timeline.now))
            yield timeline.now + 10
            queue.pop()

    run(timeline, taker(), sender())
    assert [each for each in log if each[0] == "put"] == [
        ("put", 0, 0), ("put", 1, 0), ("put", 2, 13), ("put", 3, 23),
    ]  # fmt: skip
    assert [each for each in log if each[0] == "head"] == [
        ("head", 0, 3), ("head", 1, 13), ("head", 2, 23), ("head", 3, 33),
    ]  # fmt: skip


def test_streamed_weights_arrive_word_by_word() -> None:
    """Six words of which the last one comes before cycle 20, then four before 50, at two cycles each."""
    timeline, found = Timeline(), list[int]()
    weights = StreamedWeights(timeline)

    def array() -> Process:
        for count in (1, 5, 6, 7, 10):
            found.append((yield from weights.arrival(count, 2.0)))

    def load() -> Process:
        weights.put(6, 20)
        yield 30
        assert found == [10, 18, 20]
        weights.put(4, 50)

    run(timeline, array(), load())
    assert found == [10, 18, 20, 44, 50]


# --- who goes first in a bank


@pytest.mark.parametrize("seed", range(12))
def test_cycles_in_which_a_bank_is_taken(seed: int) -> None:
    """They are counted cycle by cycle; cycles that are over are not asked for again."""
    dice, accesses = random.Random(seed), AccessesBefore(BASE)
    taken: list[tuple[int, int, float]] = []
    time, asked_from = 0, 0
    for _ in range(40):
        start = time + dice.choice((0, 0, 1, 5))
        time = start + dice.randint(1, 9)
        bank, share = dice.randrange(2), dice.choice((1.0, 1.0, 0.5))
        accesses.record(start, time, bank, share)
        taken += [(cycle, bank, share) for cycle in range(start, time)]
        if dice.random() < 0.5:
            first = asked_from + dice.randint(0, 6)
            last, bank = first + dice.randint(1, 12), dice.randrange(2)
            asked_from = first
            wanted = sum(share for cycle, used, share in taken if first <= cycle < last and used == bank)
            assert sum(accesses.pieces(first, last, bank)) == wanted
            assert accesses.cycles(first, last, bank) == round(wanted)


def test_accesses_without_a_gap_are_one_stretch() -> None:
    """They are in one bank, and take the same share of the cycles."""
    accesses = AccessesBefore(BASE)
    for start, end, bank, share in (
        (0, 4, 0, 1.0),
        (4, 6, 0, 1.0),
        (6, 8, 1, 1.0),
        (8, 9, 1, 0.5),
        (10, 12, 1, 0.5),
    ):
        accesses.record(start, end, bank, share)
    assert accesses.pieces(0, 20, 0) == [6]
    assert accesses.pieces(0, 20, 1) == [2, 0.5, 1]
    # In the cycles asked for alone.
    assert accesses.pieces(5, 6, 0) == [1]
    assert accesses.pieces(7, 11, 1) == [1, 0.5, 0.5]
    assert accesses.pieces(8, 8, 1) == accesses.pieces(9, 10, 1) == []


@pytest.mark.parametrize("offset, bank", [(0, 0), (-1, -1), (1, 0)])
def test_the_bank_of_a_byte(offset: int, bank: int) -> None:
    """Addresses wrap at the end of the memory."""
    config, accesses = BASE, AccessesBefore(BASE)
    for number in range(config.am_banks):
        for turn in (0, config.am_bytes):
            place = number * config.am_bank_bytes + offset + turn
            assert accesses.bank(place) == (number + bank) % config.am_banks


# --- what connects the units


def fabrics(config=BASE) -> list[CoreFabric]:  # type: ignore[no-untyped-def]
    bus, found = Bus(config, None, 4), list[CoreFabric]()
    found += [CoreFabric(config, bus, core, found) for core in range(config.cores)]
    return found


def test_cycles_in_which_a_unit_was_busy() -> None:
    """Each counts once; one that is told late counts from where it is new."""
    (fabric,) = fabrics()
    for start, end in ((5, 10), (8, 12), (20, 21), (12, 20), (30, 25), (30, 31)):
        fabric.was_busy(Unit.LOAD, start, end)
    assert fabric.counters["load_busy"] == 5 + 2 + 1 + 1
    fabric.was_busy(Unit.STORE, 0, 4)
    assert fabric.counters["store_busy"] == 4


def waiting(fabric: CoreFabric, count: int, log: list[int]) -> Process:
    yield from fabric.wait(command(Opcode.LOAD_WAIT, semaphore=2, count=count))
    log.append(fabric.timeline.now)


def signalling(fabric: CoreFabric, at: list[int], **fields: int) -> Process:
    for time in at:
        yield time
        fabric.signal(command(Opcode.STORE_SIGNAL, semaphore=2, count=1, **fields))


def test_a_wait_sees_its_tokens_a_cycle_after_they_are_sent() -> None:
    """And has them one later, or at once where they are there already but for that cycle."""
    (fabric,) = fabrics()
    log: list[int] = []
    run(fabric.timeline, waiting(fabric, 2, log), signalling(fabric, [3, 7, 20]))
    assert log == [9]
    assert fabric.counters["load_wait"] == 9

    def later() -> Process:
        yield 40
        yield from waiting(fabric, 1, log)
        # No other one is left.
        yield from waiting(fabric, 1, log)

    run(fabric.timeline, later(), signalling(fabric, [60]))
    assert log == [9, 41, 62]


def test_of_two_waits_one_gets_the_tokens() -> None:
    (fabric,) = fabrics()
    log: list[int] = []
    run(fabric.timeline, waiting(fabric, 1, log), waiting(fabric, 1, log), signalling(fabric, [3, 10]))
    assert log == [5, 12]


def test_tokens_for_other_cores_take_a_cycle_more() -> None:
    own, other = fabrics(PAIR)
    logs: list[list[int]] = [[], []]

    def waits() -> list[Process]:
        return [waiting(fabric, 1, log) for fabric, log in zip((own, other), logs, strict=True)]

    run(own.timeline, *waits(), signalling(own, [3], cores=0b11))
    assert logs == [[5], [6]]
    # No cores are named: it is for its own.
    run(own.timeline, *waits(), signalling(own, [30], cores=0))
    assert logs == [[5, 32], [6]]
    run(own.timeline, signalling(own, [40], cores=0b10))
    assert logs == [[5, 32], [6, 43]]


def test_the_last_command_makes_the_fabric_idle() -> None:
    (fabric,) = fabrics()
    log: list[int] = []

    def idle() -> Process:
        while fabric.busy:
            yield fabric.idle
            log.append(fabric.timeline.now)

    def work() -> Process:
        for time in (4, 9):
            yield time
            fabric.done()

    fabric.busy = 2
    run(fabric.timeline, idle(), work())
    assert log == [9]


def test_what_is_done_at_a_cycle() -> None:
    (fabric,) = fabrics()
    log: list[int] = []

    def noted(wanted: int) -> Callable[[], None]:
        return lambda: log.append(wanted - fabric.timeline.now)

    def work() -> Process:
        fabric.at(7, noted(7))
        yield 10
        # Not before now.
        fabric.at(3, noted(10))

    run(fabric.timeline, work())
    assert log == [0, 0]


@pytest.mark.parametrize("machine", ["nano", "base", "base,cores=2,bus_words=2"])
@pytest.mark.parametrize("address", [0, 1, 32, 496, 500, 511])
@pytest.mark.parametrize("size", [1, 4, 16, 17, 512, 513, 1100])
def test_bursts_of_a_row(machine: str, address: int, size: int) -> None:
    """The words that a row touches make bursts in blocks of 32, and so do the port's beats that hold these words."""
    config = get_config(machine)
    blocks: dict[int, set[int]] = {}
    for place in range(address, address + size):
        word = place // config.word_bytes
        blocks.setdefault(word // 32, set()).add(word)
    wanted = [
        BurstBeats(len(words), len({word // config.bus_words for word in words})) for words in blocks.values()
    ]
    assert bursts(config, address, size) == wanted
    assert [each.on_bus for each in wanted] == [BurstBeats(each.bus_beats, each.bus_beats) for each in wanted]
