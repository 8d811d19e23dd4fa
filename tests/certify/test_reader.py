"""The second reader of TOSA, on inputs that are constants, computes what golden computes."""

import collections

import numpy as np
from reading import assert_as_golden, is_integer

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.ir.examples import examples
from tosaic.sim.terms import READERS

SMALL = 1 << 20
CONTROL = {"COND_IF", "WHILE_LOOP"}
"""Read without a reader of their own."""


def values_of(graph: Graph, number: int) -> dict[str, np.ndarray]:
    """Inputs that end types as often as not."""
    rng, values = np.random.default_rng(number), {}
    for name in graph.inputs:
        tensor = graph.tensor(name)
        low, high = (0, 1) if tensor.dtype is DType.BOOL else (int(tensor.dtype.min), int(tensor.dtype.max))
        if number and high > SMALL:
            # Of other numbers nearly every sum is one that the specification leaves open.
            low, high = -SMALL, SMALL
        drawn = rng.integers(low, high, tensor.shape, endpoint=True)
        ends = rng.choice(np.array([low, high, 0, min(high, 3)]), tensor.shape)
        values[name] = np.where(rng.random(tensor.shape) < 0.5, drawn, ends).astype(tensor.dtype.numpy)
    return values


def test_every_operator_and_mode_as_golden() -> None:
    compared = collections.Counter[str]()
    for example in examples():
        graph = example.graph
        if not is_integer(graph):
            continue
        operator = graph.operators[-1].op
        compared[operator] += sum(assert_as_golden(graph, values_of(graph, k)) for k in range(3))
    assert READERS.keys() | CONTROL == compared.keys()
    assert min(compared.values()) > 0


def test_what_has_no_reader() -> None:
    assert "CUSTOM" not in READERS
