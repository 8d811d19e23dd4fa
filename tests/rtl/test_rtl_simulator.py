"""Memory timing, errors and limits of the RTL simulator."""

import functools

import numpy as np
import pytest

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.rtl import RtlSimulator

CONFIG = CONFIGS["nano"]
pytestmark = pytest.mark.xdist_group("nano")
PROGRAM_ADDRESS = 1 << 16
LOAD_BYTES = 1 << 15
LOAD = (Opcode.LOAD_GO, {"row_bytes": LOAD_BYTES, "rows": 1})
STORE = (Opcode.STORE_GO, {"row_bytes": LOAD_BYTES, "rows": 1})


@functools.cache
def simulator(**settings):
    return RtlSimulator(CONFIG, **settings)


def run(*instructions, settings=None, corrupt=None, **timing):
    assembler = Assembler(CONFIG)
    for opcode, fields in instructions:
        assembler.emit(opcode, **fields)
    memory = np.zeros(1 << 17, np.uint8)
    size = assembler.place(memory, PROGRAM_ADDRESS)
    if corrupt is not None:
        memory[PROGRAM_ADDRESS + corrupt] ^= 1
    return simulator(**(settings or {})).run(memory, PROGRAM_ADDRESS, size, **timing)


def message(*instructions, **settings):
    with pytest.raises(DeviceError) as caught:
        run(*instructions, **settings)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_bandwidth_is_bytes_per_cycle():
    beats = LOAD_BYTES // CONFIG.word_bytes
    idle = run().cycles
    for divisor in (1, 2, 4):
        cycles = run(LOAD, bandwidth_bytes=CONFIG.word_bytes // divisor).cycles - idle
        assert 0 <= cycles - divisor * beats < 0.02 * divisor * beats + 100


def test_bandwidth_that_does_not_divide_the_bus():
    beats = LOAD_BYTES // CONFIG.word_bytes
    cycles = run(LOAD, bandwidth_bytes=3).cycles - run(bandwidth_bytes=3).cycles
    assert 0 <= cycles - beats * 4 / 3 < 150


@pytest.mark.parametrize("bandwidth", [1.9, 0.3])
def test_bandwidth_of_a_fraction(bandwidth):
    beats = LOAD_BYTES // CONFIG.word_bytes
    cycles = run(LOAD, bandwidth_bytes=bandwidth).cycles - run(bandwidth_bytes=bandwidth).cycles
    assert 0 <= cycles - beats * CONFIG.word_bytes / bandwidth < 150


def test_latency_counts_from_address_to_data():
    transfer = (Opcode.LOAD_GO, {"row_bytes": 4, "rows": 1})
    short, long = (run(transfer, latency_cycles=latency).cycles for latency in (20, 120))
    # The program's fetch and the transfer wait for it once each.
    assert long - short == 200


def test_latency_of_a_write_counts_from_data_to_response():
    transfer = (Opcode.STORE_GO, {"row_bytes": 4, "rows": 1})
    short, long = (run(transfer, latency_cycles=latency).cycles for latency in (20, 120))
    assert long - short == 200


def test_traffic_is_counted_at_the_memory():
    result = run(LOAD, STORE)
    assert result.counters["load_beats"] * CONFIG.word_bytes == LOAD_BYTES
    assert result.dram_write_bytes == LOAD_BYTES
    fetched = result.counters["fetch_beats"] * CONFIG.word_bytes
    assert result.dram_read_bytes == LOAD_BYTES + fetched


def test_marks_are_reported_in_order():
    marks = [(Opcode.VECTOR_MARK, {"layer": layer}) for layer in (5, 3, 65535)]
    result = run(*marks)
    assert [layer for layer, _ in result.marks] == [5, 3, 65535]
    cycles = [cycle for _, cycle in result.marks]
    assert sorted(cycles) == cycles
    assert 0 < cycles[0] and cycles[-1] <= result.cycles


def test_read_error():
    text = message(LOAD, settings={"read_error_at": 8192})
    assert text.startswith("BUS_READ in LOAD at program counter 16 (LOAD_GO memory_address=0 ")


def test_read_error_of_the_program():
    text = message(LOAD, settings={"read_error_at": PROGRAM_ADDRESS + 16})
    assert text.startswith("BUS_READ in SEQUENCER at program counter 16")


def test_write_error():
    text = message(STORE, settings={"write_error_at": 8192})
    assert text.startswith("BUS_WRITE in STORE at program counter 16 (STORE_GO memory_address=0 ")


@pytest.mark.parametrize(("opcode", "unit"), [(Opcode.LOAD_GO, "LOAD"), (Opcode.STORE_GO, "STORE")])
def test_transfer_that_leaves_memory(opcode, unit):
    text = message((opcode, {"memory_address": (1 << 17) - 2, "row_bytes": 3, "rows": 1}))
    assert text.startswith(
        f"MEMORY_RANGE in {unit} at program counter 16 ({opcode.name} memory_address=131070 "
    )


def test_illegal_instruction():
    text = message(LOAD, corrupt=20)
    assert text.startswith("ILLEGAL in SEQUENCER at program counter 16 (check byte is wrong in ")


def test_wait_that_nobody_satisfies_ends_in_the_watchdog():
    text = message((Opcode.ARRAY_WAIT, {"semaphore": 3, "count": 2}))
    assert text.startswith(
        "WATCHDOG in ARRAY at program counter 16 (ARRAY_WAIT semaphore=3 count=2); UNITS is "
    )


def test_limit_of_cycles():
    text = message(LOAD, max_cycles=1000)
    assert text.startswith("the program did not end in 1000 cycles; UNITS is ")
    assert run(LOAD, max_cycles=20_000).cycles < 20_000


def test_memory_that_cannot_be_used():
    with pytest.raises(DeviceError, match="must be a writable, contiguous, one-dimensional uint8 array"):
        simulator().run(np.zeros(8, np.int8), 0, 0)
    with pytest.raises(DeviceError, match="must be a writable, contiguous, one-dimensional uint8 array"):
        simulator().run(np.zeros(8, np.uint8)[::2], 0, 0)


def test_bytearray_is_changed_in_place():
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.LOAD_GO, row_bytes=4, rows=1)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.emit(Opcode.STORE_GO, memory_address=100, row_bytes=4, rows=1)
    memory = bytearray(8192)
    memory[:4] = b"\x01\x02\x03\x04"
    size = assembler.place(np.frombuffer(memory, np.uint8), 4096)
    simulator().run(memory, 4096, size)
    assert memory[100:104] == b"\x01\x02\x03\x04"
