"""Units of the cycle model alone, beside others that take banks of the activation memory from them."""

from collections.abc import Sequence

import numpy as np
import pytest
from timed_array import TimedArray, duration
from unit_programs import command

import tosaic.sim.emulator.timing as timing
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.timing_parts import (
    AccessesBefore,
    BurstBeats,
    Bus,
    CoreFabric,
    TimedQueue,
    burst_of,
)
from tosaic.sim.emulator.transfer_timing import LoadTiming, StoreTiming

CONFIG = get_config("base,weight_banks=1")
WORD, BANK = CONFIG.word_bytes, 2
ADDRESS = BANK * CONFIG.am_bank_bytes


class Transfers:
    """Runs transfers of some beats each, by LOAD or STORE, while a bank is taken from it in stretches of cycles. A
    beat takes `beat_cycles` on the bus."""

    def __init__(
        self,
        go: Opcode,
        beats: list[int],
        taken: Sequence[tuple[int, int]] = (),
        beat_cycles: float = 1,
        rows: int = 1,
        address: int = ADDRESS,
    ):
        bus = Bus(CONFIG, WORD / beat_cycles, 0)
        self.fabric = CoreFabric(CONFIG, bus, 0, [])
        self.fabric.busy = len(beats)
        queue, before = TimedQueue(bus.timeline, 8, 1), AccessesBefore(CONFIG)
        for start, end in taken:
            before.record(start, end, BANK)
        unit = (LoadTiming if go is Opcode.LOAD_GO else StoreTiming)(self.fabric, queue, before)
        run = (
            (unit.commands(), unit.split(), unit.retire()) if isinstance(unit, LoadTiming) else (unit.run(),)
        )
        places = {"memory_address": 0, "local_address": address, "rows": rows}
        gos = (queue.put(command(go, row_bytes=count * WORD, **places)) for count in beats)
        for process in (*run, *gos):
            bus.timeline.resume_at(0, process)
        bus.timeline.run()

    @property
    def ends(self) -> list[int]:
        """The cycle in which each is complete."""
        return [each.end for each in self.fabric.slices]

    def counted(self, name: str) -> int:
        return self.fabric.counters[name]


@pytest.mark.parametrize(
    "beat_cycles, taken, end",
    [
        (1, [], 25),
        (1, [(10, 11)], 26),
        (1, [(10, 14)], 29),
        (1, [(12, 13), (20, 21)], 27),
        (2, [], 38),
        (2, [(10, 11)], 38),
        (2, [(10, 14)], 40),
        (2, [(12, 13), (20, 21)], 38),
        (4, [], 66),
        (4, [(10, 14)], 66),
        (4, [(10, 30)], 82),
    ],
)
def test_a_slow_bus_makes_good_for_a_beat_that_waits(
    beat_cycles: int, taken: list[tuple[int, int]], end: int
) -> None:
    """16 beats. On a bus of a beat per cycle every cycle without the bank is lost, else those beyond what a beat takes,
    of each stretch."""
    loads = Transfers(Opcode.LOAD_GO, [16], taken, beat_cycles)
    assert loads.ends == [end]
    assert loads.counted("load_stall_am") == sum(last - first for first, last in taken)


@pytest.mark.parametrize(
    "beat_cycles, taken, ends, stalls",
    [
        (1, [], [29, 46], (0, 0)),
        (1, [(5, 60)], [84, 101], (0, 55)),
        (1.5, [], [35, 59], (13, 0)),
        (1.5, [(5, 60)], [84, 107], (12, 55)),
        (1.5, [(0, 20)], [48, 71], (12, 19)),
        (2, [], [42, 74], (28, 0)),
        (2, [(5, 30)], [54, 84], (26, 25)),
        (4, [(5, 30)], [70, 134], (86, 25)),
        (4, [(5, 60)], [84, 142], (82, 55)),
    ],
)
def test_a_store_that_waits_for_its_bank_holds_the_bus(
    beat_cycles: float, taken: list[tuple[int, int]], ends: list[int], stalls: tuple[int, int]
) -> None:
    """Two bursts of 16 beats. What the memory saves meanwhile, it saves until the last beat of the first burst."""
    stores = Transfers(Opcode.STORE_GO, [16, 16], taken, beat_cycles)
    assert stores.ends == ends
    assert (stores.counted("store_stall_bus"), stores.counted("store_stall_am")) == stalls


