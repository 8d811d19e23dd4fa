"""The boot part of a program: run once after the image was loaded, checked, and told of in the figures of a run."""

import contextlib
import dataclasses
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tosaic.compiler.program import BootPart, DecodedBlock, Program
from tosaic.errors import DeviceError
from tosaic.sim.result import RunResult

Execute = Callable[[np.ndarray, int, int], RunResult]
"""Executes the program at an address, of a number of bytes, on a memory window, which it changes in place."""
_LONGEST_BIT_CYCLES = 64
"""No weight takes as many cycles to decode: a boot part that takes more is none."""


def boot_limit(boot: BootPart, max_cycles: int | None) -> int | None:
    """The limit for the boot part where a run has one: it may take longer than a run."""
    if max_cycles is None:
        return None
    return max(max_cycles, 100_000 + _LONGEST_BIT_CYCLES * sum(block.bytes for block in boot.blocks))


@contextlib.contextmanager
def in_boot_part() -> Iterator[None]:
    """A DeviceError tells that it was the boot part that failed: its program counters are not the program's."""
    try:
        yield
    except DeviceError as error:
        error.args = (f"boot part: {error}",)
        raise


def require_decoded(name: str, block: DecodedBlock, data: bytes) -> None:
    """Raises DeviceError, whose message begins with `name`, unless `data` are the weights that the block stands for."""
    if zlib.crc32(data) != block.crc32:
        raise DeviceError(
            f"{name}wrong weights at 0x{block.address:x}: their CRC-32 is 0x{zlib.crc32(data):08x}, not "
            f"0x{block.crc32:08x}",
            tensor_number=block.tensor,
        )


@dataclasses.dataclass(frozen=True)
class Booted:
    """What the boot part left in memory, and what it took."""

    blocks: tuple[tuple[DecodedBlock, np.ndarray], ...]
    result: RunResult

    def put(self, window: np.ndarray) -> None:
        """Places the decoded weights in a memory window (uint8)."""
        for block, data in self.blocks:
            window[block.slice] = data


def boot(program: Program, window: np.ndarray, execute: Execute) -> Booted | None:
    """Runs the boot part, if there is one, on a copy of `window`, and checks what it left there.

    DeviceError where it fails, or leaves other weights than it should."""
    part = program.boot
    if part is None:
        return None
    scratch = window.copy()
    with in_boot_part():
        result = execute(scratch, part.program_address, part.program_bytes)
        found = tuple((block, scratch[block.slice].copy()) for block in part.blocks)
        for block, data in found:
            require_decoded("", block, data.tobytes())
    return Booted(found, result)


def boot_figures(program: Program, result: RunResult) -> dict[str, Any] | None:
    """What the boot part took, and when that pays; None for a program without one.

    `break_even_bytes_per_cycle`: a link or flash that brings fewer bytes per cycle brings the image later without
    compression than boot included. `break_even_runs`: after that number of runs, decoding once has taken fewer cycles
    than decoding in every run would."""
    part, booted = program.boot, result.boot
    if part is None or booted is None:
        return None
    weights = [each for each in program.weights if each.at_boot]
    saved = sum(each.bytes - each.stored_bytes for each in weights)
    decoding = sum(each.decode_cycles for each in weights)
    # A run that decoded as it goes would take as long as the longer of the two.
    lost = max(decoding, result.cycles) - result.cycles
    return {
        "cycles": booted.cycles,
        "dram_read_bytes": booted.dram_read_bytes,
        "dram_write_bytes": booted.dram_write_bytes,
        "tensors": len(weights),
        "saved_bytes": saved,
        "break_even_bytes_per_cycle": saved / booted.cycles,
        "break_even_runs": -(-booted.cycles // lost) if lost else None,
    }
