"""cocotb tests of errors and soft reset: the right code, and the next run is good; channels stall at random."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles
from copy_program import (
    CONFIG,
    LOAD_PC,
    PROGRAM,
    SOURCE,
    SOURCE_PITCH,
    STORE_PC,
    TARGET,
    TARGET_PITCH,
    copied,
    copy_program,
)

from tosaic.hw.isa import Error, Opcode, Unit
from tosaic.sim.assembler import Assembler
from tosaic.sim.bench.machine import BenchMachine
from tosaic.sim.bench.memory import MEM_BASE, GuardedMemory

W = CONFIG.word_bytes
SEEDS = (1, 2, 3)


def beat(offset):
    """Bus address of the beat that holds a byte of the window."""
    return (MEM_BASE + offset) // W * W


async def fresh(dut, seed):
    window, size = copy_program()
    machine = BenchMachine(dut, GuardedMemory(window, len(dut.m_axi_wstrb)), seed, "random")
    await machine.reset()
    # No channel stalls for so long; if the machine hangs, the test shall end soon.
    await machine.write("WATCHDOG", 5000)
    return machine, size


async def expect_error(machine, code, unit, *pcs):
    assert await machine.field("STATUS", "error") == 1
    assert await machine.field("STATUS", "idle") == 0
    assert await machine.read("IRQ") == 2
    found = Error(await machine.field("ERROR", "code")), Unit(await machine.field("ERROR", "unit"))
    assert found == (code, unit), found
    assert await machine.read("PC") in pcs


async def expect_good_run(machine, size):
    """Checks that after a soft reset STATUS is clean, the host's registers are kept, and the program does its
    work."""
    await machine.soft_reset()
    assert await machine.read("STATUS") == 1
    assert await machine.read("ERROR") == 0
    assert await machine.read("MEM_BASE") == MEM_BASE
    machine.memory.read_errors.clear()
    machine.memory.write_errors.clear()
    window = machine.memory.window
    window[TARGET : TARGET + 1000] = 0x77
    machine.memory.refresh()
    expected = copied(window)
    await machine.run(PROGRAM, size)
    assert await machine.field("STATUS", "done") == 1
    np.testing.assert_array_equal(window, expected)
    assert machine.faults() == []


@cocotb.test()
@cocotb.parametrize(seed=SEEDS, row=[0, 3])
async def error_on_a_read_of_load(dut, seed, row):
    machine, size = await fresh(dut, seed)
    machine.memory.read_errors.add(beat(SOURCE + row * SOURCE_PITCH + 9))
    await machine.run(PROGRAM, size)
    # LOAD may have taken the SIGNAL behind the GO when the bus answers.
    await expect_error(machine, Error.BUS_READ, Unit.LOAD, LOAD_PC, LOAD_PC + 16)
    await expect_good_run(machine, size)


@cocotb.test()
@cocotb.parametrize(seed=SEEDS)
async def error_on_a_read_of_the_program(dut, seed):
    machine, size = await fresh(dut, seed)
    machine.memory.read_errors.add(beat(PROGRAM + 80 + 4))
    await machine.run(PROGRAM, size)
    await expect_error(machine, Error.BUS_READ, Unit.SEQUENCER, 80)
    await expect_good_run(machine, size)


@cocotb.test()
@cocotb.parametrize(seed=SEEDS, row=[0, 4])
async def error_on_a_write(dut, seed, row):
    machine, size = await fresh(dut, seed)
    machine.memory.write_errors.add(beat(TARGET + row * TARGET_PITCH + 20))
    await machine.run(PROGRAM, size)
    await expect_error(machine, Error.BUS_WRITE, Unit.STORE, STORE_PC)
    await expect_good_run(machine, size)


@cocotb.test()
@cocotb.parametrize(seed=SEEDS)
async def soft_reset_in_the_middle(dut, seed):
    machine, size = await fresh(dut, seed)
    rng = random.Random(seed)
    for _ in range(4):
        running = cocotb.start_soon(machine.run(PROGRAM, size))
        while not await machine.field("STATUS", "running"):
            pass
        await ClockCycles(dut.clk, rng.randint(1, 100))
        running.cancel()
        await machine.soft_reset()
        assert await machine.field("STATUS", "idle") == 1
    await expect_good_run(machine, size)


@cocotb.test()
async def watchdog_ends_a_wait_for_nothing(dut):
    machine, size = await fresh(dut, 9)
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.STORE_WAIT, semaphore=3, count=1)
    address = PROGRAM + 4096
    stuck = assembler.place(machine.memory.window, address)
    machine.memory.refresh()
    await machine.write("WATCHDOG", 600)
    await machine.run(address, stuck)
    await expect_error(machine, Error.WATCHDOG, Unit.STORE, 16)
    assert await machine.read("STORE_PC") == 16
    assert await machine.field("UNITS", "store_waiting") == 1
    await expect_good_run(machine, size)