@pytest.mark.parametrize("beat_cycles", [1, 2, 4])
def test_load_waits_for_the_beats_of_a_slow_bus(beat_cycles: int) -> None:
    """All cycles but those in which a beat comes, and a few at the ends of bursts."""
    loads = Transfers(Opcode.LOAD_GO, [48], beat_cycles=beat_cycles)
    assert loads.counted("load_beats") == 48
    assert abs(loads.counted("load_stall_bus") - (beat_cycles - 1) * 48) <= 5


def test_what_a_slow_memory_saves_is_saved_before_the_bus_is_free() -> None:
    """The third burst of the first transfer waits for its bank, and the second transfer's beats begin when that is over
    and no earlier, with two of them saved."""
    stores = Transfers(Opcode.STORE_GO, [33, 15], [(14, 59), (68, 109)], beat_cycles=3)
    assert stores.ends == [132, 175]
    assert (stores.counted("store_stall_bus"), stores.counted("store_stall_am")) == (87, 86)


@pytest.mark.parametrize("go, name", [(Opcode.LOAD_GO, "load_beats"), (Opcode.STORE_GO, "store_beats")])
def test_rows_without_a_pitch_are_in_one_place(go: Opcode, name: str) -> None:
    """Three rows of two words and three of 16, each a burst: no row begins within a word."""
    transfers = Transfers(go, [2, 16], rows=3)
    assert transfers.counted(name) == 3 * (2 + 16)


@pytest.mark.parametrize(
    "end, words, refused",
    [(0, 0, 7), (0, 1, 6), (0, 32, 6), (0, 33, 4), (0, 64, 4), (0, 65, 0)]
    + [(1, 0, 0), (1, 1, 1), (1, 32, 1), (1, 33, 3), (1, 64, 3), (1, 65, 7)],
)
@pytest.mark.parametrize("go, name", [(Opcode.LOAD_GO, "load"), (Opcode.STORE_GO, "store")])
def test_each_burst_is_in_the_bank_of_its_first_word(
    go: Opcode, name: str, end: int, words: int, refused: int
) -> None:
    """Three bursts of 32 words, during which the bank is taken for one, two and four cycles. They begin `words` before
    the bank, or before its end."""
    address = ADDRESS + end * CONFIG.am_bank_bytes - words * WORD
    transfers = Transfers(go, [96], [(20, 21), (52, 54), (88, 92)], address=address)
    assert transfers.counted(f"{name}_stall_am") == refused
    assert transfers.ends == [(105 if go is Opcode.LOAD_GO else 109) + refused]


@pytest.mark.parametrize("rows, middle", [(1, 0), (2, 1), (3, 1), (5, 2)])
def test_a_tile_reads_the_bank_of_the_middle_row_of_its_kernel(rows: int, middle: int) -> None:
    """40 pixels in rows of 20 from bank 1 on, whose next row is three banks behind: tiles of 16, 16 and 8 pixels, whose
    first ones are in rows 0, 0 and 1. A full tile's slots wait while its bank is taken, half a tile's half as long."""
    pitch = CONFIG.am_bank_bytes
    commands = [
        command(Opcode.ARRAY_INPUT, address=pitch + 300),
        command(Opcode.ARRAY_WINDOW, width=20, x_step=48, y_step_bytes=3 * pitch),
        command(Opcode.ARRAY_KERNEL, ky_count=rows, ky_step_bytes=pitch, run_count=2, chunks=3),
        command(Opcode.ARRAY_GO, pixels=40, drain=1),
    ]
    ((start, end),) = TimedArray("base,weight_banks=1", *commands, vectors=40).gos
    tile = rows * 2 * 3 * 16
    assert end - start == 3 * tile
    for first, busy, waited in (
        (start + 10, 1 + middle, 4),
        (start + tile + 10, 1 + middle, 4),
        (start + 2 * tile + 10, 1 + middle + 3, 2),
    ):
        for bank in range(CONFIG.am_banks):
            taken = [(first, first + 4, bank)]
            slower = duration("base,weight_banks=1", *commands, vectors=40, before=taken) - (end - start)
            assert slower == (waited if bank == busy % CONFIG.am_banks else 0)


