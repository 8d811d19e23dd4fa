"""Programs that the machine stops at: the firmware's error and program counter are the emulator's, or the RTL's
where the emulator has none of the machine's errors."""

import random

import numpy as np
import pytest
from changed_programs import EMULATOR_SECONDS, OutOfTime, mutant, time_limit
from native_runs import fault_of_emulator, fault_of_firmware, firmware

from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import FIELDS, ISA_HASH, Error, Op, Opcode, Source, Unit, encode, make
from tosaic.hw.micro.firmware.native import NativeRun
from tosaic.sim.assembler import Assembler
from tosaic.sim.stimulus import KINDS, random_program

CONFIG = CONFIGS["nano"]
PROGRAM_ADDRESS = 4096
GO = {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4}
ARRAY_SETUP = [
    (Opcode.ARRAY_INPUT, {"row_bytes": 4, "height": 1}),
    (Opcode.ARRAY_WINDOW, {"width": 1}),
    (Opcode.ARRAY_KERNEL, {"ky_count": 1, "run_count": 1, "chunks": 1}),
]
TAKE = (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY})
DEPTHWISE = {"delay": 2, "line": 1, "out_width": 1, "out_height": 1, "x_stride": 1, "y_stride": 1}


def image(instructions, **hashes):
    assembler = Assembler(CONFIG)
    assembler.instructions.clear()
    hashes = {"isa_hash": ISA_HASH, "config_hash": CONFIG.hash} | hashes
    assembler.emit(Opcode.BEGIN, **hashes)
    for opcode, fields in instructions:
        assembler.emit(opcode, **fields)
    memory = np.zeros(8192, np.uint8)
    return memory, assembler.place(memory, PROGRAM_ADDRESS)


def run(*instructions, **hashes) -> NativeRun:
    memory, size = image(instructions, **hashes)
    return firmware(CONFIG).run(memory, PROGRAM_ADDRESS, size)


@pytest.mark.parametrize(
    ("instructions", "hashes"),
    [
        ([], {"isa_hash": ISA_HASH ^ 1}),
        ([], {"config_hash": 1}),
        ([(Opcode.BRANCH, {"target": 8})], {}),
        ([(Opcode.BRANCH, {"target": 48})], {}),
        ([(Opcode.LOAD_TENSOR, {})], {}),
        ([(Opcode.LOAD_STREAMS, {})], {}),
        ([(Opcode.LOAD_GO, {"rows": 0, "row_bytes": 1})], {}),
        ([(Opcode.STORE_GO, {"rows": 1, "row_bytes": 0})], {}),
        ([(Opcode.LOAD_GO, {"rows": 1, "row_bytes": 4, "streamed": 1})], {}),
        ([(Opcode.LOAD_GO, {"rows": 1, "row_bytes": 2, "space": 1})], {}),
        ([(Opcode.LOAD_GO, {"rows": 1, "row_bytes": 4, "local_address": 1, "space": 1})], {}),
        ([(Opcode.LOAD_GO, {"rows": 1, "row_bytes": 3, "memory_address": 8190})], {}),
        ([(Opcode.LOAD_GO, {"rows": 1, "row_bytes": 3, "memory_address": 0xFFFFFFFF})], {}),
        ([(Opcode.STORE_PITCH, {"memory_pitch": 4096}), (Opcode.STORE_GO, {"rows": 3, "row_bytes": 1})], {}),
        ([*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 0, "drain": 1})], {}),
        ([*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 3, "drain": 1, "more_blocks": 1})], {}),
        ([*ARRAY_SETUP, (Opcode.ARRAY_KERNEL, {}), (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})], {}),
        ([*ARRAY_SETUP, (Opcode.ARRAY_WINDOW, {}), (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})], {}),
        ([(Opcode.VECTOR_STREAM, {"element": 5})], {}),
        ([(Opcode.VECTOR_STREAM, {"element": 7})], {}),
        ([(Opcode.VECTOR_DIMS, {"pair": 3, "count_low": 1, "count_high": 1})], {}),
        ([(Opcode.VECTOR_DIMS, {"count_high": 1})], {}),
        ([(Opcode.VECTOR_DIMS, {"count_low": 1})], {}),
        ([(Opcode.VECTOR_TABLE, {"entries": 255})], {}),
        ([(Opcode.VECTOR_OFFSETS, {"count": 0})], {}),
        ([(Opcode.VECTOR_OFFSETS, {"count": 513})], {}),
        *(
            ([(Opcode.VECTOR_UOP, {"index": 0}), (Opcode.VECTOR_GO, GO | changes)], {})
            for changes in (
                {"slots": 0},
                {"slots": 17},
                {"uops": 0},
                {"uops": 17},
                {"body_start": 1},
                {"body_end": 2},
                {"vectors": 0},
                {"repeats": 0},
            )
        ),
        ([(Opcode.VECTOR_STREAM, {"indexed": 1}), TAKE, (Opcode.VECTOR_GO, GO)], {}),
    ],
)
def test_the_error_is_the_emulators(instructions, hashes):
    memory, size = image(instructions, **hashes)
    emulated = fault_of_emulator(CONFIG, memory, PROGRAM_ADDRESS, size)
    assert emulated is not None and emulated[0] in Error.__members__
    assert fault_of_firmware(CONFIG, memory, PROGRAM_ADDRESS, size) == emulated


