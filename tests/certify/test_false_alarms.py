"""Graphs of random campaigns that were not EQUAL once: small ones of each kind."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

import tosaic
from tosaic.compiler.ir import DType, Graph


def scalars() -> Graph:
    """int32 without axes, of which REQUIREs bound the sums, and then limits."""
    build = LayerBuilder(1)
    x, y = build.input("x", (), DType.INT32), build.input("y", (), DType.INT32)
    total = build.add("SUB", [build.add("ADD", [x, y]), y])
    for op, limit in (("MAXIMUM", -7), ("MINIMUM", 900)):
        total = build.add(op, [total, build.constant(np.array(limit), DType.INT32)])
    build.output(total)
    build.output(build.add("MAXIMUM", [build.add("ABS", [build.add("ADD", [x, y])]), x]))
    return build.finish()


def uniform(shape: tuple[int, ...]) -> Graph:
    """A limit that is one number everywhere, in a tensor of elements."""
    build = LayerBuilder(2)
    dtype = DType.INT32
    x = build.input("x", (3, 5), dtype)
    limit = build.constant(np.full(shape, 11), dtype)
    build.output(build.add("MINIMUM", [limit, x]))
    build.output(build.add("MAXIMUM", [build.add("MINIMUM", [x, build.input("y", (3, 5), dtype)]), limit]))
    return build.finish()


@pytest.mark.parametrize("config", ["nano", "base"])
def test_terms_without_axes(config: str) -> None:
    done = tosaic.certify(scalars(), config=config)
    assert (done.verdict, done.reason) == ("EQUAL", "")


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (3, 1)])
def test_limits_that_are_one_number(shape: tuple[int, ...], config: str) -> None:
    done = tosaic.certify(uniform(shape), config=config)
    assert (done.verdict, done.reason) == ("EQUAL", "")
