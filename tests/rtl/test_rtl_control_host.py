"""Hosts at the RTL's control port that write some bytes of a register, and that do not wait for an answer before they
go on."""

import random

import pytest

from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTER, RESP_OKAY, RESP_SLVERR
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.library import Answer, ControlWrite, Harness

pytestmark = pytest.mark.xdist_group("nano")
PLAIN = ("PROGRAM_ADDRESS", "PROGRAM_BYTES", "MEM_BASE", "MEM_SIZE", "WATCHDOG")
"""Registers that keep all that a host writes."""
PLACES = [REGISTER[name].offset for name in PLAIN]
NO_REGISTER = 0x3C


@pytest.fixture
def harness():
    machine = Harness(simulator_library(CONFIGS["nano"]))
    yield machine
    machine.close()


def strobed(old: int, new: int, strobe: int) -> int:
    mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
    return old & ~mask | new & mask


@pytest.mark.parametrize("name", PLAIN)
def test_a_write_changes_the_bytes_of_its_strobe(harness, name):
    place = REGISTER[name].offset
    for strobe in range(16):
        harness.control_write(place, 0x11223344)
        _, responses = harness.control_accesses([], [ControlWrite(place, 0xAABBCCDD, strobe)])
        assert responses == [RESP_OKAY]
        assert harness.control_read(place) == strobed(0x11223344, 0xAABBCCDD, strobe)


def test_orders_are_in_the_byte_of_their_strobe(harness):
    control, irq = REGISTER["CONTROL"], REGISTER["IRQ"]
    enable, start = control.field("irq_enable").mask, control.field("start").mask
    assert enable | start < 1 << 8
    harness.control_accesses([], [ControlWrite(control.offset, enable | start, 0b1110)])
    assert harness.control_read(control.offset) == 0
    harness.control_write(REGISTER["MEM_SIZE"].offset, 0)
    harness.control_accesses([], [ControlWrite(control.offset, enable | start, 0b0001)])
    assert harness.control_read(control.offset) == enable
    # There is no program: the run ends in an error, whose interrupt stays until its byte is written.
    harness.run(1000)
    error = irq.field("error").mask
    assert harness.control_read(irq.offset) == error
    harness.control_accesses([], [ControlWrite(irq.offset, 0xFFFF_FFFF, 0b1110)])
    assert harness.control_read(irq.offset) == error
    harness.control_accesses([], [ControlWrite(irq.offset, error, 0b0001)])
    assert harness.control_read(irq.offset) == 0


def test_the_lock_is_set_by_its_byte_alone(harness):
    place = REGISTER["LOCK"].offset
    harness.control_accesses([], [ControlWrite(place, 0xFFFF_FFFF, 0b1110)])
    assert harness.control_read(place) == 0
    harness.control_accesses([], [ControlWrite(place, 0xFFFF_FFFF, 0b0001)])
    assert harness.control_read(place) == 1


def test_the_second_of_two_writes_waits_for_nothing_but_the_port(harness):
    first, second = PLACES[:2]
    _, responses = harness.control_accesses(
        [], [ControlWrite(first, 0x01020304), ControlWrite(second, 0x05060708)]
    )
    assert responses == [RESP_OKAY, RESP_OKAY]
    assert [harness.control_read(place) for place in (first, second)] == [0x01020304, 0x05060708]
    _, responses = harness.control_accesses(
        [], [ControlWrite(first, 1), ControlWrite(first, 2), ControlWrite(NO_REGISTER, 3)]
    )
    assert responses == [RESP_OKAY, RESP_OKAY, RESP_SLVERR]
    assert harness.control_read(first) == 2


def test_overlapping_writes_take_two_cycles_each(harness):
    writes, begun = [ControlWrite(PLACES[number % 5], number) for number in range(100)], harness.cycle
    harness.control_accesses([], writes)
    assert 200 <= harness.cycle - begun < 210


def test_a_read_and_a_write_do_not_wait_for_each_other(harness):
    begun = harness.cycle
    reads, _ = harness.control_accesses(
        [REGISTER["ID"].offset, NO_REGISTER], [ControlWrite(PLACES[0], 1)] * 2
    )
    both = harness.cycle - begun
    assert reads == [Answer(REGISTER["ID"].reset, RESP_OKAY), Answer(0, RESP_SLVERR)]
    harness.control_accesses([REGISTER["ID"].offset, NO_REGISTER], [])
    assert harness.cycle - begun == 2 * both


@pytest.mark.parametrize("stall_percent", [0, 30, 80])
def test_writes_that_overlap_arrive_in_their_order(harness, stall_percent):
    """What each read in between finds is the register's value behind some of the writes; at the end it is that behind
    all of them."""
    rng, values = random.Random(stall_percent), {place: [harness.control_read(place)] for place in PLACES}
    for seed in range(20):
        values = {place: kept[-1:] for place, kept in values.items()}
        writes, answers = [], []
        for _ in range(12):
            place = rng.choice([*PLACES, NO_REGISTER])
            writes.append(ControlWrite(place, rng.getrandbits(32), rng.randrange(16)))
            answers.append(RESP_SLVERR if place == NO_REGISTER else RESP_OKAY)
            if place != NO_REGISTER:
                values[place].append(strobed(values[place][-1], writes[-1].value, writes[-1].strobe))
        reads = [rng.choice(PLACES) for _ in range(12)]
        found, responses = harness.control_accesses(reads, writes, stall_percent, seed + 1)
        assert responses == answers
        assert all(answer.response == RESP_OKAY for answer in found)
        for place in PLACES:
            behind = iter(values[place])
            assert all(answer.value in behind for answer in _changes(reads, found, place))
            assert harness.control_read(place) == values[place][-1]


def _changes(reads: list[int], found: list[Answer], place: int) -> list[Answer]:
    """What was read of one register, without what is the same as before."""
    own = [answer for read, answer in zip(reads, found, strict=True) if read == place]
    return [answer for number, answer in enumerate(own) if not number or answer != own[number - 1]]
