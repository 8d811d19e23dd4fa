"""A network on the Verilog of a chip: its outputs against golden's, and what toggled (`tosaic silicon --network`)."""

import dataclasses
import pathlib

import numpy as np

from tosaic.errors import MismatchError
from tosaic.hw.config import Config
from tosaic.hw.verilog.bench_run import BenchRun
from tosaic.sim.rtl.toggles import ToggleCounter, Toggles

from .bench_run import bench_run
from .session import Progress


@dataclasses.dataclass(frozen=True)
class NetlistRun:
    """A run on the netlist, or on the RTL, that gave golden's outputs."""

    model: str
    cycles: int
    toggles: Toggles


def prepare(model: str, config: Config, progress: Progress) -> BenchRun:
    """What the run begins with and what it must give; InputError for a model or a configuration that cannot be."""
    return bench_run(model, config, progress)


def run_netlist(
    model: str, run: BenchRun, config: Config, verilog: pathlib.Path, saif: pathlib.Path
) -> NetlistRun:
    """Runs the netlist or the RTL in the file `verilog`, made-up inputs as for a testbench; its counts go to `saif`.

    MismatchError where an output is not golden's."""
    from tosaic.sim.rtl import RtlSimulator

    counter = ToggleCounter(verilog, saif)
    memory = np.frombuffer(run.memory, np.uint8).copy()
    simulator = RtlSimulator(config, recorder=counter)
    result = simulator.run(memory, run.program_address, run.program_bytes, max_cycles=run.max_cycles)
    for address, expected in run.expected:
        given = memory[address : address + len(expected)]
        if wrong := np.flatnonzero(given != np.frombuffer(expected, np.uint8)).tolist():
            raise MismatchError(
                f"{model}: byte {wrong[0]} of the output at address {address:#x} is {given[wrong[0]]}, golden's is "
                f"{expected[wrong[0]]}"
            )
    return NetlistRun(model, result.cycles, counter.read())
