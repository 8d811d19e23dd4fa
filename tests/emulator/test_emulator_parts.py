"""Parts of the emulator alone, at the ends of what they take."""

import numpy as np
import pytest
from unit_programs import command

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import Instruction, Op, Opcode, Source, Space
from tosaic.hw.nnr_streams import interleave
from tosaic.nnr import levels as coded
from tosaic.sim.assembler import Assembler
from tosaic.sim.bandwidth import THOUSAND
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.alu import Value, VectorParameters, wrap
from tosaic.sim.emulator.domain import micro_op
from tosaic.sim.emulator.events import Timeline
from tosaic.sim.emulator.faults import Fault
from tosaic.sim.emulator.stored_lanes import LaneStores, carried_registers
from tosaic.sim.emulator.streams import Stream
from tosaic.sim.emulator.timing_parts import BurstBeats, Channel

CONFIG = CONFIGS["small"]
ZERO = Value(np.array([0]), 0)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_what_is_cut_to_its_width_has_the_bound_of_it(bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    found = wrap(Value(np.array([high, high + 1, low, low - 1, 3 << bits]), 1 << 40), bits)
    assert found.lanes.tolist() == [high, low, low, high, 0]
    assert found.bound == 1 << bits - 1
    assert wrap(Value(np.array([high + 1]), high + 1), bits).lanes.tolist() == [low]
    fits = Value(np.array([high]), high)
    assert wrap(fits, bits) is fits
    # Twice: what follows must not take it for smaller than it is.
    total = Value(found.lanes + found.lanes, 2 * found.bound)
    assert wrap(total, bits).lanes.tolist() == [-2, 0, 0, -2, 0]


@pytest.mark.parametrize(("shift", "wanted"), [(0, [21, -21, 0]), (1, [11, -10, 0]), (3, [3, -3, 0])])
def test_a_rescale_by_any_shift(shift: int, wanted: list[int]) -> None:
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.VECTOR_UOP, index=0, op=Op.RESCALE, multiplier=3, shift=shift)
    (*_, uop) = assembler.instructions
    value = Value(np.array([7, -7, 0]), 7)
    found = micro_op(uop, (-(1 << 47), (1 << 47) - 1), value, ZERO, VectorParameters.empty(8), 48)
    assert found.lanes.tolist() == wanted
    assert found.bound >= max(map(abs, wanted))


def test_a_slow_memory_saves_up_to_two_beats() -> None:
    """Beats of 4 bytes from a memory of 1 byte per cycle: two are there, each of the others takes four cycles."""
    channel, burst = Channel(Timeline(), 4, THOUSAND, 0), BurstBeats(4, 4)
    assert [channel.transfer(burst, 0) for _ in range(3)] == [(0, 9), (12, 25), (28, 41)]
    channel.held_until(100)
    assert channel.transfer(burst, 0) == (100, 109)
    assert channel.beats == 16


def decoding(levels: np.ndarray, *, dependent: bool = False, int4: int = 0) -> tuple[np.ndarray, int]:
    """Memory with a program at 4096 that decodes a stream of 8 levels and stores them at 1024, and its bytes."""
    payload = coded.encode(levels, 1, dq_flag=dependent)
    positions = coded.decode(payload, levels.size, 1, with_positions=True).positions.tolist()
    data = interleave([payload], [positions], levels.size, CONFIG.word_bytes)
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.LOAD_TENSOR, unary_length=1, dq_coded=1, int4=int4)
    assembler.emit(Opcode.LOAD_STREAMS, length_0=len(payload))
    fields = {"row_bytes": len(data), "weights": levels.size}
    assembler.emit(Opcode.LOAD_DECODE, memory_address=0, space=Space.AM, local_address=0, **fields)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 1)
    assembler.emit(Opcode.STORE_GO, memory_address=1024, local_address=0, row_bytes=8, rows=1)
    memory = np.zeros(8192, np.uint8)
    memory[: len(data)] = np.frombuffer(data, np.uint8)
    return memory, assembler.place(memory, 4096)


@pytest.mark.parametrize("dependent, cycles", [(False, 57), (True, 51)])
def test_the_stream_says_whether_quantization_is_dependent(dependent: bool, cycles: int) -> None:
    """If it is, the coded number is half of the level, rounded up."""
    levels = np.array([4, 0, 2, 0, 0, -3, 0, 6], np.int64)
    memory, size = decoding(levels, dependent=dependent)
    result = Emulator(CONFIG).run(memory, 4096, size)
    assert memory[1024:1032].view(np.int8).tolist() == levels.tolist()
    assert result.counters["decode_active"] == cycles


