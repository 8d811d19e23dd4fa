"""Operators that their sizes make idle cost what a RESHAPE costs: nothing."""

from collections.abc import Callable

import numpy as np
import pytest
from layer_graphs import feeds

from tosaic import Session
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.hw.config_text import get_config

SHAPE = (1, 6, 1, 32)


def between(add: Callable[[GraphBuilder, str], str], dtype: DType = DType.INT8) -> Graph:
    """The operator between two others."""
    build = GraphBuilder()
    x = build.input("x", SHAPE, dtype)
    zeros = [build.constant([0], DType.INT8) for _ in range(2)]

    def neighbour(name: str) -> str:
        return (
            build.add("LOGICAL_NOT", [name]) if dtype is DType.BOOL else build.add("NEGATE", [name, *zeros])
        )

    build.output(neighbour(add(build, neighbour(x))))
    return build.finish()


def reduction(op: str, dtype: DType, **attributes: str) -> Graph:
    return between(lambda build, x: build.add(op, [x], axis=0, **attributes), dtype)


IDLE = {
    "REVERSE": between(lambda build, x: build.add("REVERSE", [x], axis=2)),
    "SLICE": between(lambda build, x: build.add("SLICE", [x, build.shape([0] * 4), build.shape(SHAPE)])),
    "TILE": between(lambda build, x: build.add("TILE", [x, build.shape([1] * 4)])),
    "PAD": between(
        lambda build, x: build.add("PAD", [x, build.shape([0] * 8), build.constant([3], DType.INT8)])
    ),
    "CONCAT": between(lambda build, x: build.add("CONCAT", [x], axis=1)),
    "TRANSPOSE": between(lambda build, x: build.add("TRANSPOSE", [x], perms=[2, 1, 3, 0])),
    "MAX_POOL2D": between(
        lambda build, x: build.add(
            "MAX_POOL2D", [x], kernel=[1, 1], stride=[1, 1], pad=[0] * 4, nan_mode="PROPAGATE"
        )
    ),
    "REDUCE_MAX": reduction("REDUCE_MAX", DType.INT8, nan_mode="PROPAGATE"),
    "REDUCE_ALL": reduction("REDUCE_ALL", DType.BOOL),
}


@pytest.mark.parametrize("op", list(IDLE))
def test_an_idle_operator_is_no_layer(op: str) -> None:
    session = Session(IDLE[op], "emulator", "nano")
    session.run(feeds(IDLE[op], 1), check=True)
    assert op not in [layer["op"] for layer in session.stats["layers"]]


@pytest.mark.parametrize("op, perms", [("TRANSPOSE", [1, 0, 2, 3]), ("TRANSPOSE", [3, 1, 2, 0])])
def test_one_that_works_is_one(op: str, perms: list[int]) -> None:
    graph = between(lambda build, x: build.add(op, [x], perms=perms))
    Session(graph, "emulator", "nano").run(feeds(graph, 1), check=True)
    moves = perms == [3, 1, 2, 0]
    program = compile_graph(graph, get_config("nano"), optimize=False)
    assert (op in [layer.op for layer in program.layers]) is moves


def test_an_idle_operator_between_input_and_output() -> None:
    build = GraphBuilder()
    build.output(build.add("REVERSE", [build.input("x", (1, 5), DType.INT8)], axis=0))
    x = np.arange(5, dtype=np.int8)[None]
    (got,) = Session(build.finish(), "emulator", "nano").run({"x": x}, check=True).values()
    np.testing.assert_array_equal(got, x)
