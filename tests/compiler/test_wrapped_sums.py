"""Sums of int32 in another order than the specification's: what is added up first may leave 32 bits, the result does
not."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

import tosaic
from tosaic import Session
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config

ROWS = 40
"""Added up in two passes: first rows that lie 8 apart."""


def summed(what: str) -> Graph:
    build = LayerBuilder(1)
    total = build.add("REDUCE_SUM", [build.input("x", (ROWS, 5), DType.INT32)], axis=0)
    number = build.constant(np.full((1, 1), 3), DType.INT32)
    extra = {"round": False} if what == "ARITHMETIC_RIGHT_SHIFT" else {}
    build.output(build.add(what, [total, number], **extra))
    return build.finish()


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        ("GREATER", True),
        ("GREATER_EQUAL", True),
        ("EQUAL", False),
        ("MINIMUM", 3),
        ("MAXIMUM", 9),
        ("ARITHMETIC_RIGHT_SHIFT", 1),
        ("SUB", 6),
    ],
)
def test_partial_sums_may_leave_32_bits(what: str, wanted: int, config: str) -> None:
    """Each sum of the first rows lies in 32 bits, as the specification demands; that of every eighth row does not."""
    rows = np.zeros((ROWS, 5), np.int32)
    rows[0::8], rows[1::8], rows[2::8], rows[3] = 1 << 29, -(1 << 28), -(1 << 28), 9
    graph = summed(what)
    program = compile_graph(graph, get_config(config))
    with Session(graph, "golden") as golden, Session(program, "emulator") as emulator:
        results = [session.run({"x": rows}) for session in (golden, emulator)]
    for outputs in results:
        (values,) = outputs.values()
        assert (values == wanted).all()
    assert tosaic.certify(graph, program).verdict == "EQUAL"
