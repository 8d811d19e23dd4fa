"""Vectors from the array to the vector unit, in stretches, against one after the other."""

import random

import pytest

from tosaic.hw.config_text import get_config
from tosaic.sim.emulator.events import Event, Timeline
from tosaic.sim.emulator.timing_parts import ARRAY_DRAIN_CYCLES, AccumulatorFifo


class OneByOne:
    """Works like AccumulatorFifo, one vector at a time."""

    def __init__(self, places: int, timeline: Timeline):
        self.places, self.there, self.taken = places, [], []
        self.changed = Event(timeline)

    def deliver(self, time, distances):
        waited = 0
        for distance in distances:
            time += distance
            number = len(self.there)
            while number >= self.places and len(self.taken) <= number - self.places:
                self.changed.notify()
                yield self.changed
            free = self.taken[number - self.places] + 1 if number >= self.places else time
            waited, time = waited + max(free - time, 0), max(free, time)
            self.there.append(time + ARRAY_DRAIN_CYCLES)
        self.changed.notify()
        return time, waited

    def take(self, time, count, beats, earliest):
        waited = 0
        for slot in range(count):
            time = max(time, earliest[slot]) if earliest else time
            while len(self.there) <= len(self.taken):
                self.changed.notify()
                yield self.changed
            there = self.there[len(self.taken)]
            waited, time = waited + max(there - time, 0), max(there, time)
            self.taken.append(time)
            time += beats
        self.changed.notify()
        return self.taken[-count:], waited


def run(make, seed: int) -> list:
    """What both sides are told for some tiles and drains."""
    draw, timeline, told = random.Random(seed), Timeline(), []
    fifo = make(timeline)
    tiles = [
        [draw.choice((0, 3)), *[draw.choice((1, 1, 2)) for _ in range(draw.randint(0, 15))]]
        for _ in range(40)
    ]
    counts, left = [], sum(map(len, tiles))
    while left:
        counts.append(min(left, draw.randint(1, 16)))
        left -= counts[-1]
    slow, waits = draw.choice((1, 2, 5)), [draw.randint(0, 40) for _ in range(80)]

    def array():
        clock = 0
        for number, distances in enumerate(tiles):
            clock += waits[number]
            clock, waited = yield from fifo.deliver(clock, distances)
            told.append(("array", clock, waited))
            clock += 1

    def vector():
        time = 0
        for number, count in enumerate(counts):
            earliest = [time + 7 * slot for slot in range(count)] if number % 5 == 4 else []
            taken, waited = yield from fifo.take(time, count, slow, earliest)
            told.append(("vector", list(taken), waited))
            time = taken[-1] + slow + waits[-1 - number % 40]
            yield max(time - 20, timeline.now)

    for process in (array(), vector()):
        timeline.resume_at(0, process)
    timeline.run()
    return sorted(told, key=lambda each: each[0])


@pytest.mark.parametrize("seed", range(25))
def test_stretches_take_the_cycles_of_single_vectors(seed):
    config = get_config("base")
    places = max(config.rows, config.drain_vectors)
    assert run(lambda timeline: AccumulatorFifo(config, timeline), seed) == run(
        lambda timeline: OneByOne(places, timeline), seed
    )
