"""MUL of INT32_MIN by itself with a shift of 63: what rounds up to 2^63 in 64 bits is the same everywhere."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType
from tosaic.compiler.ir.building import GraphBuilder
from tosaic.driver.session import Session
from tosaic.sim.golden import evaluate

LEAST = -(1 << 31)


@pytest.mark.xdist_group("nano")
@pytest.mark.parametrize("target", ["emulator", "sim"])
@pytest.mark.parametrize("shift", [62, 63])
def test_the_least_number_squared(target, shift):
    build = GraphBuilder("least")
    a, b = build.input("a", (4,), DType.INT32), build.input("b", (4,), DType.INT32)
    build.output(build.add("MUL", [a, b, build.constant(np.array([shift]), DType.INT8)]))
    graph = build.finish()
    values = {
        "a": np.array([LEAST, LEAST, LEAST + 1, 5], np.int32),
        "b": np.array([LEAST, LEAST + 1, LEAST, -7], np.int32),
    }
    (name,) = graph.outputs
    found = Session(graph, target, "nano").run(values)[name]
    np.testing.assert_array_equal(found, evaluate(graph, values)[name])
