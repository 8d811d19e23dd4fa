"""The bench's rules of AXI, on made-up traffic: each violation is found, lawful traffic passes."""

import random

import numpy as np
import pytest

from tosaic.sim.bench.memory import GUARD_BYTES, MEM_BASE, BusFault, GuardedMemory
from tosaic.sim.bench.protocol import (
    AcceptedBurst,
    Handshake,
    ReadBursts,
    Violations,
    WriteBursts,
    check_burst,
)
from tosaic.sim.bench.stalls import PAUSES, random_pauses

W = 16


@pytest.fixture
def violations():
    return Violations()


def test_offer_that_waits_and_stays_is_lawful(violations):
    channel = Handshake("aw", violations)
    taken = [channel.step(True, ready, (1, 2)) for ready in (False, False, True)]
    assert taken == [False, False, True]
    assert channel.step(True, True, (3, 4))
    assert not channel.step(False, True, ())
    assert (channel.transfers, violations.found) == (2, [])


def test_offer_must_not_be_withdrawn(violations):
    channel = Handshake("aw", violations)
    channel.step(True, False, (1, 2))
    violations.cycle = 7
    channel.step(False, True, ())
    assert violations.found == ["cycle 7: awvalid fell before awready"]


def test_payload_must_not_change_before_ready(violations):
    channel = Handshake("w", violations)
    channel.step(True, False, (1, 2))
    channel.step(True, True, (1, 3))
    assert violations.found == ["cycle 0: w changed from (1, 2) to (1, 3) before wready"]


@pytest.mark.parametrize(
    "burst, message",
    [
        (AcceptedBurst(0x0FF0, 1, W, 1), None),
        (AcceptedBurst(0x1000, 256, W, 1), None),
        (AcceptedBurst(0x0FF0, 2, W, 1), "2 beats from araddr 0x00000ff0 cross a 4 KiB boundary"),
        (AcceptedBurst(0x1010, 256, W, 1), "256 beats from araddr 0x00001010 cross a 4 KiB boundary"),
        (AcceptedBurst(0x1008, 1, W, 1), "araddr 0x00001008 is not a multiple of 16"),
        (AcceptedBurst(0x1000, 1, 8, 1), "arsize says 8 bytes on a bus of 16"),
        (AcceptedBurst(0x1000, 1, W, 2), "arburst is 2, not INCR"),
    ],
)
def test_bursts(violations, burst, message):
    check_burst("ar", burst, W, violations)
    assert violations.found == ([] if message is None else [f"cycle 0: {message}"])


def write(rules, beats, lasts):
    """Data beats first_of..; `lasts` are the beats (from 1) with WLAST."""
    for beat in range(1, beats + 1):
        rules.data(beat in lasts)


@pytest.mark.parametrize("address_first", [True, False])
def test_wlast_in_its_place(violations, address_first):
    rules = WriteBursts(violations)
    lengths = (3, 1, 2)
    if address_first:
        for length in lengths:
            rules.address(AcceptedBurst(0, length, W, 1))
    write(rules, 6, {3, 4, 6})
    if not address_first:
        for length in lengths:
            rules.address(AcceptedBurst(0, length, W, 1))
    for _ in lengths:
        rules.response()
    rules.check_idle()
    assert violations.found == []


def test_wlast_too_early(violations):
    rules = WriteBursts(violations)
    rules.address(AcceptedBurst(0, 3, W, 1))
    write(rules, 2, {2})
    assert violations.found == ["cycle 0: wlast on beat 2 of a burst of 3"]


def test_wlast_missing(violations):
    rules = WriteBursts(violations)
    rules.address(AcceptedBurst(0, 3, W, 1))
    write(rules, 3, set())
    assert violations.found == ["cycle 0: no wlast on beat 3 of a burst of 3"]


def test_response_without_burst(violations):
    rules = WriteBursts(violations)
    rules.address(AcceptedBurst(0, 2, W, 1))
    rules.data(False)
    rules.response()
    assert violations.found == ["cycle 0: a write response without a complete burst"]


def test_bursts_left_open_at_the_end(violations):
    writes, reads = WriteBursts(violations), ReadBursts(violations)
    writes.address(AcceptedBurst(0, 2, W, 1))
    reads.address(1, 2)
    reads.data(1)
    writes.check_idle()
    reads.check_idle()
    assert violations.found == [
        "cycle 0: the run ended with write bursts under way: 1 wait for data, 0 for an address, 0 for a response",
        "cycle 0: the run ended with 1 read beats of ID 1 under way",
    ]


def call(coroutine):
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


def test_memory_takes_writes_inside_and_names_damage():
    window = np.arange(40, dtype=np.uint8)
    memory = GuardedMemory(window, W)
    call(memory.write(MEM_BASE + 4, b"\xaa\xbb"))
    assert window[4:6].tobytes() == b"\xaa\xbb"
    assert call(memory.read(MEM_BASE, W))[:6].hex() == "00010203aabb"
    assert memory.damage() == []
    # The last beat reaches over the end; reading it is no fault, writing there is.
    last = call(memory.read(MEM_BASE + 32, W))
    call(memory.write(MEM_BASE + 40, bytes([last[8] ^ 1])))
    assert memory.damage() == ["write over the guard byte at window offset 40"]


@pytest.mark.parametrize("offset", [-W, 48, GUARD_BYTES * 3])
def test_reads_outside_are_refused_and_noted(offset):
    memory = GuardedMemory(np.zeros(40, np.uint8), W)
    with pytest.raises(BusFault):
        call(memory.read(MEM_BASE + offset, W))
    assert memory.damage() == [f"read of 16 bytes at window offset {offset}"]


def test_errors_on_request():
    memory = GuardedMemory(np.zeros(64, np.uint8), W)
    memory.read_errors.add(MEM_BASE + 16)
    memory.write_errors.add(MEM_BASE + 32)
    with pytest.raises(BusFault):
        call(memory.read(MEM_BASE + 16, W))
    with pytest.raises(BusFault):
        call(memory.write(MEM_BASE + 37, b"\x01"))
    assert memory.window.sum() == 0
    assert memory.damage() == []


def test_pauses_have_all_their_habits():
    offered = [False]
    pauses = random_pauses(random.Random(1), lambda: offered[0])
    taken = [next(pauses) for _ in range(20_000)]
    shares = [np.mean(taken[i : i + 20]) for i in range(0, len(taken), 20)]
    assert min(shares) == 0.0
    assert max(shares) == 1.0
    assert min(PAUSES) < np.mean(taken) < max(PAUSES)


def test_pause_until_wanted_ends():
    offered = [True]
    pauses = random_pauses(random.Random(1), lambda: offered[0])
    assert not all(next(pauses) for _ in range(1000))