@pytest.mark.parametrize(
    ("level", "int4", "fits"),
    [(-128, 0, True), (127, 0, True), (-129, 0, False), (128, 0, False)]
    + [(-8, 1, True), (7, 1, True), (-9, 1, False), (8, 1, False)],
)
def test_the_ends_of_decoded_weights(level: int, int4: int, fits: bool) -> None:
    levels = np.array([1, level, 0, 2, 0, 0, 0, -1], np.int64)
    memory, size = decoding(levels, int4=int4)
    if fits:
        Emulator(CONFIG).run(memory, 4096, size)
        assert memory[1024:1032].view(np.int8).tolist() == levels.tolist()
    else:
        with pytest.raises(DeviceError, match=f"{level} is outside the weights' "):
            Emulator(CONFIG).run(memory, 4096, size)


def test_registers_that_a_program_carries() -> None:
    """It carries those that it reads before it writes them; results that go to memory write none."""
    assembler = Assembler(CONFIG)
    register = {"a_source": Source.REGISTER}
    assembler.emit(Opcode.VECTOR_UOP, index=0, destination=1, a_source=Source.LOAD)
    assembler.emit(Opcode.VECTOR_UOP, index=1, destination=2, a_index=1, **register)
    assembler.emit(Opcode.VECTOR_UOP, index=2, destination=3, a_index=2, to_memory=1, **register)
    assembler.emit(Opcode.VECTOR_UOP, index=3, destination=4, a_index=3, **register)
    assert carried_registers(assembler.instructions[-4:]) == {3}


def micro_program(**uop: int) -> list[Instruction]:
    """One micro-op that writes register 1."""
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.VECTOR_UOP, index=0, destination=1, **uop)
    return assembler.instructions[-1:]


REGISTER_2 = {"a_source": Source.REGISTER, "a_index": 2}


@pytest.mark.parametrize(
    "lanes, beats, before, after",
    [
        (8, 8, {1: 5}, {}),
        (8, 8, {}, {}),
        (3, 8, {1: 5}, {}),
        (3, 4, {}, {}),
        (3, 4, {1: 3}, {1: 4}),
        (3, 4, {1: 4}, {1: 4}),
        (3, 4, {1: 5}, {1: 5}),
        (3, 8, {2: 3}, {2: 3}),
        (3, 8, {2: 2}, {1: 2, 2: 2}),
        (3, 4, {1: 5, 2: 2}, {1: 2, 2: 2}),
    ],
)
def test_lanes_of_a_register_that_are_defined(lanes: int, beats: int, before: dict, after: dict) -> None:
    """Of 8 lanes those with a beat become defined, unless the operands are defined for fewer lanes than the GO
    has."""
    program = micro_program(**(REGISTER_2 if 2 in before else {}))
    go = command(Opcode.VECTOR_GO, lanes=lanes, tail_lanes=lanes, vectors=4, slots=4)
    LaneStores(go, program, [beats], Stream(), 0, 8).follow(before)
    assert before == after


@pytest.mark.parametrize("defined, fits", [(2, False), (3, True), (4, True)])
def test_no_more_lanes_are_stored_than_are_defined(defined: int, fits: bool) -> None:
    program = micro_program(to_memory=1, **REGISTER_2)
    go = command(Opcode.VECTOR_GO, lanes=3, tail_lanes=3, vectors=4, slots=4)
    stored = LaneStores(go, program, [4], Stream(), 1, 8)
    if fits:
        stored.follow({2: defined})
    else:
        with pytest.raises(Fault, match="stores 3 lanes of a register of which only 2 are defined"):
            stored.follow({2: defined})


@pytest.mark.parametrize(
    "lanes, tail, slots, per_slot, counted",
    [
        (5, 2, 4, 1, [5, 5, 2, 5, 5, 2, 5]),
        (5, 2, 2, 1, [5, 5, 2, 5, 5, 2, 5]),
        (5, 9, 4, 1, [5, 5, 6, 5, 5, 6, 5]),
        (5, 2, 4, 2, [5, 5, 5, 5, 2, 5, 5]),
        (5, 2, 3, 0, [5] * 7),
    ],
)
def test_lanes_that_reach_memory(
    lanes: int, tail: int, slots: int, per_slot: int, counted: list[int]
) -> None:
    """Seven vectors in rows of three, of which the last one is shorter, and of 6 lanes at most; with two stores per
    slot those of a batch come one after the other."""
    stream = Stream(counts=[3, 9, 1, 1, 1, 1])
    go = command(Opcode.VECTOR_GO, lanes=lanes, tail_lanes=tail, vectors=7, slots=slots)
    stored = LaneStores(go, micro_program(to_memory=1), [6], stream, per_slot, 8)
    assert stored.of_slots(0, 1, 7).tolist() == [counted]
