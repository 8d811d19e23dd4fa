"""A program with a seeded fault is never called EQUAL where one of many inputs shows that it is wrong, and never
DIFFERENT without an input."""

import collections

import numpy as np
import pytest
from changed_certified import faulty_programs, network

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.compiler.program import Program
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator, ExternalBytes
from tosaic.sim.golden import evaluate

GROUP = 250
"""Inputs that are emulated at once."""


def inputs_of(graph: Graph, count: int) -> np.ndarray:
    """Random, extreme and small ones, in turn."""
    rng = np.random.default_rng(1)
    shape = (count, *graph.tensor("x").shape)
    values = rng.integers(-128, 127, shape, endpoint=True)
    values[1::3] = rng.choice(np.array([-128, 127, 0]), values[1::3].shape)
    values[2::3] = rng.integers(-5, 5, values[2::3].shape)
    return values.astype(np.int8)


def differing(program: Program, inputs: np.ndarray, wanted: np.ndarray) -> int:
    """How many inputs show that the program is not its graph."""
    wrong = 0
    for first in range(0, len(inputs), GROUP):
        own = inputs[first : first + GROUP]
        windows = np.repeat(program.memory()[None], len(own), axis=0)
        for window, value in zip(windows, own, strict=True):
            program.inputs[0].write(window, value)
        memory = ExternalBytes(windows)
        Emulator(program.config).execute(memory, program.program_address, program.program_bytes)
        port = program.outputs[0]
        found = memory.read(port.address, port.bytes).view(np.int8).reshape(len(own), *port.shape)
        wrong += int((found != wanted[first : first + GROUP]).reshape(len(own), -1).any(axis=1).sum())
    return wrong


def campaign(config: str, faults: int, tries: int, seed: int) -> collections.Counter[str]:
    graph = network()
    program, inputs = compile_graph(graph, get_config(config)), inputs_of(graph, tries)
    wanted = np.stack([evaluate(graph, {"x": value})[program.outputs[0].name] for value in inputs])
    verdicts = collections.Counter[str]()
    for name, faulty in faulty_programs(program, faults, seed):
        try:
            done = tosaic.certify(graph, faulty, keyed=False)
        except tosaic.DeviceError:
            verdicts["stops"] += 1
            continue
        verdicts[done.verdict] += 1
        if done.verdict == "EQUAL":
            assert not differing(faulty, inputs, wanted), name
        assert (done.verdict == "DIFFERENT") == (done.witness is not None), name
    return verdicts


@pytest.mark.parametrize("config", ["nano", "base"])
def test_a_slice_of_the_faults(config: str) -> None:
    verdicts = campaign(config, 12, 250, 1)
    assert verdicts["DIFFERENT"]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_seeded_faults(seed: int) -> None:
    """500 in all, and 10,000 inputs."""
    verdicts = campaign(("nano", "base")[seed % 2], 50, 10_000, 100 + seed)
    assert verdicts["DIFFERENT"] > 5
