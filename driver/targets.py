"""Executes a compiled program where the user asked for it."""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.program import Program
from tosaic.errors import DeviceError, InputError
from tosaic.sim.result import RunResult

from .transports.uri import EXAMPLES, check_uri, masked

TARGETS = ("golden", "emulator", "sim", "cocotb")
"""Where a network runs, beside devices, which have URIs (transports.uri)."""

Runner = Callable[[np.ndarray], RunResult]


def is_device(target: str) -> bool:
    """Whether a target is a device's URI."""
    return "://" in target


def check_target(target: str) -> None:
    """InputError for a target or a device URI that cannot be."""
    if is_device(target):
        check_uri(target)
    elif target not in TARGETS:
        raise InputError(
            f"there is no target {masked(target)!r}; use one of {', '.join(TARGETS)}, or a device: {EXAMPLES}"
        )


def make_runner(
    target: str,
    program: Program,
    bandwidth_bytes: int | None,
    latency_cycles: int,
    max_cycles: int | None = None,
) -> Runner:
    """A function that runs the program on a memory window (changed in place). `max_cycles` ends a run with a
    DeviceError that says where the machine is (emulator and sim); None: only the target's own limit."""
    place = (program.program_address, program.program_bytes)
    if target == "emulator":
        from tosaic.sim.emulator import Emulator

        emulator = Emulator(program.config)
        return lambda window: emulator.run(
            window,
            *place,
            bandwidth_bytes=bandwidth_bytes,
            latency_cycles=latency_cycles,
            max_cycles=max_cycles,
        )
    if target == "sim":
        from tosaic.sim.rtl import RtlSimulator

        simulator = RtlSimulator(program.config)
        return lambda window: simulator.run(
            window,
            *place,
            bandwidth_bytes=bandwidth_bytes,
            latency_cycles=latency_cycles,
            max_cycles=max_cycles,
        )
    if target == "cocotb":
        from tosaic.sim.bench import run_in_cocotb

        return lambda window: run_in_cocotb(program.config, window, *place)
    raise InputError(f"target {target!r} does not execute programs")


def naming_weights(program: Program, execute: Runner) -> Runner:
    """`execute` with the damaged tensor's name in the DeviceError, where compressed weights are damaged."""

    def run(window: np.ndarray) -> RunResult:
        try:
            return execute(window)
        except DeviceError as error:
            number = error.tensor_number
            if number is None or number >= len(program.weights):
                raise
            name = program.weights[number].name
            raise DeviceError(
                f"{error}; the compressed weights {name!r} are damaged", tensor_number=number
            ) from None

    return run
