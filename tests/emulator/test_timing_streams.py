"""Bursts of LOAD that are under way, packed rows, and the lines that leave the depthwise mode of the array."""

import random

import pytest
from timed_array import TimedArray
from unit_programs import command

from tosaic.hw.config_text import get_config
from tosaic.hw.constants import BURST_BEATS, OUTSTANDING_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.isa import Opcode, Space
from tosaic.sim.emulator.events import Process
from tosaic.sim.emulator.timing_parts import AccessesBefore, Bus, CoreFabric, TimedQueue
from tosaic.sim.emulator.transfer import UnpackedRow
from tosaic.sim.emulator.transfer_timing import LoadTiming, StoreTiming

BASE = get_config("base")
WORD = BASE.word_bytes
LATENCY = 5000
"""Latency of a memory that answers only after everything that may be requested has been requested, in cycles."""


def end(go: Opcode, rows: int, beats: int, latency: int = LATENCY) -> int:
    """The cycle in which a transfer of rows of some beats, each row a block of its own, is complete."""
    bus = Bus(BASE, None, latency)
    fabric = CoreFabric(BASE, bus, 0, [])
    fabric.busy = 2
    queue, before = TimedQueue(bus.timeline, 8, 1), AccessesBefore(BASE)
    load = go is Opcode.LOAD_GO
    unit = (LoadTiming if load else StoreTiming)(fabric, queue, before)
    run = (unit.commands(), unit.split(), unit.retire()) if isinstance(unit, LoadTiming) else (unit.run(),)
    pitch = command(Opcode.LOAD_PITCH if load else Opcode.STORE_PITCH, memory_pitch=BURST_BEATS * WORD)
    transfer = command(go, row_bytes=beats * WORD, rows=rows)
    for process in (*run, queue.put(pitch), queue.put(transfer)):
        bus.timeline.resume_at(0, process)
    bus.timeline.run()
    (found,) = fabric.slices
    assert fabric.counters["load_beats" if load else "store_beats"] == rows * beats
    assert fabric.busy == 0
    return found.end


def turns(go: Opcode, rows: int, beats: int) -> int:
    """How often the memory's latency is waited for."""
    return end(go, rows, beats) // LATENCY


@pytest.mark.parametrize("go", [Opcode.LOAD_GO, Opcode.STORE_GO])
def test_short_bursts_that_are_under_way(go: Opcode) -> None:
    most = OUTSTANDING_BURSTS
    assert [turns(go, rows, 1) for rows in (1, most, most + 1)] == [1, 1, 2]
    assert end(go, most, 1) - end(go, most - 1, 1) < 20


