"""The cycle model of VECTOR alone, from docs/timing.md: when each command is taken, and when each slot issues."""

import functools
import itertools
from collections.abc import Sequence

import pytest

from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import MARKS
from tosaic.hw.isa import FIELDS, STORE_STREAM, Element, Instruction, Op, Opcode, Source, make
from tosaic.sim.emulator.timing_parts import AccessesBefore, AccumulatorFifo, Bus, CoreFabric, TimedQueue
from tosaic.sim.emulator.vector_timing import VectorTiming

CONFIG = get_config("small")
LANES = CONFIG.columns
LOAD = {"a_source": Source.LOAD}
FROM_1 = {"a_source": Source.REGISTER, "a_index": 1}
STORED = {"to_memory": 1}
FIRST = 1
"""The cycle in which the first command is at the head of the queue."""


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields)


def uops(*each: dict[str, int]) -> list[Instruction]:
    return [command(Opcode.VECTOR_UOP, index=index, **fields) for index, fields in enumerate(each)]


def go(vectors: int, uops: int, **fields: int) -> Instruction:
    whole = {"slots": 4, "repeats": 1, "lanes": LANES, "tail_lanes": LANES}
    return command(Opcode.VECTOR_GO, **whole | {"vectors": vectors, "uops": uops} | fields)


def stream(number: int, element: Element, address: int = 0, **fields: int) -> Instruction:
    return command(Opcode.VECTOR_STREAM, stream=number, element=element, address=address, **fields)


class Unit:
    """Runs commands that all come in cycle 0; vectors of the array are there from the cycles `there` on, and in the
    cycles `tokens` another unit signals one of semaphore 1."""

    def __init__(
        self,
        *commands: Instruction,
        there: Sequence[int] = (),
        tokens: Sequence[int] = (),
        machine: str = "small",
    ):
        config = get_config(machine)
        bus = Bus(config, None, 0)
        cores: list[CoreFabric] = []
        self.fabric = CoreFabric(config, bus, 0, cores)
        cores.append(self.fabric)
        self.fabric.busy = len(commands)
        self.queue = TimedQueue(bus.timeline, len(commands), 1)
        fifo = AccumulatorFifo(config, bus.timeline)
        if there:
            # Each is there 12 cycles after the array has issued its slot.
            distances = [1, *(after - before for before, after in itertools.pairwise(there))]
            bus.timeline.resume_at(0, fifo.deliver(there[0] - 12, distances))
        self.read, self.written = AccessesBefore(config), AccessesBefore(config)
        unit = VectorTiming(self.fabric, self.queue, fifo, [self.read], [self.written])
        signal = command(Opcode.ARRAY_SIGNAL, semaphore=1, count=1)
        for time in tokens:
            self.fabric.at(time, functools.partial(self.fabric.signal, signal))
        bus.timeline.resume_at(0, unit.run())
        for each in commands:
            bus.timeline.resume_at(0, self.queue.put(each))
        bus.timeline.run()

    @property
    def gos(self) -> list[tuple[int, int]]:
        """The cycle in which each GO is taken, and the one after its last issue."""
        return [(each.start, each.end) for each in self.fabric.slices]

    def counted(self, name: str) -> int:
        return self.fabric.counters[f"vector_{name}"]

    def accesses(self, which: str) -> list[tuple[int, int, int]]:
        """[start, end) and bank of stretches of reads or writes."""
        told: AccessesBefore = getattr(self, which)
        stretches: list[tuple[int, int, int]] = []
        for cycle, bank in itertools.product(range(100), range(CONFIG.am_banks)):
            if told.cycles(cycle, cycle + 1, bank):
                same = stretches and stretches[-1][1:] == (cycle, bank)
                start = stretches.pop()[0] if same else cycle
                stretches.append((start, cycle + 1, bank))
        return stretches


def end_of(*commands: Instruction, **machine) -> int:
    """The cycle after the last issue of the only GO, counted from that in which it is taken."""
    ((start, end),) = Unit(*commands, **machine).gos
    return end - start


# --- slots


@pytest.mark.parametrize("vectors, slots", [(1, 1), (1, 16), (16, 16), (20, 16), (7, 4)])
def test_slots_that_wait_for_nothing_issue_one_by_one(vectors: int, slots: int) -> None:
    """Two cycles after the GO is taken; it is complete 14 cycles after the last one."""
    unit = Unit(*uops(LOAD | STORED), go(vectors, 1, slots=slots))
    taken = FIRST + 1
    assert unit.gos == [(taken, taken + 2 + vectors)]
    assert unit.counted("active") == vectors
    assert unit.counted("busy") == 1 + (2 + vectors - 1 + 14)
    assert unit.fabric.busy == 0 and unit.fabric.slices[0].name == "elementwise"


