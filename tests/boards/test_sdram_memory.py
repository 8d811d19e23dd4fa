"""External memory behind LiteDRAM: bursts, strobes, stalls, the host, the edges, and a chip that checks its rules."""

import dataclasses
import random

import pytest
from sdram_bench import BASE, SETTING, START_CYCLES, WIDTH, Bench, build

from tosaic.boards.dram import MT48LC16M16
from tosaic.boards.soc import SdramMemory
from tosaic.boards.soc.sdram_init import MARGIN, init_writes
from tosaic.hw.config import CONFIGS

pytestmark = pytest.mark.xdist_group("sdram")
OKAY, DECERR = 0, 3
END = BASE + MT48LC16M16.memory_bytes
ROW_BYTES = 4096
"""Bytes of a row of all banks, one after the other."""
FULL = (1 << WIDTH) - 1


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("sdram"))


@pytest.fixture
def bench(library):
    made = Bench(library)
    yield made
    made.close()


def read(bench, bursts, ready=lambda: True):
    """Beats (cycle, word, id, response, last)."""
    found = []
    beats = sum(beats for _, beats, _ in bursts)
    bench.run(
        bench.read_addresses(bursts),
        bench.read_answers(beats, ready, lambda *beat: found.append(beat)),
    )
    return found


def write(bench, bursts, data, ready=lambda: True, pause=lambda: 0):
    """(cycle, id, response) of each burst."""
    found = []
    bench.run(
        bench.write_addresses(bursts),
        bench.write_data(data, pause),
        bench.write_answers(len(bursts), ready, lambda *answer: found.append(answer)),
    )
    return found


def host(bench, address, value=None):
    """(byte, error)."""
    found = []
    bench.run(bench.host(address, value, lambda *answer: found.append(answer)))
    return found[0]


def words(data):
    return [int.from_bytes(data[at : at + WIDTH], "little") for at in range(0, len(data), WIDTH)]


