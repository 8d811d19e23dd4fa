"""Several cores in RTL: the emulator's bytes and nearly its cycles, faults of one core, soft reset, a device."""

import numpy as np
import pytest
from two_cores import MEMORY_BYTES, PROGRAM, copy, machine, ping_pong, place, run, window

from tosaic.driver.transports.in_process import RtlTransport
from tosaic.errors import DeviceError
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import CoreProgram, Opcode
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator

CONFIG = machine(2, 2)
"""The first machine of test_four_cores_rtl.py: one simulator for both files."""
pytestmark = pytest.mark.xdist_group(CONFIG.name)
CYCLES_SHARE = 0.03
"""How far the cycle model may be off."""


@pytest.fixture(scope="module")
def simulator():
    return RtlSimulator(CONFIG)


def copies(sizes, config=CONFIG, count=6):
    """Each core loads and stores rows, with two buffers under way; what both store lies apart."""
    assemblers = []
    for core in range(config.cores):
        assembler = Assembler(config)
        for number in range(count):
            size, rows = sizes[(core + number) % len(sizes)]
            local = 4096 * (number % 4)
            assembler.emit(Opcode.LOAD_PITCH, memory_pitch=size + 5, local_pitch=size)
            assembler.emit(Opcode.STORE_PITCH, memory_pitch=size, local_pitch=size)
            place = {"local_address": local, "row_bytes": size, "rows": rows}
            assembler.emit(Opcode.LOAD_GO, memory_address=0x400 * core + 8 * number, **place)
            assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
            assembler.emit(Opcode.STORE_GO, memory_address=0x2000 + 0x1000 * core, **place)
            assembler.emit(Opcode.STORE_SIGNAL, semaphore=1, count=1)
            if number >= 2:
                assembler.emit(Opcode.LOAD_WAIT, semaphore=1, count=1)
        assemblers.append(assembler)
    return assemblers


@pytest.mark.parametrize("bandwidth", (None, 4, 2))
@pytest.mark.parametrize(
    "programs",
    (
        lambda: ping_pong(CONFIG, 4),
        lambda: copies([(2000, 1)]),
        lambda: copies([(40, 20), (101, 7)]),
        lambda: copies([(2048, 1), (16, 60), (133, 5)]),
        lambda: copies([(2000, 1)])[:1],
    ),
    ids=("ping-pong", "long", "rows", "mixed", "one"),
)
def test_bytes_and_cycles_of_the_emulator(simulator, programs, bandwidth):
    memories = window(), window()
    results = [
        run(target, memory, programs(), bandwidth_bytes=bandwidth)
        for target, memory in zip((Emulator(CONFIG), simulator), memories, strict=True)
    ]
    np.testing.assert_array_equal(*memories)
    predicted, measured = results
    assert predicted.cycles == pytest.approx(measured.cycles, rel=CYCLES_SHARE)
    assert predicted.dram_write_bytes == measured.dram_write_bytes
    for name in ("load_beats", "store_beats"):
        assert [core[name] for core in predicted.cores] == [core[name] for core in measured.cores]


@pytest.mark.parametrize("seed", range(4))
def test_a_bus_that_hesitates(seed):
    """Random stalls on all channels, and read data of all cores and IDs mixed."""
    memories = window(seed), window(seed)
    hesitating = RtlSimulator(CONFIG, stall_percent=40, seed=seed + 1, interleave_reads=True)
    for target, memory in zip((Emulator(CONFIG), hesitating), memories, strict=True):
        run(target, memory, ping_pong(CONFIG, 2))
        run(target, memory, copies([(40, 20), (2000, 1), (101, 7)]))
    np.testing.assert_array_equal(*memories)


def test_a_fault_in_one_core_ends_the_run(simulator):
    """Core 1's LOAD leaves the window while core 0 waits for its token."""
    first, second = Assembler(CONFIG), Assembler(CONFIG)
    first.emit(Opcode.LOAD_WAIT, semaphore=3, count=1)
    copy(first, 0, 0x1000, 64)
    second.emit(Opcode.LOAD_GO, memory_address=0, row_bytes=64, rows=1)
    second.emit(Opcode.LOAD_GO, memory_address=MEMORY_BYTES - 4, row_bytes=8, rows=1)
    second.emit(Opcode.LOAD_SIGNAL, semaphore=3, count=1, cores=1)
    memory, faults = window(), []
    before = memory[:PROGRAM].copy()
    for target in (Emulator(CONFIG), simulator):
        with pytest.raises(DeviceError, match="of core 1") as raised:
            run(target, memory, [first, second])
        faults.append(raised.value.fault)
    assert faults[0] == faults[1]
    assert (faults[1].code, faults[1].unit, faults[1].program_counter, faults[1].core) == (
        "MEMORY_RANGE",
        "LOAD",
        32,
        1,
    )
    np.testing.assert_array_equal(memory[:PROGRAM], before)


