"""The second reader of TOSA, on inputs that are constants, computes what golden computes."""

import collections

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.ir.examples import examples
from tosaic.errors import UnpredictableError
from tosaic.sim.golden import evaluate
from tosaic.sim.terms import READERS, Algebra, UndecidedError
from tosaic.sim.terms import evaluate as read

SMALL = 1 << 20
WITHOUT_READER = {"ARGMAX", "COND_IF", "CUSTOM", "INTDIV", "WHILE_LOOP"}
"""Operators that `certify` does not decide."""


def is_integer(graph: Graph) -> bool:
    return all(
        tensor.dtype.is_integer or tensor.dtype in (DType.BOOL, DType.SHAPE)
        for tensor in graph.tensors.values()
    )


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


def assert_as_golden(graph: Graph, values: dict[str, np.ndarray]) -> bool:
    """Whether the specification says what comes out."""
    try:
        wanted = evaluate(graph, values, strict=True)
    except UnpredictableError:
        return False
    algebra = Algebra(entropy=1)
    given = {name: algebra.constant(value.astype(np.int64)) for name, value in values.items()}
    outputs = read(graph, given, algebra).outputs
    for name, value in wanted.items():
        assert outputs[name].constant
        np.testing.assert_array_equal(outputs[name].low, value)
    return True


def test_every_operator_and_mode_as_golden() -> None:
    compared, missing = collections.Counter[str](), set[str]()
    for example in examples():
        graph = example.graph
        if not is_integer(graph):
            continue
        operator = graph.operators[-1].op
        try:
            compared[operator] += sum(assert_as_golden(graph, values_of(graph, k)) for k in range(3))
        except UndecidedError:
            missing.add(operator)
    assert missing == WITHOUT_READER - {"CUSTOM"}
    assert READERS.keys() == compared.keys()
    assert min(compared.values()) > 0


@pytest.mark.parametrize("operator", sorted(WITHOUT_READER))
def test_what_has_no_reader(operator: str) -> None:
    assert operator not in READERS
