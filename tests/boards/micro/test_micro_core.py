"""The micro-coded machine's core in its place, under Verilator: a board whose firmware calls what the host has put into
memory."""

import pathlib
import random

import pytest
from amaranth.back import verilog
from riscv_words import addi, andi, branch, constant, i_type, jalr, load, lui, machine_code, r_type, store

import tosaic.boards
import tosaic.hw
from tosaic.boards.micro import MicroBoardTop
from tosaic.driver.transports import BridgeTransport
from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.memory.simulation import VERILOG, SimulationPlatform
from tosaic.hw.micro.core import core_verilog
from tosaic.hw.micro.instructions import FUNCT7_MULDIV, OPCODE_CUSTOM_0, OPCODE_OP, Multiply, Sums
from tosaic.hw.micro.memory_map import PORT_BASE, PORT_CYCLES, RAM_BASE, SIGNAL_DONE, SIGNAL_READY, MemoryMap
from tosaic.sim.board import BoardRtl, BoardSimulator, VirtualLine

pytestmark = pytest.mark.xdist_group("micro_core")
BIT_CYCLES = 4
CLOCK_HZ = 12e6
CONFIG = CONFIGS["nano"]
PORT, RAM = 5, 6
CALL = [
    lui(PORT, PORT_BASE),
    lui(RAM, RAM_BASE),
    addi(7, 0, SIGNAL_READY),
    store(7, PORT, 0),
    load(8, PORT, 0),
    andi(8, 8, 1),
    branch(0, 8, 0, -8),
    jalr(0, RAM, 0),
]
"""The firmware: says READY, waits for the start and goes to the first byte of memory."""
END = [addi(7, 0, SIGNAL_DONE), store(7, PORT, 0), jalr(0, 0, 16)]
RESULTS = 0x400
"""Offset in memory."""
STATUS, CONTROL = REGISTER["STATUS"].offset, REGISTER["CONTROL"].offset


def text() -> str:
    top = MicroBoardTop(
        CONFIG, machine_code(CALL), clock_hz=CLOCK_HZ, baud=round(CLOCK_HZ / BIT_CYCLES), name="core test"
    )
    return (
        verilog.convert(top, name="board", emit_src=False, platform=SimulationPlatform())
        + VERILOG
        + core_verilog()
    )


@pytest.fixture(scope="module")
def board():
    folders = tuple(pathlib.Path(package.__path__[0]) for package in (tosaic.hw, tosaic.boards))
    key = repr((CONFIG, CALL, core_verilog()))
    made = BoardSimulator(BoardRtl("micro-core-test", key, BIT_CYCLES, folders, text))
    yield made
    made.close()


@pytest.fixture(scope="module")
def host(board):
    return BridgeTransport(VirtualLine(board), "core test")


def execute(host, program, results=0, data=b""):
    """The words from RESULTS on after a program; `data` is put behind them."""
    host.write_memory(0, machine_code([*program, *END]))
    host.write_memory(RESULTS, data)
    host.write_register(CONTROL, 1)
    for attempt in range(20):
        (status,) = host.read_registers(STATUS, 1)
        if status == 5:
            raw = host.read_memory(RESULTS, 4 * results)
            return [int.from_bytes(raw[place : place + 4], "little") for place in range(0, len(raw), 4)]
        assert status == 2
        host.wait(attempt)
    raise AssertionError("the program does not end")


def signed(value: int) -> int:
    return value - (value >> 31 << 32)


def test_identity(host):
    assert host.identity.memory_base == RAM_BASE
    assert host.identity.memory_bytes == MemoryMap(CONFIG).window_bytes
    assert host.identity.clock_hz == CLOCK_HZ


def test_bytes_and_halves(host):
    program = []
    for step, funct3 in enumerate((0, 4, 1, 5, 2)):
        program += [load(9, RAM, RESULTS + 0x40, funct3), store(9, RAM, RESULTS + 4 * step)]
    program += [load(9, RAM, RESULTS + 0x40)]
    for offset in range(4):
        program += [addi(10, 0, 0x10 + offset), store(10, RAM, RESULTS + 0x14 + offset, 0)]
    program += [store(9, RAM, RESULTS + 0x1A, 1)]
    data = bytes(0x40) + (0x8283C4F5).to_bytes(4, "little")
    found = execute(host, program, 7, data)
    assert found == [0xFFFFFFF5, 0xF5, 0xFFFFC4F5, 0xC4F5, 0x8283C4F5, 0x13121110, 0xC4F50000]