@pytest.mark.parametrize(
    "slots, vectors, end",
    [
        # The second micro-op's first slot issues ten cycles after the first one's, or when all of them have issued.
        (1, 1, 2 + 10 + 1),
        (4, 4, 2 + 10 + 4),
        (10, 10, 2 + 10 + 10),
        (11, 11, 2 + 11 + 11),
        (16, 16, 2 + 16 + 16),
        (4, 8, 2 + 14 + 14),
        (4, 6, 2 + 14 + 10 + 2),
        (16, 18, 2 + 32 + 10 + 2),
    ],
)
def test_a_slot_waits_for_the_register_that_it_reads(slots: int, vectors: int, end: int) -> None:
    program = uops(LOAD | {"destination": 1}, FROM_1 | STORED)
    assert end_of(*program, go(vectors, 2, slots=slots)) == end


@pytest.mark.parametrize("side", ["a", "b"])
def test_either_operand_may_be_a_register(side: str) -> None:
    second = {f"{side}_source": Source.REGISTER, f"{side}_index": 1} | STORED
    assert end_of(*uops(LOAD | {"destination": 1}, second), go(4, 2)) == 16
    assert end_of(*uops(LOAD | {"destination": 1}, STORED), go(4, 2)) == 10


@pytest.mark.parametrize(
    "loaded, stored, end",
    [
        (Element.INT8, Element.INT8, 2 + 10 + 4),
        # Two beats of each slot: those of the second micro-op end at 3, 5, 7 and 9 after its first one began.
        (Element.INT8, Element.INT16, 2 + 10 + 8),
        # Slots of two beats are there two cycles apart, and the first one after the second beat.
        (Element.INT16, Element.INT8, 2 + 1 + 10 + 6 + 1),
        (Element.INT16, Element.INT16, 2 + 1 + 10 + 8),
        (Element.INT32, Element.INT8, 2 + 3 + 10 + 4 * 3 + 1),
        (Element.INT32, Element.INT16, 2 + 3 + 10 + 4 * 3 + 2),
    ],
)
def test_wide_elements_take_beats(loaded: Element, stored: Element, end: int) -> None:
    program = uops(LOAD | {"destination": 1}, FROM_1 | STORED)
    assert end_of(stream(0, loaded), stream(STORE_STREAM, stored), *program, go(4, 2)) == end


@pytest.mark.parametrize("lanes, beats", [(8, 4), (7, 4), (6, 3), (3, 2), (2, 1), (1, 1), (0, 4), (9, 4)])
def test_beats_of_lanes(lanes: int, beats: int) -> None:
    """A word of eight bytes holds two lanes of four bytes; 0, or more lanes than there are, count as all."""
    unit = Unit(stream(0, Element.INT32), *uops(LOAD | STORED), go(4, 1, lanes=lanes))
    assert unit.counted("active") == 4 * beats
    assert unit.gos[0][1] - unit.gos[0][0] == 2 + 4 * beats


def test_a_body_repeats_in_each_batch() -> None:
    """Two slots of: a load, three times a sum with the register before it, a store; twice."""
    add = LOAD | {"op": Op.ADD, "b_source": Source.REGISTER, "b_index": 1, "destination": 1}
    program = uops(LOAD | {"destination": 1}, add, FROM_1 | STORED)
    unit = Unit(*program, go(4, 3, slots=2, body_start=1, body_end=2, repeats=3))
    batch = 4 * 10 + 2
    assert unit.gos == [(4, 4 + 2 + 2 * batch)]
    assert unit.counted("active") == 4 * (1 + 3 + 1)


def test_beats_of_a_body_count_for_each_repetition() -> None:
    program = uops(LOAD | {"destination": 1}, LOAD | {"a_index": 1, "destination": 2}, STORED)
    unit = Unit(stream(1, Element.INT16), *program, go(3, 3, slots=1, body_start=1, body_end=2, repeats=5))
    assert unit.counted("active") == 3 * (1 + 5 * 2 + 1)
    assert unit.gos[0][1] - unit.gos[0][0] == 2 + 3 * 12


# --- the array


@pytest.mark.parametrize(
    "there, end, waited",
    [
        ([0, 0, 0, 0], 6, 0),
        ([4, 5, 6, 7], 6, 0),
        ([5, 5, 5, 5], 7, 1),
        ([4, 9, 9, 9], 10, 4),
        ([4, 5, 6, 20], 19, 13),
    ],
)
def test_vectors_are_taken_when_they_are_there(there: list[int], end: int, waited: int) -> None:
    """The first slot would issue in cycle 4."""
    unit = Unit(*uops({"a_source": Source.ARRAY} | STORED), go(4, 1), there=there)
    assert unit.gos == [(2, 2 + end)]
    assert unit.counted("stall_array") == waited
    assert unit.fabric.slices[0].name == "drain"


