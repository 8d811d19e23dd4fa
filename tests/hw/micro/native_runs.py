"""Programs on the emulator and on the native firmware, side by side."""

import functools
import re

import numpy as np

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.isa import Error
from tosaic.hw.micro.firmware.native import NativeFirmware, NativeRun
from tosaic.sim.emulator import Emulator

_FAULT = re.compile(r"(\w+) at program counter (\d+)")


@functools.cache
def firmware(config: Config) -> NativeFirmware:
    return NativeFirmware(config)


def run_both(config: Config, memory: np.ndarray, address: int, size_bytes: int) -> NativeRun:
    """The native run; AssertionError unless the emulator leaves the same bytes in external memory."""
    expected = memory.copy()
    emulated = Emulator(config).run(expected, address, size_bytes)
    result = firmware(config).run(memory, address, size_bytes)
    assert result.done, result
    np.testing.assert_array_equal(memory, expected)
    assert list(result.layers) == [layer for layer, _ in emulated.marks][: len(result.layers)]
    return result


def fault_of_emulator(
    config: Config, memory: np.ndarray, address: int, size_bytes: int
) -> tuple[str, int] | None:
    """Name of the error and program counter; None if the program runs."""
    try:
        Emulator(config).run(memory.copy(), address, size_bytes)
    except DeviceError as error:
        found = _FAULT.match(str(error))
        return (found[1], int(found[2])) if found else (str(error).split(":")[0], 0)
    return None


def fault_of_firmware(
    config: Config, memory: np.ndarray, address: int, size_bytes: int
) -> tuple[str, int] | None:
    """The same of the firmware."""
    result = firmware(config).run(memory.copy(), address, size_bytes)
    return None if result.done else (Error(result.code).name, result.pc)