def test_shifts_and_compressed_instructions(host):
    words = [0x80000001, 0x12345678, 7]
    program = []
    for step, word in enumerate(words):
        program += constant(9, word)
        program += [i_type(0x13, 1, 10, 9, 5), store(10, RAM, RESULTS + 12 * step)]
        program += [i_type(0x13, 5, 10, 9, 0x400 | 31), store(10, RAM, RESULTS + 12 * step + 4)]
        program += [r_type(0x33, 5, 0, 10, 9, 9), store(10, RAM, RESULTS + 12 * step + 8)]
    # c.li a0, -3; then a word that lies across two; c.nop.
    program += [
        (i_type(0x13, 0, 11, 10, 7) & 0xFFFF) << 16 | 0x5575,
        0x0001 << 16 | i_type(0x13, 0, 11, 10, 7) >> 16,
    ]
    program += [store(11, RAM, RESULTS + 36)]
    expected = []
    for word in words:
        expected += [word << 5 & 0xFFFFFFFF, signed(word) >> 31 & 0xFFFFFFFF, word >> (word & 31)]
    assert execute(host, program, 10) == [*expected, 4]


def test_products(host):
    rng = random.Random(4)
    program, expected = [], []
    for _ in range(6):
        a, b = (rng.choice([rng.getrandbits(32), 0x80000000, 0xFFFFFFFF]) for _ in range(2))
        program += [*constant(9, a), *constant(10, b)]
        for operation, product in (
            (Multiply.MUL, a * b),
            (Multiply.MULH, signed(a) * signed(b) >> 32),
            (Multiply.MULHSU, signed(a) * b >> 32),
            (Multiply.MULHU, a * b >> 32),
        ):
            program += [r_type(OPCODE_OP, operation, FUNCT7_MULDIV, 11, 9, 10)]
            program += [store(11, RAM, RESULTS + 4 * len(expected))]
            expected.append(product & 0xFFFFFFFF)
    assert execute(host, program, len(expected)) == expected


def test_sums_of_products(host):
    """Each instruction is executed once, whatever the core does meanwhile."""
    weights, inputs = 0x81027F03, 0xFF017F80
    program = [*constant(9, -5 & 0x1FF), addi(10, 0, 3), r_type(OPCODE_CUSTOM_0, Sums.SETUP, 0, 0, 9, 10)]
    program += [*constant(9, weights), *constant(10, inputs)]
    program += [r_type(OPCODE_CUSTOM_0, Sums.ADD, lane, 0, 9, 10) for lane in (0, 1, 2, 3, 3)]
    for column in range(4):
        program += [
            r_type(OPCODE_CUSTOM_0, Sums.TAKE, column, 11, 0, 0),
            store(11, RAM, RESULTS + 4 * column),
        ]
    total = sum(value + 5 for value in (-128, 127, 1, -1, -1))
    expected = [total * (weight - 3) & 0xFFFFFFFF for weight in (3, 127, 2, -127)]
    assert execute(host, program, 4) == expected


def test_cycles_and_a_reset_in_mid_run(host, board):
    found = execute(host, [load(9, PORT, PORT_CYCLES), store(9, RAM, RESULTS)], 1)
    assert 10 < found[0] < 100
    cycles, high = host.read_registers(REGISTER["CYCLES"].offset, 2)
    assert found[0] < cycles < 200 and high == 0
    host.write_memory(0, machine_code([branch(0, 0, 0, 0)]))
    host.write_register(CONTROL, 1)
    assert host.read_registers(STATUS, 1) == [2]
    assert board.leds["busy"]
    host.write_register(CONTROL, 2)
    assert host.read_registers(STATUS, 1) == [1]
    host.write_register(CONTROL, 1)
    assert host.reset()
    assert host.read_registers(STATUS, 1) == [1]
    assert execute(host, [*constant(9, 0x5EED1234), store(9, RAM, RESULTS)], 1) == [0x5EED1234]
