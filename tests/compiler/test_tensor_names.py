"""A tensor's name changes nothing in a program: names and roles are different things to the compiler."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

NAMES = ("parameters", "window of x", "operand 0: x", "operand 1: x", "y'", "")


def renamed(graph: Graph, old: str, new: str) -> Graph:
    graph = graph.copy()
    tensor = graph.tensors.pop(old)
    tensor.name = new
    graph.tensors[new] = tensor
    for operator in graph.operators:
        operator.inputs = [new if name == old else name for name in operator.inputs]
        operator.outputs = [new if name == old else name for name in operator.outputs]
    graph.inputs = [new if name == old else name for name in graph.inputs]
    graph.outputs = [new if name == old else name for name in graph.outputs]
    return graph


def wide_convolution() -> Graph:
    """A convolution whose parameters do not fit a quarter of the smallest memory: boxes bring their own."""
    build = LayerBuilder(3)
    x = build.input("x", (1, 8, 8, 4), DType.INT8)
    weights = build.constant(build.random.integers(-128, 128, (1024, 1, 1, 4)), DType.INT8)
    bias = build.constant(build.random.integers(-1000, 1000, 1024), DType.INT32)
    zeros = [build.zero_point(DType.INT8), build.zero_point(DType.INT8)]
    attributes = dict(pad=[0, 0, 0, 0], stride=[1, 1], dilation=[1, 1])
    sums = build.add(
        "CONV2D", [x, weights, bias, *zeros], acc_type=DType.INT32, local_bound=False, **attributes
    )
    build.output(build.rescale(sums, DType.INT8, per_channel=True))
    return build.finish()


def broadcast_sum() -> Graph:
    """A sum of a tensor with a part of its shape, in boxes."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 40, 40, 16), DType.INT32)
    row = build.input("row", (1, 1, 40, 16), DType.INT32)
    build.output(build.add("ADD", [x, row]))
    return build.finish()


@pytest.mark.long
@pytest.mark.parametrize("make", [wide_convolution, broadcast_sum])
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_the_output_changes_nothing(make, name: str) -> None:
    graph, config = make(), get_config("nano")
    plain = compile_graph(graph, config)
    other = compile_graph(renamed(graph, graph.outputs[0], name), config)
    assert other.image == plain.image


@pytest.mark.long
def test_an_output_called_parameters_is_computed_right() -> None:
    graph = wide_convolution()
    graph = renamed(graph, graph.outputs[0], "parameters")
    x = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 4)).astype(np.int8)
    Session(compile_graph(graph, get_config("nano")), "emulator").run({"x": x})
    Session(graph, "emulator", "nano").run({"x": x}, check=True)
