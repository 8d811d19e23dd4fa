"""Compiles a graph, runs it on the emulator, compares every output with golden, and certifies a sample: all programs
where TOSAIC_CERTIFY is `all`."""

import os
import zlib

import numpy as np
from layer_graphs import feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.compiler.program import Program
from tosaic.driver.certify import certify
from tosaic.driver.verification import verify_program
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

SAMPLE = 32
"""One of so many programs is certified."""


def assert_equal_to_golden(
    graph: Graph,
    config: Config | str,
    values: dict[str, np.ndarray] | None = None,
    *,
    check_hazards: bool = False,
    **options: bool,
):
    """`values` are the graph's inputs, random ones if there are none; `options` are the compiler's."""
    config = get_config(config) if isinstance(config, str) else config
    program, values = compile_graph(graph, config, **options), values or feeds(graph, 1)
    memory, emulator = program.memory(), Emulator(config, check_hazards=check_hazards)
    verify_program(program)
    if program.boot is not None:
        emulator.run(memory, program.boot.program_address, program.boot.program_bytes)
    for port in program.inputs:
        port.write(memory, values[port.name])
    emulator.run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])
    if os.environ.get("TOSAIC_CERTIFY") == "all" or not zlib.crc32(program.image) % SAMPLE:
        assert_certified(graph, program)


def assert_certified(graph: Graph, program: Program) -> None:
    """No input shows a difference, where the method does not show that there is none."""
    done = certify(graph, program, keyed=False)
    assert done.verdict != "DIFFERENT", (done.place, done.witness)