def test_vectors_that_are_taken_in_two_beats_are_there_after_the_second() -> None:
    drained = {"a_source": Source.ARRAY}
    unit = Unit(
        stream(STORE_STREAM, Element.INT16),
        *uops(drained | STORED, drained | {"destination": 1}),
        go(2, 2, slots=2),
        there=[0, 0, 20, 21],
    )
    # A stream is looked at in the cycle after: the GO is taken in cycle 4, or two cycles after the stream was set.
    # The first two are taken in cycles 6 and 8, the third one would be in cycle 10.
    assert unit.counted("stall_array") == 10
    assert unit.gos == [(4, 22)]


BEATS = [(Element.INT8, 1), (Element.INT16, 2), (Element.INT32, 4)]


@pytest.mark.parametrize("element, beats", BEATS)
def test_vectors_of_the_array_are_stored_in_their_beats(element: Element, beats: int) -> None:
    """13 cycles after each of them, from the vector's first on; the third vector comes later."""
    drained = {"a_source": Source.ARRAY} | STORED
    unit = Unit(stream(STORE_STREAM, element), *uops(drained), go(3, 1), there=[0, 0, 20])
    assert unit.accesses("written") == [(18, 18 + 2 * beats, 0), (33, 33 + beats, 0)]


@pytest.mark.parametrize("element, beats", BEATS)
@pytest.mark.parametrize("there", [0, 20, 30])
def test_a_register_of_the_array_is_there_after_its_last_beat(
    element: Element, beats: int, there: int
) -> None:
    """Ten cycles later its slot may issue; `there`: when the last of three vectors comes."""
    add = {"a_source": Source.ARRAY, "op": Op.ADD, "b_source": Source.LOAD, "destination": 1}
    unit = Unit(stream(0, element), *uops(add, FROM_1 | STORED), go(3, 2), there=[0, 0, there])
    last = max(6 + 2 * beats, there)
    assert unit.counted("stall_array") == last - (6 + 2 * beats)
    assert unit.gos == [(4, last + (beats - 1) + 10 + 1)]


def test_a_slot_waits_for_its_register_and_its_vector() -> None:
    """Loads issue in cycles 5 to 8 and are there ten cycles later."""
    add = {"a_source": Source.ARRAY, "op": Op.ADD, "b_source": Source.REGISTER, "b_index": 1}
    unit = Unit(*uops(LOAD | {"destination": 1}, add | STORED), go(4, 2), there=[0, 16, 30, 30])
    assert unit.counted("stall_array") == 13
    assert unit.gos == [(3, 32)]


# --- what comes between GOs


def taken(*between: Instruction, machine: str = "small") -> int:
    """Cycles from the completion of a GO to the one in which the next is taken, with commands between them."""
    unit = Unit(*uops(LOAD | STORED), go(4, 1), *between, go(4, 1), machine=machine)
    (_, end), (start, _) = unit.gos
    return start - (end - 1 + 13)


@pytest.mark.parametrize(
    "between, cycles",
    [
        ([], 0),
        ([command(Opcode.VECTOR_MARK)], 1),
        ([command(Opcode.VECTOR_TEST)], 1 + 3),
        ([command(Opcode.VECTOR_TABLE, entries=256)], 1 + 128),
        ([command(Opcode.VECTOR_TABLE, entries=512)], 1 + 256),
        ([command(Opcode.VECTOR_OFFSETS, count=1)], 1 + 1 + 3),
        ([command(Opcode.VECTOR_OFFSETS, count=2)], 1 + 1 + 3),
        ([command(Opcode.VECTOR_OFFSETS, count=3)], 1 + 2 + 3),
        ([command(Opcode.VECTOR_PARAM)], 1),
        ([command(Opcode.VECTOR_PARAM, bias=1)], 1 + 4),
        ([command(Opcode.VECTOR_PARAM, bias=1, narrow=1)], 1 + 2),
        ([command(Opcode.VECTOR_PARAM, scale=1)], 1 + 5),
        ([command(Opcode.VECTOR_PARAM, bias=1, scale=1)], 1 + 9),
        # A stream is looked at in the cycle after it is set up.
        ([stream(0, Element.INT8)], 2),
        ([command(Opcode.VECTOR_DIMS, count_low=1, count_high=1)], 2),
        ([stream(0, Element.INT8), command(Opcode.VECTOR_MARK)], 2),
        ([stream(0, Element.INT8), command(Opcode.VECTOR_MARK), command(Opcode.VECTOR_MARK)], 3),
        # Micro-ops and bounds are taken up to three cycles before the GO is complete, a signal up to five.
        ([command(Opcode.VECTOR_UOP, **LOAD, to_memory=1)], 0),
        ([command(Opcode.VECTOR_UOP, **LOAD, to_memory=1)] * 2, 0),
        ([command(Opcode.VECTOR_UOP, **LOAD, to_memory=1)] * 3, 0),
        ([command(Opcode.VECTOR_UOP, **LOAD, to_memory=1)] * 4, 1),
        ([command(Opcode.VECTOR_BOUNDS)] * 4, 1),
        ([command(Opcode.VECTOR_SIGNAL)] * 5, 0),
        ([command(Opcode.VECTOR_SIGNAL)] * 6, 1),
    ],
)
def test_commands_between_two_gos(between: list[Instruction], cycles: int) -> None:
    assert taken(*between) == cycles