@pytest.mark.parametrize("changes", [{"delay": 1}, {"delay": 129}, {"paired": 1, "delay": 3}])
def test_depthwise_fields(changes):
    _is_illegal(changes, {})


@pytest.mark.parametrize("go", [{"drain": 0}, {"accumulate": 1}, {"idle_rows": CONFIG.rows}])
def test_partial_sums_are_refused_where_there_are_none_and_so_are_idle_rows_only(go):
    _is_illegal({}, go)


def _is_illegal(changes, go):
    depthwise = (Opcode.ARRAY_DEPTHWISE, DEPTHWISE | changes)
    go = {"advances": 1, "group_rows": 2, "drain": 1} | go
    memory, size = image([*ARRAY_SETUP, depthwise, (Opcode.ARRAY_DEPTHWISE_GO, go)])
    emulated = fault_of_emulator(CONFIG, memory, PROGRAM_ADDRESS, size)
    assert emulated == ("ILLEGAL", 80)
    assert fault_of_firmware(CONFIG, memory, PROGRAM_ADDRESS, size) == emulated


@pytest.mark.parametrize(
    "fields",
    [
        {"op": len(Op)},
        {"a_source": 6},
        {"b_source": 7},
        {"b_source": Source.ARRAY},
        {"a_source": Source.LOAD, "b_source": Source.LOAD},
        {"a_source": Source.LOAD, "a_index": 3},
        {"b_source": Source.LOAD, "b_index": 4},
    ],
)
def test_a_wrong_micro_op_is_found_when_it_is_written(fields):
    result = run((Opcode.NOP, {}), (Opcode.VECTOR_UOP, fields))
    assert (result.code, result.unit, result.pc) == (Error.ILLEGAL, Unit.VECTOR, 32)


@pytest.mark.parametrize(
    ("instructions", "unit", "pc"),
    [
        ([(Opcode.STORE_WAIT, {"semaphore": 1, "count": 1})], Unit.STORE, 16),
        (
            [
                (Opcode.VECTOR_WAIT, {"semaphore": 1, "count": 1}),
                (Opcode.ARRAY_WAIT, {"count": 1}),
                (Opcode.NOP, {}),
            ],
            Unit.ARRAY,
            32,
        ),
        ([*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 3, "drain": 1})], Unit.ARRAY, 64),
        ([TAKE, (Opcode.VECTOR_GO, GO)], Unit.VECTOR, 32),
        (
            [
                *ARRAY_SETUP,
                (Opcode.ARRAY_GO, {"pixels": 1000, "drain": 1}),
                (Opcode.ARRAY_SIGNAL, {"count": 1}),
                (Opcode.VECTOR_WAIT, {"count": 1}),
                TAKE,
                (Opcode.VECTOR_GO, GO | {"vectors": 1000}),
            ],
            Unit.VECTOR,
            96,
        ),
        ([*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1, "streamed": 1})], Unit.ARRAY, 64),
    ],
)
def test_a_run_in_which_nothing_moves_ends_in_watchdog(instructions, unit, pc):
    result = run(*instructions)
    assert (result.code, result.unit, result.pc) == (Error.WATCHDOG, unit, pc)


def test_units_run_ahead_of_each_other():
    """The array's vectors are taken by a GO that the program has behind a LOAD that waits for the array."""
    result = run(
        *ARRAY_SETUP,
        (Opcode.ARRAY_GO, {"pixels": 1000, "drain": 1}),
        (Opcode.ARRAY_SIGNAL, {"count": 1}),
        (Opcode.LOAD_WAIT, {"count": 1}),
        (Opcode.LOAD_GO, {"rows": 1, "row_bytes": 4}),
        (Opcode.LOAD_SIGNAL, {"semaphore": 1, "count": 1}),
        TAKE,
        (Opcode.VECTOR_GO, GO | {"vectors": 1000}),
        (Opcode.STORE_WAIT, {"semaphore": 1, "count": 1}),
    )
    assert result.done


