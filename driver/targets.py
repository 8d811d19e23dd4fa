"""Where a network runs: one table of targets, and which options each of them honours."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from tosaic.compiler.memory_speed import MEMORY_LATENCY_CYCLES, MemorySpeed
from tosaic.compiler.program import Program
from tosaic.errors import DeviceError, InputError
from tosaic.hw.isa import CoreProgram
from tosaic.hw.spelling import meant
from tosaic.sim.result import RunResult

from .boot import Booted, boot, boot_limit

if TYPE_CHECKING:
    from tosaic.sim.rtl.wave import Wave

    from .device import Device

Runner = Callable[[np.ndarray], RunResult]
"""Runs a program on a memory window, which it changes in place."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class TargetOptions:
    """How a program runs; None: as the target does by itself. InputError for numbers that cannot be."""

    memory_bandwidth: float | None = None
    """Bytes per cycle; by itself the bus width."""
    memory_latency: int | None = None
    """Cycles; by itself MEMORY_LATENCY_CYCLES."""
    max_cycles: int | None = None
    """A run that takes longer ends in a DeviceError."""
    wave: "Wave | None" = None
    """The waveform that each run writes."""

    def __post_init__(self) -> None:
        # It refuses numbers that cannot be.
        _ = self.speed
        if self.max_cycles is not None and self.max_cycles < 1:
            raise InputError(f"max_cycles must be at least 1, not {self.max_cycles}")

    @property
    def speed(self) -> MemorySpeed:
        """That of the memory, which a graph is compiled for."""
        return MemorySpeed(self.memory_bandwidth, self.latency_cycles)

    @property
    def latency_cycles(self) -> int:
        return MEMORY_LATENCY_CYCLES if self.memory_latency is None else self.memory_latency


MEMORY_OPTIONS = frozenset({"memory_bandwidth", "memory_latency"})
TIME_LIMIT = frozenset({"max_cycles"})


@dataclasses.dataclass(frozen=True)
class Target:
    """A kind of place where a network runs."""

    name: str
    honours: frozenset[str]
    """The fields of TargetOptions that mean something there."""
    reason: str
    """Why the others do not."""
    runner: Callable[[Program, TargetOptions], Runner] | None
    """Runs programs; None for a target that evaluates graphs."""

    def check(self, shown: str, options: TargetOptions) -> None:
        """InputError for an option that this target would have to ignore."""
        for field in dataclasses.fields(options):
            name = field.name
            if getattr(options, name) is not None and name not in self.honours:
                if name == "wave":
                    raise InputError(f"{shown}: a waveform shows the RTL's signals: run on sim")
                raise InputError(f"{shown}: {self.reason}: leave {name.replace('_', ' ')} out")


class _Simulated:
    """Runs a program on a machine without memory of its own. The boot part runs before the first run, on that run's
    memory; later runs are given what it left."""

    def __init__(
        self, execute: Callable[..., RunResult], program: Program, options: TargetOptions, **timing: Any
    ):
        self._execute, self._program, self._options, self._timing = execute, program, options, timing
        self._booted: Booted | None = None

    def __call__(self, window: np.ndarray) -> RunResult:
        program, limit = self._program, self._options.max_cycles
        if program.boot is not None and self._booted is None:
            longest = boot_limit(program.boot, limit)
            self._booted = boot(
                program, window, lambda memory, start, size: self._run(memory, start, size, longest)
            )
        if self._booted is not None:
            self._booted.put(window)
        result = self._run(window, program.program_address, program.program_bytes, limit, program.others)
        return dataclasses.replace(result, boot=self._booted.result if self._booted else None)

    def _run(
        self,
        window: np.ndarray,
        start: int,
        size: int,
        max_cycles: int | None,
        others: Sequence[CoreProgram] = (),
    ) -> RunResult:
        return self._execute(window, start, size, max_cycles=max_cycles, others=others, **self._timing)


def _emulator(program: Program, options: TargetOptions) -> Runner:
    from tosaic.sim.emulator import Emulator

    return _Simulated(Emulator(program.config).run, program, options, **_memory_timing(options))


