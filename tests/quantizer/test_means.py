"""Streams that only norms read lose their means once, in what is added to them."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.quantize import quantize_graph
from tosaic.sim.golden import evaluate

ROWS, CHANNELS, BLOCKS, REAL = 6, 16, 3, DType.FP32


class Blocks:
    """A stream that begins with a curve of the input and to which blocks behind norms are added."""

    def __init__(self) -> None:
        self.build, self.random = GraphBuilder(), np.random.default_rng(3)

    def constant(self, values: np.ndarray) -> str:
        return self.build.constant(np.asarray(values, np.float32), REAL)

    def number(self, value: float) -> str:
        return self.constant(np.full((1, 1, 1), value))

    def mul(self, a: str, b: str) -> str:
        return self.build.add("MUL", [a, b, self.build.constant([0], DType.INT8)])

    def mean(self, x: str) -> str:
        return self.mul(self.build.add("REDUCE_SUM", [x], axis=2), self.number(1 / CHANNELS))

    def norm(self, x: str) -> str:
        x = self.build.add("SUB", [x, self.mean(x)])
        variance = self.build.add("ADD", [self.mean(self.mul(x, x)), self.number(1e-5)])
        return self.mul(x, self.build.add("RSQRT", [variance]))

    def matrix(self, x: str) -> str:
        weights = self.random.normal(0.2, CHANNELS**-0.5, (1, CHANNELS, CHANNELS))
        zeros = [self.constant(np.zeros(1)) for _ in range(2)]
        product = self.build.add("MATMUL", [x, self.constant(weights), *zeros])
        return self.build.add("ADD", [product, self.constant(self.random.normal(1, 1, (1, 1, CHANNELS)))])

    def graph(self, read_by_others: bool) -> Graph:
        x = self.build.input("x", (1, ROWS, CHANNELS), REAL)
        stream = self.build.add("TANH", [x])
        stream = self.build.add("ADD", [stream, self.constant(self.random.normal(2, 1, (1, ROWS, CHANNELS)))])
        for _ in range(BLOCKS):
            stream = self.build.add("ADD", [stream, self.matrix(self.norm(stream))])
        self.build.output(self.build.add("IDENTITY", [self.matrix(self.norm(stream))], output="y"))
        if read_by_others:
            self.build.output(self.build.add("SIGMOID", [stream], output="seen"))
        return self.build.finish()


@pytest.mark.parametrize("read_by_others", [False, True])
def test_one_mean_is_left_where_only_norms_read(read_by_others: bool) -> None:
    graph = Blocks().graph(read_by_others)
    samples = np.random.default_rng(0).normal(0, 1, (16, 1, ROWS, CHANNELS)).astype(np.float32)
    found = quantize_graph(graph, {"x": samples}, outputs="int16").result
    # One for each variance, one for each mean.
    sums = sum(op.op == "REDUCE_SUM" for op in found.graph.operators)
    assert sums == (2 * (BLOCKS + 1) if read_by_others else BLOCKS + 1 + 1)
    x = np.random.default_rng(1).normal(0, 1, (1, ROWS, CHANNELS)).astype(np.float32)
    wanted = evaluate(graph, {"x": x})
    integers = evaluate(found.graph, {"x": found.inputs["x"].quantize(x)})
    for name, encoding in found.outputs.items():
        error = encoding.dequantize(integers[name]) - wanted[name]
        assert np.square(error).mean() < 1e-3 * np.square(wanted[name]).mean(), name