@pytest.mark.xdist_group("nano")
def test_a_core_that_is_not_there_is_illegal():
    """A mask has four bits, so a machine of one core shows it; tests/hw/sequencer/test_decode.py has two cores, too."""
    one = machine(1)
    assembler = Assembler(one)
    assembler.emit(Opcode.STORE_SIGNAL, count=1, cores=4)
    with pytest.raises(DeviceError, match=r"^ILLEGAL in SEQUENCER at program counter 16 "):
        run(RtlSimulator(one), window(), [assembler])


def test_a_deadlock_ends_by_the_watchdog(simulator):
    """Core 0 waits for a token of core 1, which is busy for a while and ends."""
    first, second = Assembler(CONFIG), Assembler(CONFIG)
    first.emit(Opcode.ARRAY_WAIT, semaphore=3, count=1)
    copy(second, 0, 0x1000, 64)
    with pytest.raises(
        DeviceError, match=r"^WATCHDOG in ARRAY of core 0 at program counter 16 .*UNITS of core 1"
    ):
        run(simulator, window(), [first, second])


class Board:
    """A device of two cores that lives from run to run."""

    def __init__(self):
        self.transport = RtlTransport(CONFIG)

    def load(self, memory, assemblers):
        first, others = place(memory, assemblers)
        self.transport.write_memory(0, memory.tobytes())
        idle = (CoreProgram(0, 0),) * (CONFIG.cores - 1 - len(others))
        self.transport.start(MEMORY_BYTES, *first, others=(*others, *idle))

    def status(self, field):
        value = self.transport.read_registers(REGISTER["STATUS"].offset, 1)[0]
        return REGISTER["STATUS"].field(field).extract(value)

    def finish(self):
        for _ in range(100):
            if not self.status("running"):
                break
            self.transport.wait(0)
        assert self.status("done")
        self.transport.finish()
        return np.frombuffer(self.transport.read_memory(0, MEMORY_BYTES), np.uint8)


def test_runs_follow_each_other_and_soft_resets():
    board, memory = Board(), window()
    endless = [Assembler(CONFIG), Assembler(CONFIG)]
    for assembler in endless:
        start = assembler.offset
        copy(assembler, 0, 0x1000, 512)
        assembler.emit(Opcode.BRANCH, target=start)
    # Core 1 leaves tokens behind for core 0, and is asked for more in the next run.
    leaves = [Assembler(CONFIG), Assembler(CONFIG)]
    leaves[1].emit(Opcode.VECTOR_SIGNAL, semaphore=5, count=9, cores=1)
    for _ in range(2):
        board.load(memory, endless)
        assert board.status("running")
        board.transport.soft_reset()
        assert board.status("resetting") and not board.status("idle")
        board.transport.make_idle()
        board.load(memory, leaves)
        board.finish()
        expected = memory.copy()
        place(expected, ping_pong(CONFIG, 3))
        run(Emulator(CONFIG), expected, ping_pong(CONFIG, 3))
        board.load(memory, ping_pong(CONFIG, 3))
        np.testing.assert_array_equal(board.finish(), expected)
        # One core alone: the other one does not start.
        alone = Assembler(CONFIG)
        copy(alone, 0, 0x1000, 64)
        board.load(memory, [alone])
        np.testing.assert_array_equal(board.finish()[0x1000:0x1040], memory[:64])
        offset = REGISTER["LOAD_BEATS"].offset + 0x400
        assert board.transport.read_registers(offset, 1) == [0]
    board.transport.close()


def test_the_registers_of_core_1():
    board = Board()
    for name in ("PROGRAM_ADDRESS", "PROGRAM_BYTES"):
        board.transport.write_register(REGISTER[name].offset + 0x400, 0x1230)
        assert board.transport.read_registers(REGISTER[name].offset + 0x400, 1) == [0x1230]
    with pytest.raises(DeviceError, match="the control port answers the read of register 0x810"):
        board.transport.read_registers(0x810, 1)
    board.transport.close()