def _rtl(program: Program, options: TargetOptions) -> Runner:
    from tosaic.sim.rtl import RtlSimulator
    from tosaic.sim.rtl.wave import ProgramWave

    if options.wave is None:
        return _Simulated(RtlSimulator(program.config).run, program, options, **_memory_timing(options))
    layers = tuple(layer.name for layer in program.layers)
    wave = ProgramWave(options.wave, layers, program.instruction_layers)
    writing = RtlSimulator(program.config, recorder=wave)

    def execute(window: np.ndarray, start: int, *rest: Any, **named: Any) -> RunResult:
        # The boot part is another program.
        simulator = writing if start == program.program_address else RtlSimulator(program.config)
        return simulator.run(window, start, *rest, **named)

    return _Simulated(execute, program, options, **_memory_timing(options))


def _memory_timing(options: TargetOptions) -> dict[str, float | None]:
    return {"bandwidth_bytes": options.memory_bandwidth, "latency_cycles": options.latency_cycles}


def _cocotb(program: Program, options: TargetOptions) -> Runner:
    from tosaic.sim.bench import CocotbBench

    return _Simulated(CocotbBench(program.config).run, program, options)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("golden", frozenset(), "golden has neither cycles nor a memory", None),
        Target("emulator", MEMORY_OPTIONS | TIME_LIMIT, "", _emulator),
        Target("sim", MEMORY_OPTIONS | TIME_LIMIT | {"wave"}, "", _rtl),
        Target("cocotb", TIME_LIMIT, "the bench's memory answers at random times", _cocotb),
    )
}
"""Targets by name. Devices, which have URIs (transports.uri), are DEVICE."""
DEVICE = Target("device", TIME_LIMIT, "a device's memory is as it is", None)


def wave_of(wave: "Wave | str | pathlib.Path | None") -> "Wave | None":
    """The waveform that is asked for: of the whole run where only its file is given."""
    if wave is None:
        return None
    from tosaic.sim.rtl.wave import Wave

    return wave if isinstance(wave, Wave) else Wave(pathlib.Path(wave))


def is_device(target: str) -> bool:
    """Whether a target is a device's URI."""
    return "://" in target


def open_device_of(target: "str | Device") -> "Device | None":
    """The device, where an open one is the target; InputError where it is none."""
    if isinstance(target, str):
        return None
    from .device import Device

    if not isinstance(target, Device):
        raise InputError(f"a target is a name, a device's URI or an open Device, not {type(target).__name__}")
    return target


def find_target(target: "str | Device") -> Target:
    """Raises InputError for a target or a device URI that cannot be."""
    if open_device_of(target) is not None:
        return DEVICE
    assert isinstance(target, str)
    if target in TARGETS:
        return TARGETS[target]
    # What it takes to reach devices is imported where one is meant.
    from . import board_pool  # noqa: F401  (registers its scheme)
    from .transports.uri import EXAMPLES, check_uri, masked

    if is_device(target):
        check_uri(target)
        return DEVICE
    raise InputError(
        f"there is no target {masked(target)!r}; {meant(target, TARGETS)}use one of {', '.join(TARGETS)}, or a "
        f"device: {EXAMPLES}"
    )


def make_runner(target: "str | Device", program: Program, options: TargetOptions | None = None) -> Runner:
    """A function that runs the program on a memory window (changed in place); `target` is one of those with a name
    that execute programs, or an open device."""
    options = options or TargetOptions()
    device = open_device_of(target)
    if device is not None:
        return lambda window: device.run(program, window, options.max_cycles)
    runner = find_target(target).runner
    if runner is None:
        raise InputError(f"target {target!r} does not execute programs")
    return runner(program, options)


def naming_weights(program: Program, execute: Callable[P, R]) -> Callable[P, R]:
    """`execute` with the damaged tensor's name in the DeviceError, where compressed weights are damaged."""

    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return execute(*arguments, **named)
        except DeviceError as error:
            number = error.tensor_number
            if number is None or number >= len(program.weights):
                raise
            name = program.weights[number].name
            raise DeviceError(
                f"{error}; the compressed weights {name!r} are damaged", tensor_number=number
            ) from None

    return run
