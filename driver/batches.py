"""A program on many samples at once, by the emulator without its cycle model."""

from collections.abc import Mapping

import numpy as np

from tosaic.compiler.program import Port, Program
from tosaic.driver.boot import boot
from tosaic.sim.emulator import Diverged, Emulator, ExternalBytes

BATCH_BYTES = 64 << 20
"""Memory for the samples that are computed together, unless one alone takes more."""
SAMPLES_MAX = 64
"""Samples at once; more are no faster."""


def batch_size(program: Program) -> int:
    """How many samples are computed together."""
    each = program.memory_bytes - len(program.image) + program.config.am_bytes
    return max(1, min(BATCH_BYTES // each, SAMPLES_MAX))


def run_samples(
    program: Program,
    inputs: Mapping[str, np.ndarray],
    max_instructions: int | None = None,
    booted: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Outputs [samples, ...] and kept tensors of inputs [samples, ...], which have the ports' types and shapes.

    Samples whose programs part ways, at a branch that depends on the data, are executed apart from there on.
    DeviceError as for a single sample. `booted`: what `booted_image` gave for an earlier batch.
    """
    count = len(next(iter(inputs.values())))
    image = booted_image(program) if booted is None else booted
    memory = ExternalBytes(np.zeros((count, program.memory_bytes - len(image)), np.uint8), image)
    for port in (*program.inputs, *program.states):
        memory.write(port.address, port.stored(inputs[port.name]))
    try:
        Emulator(program.config).execute(
            memory,
            program.program_address,
            program.program_bytes,
            others=program.others,
            max_instructions=max_instructions,
        )
    except Diverged as parting:
        return _apart(program, inputs, parting.as_first, max_instructions, image)
    return {port.name: _read(memory, port, count) for port in (*program.outputs, *program.kept)}


def booted_image(program: Program) -> np.ndarray:
    """The image, and behind it what the boot part decodes: what is the same in the memory of every sample."""
    if program.boot is None:
        return np.frombuffer(program.image, np.uint8)
    window = program.memory()
    booted = boot(program, window, Emulator(program.config).run)
    assert booted is not None
    booted.put(window)
    return window[: program.boot.end]


def _apart(
    program: Program,
    inputs: Mapping[str, np.ndarray],
    chosen: np.ndarray,
    max_instructions: int | None,
    image: np.ndarray,
) -> dict[str, np.ndarray]:
    """Runs the chosen samples and the others one after the other, as `run_samples` does."""
    first, rest = (
        run_samples(program, {name: values[own] for name, values in inputs.items()}, max_instructions, image)
        for own in (chosen, ~chosen)
    )
    outputs = {}
    for name, values in first.items():
        outputs[name] = np.empty((len(chosen), *values.shape[1:]), values.dtype)
        outputs[name][chosen], outputs[name][~chosen] = values, rest[name]
    return outputs


def _read(memory: ExternalBytes, port: Port, count: int) -> np.ndarray:
    return port.loaded(np.broadcast_to(memory.read(port.address, port.bytes), (count, port.bytes)))
