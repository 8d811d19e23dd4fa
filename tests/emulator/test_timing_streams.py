"""Bursts of LOAD that are under way, packed rows, and the lines that leave the depthwise mode of the array."""

import random

import pytest

from tosaic.hw.config_text import get_config
from tosaic.hw.constants import BURST_BEATS, OUTSTANDING_BEATS, OUTSTANDING_BURSTS
from tosaic.hw.isa import FIELDS, Instruction, Opcode, make
from tosaic.sim.emulator.timing_array import ArrayUnit, Part
from tosaic.sim.emulator.timing_dma import LoadUnit, StoreUnit, _Burst, _Unpacking
from tosaic.sim.emulator.timing_parts import Accesses, AccumulatorFifo, Bus, Fabric, Queue
from tosaic.sim.emulator.transfer import UnpackedRow

BASE = get_config("base")
WORD = BASE.word_bytes
LATENCY = 5000
"""Of a memory: nothing of what is asked for comes before all has been asked for that may be."""


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields)


def end(go: Opcode, rows: int, beats: int, latency: int = LATENCY) -> int:
    """The cycle in which a transfer of rows of some beats, each row a block of its own, is complete."""
    bus = Bus(BASE, None, latency)
    fabric = Fabric(BASE, bus, 0, [])
    fabric.busy = 2
    queue, before = Queue(bus.timeline, 8, 1), Accesses(BASE)
    load = go is Opcode.LOAD_GO
    unit = (LoadUnit if load else StoreUnit)(fabric, queue, before)
    run = (unit.commands(), unit.split(), unit.retire()) if isinstance(unit, LoadUnit) else (unit.run(),)
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
    """As many as there is room for; of the next burst's only while what is there leaves room for a whole one."""
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


@pytest.mark.parametrize("seed", range(8))
def test_beats_of_a_packed_row_share_its_cycles(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, 9) for _ in range(dice.randint(1, 5))]
    row = UnpackedRow(words=dice.randint(1, 90), cycles=dice.randint(1, 200))
    unpacking, before = _Unpacking(row, sum(sizes)), 0
    told = 0
    for number, beats in enumerate(sizes):
        first = dice.randint(0, 50)
        bus_end = first + dice.randint(beats, 40)
        end, words = unpacking.take(_Burst(beats, 0, first, bus_end))
        after = before + beats
        cycles = row.cycles * after // sum(sizes) - row.cycles * before // sum(sizes)
        # The last word is written two cycles after it is made.
        assert end == max(bus_end, first + cycles) + 2 * (number == len(sizes) - 1)
        told, before = told + words, after
        assert told == row.words * after // sum(sizes)
    assert told == row.words


# --- lines of the depthwise mode


def unit(machine: str, *settings: Instruction) -> ArrayUnit:
    config = get_config(machine)
    fabric = Fabric(config, Bus(config, None, 0), 0, [])
    banks = Accesses(config)
    found = ArrayUnit(
        fabric, Queue(fabric.timeline, 8, 1), AccumulatorFifo(config, fabric.timeline), banks, banks
    )
    found._setup = {each.opcode: each for each in settings}
    return found


@pytest.mark.parametrize("seed", range(30))
def test_outputs_leave_when_their_last_tap_is_there(seed: int) -> None:
    """In slots behind the taps' loading: rows - 1 behind the pixel of an output, which the stream has behind what is
    skipped; none behind the line's end, or behind the stream's."""
    dice = random.Random(seed)
    line, x_stride, y_stride = dice.randint(1, 12), dice.randint(1, 3), dice.randint(1, 2)
    height, width = dice.randint(1, 5), dice.randint(0, 14)
    skip, idle, advances = dice.choice((0, 3, 9, 40)), dice.choice((0, 5)), dice.randint(1, 90)
    drain = int(dice.random() < 0.9)
    made = unit(
        "base",
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
    )
    go = command(Opcode.ARRAY_DEPTHWISE_GO, advances=advances, idle_rows=idle, drain=drain)
    rows = BASE.rows - idle
    wait = max(rows - skip, 0)
    wanted = []
    for y in range(height if drain else 0):
        for x in range(width):
            slot = wait + skip + rows + (y * y_stride * line) + x * x_stride
            if x * x_stride < line and slot <= wait + advances:
                wanted.append((y, slot))
    found, walked = [], 0
    *lines, rest = made._parts(go)
    for y, part in enumerate(lines):
        slot = walked + part.slots
        assert (part.distances[0], part.address, part.reads) == (idle, 300 + y * y_stride * 100, 1.0)
        found.append((y, slot))
        for distance in part.distances[1:]:
            slot += distance
            found.append((y, slot))
        walked = slot
    assert found == wanted
    assert rest == Part(wait + advances - walked, [], 300, 1.0)


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
    go = command(Opcode.ARRAY_DEPTHWISE_GO if depthwise else Opcode.ARRAY_GO, **fields)
    assert unit(machine)._waits_for_rows(go, was_depthwise) == waits
