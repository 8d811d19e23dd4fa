"""Recurrences: all steps have one set of weights, tables and scales, in the graph, in memory and in the machine."""

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, samples, worst_db

from tosaic.compiler.build import compile_graph
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.recurrent import gru_output, lstm_cell, split, stacked, unroll, zeros
from tosaic.compiler.ir import Graph
from tosaic.compiler.quantizer import steps_of_recurrences
from tosaic.compiler.quantizer.canonical import canonical
from tosaic.compiler.quantizer.tables import pieces
from tosaic.driver.quantize.quantization import calibrate, evaluate_constant
from tosaic.driver.quantize.samples import split_samples
from tosaic.hw.config_text import get_config

FEATURES, CLASSES = 6, 3


def lstm(times: int, batch: int, hidden: int, *, outputs: bool = False, reverse: bool = False) -> Graph:
    """x [times, batch, features] to a linear layer of the last state, or of all."""
    low = Floats()
    x = low.input("x", (times, batch, FEATURES))
    sums = matmul(low, x, low.normal(FEATURES, 4 * hidden, scale=0.4))
    recurrent, bias = low.normal(hidden, 4 * hidden, scale=hidden**-0.5), low.normal(4 * hidden, scale=0.2)

    def step(x_t: str, states: list[str]) -> list[str]:
        return lstm_cell(low, [low.add(x_t, low.add(matmul(low, states[0], recurrent), bias))], states[1])

    states = [zeros(low, (batch, hidden), x)] * 2
    each, (last, _) = unroll(low, sums, states, step, reverse=reverse)
    return low.finish(matmul(low, stacked(low, each) if outputs else last, low.normal(hidden, CLASSES)))


def gru(times: int, batch: int, hidden: int) -> Graph:
    """The reset gate before the recurrent product."""
    low = Floats()
    x = low.input("x", (times, batch, FEATURES))
    sums = matmul(low, x, low.normal(FEATURES, 3 * hidden, scale=0.5))
    gates, new = low.normal(hidden, 2 * hidden, scale=0.3), low.normal(hidden, hidden, scale=0.3)

    def step(x_t: str, states: list[str]) -> list[str]:
        (h,) = states
        update, reset, x_new = split(low, x_t, 3)
        h_update, h_reset = split(low, matmul(low, h, gates), 2)
        z, r = (low.op("TANH", low.add(a, b)) for a, b in ((update, h_update), (reset, h_reset)))
        inner = matmul(low, low.times(low.add(low.mul(r, h), h), 0.5), new)
        return [gru_output(low, z, low.op("TANH", low.add(x_new, inner)), h)]

    _, (last,) = unroll(low, sums, [zeros(low, (batch, hidden), x)], step)
    return low.finish(matmul(low, last, low.normal(hidden, CLASSES)))


@pytest.mark.parametrize(
    ("graph", "least_db"),
    [
        (lstm(5, 1, 16), 33),
        (lstm(4, 2, 10), 33),
        (lstm(4, 1, 7, outputs=True, reverse=True), 30),
        (gru(5, 1, 16), 33),
        (gru(3, 2, 5), 33),
    ],
    ids=["LSTM", "batch of 2, 10 wide", "outputs, backwards", "GRU", "GRU, batch of 2"],
)
def test_integers_equal_golden_and_are_near_the_floats(graph: Graph, least_db: float):
    quantization = quantize_graph(graph, samples(graph))
    assert worst_db(quantization) > least_db
    run_everywhere(quantization)


def test_every_step_has_the_same_weights_and_tables():
    graph = quantize_graph(lstm(6, 1, 16), samples(lstm(6, 1, 16))).graph
    recurrent = {
        graph.tensors[op.inputs[1]].data.tobytes()
        for op in graph.operators
        if op.op == "CONV2D" and graph.tensors[op.inputs[1]].shape == (64, 1, 1, 16)
    }
    tables = {graph.tensors[op.inputs[1]].data.tobytes() for op in graph.operators if op.op == "TABLE"}
    assert len(recurrent) == 1
    # tanh alone, for gates and cells.
    assert len(tables) == 1


