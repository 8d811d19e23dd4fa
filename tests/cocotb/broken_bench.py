"""A cocotb test that fails, to see what becomes of it."""

import cocotb
import numpy as np

from tosaic.sim.bench.machine import BenchMachine
from tosaic.sim.bench.memory import GuardedMemory


@cocotb.test()
async def broken(dut):
    machine = BenchMachine(dut, GuardedMemory(np.zeros(64, np.uint8), len(dut.m_axi_wstrb)), 0, "none")
    await machine.reset()
    raise AssertionError(f"ID is 0x{await machine.read('ID'):08x}")