def test_beats_that_are_under_way() -> None:
    """There are as many as there is room for; beats of the next burst only while there is room for the whole
    burst."""
    whole = OUTSTANDING_BEATS // BURST_BEATS
    assert [turns(Opcode.LOAD_GO, rows, BURST_BEATS) for rows in (1, whole, whole + 1)] == [1, 1, 2]
    half = 2 * (whole - 1) + 1
    assert [turns(Opcode.LOAD_GO, rows, BURST_BEATS // 2) for rows in (half, half + 1)] == [1, 2]


def test_of_a_memory_that_answers_at_once_nothing_waits() -> None:
    """A beat in each cycle."""
    for rows in (1, 20, 40):
        assert end(Opcode.LOAD_GO, rows, BURST_BEATS, 1) - end(Opcode.LOAD_GO, 1, BURST_BEATS, 1) == (
            (rows - 1) * BURST_BEATS
        )


# --- packed rows


@pytest.mark.parametrize("words, cycles", [(64, 40), (64, 500), (63, 501), (1, 90)])
def test_beats_of_a_packed_row_share_its_cycles(words: int, cycles: int) -> None:
    """A row has 40 beats, in a burst of 32 and one of 8. The words of each burst are there when its share of the
    cycles, or the bus, is over, and the last word two cycles later."""
    bus = Bus(BASE, None, 0)
    fabric = CoreFabric(BASE, bus, 0, [])
    fabric.busy = 1
    queue, beats = TimedQueue(bus.timeline, 8, 1), 40
    load = LoadTiming(
        fabric, queue, AccessesBefore(BASE), unpacked_rows=[UnpackedRow(words=words, cycles=cycles)]
    )
    go = command(Opcode.LOAD_GO, row_bytes=beats * WORD, rows=1, packed=1, streamed=1, space=Space.WM)
    arrivals: list[int] = []

    def array() -> Process:
        for count in range(1, words + 1):
            arrivals.append((yield from fabric.streamed.arrival(count, 0)))

    for process in (load.commands(), load.split(), load.retire(), queue.put(go), array()):
        bus.timeline.resume_at(0, process)
    bus.timeline.run()
    (found,) = fabric.slices
    first = found.end - 2 - max(cycles, beats)
    early = words * 32 // beats
    # There a pitch comes before it.
    assert first == end(Opcode.LOAD_GO, 1, beats, 0) - 1 - beats
    by_beats = first + max(32, cycles * 32 // beats)
    # Three cycles before they are written, the array may ask for them.
    assert arrivals[:early] == [by_beats - 3] * early
    assert arrivals[early:] == [found.end - 3] * (words - early)


# --- lines of the depthwise mode


@pytest.mark.parametrize("seed", range(30))
def test_outputs_leave_when_their_last_tap_is_there(seed: int) -> None:
    """In slots behind the taps' loading: rows - 1 behind the pixel of an output, which the stream has behind what is
    skipped; none behind the line's end, or behind the stream's. They pass the idle rows, and are there 11 cycles
    later."""
    dice = random.Random(seed)
    line, x_stride, y_stride = dice.randint(1, 12), dice.randint(1, 3), dice.randint(1, 2)
    height, width = dice.randint(1, 5), dice.randint(0, 14)
    skip, idle, advances = dice.choice((0, 3, 9, 40)), dice.choice((0, 5)), dice.randint(1, 90)
    drain = int(dice.random() < 0.9)
    settings = [
        command(Opcode.ARRAY_INPUT, address=300),
        command(Opcode.ARRAY_WINDOW, width=4, y_step_bytes=100),
        command(
            Opcode.ARRAY_DEPTHWISE,
            line=line,
            skip=skip,
            out_width=width,
            out_height=height,
            x_stride=x_stride,
            y_stride=y_stride,
            delay=2,
        ),
    ]
    go = command(Opcode.ARRAY_DEPTHWISE_GO, advances=advances, idle_rows=idle, drain=drain)
    rows = BASE.rows - idle
    wait = max(rows - skip, 0)
    wanted = []
    for y in range(height if drain else 0):
        for x in range(width):
            slot = wait + skip + rows + (y * y_stride * line) + x * x_stride
            if x * x_stride < line and slot <= wait + advances:
                wanted.append(slot)
    made = TimedArray("base", *settings, go, vectors=len(wanted))
    ((start, last),) = made.gos
    assert last - start == wait + advances
    assert made.sent == [start + slot - 1 + idle + 11 for slot in wanted]


@pytest.mark.parametrize(
    "machine, fields, depthwise, was_depthwise, waits",
    [
        ("base,weight_banks=1", {}, False, False, False),
        ("base,weight_banks=1", {}, False, True, True),
        ("base,weight_banks=1", {"weights": 8}, False, False, False),
        ("base,weight_banks=4", {"weights": 16}, False, False, False),
        ("base,weight_banks=4", {"weights": 8}, False, False, True),
        ("base,weight_banks=1", {"drain": 1}, True, False, True),
        ("base,weight_banks=1", {"drain": 1}, True, True, False),
        ("base,weight_banks=1", {"drain": 1, "accumulate": 1}, True, True, True),
        ("base,weight_banks=1", {"drain": 0}, True, True, True),
    ],
)
def test_gos_that_wait_for_the_rows(
    machine: str, fields: dict[str, int], depthwise: bool, was_depthwise: bool, waits: bool
) -> None:
    """They wait until the GO before has passed the last of 16 rows, or the idle ones."""
    settings = [
        command(Opcode.ARRAY_INPUT),
        command(Opcode.ARRAY_WINDOW, width=1),
        command(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=9),
        command(Opcode.ARRAY_DEPTHWISE, line=1, out_width=0, x_stride=1, delay=2),
    ]
    before = (
        command(Opcode.ARRAY_DEPTHWISE_GO, advances=90, idle_rows=5)
        if was_depthwise
        else command(Opcode.ARRAY_GO, pixels=1)
    )
    how = {"advances": 30} if depthwise else {"pixels": 1}
    go = command(Opcode.ARRAY_DEPTHWISE_GO if depthwise else Opcode.ARRAY_GO, **how, **fields)
    (_, end), (start, _) = TimedArray(machine, *settings, before, go).gos
    flushed = end + (5 if was_depthwise else BASE.rows - 1)
    assert start == (flushed if waits else end)
