"""`CocotbBench`: one program on the bench, with the interface of the other executors."""

import json
import pathlib
import tempfile
from collections.abc import Sequence

import numpy as np

from tosaic.errors import DeviceError, InputError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER, of_core
from tosaic.hw.isa import CoreProgram

from ..program import count_macs, decode_program
from ..result import RunResult, counted_events
from ..status import device_error, standing
from .simulation import simulate

STALLS = ("random", "none")


class CocotbBench:
    """The Verilated accelerator of a configuration on cocotb's AXI models, in a process of its own for every run.

    `stalls` "random" makes every channel of both ports wait at times that `seed` decides, "none" never. Cycles depend
    on the stalls.
    """

    def __init__(self, config: Config, *, seed: int = 0, stalls: str = "random"):
        if stalls not in STALLS:
            raise InputError(f"stalls must be one of {', '.join(STALLS)}, not {stalls!r}")
        self._config, self._seed, self._stalls = config, seed, stalls

    def run(
        self,
        window: np.ndarray,
        program_address: int,
        program_bytes: int,
        *,
        others: Sequence[CoreProgram] = (),
        max_cycles: int | None = None,
    ) -> RunResult:
        """Execute the program at `program_address` of `window` (uint8, 0 = MEM_BASE), changed in place; `others`
        are those of the cores behind core 0.

        Raises DeviceError with the machine's error code, unit, program counter and instruction; also when the machine
        broke a rule of AXI or touched memory outside the window, or is not at the program's end after `max_cycles`;
        UnsupportedError when cocotb is not installed.
        """
        config = self._config
        if window.dtype != np.uint8 or window.ndim != 1 or not window.flags.writeable:
            raise DeviceError("external memory must be a writable one-dimensional uint8 array")
        streams = [(program_address, program_bytes), *others]
        # Registers keep their values: a core without a program is told so.
        streams += [(0, 0)] * (config.cores - len(streams))
        request = {
            "streams": streams,
            "cores": config.cores,
            "seed": self._seed,
            "stalls": self._stalls,
            "max_cycles": max_cycles,
        }
        codes = [window[address : address + size].tobytes() for address, size in streams]
        with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
            folder = pathlib.Path(name)
            np.save(folder / "window.npy", window)
            (folder / "request.json").write_text(json.dumps(request))
            simulate(config, "tosaic.sim.bench.program_bench", folder, seed=self._seed)
            result = json.loads((folder / "result.json").read_text())
            window[:] = np.load(folder / "window.npy")
        registers = result["registers"]
        if result["faults"]:
            first, *others = result["faults"]
            more = f" (and {len(others)} more)" if others else ""
            raise DeviceError(f"the accelerator broke a rule of its bus: {first}{more}")
        if REGISTER["STATUS"].field("error").extract(registers["STATUS"]):
            raise device_error(registers, codes, config.cores)
        if not result["ended"]:
            raise DeviceError(
                f"the program did not end in {max_cycles} cycles; {standing(registers, codes, config.cores)}"
            )
        names = counted_events(config)
        cores = [
            {name: registers[of_core(name.upper(), core)] for name in names} for core in range(config.cores)
        ]
        return RunResult(
            cycles=registers["CYCLES"] | registers["CYCLES_HIGH"] << 32,
            dram_read_bytes=result["beats_read"] * config.bus_bytes,
            dram_write_bytes=result["beats_written"] * config.bus_bytes,
            marks=[tuple(mark) for mark in result["marks"]],
            counters={name: sum(core[name] for core in cores) for name in names},
            macs=sum(count_macs(config, decode_program(code)) for code in codes),
            cores=cores,
        )