@pytest.mark.parametrize("largest, by_channel", [(1.0, False), (1.2, False), (8.0, True)])
def test_even_weights_of_steps_have_one_scale(largest: float, by_channel: bool):
    """And no biases, of which there were none: the sums of a step then need no parameters of their channels. Weights
    that are much smaller in most channels than in one would lose too much."""
    low, hidden = Floats(), 16
    x = low.input("x", (4, 1, FEATURES))
    sums = matmul(low, x, low.normal(FEATURES, hidden, scale=0.4))
    size = np.ones(hidden)
    size[3] = largest
    even = np.random.default_rng(3).uniform(-0.3, 0.3, (hidden, hidden))
    weights = low.constant(even * size, low.dtype(x))

    def step(x_t: str, states: list[str]) -> list[str]:
        return [low.op("TANH", low.add(x_t, matmul(low, states[0], weights)))]

    _, (last,) = unroll(low, sums, [zeros(low, (1, hidden), x)], step)
    quantization = quantize_graph(graph := low.finish(last), samples(graph))
    found, index = quantization.graph, quantization.graph.index()
    steps = [
        op for op in found.operators if op.op == "CONV2D" and found.tensors[op.inputs[1]].shape[-1] == hidden
    ]
    assert len(steps) == 3
    for op in steps:
        (reader,) = index.consumers(op.outputs[0])
        while reader.op == "RESHAPE":
            (reader,) = index.consumers(reader.outputs[0])
        assert reader.op == "RESCALE"
        assert (len(set(found.tensors[reader.inputs[1]].data.tolist())) > 1) == by_channel
    assert all(found.tensors[op.inputs[2]].data.any() == by_channel for op in steps)
    assert worst_db(quantization) > 30


def test_more_steps_take_no_more_weights():
    programs = []
    for times in (4, 8):
        graph = lstm(times, 1, 16)
        programs.append(compile_graph(quantize_graph(graph, samples(graph)).graph, get_config("base")))
    short, long = ([weights.bytes for weights in program.weights] for program in programs)
    # Of the input, of the state, and of the last layer.
    assert long == short == [1024, 1024, 256]


def test_steps_are_found_by_their_weights():
    graph = canonical(lstm(4, 1, 8), evaluate_constant)
    statistics = calibrate(graph, split_samples(graph, samples(graph)))
    groups = steps_of_recurrences(graph, statistics)
    producers = {name: op for op in graph.operators for name in op.outputs}
    tanhs = [name for name, op in producers.items() if op.op == "TANH" and op.outputs == [name]]
    gates = [name for name in tanhs if graph.tensors[name].shape == (1, 32)]
    cells = [name for name in tanhs if graph.tensors[name].shape == (1, 8)]
    # Nothing is recurrent in the first step: its state is a constant.
    assert sorted(gates[1:]) in [sorted(set(group) & set(gates)) for group in groups]
    assert sorted(cells) in [sorted(set(group) & set(cells)) for group in groups]
    for group in groups:
        assert len({statistics.range(name) for name in group}) == 1


def test_layers_that_share_weights_side_by_side_are_no_recurrence():
    low = Floats()
    weights, parts = low.normal(8, 8), []
    for name in ("x", "y"):
        parts.append(matmul(low, low.input(name, (1, 4, 8)), weights))
    graph = canonical(low.finish(low.add(*parts)), evaluate_constant)
    statistics = calibrate(graph, split_samples(graph, samples(graph)))
    assert steps_of_recurrences(graph, statistics) == []


@pytest.mark.parametrize("largest", [0.5, 2.0, 30.0])
def test_one_table_holds_a_tanh_whatever_was_seen(largest):
    (part,) = pieces(np.tanh, -largest, largest)
    assert (part.low, part.high) == (-8.0, 8.0)


def test_a_tanh_of_tiny_numbers_keeps_its_steps():
    (part,) = pieces(np.tanh, -0.01, 0.01)
    assert part.high < 0.1
