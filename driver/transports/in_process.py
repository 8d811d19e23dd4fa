"""The Verilated accelerator in this process, as a device with memory of its own."""

from collections.abc import Sequence

import numpy as np

from tosaic.errors import DeviceError
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.config import Config
from tosaic.sim.bandwidth import thousandths
from tosaic.sim.registers import REGISTER_BYTES
from tosaic.sim.rtl.choice import machine_library
from tosaic.sim.rtl.library import PROTOCOL, TIMEOUT, Harness

from .base import RegisterTransport

MEMORY_BASE = 0x1000_0000
MEMORY_BYTES = 16 << 20
CLOCK_HZ = 100_000_000
"""A simulation has no clock rate; this one stands for it."""
WAIT_CYCLES = 50_000
LATE_CYCLES = 10_000
"""Cycles that an interrupt may come later than in the last run, whose bus may have had more luck."""


class RtlTransport(RegisterTransport):
    """One accelerator that lives from run to run, unlike the target `sim`, which begins each with a fresh one.

    `read_error_at`, `write_error_at`: bus addresses that answer SLVERR, for tests of faults.
    """

    reads_fast = True

    def __init__(
        self,
        config: Config,
        *,
        memory_bytes: int = MEMORY_BYTES,
        read_error_at: int | None = None,
        write_error_at: int | None = None,
        latency_cycles: int = 50,
    ):
        self.name = f"sim://{config.name}"
        self.identity = Identity("sim", MEMORY_BASE, memory_bytes, CLOCK_HZ, 1 << 15)
        self.memory = np.zeros(memory_bytes, np.uint8)
        self._harness = Harness(machine_library(config))
        self._harness.set_memory(self.memory, MEMORY_BASE)
        self._harness.set_timing(latency_cycles, thousandths(None, config.bus_bytes))
        self.set_errors(read_error_at, write_error_at)

    def set_errors(self, read_error_at: int | None, write_error_at: int | None) -> None:
        """Answers SLVERR, from now on, to beats at these bus addresses."""
        self._harness.set_errors(read_error_at, write_error_at)

    def read_registers(self, offset: int, count: int) -> list[int]:
        return self._harness.read_registers(offset, count)

    def write_register(self, offset: int, value: int) -> None:
        self._harness.write_register(offset, value)

    def write_registers(self, offset: int, values: Sequence[int]) -> None:
        for index, value in enumerate(values):
            self._harness.write_register(offset + REGISTER_BYTES * index, value)

    def read_memory(self, address: int, count: int) -> bytes:
        self._check(address, count)
        return self.memory[address : address + count].tobytes()

    def write_memory(self, address: int, data: bytes) -> None:
        self._check(address, len(data))
        self.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def clear_memory(self, address: int, count: int) -> bool:
        self._check(address, count)
        self.memory[address : address + count] = 0
        return True

    def wait(self, attempt: int) -> None:
        self._run(WAIT_CYCLES)

    def wait_for(self, cycles: int, seconds: float) -> None:
        # The interrupt ends it before.
        left = cycles + LATE_CYCLES
        while left > 0 and self._run(min(left, WAIT_CYCLES)) == TIMEOUT:
            left -= WAIT_CYCLES

    def close(self) -> None:
        self._harness.close()

    def _run(self, cycles: int) -> int:
        outcome = self._harness.run(cycles)
        if outcome == PROTOCOL:
            raise DeviceError(f"{self.name}: the RTL breaks a rule of AXI4: {self._harness.violation}")
        return outcome

    def _check(self, address: int, count: int) -> None:
        if not 0 <= address <= len(self.memory) - count:
            raise DeviceError(f"{self.name}: {count} bytes at 0x{address:x} lie outside its memory")
