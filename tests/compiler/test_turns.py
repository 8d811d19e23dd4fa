"""A large batch is a loop: one body for some samples, which runs in turns."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.batches import compile_batch
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.batched import batched
from tosaic.compiler.program import Program
from tosaic.driver.session import Session
from tosaic.driver.verification import verify_program
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate


def network(size: int = 6, layers: int = 1) -> Graph:
    """Convolutions with two inputs, and two outputs of different types."""
    build = LayerBuilder(8)
    y, other = build.input("x", (1, size, size, 5), DType.INT8), build.input("y", (1, 3), DType.INT32)
    for _ in range(layers):
        y = build.rescale(build.conv(y, 5, (3, 3), pad=(1, 1, 1, 1)), DType.INT8, per_channel=True)
    build.output(y)
    build.output(build.add("ADD", [other, build.constant(np.array([[7, -7, 1 << 20]]), DType.INT32)]))
    return build.finish()


def assert_each_sample(graph: Graph, program: Program, samples: int, target: str = "emulator") -> Session:
    session = Session(program, target=target)
    parts = [feeds(graph, seed) for seed in range(samples)]
    got = session.run({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    wanted = [evaluate(graph, part) for part in parts]
    for name, values in got.items():
        np.testing.assert_array_equal(values, np.concatenate([each[name] for each in wanted]))
    return session


@pytest.mark.parametrize("config", ["base", "nano", "small,am_bytes=8K"])
@pytest.mark.parametrize("together, turns", [(1, 2), (1, 3), (2, 4), (3, 7), (1, 16), (1, 17)])
def test_each_sample_is_computed_in_its_turn(together: int, turns: int, config: str) -> None:
    graph = network()
    program = compile_graph(batched(graph, together), get_config(config), turns=turns)
    verify_program(program)
    assert [port.shape[0] for port in program.inputs] == [together * turns] * 2
    assert_each_sample(graph, program, together * turns)


def test_inputs_larger_than_the_activation_memory() -> None:
    graph = network(size=60)
    program = compile_graph(batched(graph, 1), get_config("small,am_bytes=8K"), turns=3)
    assert_each_sample(graph, program, 3)


def test_a_program_does_not_grow_with_the_batch() -> None:
    graph, config = network(size=24, layers=12), get_config("nano")
    one = compile_graph(graph, config).program_bytes
    samples = 4 * (1 << 20) // one
    program = compile_batch(graph, samples - samples % 8, config)
    assert program.turns > 1
    assert program.program_bytes < 2 << 20
    assert Program.load(program.to_bytes()).turns == program.turns
    assert program.macs == (samples - samples % 8) * compile_graph(graph, config).macs


def test_a_small_batch_is_no_loop() -> None:
    program = compile_batch(network(), 8, get_config("base"))
    assert program.turns == 1
    assert_each_sample(network(), program, 8)


def test_states_and_layers_that_are_kept_are_no_loop() -> None:
    assert compile_batch(network(), 3, get_config("base"), keep_layers=True).kept


@pytest.mark.nightly
def test_on_the_rtl() -> None:
    graph = network()
    program = compile_graph(batched(graph, 2), get_config("base"), turns=3)
    cycles = [assert_each_sample(graph, program, 6, target).stats["cycles"] for target in ("emulator", "sim")]
    assert abs(cycles[0] - cycles[1]) <= 0.02 * cycles[1]
