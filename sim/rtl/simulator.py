"""Runs programs on the Verilated RTL, with the emulator's interface and exact cycles."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.isa import CoreProgram

from ..bandwidth import thousandths
from ..registers import Registers
from ..result import RunResult
from .build import Variant, simulator_library
from .choice import machine_library
from .library import INTERRUPT, PROTOCOL, Harness
from .measured import ActivityRecorder

MEM_BASE = 0x1000_0000
"""Where external memory lies on the bus; anything but 0 shows a forgotten base."""
SLICE_CYCLES = 200_000
"""Cycles per call into the library: Ctrl-C works in between."""


class RunRecorder(Protocol):
    """What writes down a run: a `wave.ProgramWave`, a `toggles.ToggleCounter`."""

    @property
    def variant(self) -> Variant:
        """The simulator that it needs."""

    def begin(self, harness: Harness, codes: Sequence[bytes]) -> None:
        """Called before these programs start."""

    def end(self, harness: Harness) -> None:
        """Called when they have ended."""


class RtlSimulator:
    """Executes programs on the RTL of one configuration; external memory is the array handed to `run`.

    The first simulator of a configuration compiles it, which takes a minute or so, and keeps it in the cache.
    Each run is written down by `recorder`.

    For tests: `stall_percent` and `seed` make the bus hesitate at random, `interleave_reads` mixes the data of reads
    with different IDs, `read_error_at` and `write_error_at` (byte offsets in external memory) make it answer SLVERR.
    """

    def __init__(
        self,
        config: Config,
        *,
        stall_percent: int = 0,
        seed: int = 0,
        interleave_reads: bool = False,
        read_error_at: int | None = None,
        write_error_at: int | None = None,
        recorder: RunRecorder | None = None,
    ):
        self.config, self._recorder = config, recorder
        self._has_probe = recorder is None or recorder.variant.probe
        self._stalls = (stall_percent, seed)
        self._interleave_reads = interleave_reads
        self._errors = tuple(
            None if offset is None else MEM_BASE + offset // config.bus_bytes * config.bus_bytes
            for offset in (read_error_at, write_error_at)
        )
        self._library = (
            machine_library(config) if recorder is None else simulator_library(config, recorder.variant)
        )

    def run(
        self,
        memory: bytearray | np.ndarray,
        program_address: int,
        program_bytes: int,
        *,
        others: Sequence[CoreProgram] = (),
        bandwidth_bytes: float | None = None,
        latency_cycles: int = 50,
        max_cycles: int | None = None,
    ) -> RunResult:
        """Execute the program at `program_address` of `memory` (uint8, 0 = MEM_BASE), changed in place. It is that of
        core 0; `others` are those of the cores behind it, which do nothing without.

        `bandwidth_bytes` (None: the bus width) is what reads may move per cycle, and writes besides;
        `latency_cycles` goes by from a read's address to its first data and from a write's last data to its
        response (axi_memory.h has the exact rules). Raises DeviceError with the machine's error code, unit, program
        counter and instruction, or after `max_cycles` (None: no limit; the machine's watchdog ends a hang).
        """
        image = np.frombuffer(memory, np.uint8) if isinstance(memory, bytearray) else memory
        if (
            image.dtype != np.uint8
            or image.ndim != 1
            or not image.flags.writeable
            or not image.flags.c_contiguous
        ):
            raise DeviceError("external memory must be a writable, contiguous, one-dimensional uint8 array")
        streams = (CoreProgram(program_address, program_bytes), *others)
        codes = [image[address : address + size].tobytes() for address, size in streams]
        harness = Harness(self._library)
        registers = Registers(harness, self.config.cores)
        harness.set_memory(image, MEM_BASE)
        bandwidth = thousandths(bandwidth_bytes, self.config.bus_bytes)
        harness.set_timing(latency_cycles, bandwidth, *self._stalls)
        harness.set_interleaving(self._interleave_reads)
        harness.set_errors(*self._errors)
        try:
            if self._recorder is not None:
                self._recorder.begin(harness, codes)
            activity = ActivityRecorder(harness, codes, self.config.cores) if self._has_probe else None
            registers.start(MEM_BASE, len(image), streams)
            _wait(harness, registers, codes, max_cycles, activity)
            if self._recorder is not None:
                self._recorder.end(harness)
            result = registers.result(self.config, codes, registers.marks())
            # The bus has seen every beat; the counters stop with the program.
            return dataclasses.replace(
                result,
                dram_read_bytes=harness.beats_read * self.config.bus_bytes,
                dram_write_bytes=harness.beats_written * self.config.bus_bytes,
                activity=activity.end() if activity is not None else (),
            )
        finally:
            harness.close()


def _wait(
    harness: Harness,
    registers: Registers,
    codes: Sequence[bytes],
    max_cycles: int | None,
    activity: ActivityRecorder | None,
) -> None:
    """Waits for the interrupt; raises DeviceError when it was an error or did not come."""
    left = max_cycles
    while left is None or left > 0:
        cycles = SLICE_CYCLES if left is None else min(SLICE_CYCLES, left)
        outcome = harness.run(cycles)
        if activity is not None:
            activity.take()
        if outcome == PROTOCOL:
            raise DeviceError(f"the RTL breaks a rule of AXI4: {harness.violation} (cycle {harness.cycle})")
        if outcome == INTERRUPT:
            break
        left = None if left is None else left - cycles
    else:
        raise DeviceError(f"the program did not end in {max_cycles} cycles; {registers.standing(codes)}")
    if failure := registers.failure(codes):
        raise failure