def content(bench, address, count):
    """Bytes, in bursts of 256."""
    bursts = [(address + at, min(256, count - at) // WIDTH, 0) for at in range(0, count, 256)]
    return b"".join(beat[1].to_bytes(WIDTH, "little") for beat in read(bench, bursts))


def test_constructor():
    with pytest.raises(ValueError, match=r"^base must be a multiple of 0x2000000 below 2\*\*32, not 0x1000$"):
        SdramMemory(CONFIGS["nano"], MT48LC16M16, base=0x1000, clock_hz=50e6, data_pins=None)


def test_nothing_is_written_before_the_start_is_over(bench):
    """Requests wait; the start is what the chip's data sheet wants, and it takes as long."""
    waits = sum(write.cycles for write in init_writes(MT48LC16M16, 50e6))
    assert 10_000 * MARGIN == 11_000 < waits < START_CYCLES
    seen = []

    def watch():
        while bench.now < waits:
            assert bench.chip_writes == 0
            yield
        seen.append(bench.now)

    answers = []
    bench.run(
        watch(),
        bench.write_addresses([(BASE, 1, 1)]),
        bench.write_data([[(0x0123456789ABCDEF, FULL)]], lambda: 0),
        bench.write_answers(1, lambda: True, lambda *answer: answers.append(answer)),
    )
    ((cycle, number, response),) = answers
    assert seen and waits < cycle < START_CYCLES + 100 and (number, response) == (1, OKAY)
    assert content(bench, BASE, WIDTH) == (0x0123456789ABCDEF).to_bytes(WIDTH, "little")
    assert bench.broken == ""


def test_three_requesters(bench):
    """Both directions and the host work at once, on bytes of their own, with stalls, strobes and bursts of every
    length."""
    rng = random.Random(1)
    part = 64 << 10
    mine, theirs, hosts = (bytearray(part) for _ in range(3))
    bench.step(START_CYCLES)
    theirs[:2048] = rng.randbytes(2048)
    write(bench, [(BASE + part + at, 32, 0) for at in range(0, 2048, 256)],
          [[(word, FULL) for word in words(theirs[at : at + 256])] for at in range(0, 2048, 256)])  # fmt: skip

    def place(limit):
        beats = rng.choice([1, 2, 7, 16, 32])
        return rng.randrange((limit - beats * WIDTH) // 256 + 1) * 256, beats

    writes, data = [], []
    for number in range(120):
        at, beats = place(part)
        chunk = [(rng.getrandbits(8 * WIDTH), rng.choice([FULL, rng.randrange(FULL)])) for _ in range(beats)]
        for index, (word, strobes) in enumerate(chunk):
            for lane in range(WIDTH):
                if strobes >> lane & 1:
                    mine[at + index * WIDTH + lane] = word >> 8 * lane & 255
        writes.append((BASE + at, beats, number % 4))
        data.append(chunk)
    reads = [(BASE + part + at, beats, number % 4) for number in range(120) for at, beats in [place(2048)]]
    found, answers = [], []

    def touch():
        for _ in range(150):
            at, value = rng.randrange(part), rng.choice([None, rng.randrange(256)])
            answer: list = []
            yield from bench.host(BASE + 2 * part + at, value, lambda *got, to=answer: to.append(got))
            if value is None:
                assert answer == [(hosts[at], 0)]
            else:
                assert answer[0][1] == 0
                hosts[at] = value

    bench.run(
        touch(),
        bench.write_addresses(writes),
        bench.write_data(data, lambda: rng.choice([0, 0, 0, 3])),
        bench.write_answers(len(writes), lambda: rng.random() < 0.6, lambda *answer: answers.append(answer)),
        bench.read_addresses(reads),
        bench.read_answers(
            sum(beats for _, beats, _ in reads),
            lambda: rng.random() < 0.8,
            lambda *beat: found.append(beat),
        ),
    )
    wanted = [
        (word, number, OKAY, index == beats - 1)
        for address, beats, number in reads
        for index, word in enumerate(words(theirs[address - BASE - part :][: beats * WIDTH]))
    ]
    assert [(word, number, response, bool(last)) for _, word, number, response, last in found] == wanted
    assert [answer[1:] for answer in answers] == [(number, OKAY) for _, _, number in writes]
    assert content(bench, BASE, part) == mine
    assert bench.broken == ""


@pytest.mark.nightly
def test_addresses_that_wait(bench):
    """Whether the controller takes an address it says from a register: two wait in front of its arbiter, whatever the
    data do. All of them stay in order."""
    bench.step(START_CYCLES)
    bursts = [(BASE + 4096 * number, 16, number % 4) for number in range(6)]
    data = [[(100 * number + index, FULL) for index in range(16)] for number in range(6)]
    begun: list = []

    def watched():
        for burst in bursts:
            begun.append(burst)
            yield burst

    def taken_in(process, cycles):
        begun.clear()
        for _ in range(cycles):
            next(process)
            bench.step()
        return len(begun) - 1  # the last one is offered still

    addresses, answers = bench.write_addresses(watched()), []
    assert taken_in(addresses, 50) == 2
    bench.run(
        addresses,
        bench.write_data(data, lambda: 0),
        bench.write_answers(6, lambda: True, lambda *answer: answers.append(answer)),
    )
    assert [answer[1:] for answer in answers] == [(number % 4, OKAY) for number in range(6)]
    addresses, found = bench.read_addresses(watched()), []
    # A burst fills the buffer of read data.
    assert taken_in(addresses, 200) == 3
    bench.run(addresses, bench.read_answers(6 * 16, lambda: True, lambda *beat: found.append(beat)))
    assert [(beat[1], beat[2]) for beat in found] == [
        (word, number % 4) for number, beats in enumerate(data) for word, _ in beats
    ]
    assert bench.broken == ""


def test_outside_is_answered_decerr(bench):
    """The answers come in order with those of addresses inside; nothing is written anywhere."""
    bench.step(START_CYCLES)
    for address in (BASE - 1, END, 0, 0xFFFF_FFFF):
        assert host(bench, address)[1] == host(bench, address, 1)[1] == 1
    inside = [(BASE, 2, 1), (END - 2 * WIDTH, 2, 2)]
    data = [[(3, FULL), (4, FULL)], [(5, FULL), (6, FULL)]]
    outside = [(END, 2, 3), (BASE - 4096, 1, 0), (0, 2, 1)]
    lost = [[(7, FULL), (8, FULL)], [(9, FULL)], [(10, FULL), (11, FULL)]]
    answers = write(bench, [inside[0], *outside, inside[1]], [data[0], *lost, data[1]])
    assert [answer[1:] for answer in answers] == [(1, OKAY), (3, DECERR), (0, DECERR), (1, DECERR), (2, OKAY)]
    assert bench.chip_writes == 4 * WIDTH // 2
    found = read(bench, [inside[0], *outside, inside[1]])
    assert [(beat[2], beat[3], beat[4]) for beat in found] == [
        *((1, OKAY, 0), (1, OKAY, 1)),
        *((3, DECERR, 0), (3, DECERR, 1), (0, DECERR, 1), (1, DECERR, 0), (1, DECERR, 1)),
        *((2, OKAY, 0), (2, OKAY, 1)),
    ]
    assert [beat[1] for beat in found[:2] + found[-2:]] == [3, 4, 5, 6]
    assert bench.broken == ""


def test_a_reset_in_the_middle_of_bursts(bench):
    """The reset comes after any number of cycles of the bursts. The next requests are served, and no rule of the chip
    is broken."""
    bench.step(START_CYCLES)
    for cycles in (1, 9, 14, 23, 40):
        running = [
            bench.write_addresses([(BASE, 32, 0)] * 4),
            bench.write_data([[(1, FULL)] * 32] * 4, lambda: 0),
            bench.read_addresses([(BASE + 4096, 32, 0)] * 4),
            bench.read_answers(128, lambda: True, lambda *beat: None),
        ]
        for _ in range(cycles):
            for process in running:
                next(process, None)
            bench.step()
        bench.reset()
        assert write(bench, [(BASE + 256, 1, 3)], [[(cycles, FULL)]])[0][1:] == (3, OKAY)
        assert [beat[1:] for beat in read(bench, [(BASE + 256, 1, 2)])] == [(cycles, 2, OKAY, 1)]
    assert bench.broken == ""


def test_rows_are_refreshed_in_time(bench):
    """More than the 64 ms in which a chip wants 8,192 refreshes."""
    bench.step(3_300_000)
    assert bench.broken == ""


def test_speed(bench):
    """The figures of docs/boards.md: bytes per cycle of long runs of full bursts, refreshes included, and latency."""
    bench.step(START_CYCLES)
    bursts = [(BASE + at, 32, 0) for at in range(0, 32 << 10, 256)]
    data = [[(index, FULL) for index in range(32)]] * len(bursts)
    begin = bench.now
    written = (32 << 10) / (write(bench, bursts, data)[-1][0] - begin)
    begin = bench.now
    found = read(bench, bursts)
    assert (round(written, 2), round((32 << 10) / (found[-1][0] - begin), 2)) == (1.9, 1.92)
    # Cycles from the one that takes an address to the one that offers its first beat: a row that is open, another one.
    # Refreshes come in between.
    latencies: dict[bool, list[int]] = {True: [], False: []}
    last = BASE
    for address in (BASE, BASE, BASE + ROW_BYTES) * 4:
        bench.step(2)
        begin = bench.now
        latencies[address == last].append(read(bench, [(address, 4, 0)])[0][0] - 1 - begin)
        last = address
    assert (min(latencies[True]), min(latencies[False])) == (13, 16)


TOO_MANY = {
    "rcd": 1, "rp": 1, "ras": 3, "rc": 3, "rrd": 6, "rfc": 3, "wr": 4, "mode": 192, "power_up": 1013, "refreshes": 1,
}  # fmt: skip
"""Cycles more that a chip wants, so that the controller's commands come too early; one less is what LiteDRAM leaves."""


def exercise(bench):
    """Rows of every bank opened and closed after short accesses of both directions, one bank soon after another one,
    and what comes between two refreshes."""
    bench.step(START_CYCLES)
    rng = random.Random(2)
    for _ in range(12):
        at = BASE + rng.randrange(1 << 12) * ROW_BYTES
        others = [
            (at + number * ROW_BYTES + rng.randrange(4) * ROW_BYTES // 4, 1, 0) for number in range(1, 9)
        ]
        write(bench, [(at, 2, 0), *others], [[(1, FULL), (2, FULL)], *[[(3, FULL)]] * len(others)])
        read(bench, [(at, 2, 0), *others])


@pytest.mark.parametrize("name", TOO_MANY)
def test_a_chip_that_wants_more_notices(library, name):
    for less in (1, 0):
        wanted = getattr(SETTING, name) + TOO_MANY[name] - less
        bench = Bench(library, dataclasses.replace(SETTING, **{name: wanted}))
        exercise(bench)
        assert (bench.broken == "") == bool(less)
        bench.close()
