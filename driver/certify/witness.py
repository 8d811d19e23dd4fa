"""Looks for inputs on which a program and its graph differ."""

import dataclasses
import time
from collections.abc import Iterator, Mapping

import numpy as np

from tosaic.compiler.ir import DType, Graph, validate
from tosaic.compiler.program import Program
from tosaic.errors import ModelError, UnpredictableError
from tosaic.sim.emulator import Emulator, ExternalBytes
from tosaic.sim.golden import evaluate

from .certificate import Witness

MOST_PARAMETERS = 1
"""Elements of an input that may be an operator's parameter with a rule of its own: a zero point."""
MOST_TURNS = 64
"""Turns of a loop: of one that takes more, nobody knows whether it ends."""
MOST_COUNTERS, COUNTS = 4, (-2, 7)
"""Inputs of so few elements may tell how often a loop turns: every other time they are small."""
Limits = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Between which numbers the specification wants the elements of inputs."""
SECONDS = 10.0
"""Largest processor time of the search, in seconds."""


def find_witness(graph: Graph, program: Program, tries: int, limits: Limits) -> tuple[Witness | None, int]:
    """The first of so many inputs, random and extreme ones, that shows a difference; and how many were tried."""
    emulator, started, count = Emulator(program.config), time.process_time(), 0
    for inputs in _inputs(graph, tries, limits):
        if time.process_time() - started > SECONDS:
            break
        found = differs_on(graph, program, inputs, emulator)
        count += 1
        if found is not None:
            return found, count
    return None, count


def _are_legal(graph: Graph, inputs: dict[str, np.ndarray]) -> bool:
    """Whether no ERROR_IF holds where these values are constants: a zero point of int4 weights, say, must be 0."""
    fixed = {
        name: dataclasses.replace(graph.tensors[name], data=inputs[name])
        for name in graph.run_inputs
        if inputs[name].size <= MOST_PARAMETERS
    }
    constant = dataclasses.replace(
        graph,
        inputs=[name for name in graph.inputs if name not in fixed],
        tensors={**graph.tensors, **fixed},
    )
    try:
        validate(constant)
    except ModelError:
        return False
    return True


def differs_on(
    graph: Graph, program: Program, inputs: dict[str, np.ndarray], emulator: Emulator | None = None
) -> Witness | None:
    """The witness that these inputs are; None where they show no difference, or the specification leaves the results
    open."""
    try:
        results = evaluate(graph, inputs, strict=True, keep=True, most_turns=MOST_TURNS)
    except UnpredictableError:
        return None
    emulator, memory = emulator or Emulator(program.config), program.memory()
    if program.boot is not None:
        boot = program.boot
        emulator.execute(ExternalBytes.of(memory), boot.program_address, boot.program_bytes)
    for port in (*program.inputs, *program.states):
        port.write(memory, inputs[port.name])
    place = program.program_address, program.program_bytes
    emulator.execute(ExternalBytes.of(memory), *place, others=program.others)
    left = {port.name: graph.states[port.name].output for port in program.states}
    for port in (*program.outputs, *program.states):
        wanted = results[left.get(port.name, port.name)]
        found = port.read(memory)
        wrong = np.argwhere(np.asarray(wanted != found))
        if len(wrong):
            if not _are_legal(graph, inputs):
                return None
            index = tuple(int(i) for i in wrong[0])
            return Witness(inputs, port.name, index, int(wanted[index]), int(found[index]))
    return None


def _inputs(graph: Graph, tries: int, limits: Limits) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    tensors = {name: graph.tensor(name) for name in graph.inputs}
    loops = any(operator.op == "WHILE_LOOP" for operator in graph.operators)
    for number in range(tries):
        values = {
            name: _values(tensor.shape, tensor.dtype, limits.get(name), number, rng)
            for name, tensor in tensors.items()
        }
        for name, tensor in tensors.items() if loops and number % 8 < 4 else ():
            if tensor.dtype in (DType.INT16, DType.INT32) and values[name].size <= MOST_COUNTERS:
                few = rng.integers(*COUNTS, tensor.shape, endpoint=True)
                values[name] = np.array(few, tensor.dtype.numpy)
        yield values


def _values(
    shape: tuple[int, ...],
    dtype: DType,
    limits: tuple[np.ndarray, np.ndarray] | None,
    number: int,
    rng: np.random.Generator,
) -> np.ndarray:
    low, high = (0, 1) if dtype is DType.BOOL else (int(dtype.min), int(dtype.max))
    kind = number % 4
    if limits is not None and kind != 1:
        # Others leave results open, an index outside of a table for example.
        values = rng.integers(*limits, shape, endpoint=True)
    elif kind == 0:
        values = rng.integers(low, high, shape, endpoint=True)
    elif kind == 1:
        values = rng.choice(np.array([low, high, 0, 1 if high else 0]), shape)
    elif kind == 2:
        values = np.clip(rng.normal(0, max(high / 64, 1), shape), low, high)
    else:
        values = np.broadcast_to(rng.integers(low, high, shape[-1:], endpoint=True), shape)
    values = values if limits is None else np.clip(values, *limits)
    return np.array(values, order="C").astype(dtype.numpy)
