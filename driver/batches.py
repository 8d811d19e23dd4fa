"""A program on many samples at once, by the emulator without its cycle model."""

from collections.abc import Mapping

import numpy as np

from tosaic.compiler.program import Port, Program
from tosaic.sim.emulator import Diverged, Emulator, ExternalMemory

BATCH_BYTES = 64 << 20
"""Memory for the samples that are computed together, unless one alone takes more."""
SAMPLES_MAX = 64
"""More at once are no faster."""


def batch_size(program: Program) -> int:
    """How many samples are computed together."""
    each = program.memory_bytes - len(program.image) + program.config.am_bytes
    return max(1, min(BATCH_BYTES // each, SAMPLES_MAX))


def run_samples(
    program: Program, inputs: Mapping[str, np.ndarray], max_instructions: int | None = None
) -> dict[str, np.ndarray]:
    """Outputs [samples, ...] and kept tensors of inputs [samples, ...], which have the ports' types and shapes.

    Samples whose programs part ways, at a branch that depends on the data, are executed apart from there on.
    DeviceError as for a single sample.
    """
    count = len(next(iter(inputs.values())))
    image = np.frombuffer(program.image, np.uint8)
    memory = ExternalMemory(np.zeros((count, program.memory_bytes - len(image)), np.uint8), image)
    for port in (*program.inputs, *program.states):
        memory.write(port.address, np.ascontiguousarray(inputs[port.name]).view(np.uint8).reshape(count, -1))
    try:
        Emulator(program.config).execute(
            memory, program.program_address, program.program_bytes, max_instructions=max_instructions
        )
    except Diverged as parting:
        return _apart(program, inputs, parting.as_first, max_instructions)
    return {port.name: _read(memory, port, count) for port in (*program.outputs, *program.kept)}


def _apart(
    program: Program, inputs: Mapping[str, np.ndarray], chosen: np.ndarray, max_instructions: int | None
) -> dict[str, np.ndarray]:
    """As `run_samples`, the chosen ones and the others one after the other."""
    first, rest = (
        run_samples(program, {name: values[own] for name, values in inputs.items()}, max_instructions)
        for own in (chosen, ~chosen)
    )
    outputs = {}
    for name, values in first.items():
        outputs[name] = np.empty((len(chosen), *values.shape[1:]), values.dtype)
        outputs[name][chosen], outputs[name][~chosen] = values, rest[name]
    return outputs


def _read(memory: ExternalMemory, port: Port, count: int) -> np.ndarray:
    raw = np.broadcast_to(memory.read(port.address, port.bytes), (count, port.bytes))
    return np.ascontiguousarray(raw).view(port.numpy).reshape(count, *port.shape)