@pytest.mark.parametrize("slots, batches", [(4, 1), (3, 2), (2, 2), (1, 4)])
def test_parameters_between_batches(slots: int, batches: int) -> None:
    """They take as long as a VECTOR_PARAM between two GOs, which takes as long as the last one."""
    for fields, cycles in (({"bias": 1, "scale": 1}, 10), ({"bias": 1, "narrow": 1}, 3), ({}, 1)):
        param = command(Opcode.VECTOR_PARAM, **fields)
        whole = end_of(param, *uops(STORED), go(4, 1, slots=slots, next_params=1))
        assert whole == 2 + 4 + (batches - 1) * (12 + cycles + 2)
        assert end_of(param, *uops(STORED), go(4, 1, slots=slots)) == 6
    assert end_of(*uops(STORED), go(4, 1, slots=2, next_params=1)) == 6 + 15


def test_marks_tell_when_a_layer_is_complete() -> None:
    """There are as many as there is room for."""
    marks = [command(Opcode.VECTOR_MARK, layer=number) for number in range(MARKS + 1)]
    unit = Unit(*uops(LOAD | STORED), go(4, 1), *marks)
    complete = 2 + 2 + 4 - 1 + 13
    assert unit.fabric.marks == [(number, complete + number) for number in range(MARKS)]


def test_a_signal_is_seen_by_a_wait() -> None:
    """A signal in cycle 1 is seen three cycles later; the cycles of the wait are not busy ones."""
    tokens = {"semaphore": 1, "count": 2}
    unit = Unit(command(Opcode.VECTOR_SIGNAL, **tokens), command(Opcode.VECTOR_WAIT, **tokens), *uops(STORED))
    assert unit.counted("wait") == 2
    assert unit.counted("busy") == 1 + 1
    assert unit.fabric.busy == 0


@pytest.mark.parametrize(
    "before, head",
    [
        ([], 1),
        ([command(Opcode.VECTOR_MARK)], 2),
        ([command(Opcode.VECTOR_PARAM, bias=1)], 6),
        ([stream(0, Element.INT8)], 2),
        ([*uops(STORED), go(1, 1)], 3),
        ([*uops(STORED), go(4, 1)], 3),
        ([*uops(STORED), go(4, 1), command(Opcode.VECTOR_MARK)], 21),
    ],
)
@pytest.mark.parametrize("signalled", [30, 41])
def test_a_wait_does_not_wait_for_the_go_before_it(
    before: list[Instruction], head: int, signalled: int
) -> None:
    """It is at the head of the queue the cycle after a short GO was taken, and after other commands when they are
    through; it gets its token two cycles after another unit's signal."""
    wait = command(Opcode.VECTOR_WAIT, semaphore=1, count=1)
    unit = Unit(*before, wait, tokens=[signalled])
    assert unit.counted("wait") == signalled + 2 - head
    assert unit.fabric.busy == 0


# --- banks


def test_banks_that_slots_read_and_write() -> None:
    """Reads while the slots issue, writes 13 cycles later; a batch is in the bank of its first access."""
    bank = CONFIG.am_bank_bytes
    steps = command(Opcode.VECTOR_DIMS, count_low=4, stride_low=LANES, count_high=2, stride_high=bank)
    unit = Unit(
        stream(0, Element.INT8, bank),
        steps,
        stream(STORE_STREAM, Element.INT8, 3 * bank),
        *uops(LOAD | STORED),
        go(8, 1),
    )
    ((start, _),) = unit.gos
    first = start + 2
    assert unit.accesses("read") == [(first, first + 4, 1), (first + 4, first + 8, 2)]
    assert unit.accesses("written") == [(first + 13, first + 21, 3)]


def test_accesses_with_gaps_between_them() -> None:
    """Slots of a register that takes four cycles each, and stores of one."""
    unit = Unit(
        stream(0, Element.INT32), *uops(LOAD | {"destination": 1}, FROM_1 | STORED), go(3, 2, slots=3)
    )
    ((start, _),) = unit.gos
    first = start + 2
    assert unit.accesses("read") == [(first, first + 12, 0)]
    assert unit.accesses("written") == [
        (first + 14 + 4 * slot + 12, first + 14 + 4 * slot + 13, 0) for slot in range(3)
    ]
