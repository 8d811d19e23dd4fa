"""What a model remembers is quantized as what it reads again."""

import numpy as np
import pytest

from tosaic import InputError, Session
from tosaic.compiler.ir import DType, Graph, GraphBuilder, State
from tosaic.driver.quantize import quantize_graph

FLOAT = DType.FP32


def leaky(first: float = 0.5) -> Graph:
    """total = 0.9 total + x, and what it gives is its double."""
    build = GraphBuilder()
    x, total = build.input("x", (1, 8), FLOAT), build.input("total", (1, 8), FLOAT)
    share, zero = build.constant(np.full((1, 1), 0.9), FLOAT), build.constant([0], DType.INT8)
    following = build.add("ADD", [build.add("MUL", [total, share, zero]), x], output="total.next")
    build.output(build.add("ADD", [following, following]))
    build.graph.outputs.append(following)
    build.graph.states["total"] = State(following, np.full((1, 8), first, np.float32))
    return build.finish()


def test_states_stay_states_on_one_grid() -> None:
    random = np.random.default_rng(1)
    # What is kept is larger than what the calibration read.
    samples = {"x": random.normal(0, 1, (64, 1, 8)), "total": random.normal(0, 2, (64, 1, 8))}
    found = quantize_graph(leaky(), {n: v.astype(np.float32) for n, v in samples.items()}).result
    assert found.inputs["total"] == found.outputs["total.next"]
    assert list(found.graph.states) == ["total"]
    session, total = Session(found, "emulator", "nano"), np.full((1, 8), 0.5)
    for _ in range(6):
        x = random.normal(0, 0.5, (1, 8))
        session.run({"x": found.inputs["x"].quantize(x)}, check=True)
        total = 0.9 * total + x
        np.testing.assert_allclose(
            found.inputs["total"].dequantize(session.state["total"]),
            total,
            atol=3 * found.inputs["total"].scale,
        )


def test_a_state_begins_as_the_integer_of_its_number() -> None:
    samples = {"x": np.ones((4, 1, 8), np.float32), "total": np.full((4, 1, 8), -3, np.float32)}
    found = quantize_graph(leaky(-2.0), samples).result
    initial = found.graph.states["total"].initial
    assert initial.dtype == np.int8
    np.testing.assert_array_equal(initial, found.inputs["total"].quantize(np.full((1, 8), -2.0)))


def test_outputs_of_16_bits_and_what_is_left_of_8() -> None:
    build = GraphBuilder()
    x, before = (build.input(name, (1, 4), DType.FP32) for name in ("x", "before"))
    after = build.add("ADD", [x, before], output="after")
    build.output(build.add("TANH", [after], output="y"))
    build.graph.outputs.append(after)
    build.graph.states["before"] = State(after, np.zeros((1, 4), np.float32))
    random = np.random.default_rng(0)
    samples = {name: random.uniform(-1, 1, (16, 1, 4)).astype(np.float32) for name in ("x", "before")}
    graph = build.finish()
    found = quantize_graph(graph, samples, outputs="int16").result
    types = {name: encoding.dtype for name, encoding in found.outputs.items()}
    assert types == {"y": DType.INT16, "after": DType.INT8}
    plain = quantize_graph(graph, samples).result
    assert {encoding.dtype for encoding in plain.outputs.values()} == {DType.INT8}
    with pytest.raises(InputError, match="^outputs cannot be 'int32'; use one of int8, int16$"):
        quantize_graph(graph, samples, outputs="int32")