@pytest.mark.parametrize(
    "machine, pixels, fields, parts",
    [
        ("base,weight_banks=4", 4, {}, 4),
        ("base,weight_banks=4", 5, {}, 2),
        ("base,weight_banks=4", 8, {}, 2),
        ("base,weight_banks=4", 9, {}, 1),
        ("base,weight_banks=2", 4, {}, 2),
        ("base,weight_banks=1", 4, {}, 1),
        ("base,weight_banks=4", 4, dict(weights=16), 4),
        ("base,weight_banks=4", 4, dict(weights=8), 1),
        ("base,weight_banks=4", 4, dict(weight_zp=1), 1),
        ("base,weight_banks=4", 4, dict(accumulate=1), 1),
        ("base,weight_banks=4", 4, dict(drain=0), 1),
    ],
)
def test_tiles_of_few_pixels_divide_the_rows(
    machine: str, pixels: int, fields: dict[str, int], parts: int
) -> None:
    """Only where weights begin at a whole step and have no zero point, and the sums leave at once. Of 10 steps each
    part has its share; the last part's rows send, and the vectors are there 11 cycles after their slot."""
    fields = {"drain": 1} | fields
    zero_point = fields.pop("weight_zp", 0)
    vectors = pixels if fields["drain"] else 0
    made = TimedArray(
        machine,
        command(Opcode.ARRAY_INPUT, weight_zp=zero_point),
        command(Opcode.ARRAY_WINDOW, width=6),
        command(Opcode.ARRAY_KERNEL, ky_count=5, run_count=2, chunks=1),
        command(Opcode.ARRAY_GO, pixels=pixels, **fields),
        vectors=vectors,
    )
    slots, delay = {1: (160, 0), 2: (80, 8), 4: (48, 12)}[parts]
    ((start, end),) = made.gos
    assert end - start == slots
    assert made.sent == [end - 1 + 11 + delay + number for number in range(vectors)]


@pytest.mark.parametrize("machine", ["nano", "base", "large"])
@pytest.mark.parametrize("address", [4096, 4128, 4160, 4192, 4224, 32])
def test_instructions_are_fetched_in_bursts_that_end_at_their_multiples(
    machine: str, address: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bursts have 128 bytes; every word that a burst touches is a beat."""
    config, most, starts = get_config(machine), 128, list[int]()
    burst_of = timing.burst_of
    monkeypatch.setattr(timing, "burst_of", lambda *given: starts.append(given[1]) or burst_of(*given))
    assembler = Assembler(config)
    for _ in range(21):
        assembler.emit(Opcode.NOP)
    memory = np.zeros(8192, np.uint8)
    size = assembler.place(memory, address)
    result = Emulator(config).run(memory, address, size)
    places = range(address, address + size)
    beats = {(place // most, place // config.word_bytes) for place in places}
    assert result.counters["fetch_beats"] == len(beats)
    assert starts == [address, *range((address // most + 1) * most, address + size, most)]


@pytest.mark.parametrize(
    "machine, address, beats, on_bus",
    [
        ("base", 0, 3, 3),
        ("base", 40, 3, 3),
        ("base,cores=2,bus_words=2", 0, 1, 1),
        ("base,cores=2,bus_words=2", 0, 2, 1),
        ("base,cores=2,bus_words=2", 16, 2, 2),
        ("base,cores=2,bus_words=2", 16, 3, 2),
        ("base,cores=2,bus_words=2", 31, 1, 1),
        ("base,cores=2,bus_words=2", 32, 3, 2),
        ("base,cores=2,bus_words=2", 47, 4, 2),
        ("base,cores=2,bus_words=2", 48, 4, 3),
    ],
)
def test_beats_on_a_wider_bus(machine: str, address: int, beats: int, on_bus: int) -> None:
    """Words of 16 bytes from the one on that holds the address, two of which are a beat of the bus."""
    assert burst_of(get_config(machine), address, beats) == BurstBeats(beats, on_bus)