def test_program_outside_memory():
    memory = np.zeros(8192, np.uint8)
    for address, size in ((8192, 16), (0, 8208), (16, 16), (0xFFFFFFE0, 64)):
        result = firmware(CONFIG).run(memory, address, size)
        assert (result.code, result.unit) == (Error.MEMORY_RANGE, Unit.SEQUENCER)


def test_no_program():
    result = firmware(CONFIG).run(np.zeros(64, np.uint8), 0, 0)
    assert (result.code, result.pc) == (Error.PROGRAM_END, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_programs(kind):
    """A bit, an instruction's opcode, its padding, the program's end: the same error at the same place."""
    for seed in range(10):
        rng = random.Random(seed)
        stimulus = random_program(CONFIG, kind, seed)
        memory, address = stimulus.memory, stimulus.program_address
        size = stimulus.program_bytes
        place = address + 16 * rng.randrange(size // 16)
        damage = rng.randrange(4)
        if damage == 0:
            memory[place + rng.randrange(16)] ^= 1 << rng.randrange(8)
        elif damage == 1:
            raw = bytearray(encode(make(Opcode.NOP)))
            raw[0] ^= 0x40 | rng.randrange(1, 64)
            raw[1] ^= raw[0] ^ int(Opcode.NOP)
            memory[place : place + 16] = np.frombuffer(raw, np.uint8)
        elif damage == 2:
            size = rng.randrange(size // 16) * 16
        else:
            bits = 16 + sum(field.bits for field in FIELDS[Opcode.STORE_WAIT])
            raw = bytearray(encode(make(Opcode.STORE_WAIT, semaphore=0, count=0)))
            bit = rng.randrange(bits, 128)
            raw[bit // 8] ^= 1 << bit % 8
            raw[1] ^= 1 << bit % 8
            memory[place : place + 16] = np.frombuffer(raw, np.uint8)
        emulated = fault_of_emulator(CONFIG, memory, address, size)
        found = fault_of_firmware(CONFIG, memory, address, size)
        if emulated is None or emulated[0] in Error.__members__:
            assert found == emulated, (seed, damage)
        else:
            assert found is not None, (seed, damage, emulated)


@pytest.mark.parametrize("group", range(4))
def test_mutated_programs(group):
    """Where the emulator names an error of the machine, the firmware does; both take the program in its order."""
    compared = 0
    for number in range(20 * group, 20 * group + 20):
        program = mutant(number)
        place = (program.program_address, program.program_bytes)
        try:
            with time_limit(EMULATOR_SECONDS):
                emulated = fault_of_emulator(CONFIG, program.memory, *place)
        except OutOfTime:
            continue
        if emulated is not None and emulated[0] in Error.__members__ and emulated[0] != "WATCHDOG":
            assert fault_of_firmware(CONFIG, program.memory, *place) == emulated, number
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize(
    "commands",
    [
        [(Opcode.VECTOR_GO, GO)],
        [(Opcode.VECTOR_UOP, {"clamp": 1}), (Opcode.VECTOR_GO, GO)],
        [(Opcode.VECTOR_UOP, {"bias": 1}), (Opcode.VECTOR_GO, GO)],
        [(Opcode.VECTOR_UOP, {"op": Op.RESCALE, "per_channel": 1}), (Opcode.VECTOR_GO, GO)],
        [
            (Opcode.VECTOR_TABLE, {"entries": 256}),
            (Opcode.VECTOR_UOP, {"op": Op.TABLE16}),
            (Opcode.VECTOR_GO, GO),
        ],
        [*ARRAY_SETUP[1:], (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})],
        [*ARRAY_SETUP, (Opcode.ARRAY_GO, {"pixels": 1, "accumulate": 1})],
        [
            (Opcode.ARRAY_INPUT, {"unsigned_input": 1, "input_zp": -1}),
            *ARRAY_SETUP[1:],
            (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1}),
        ],
    ],
)
def test_what_a_program_has_not_set_up(commands):
    memory, size = image(commands)
    expected = ("ILLEGAL", 16 * len(commands))
    assert fault_of_emulator(CONFIG, memory, PROGRAM_ADDRESS, size) == expected
    assert fault_of_firmware(CONFIG, memory, PROGRAM_ADDRESS, size) == expected
