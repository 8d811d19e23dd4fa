"""Queries of a decoder, a few at a time, with its cache of keys: these are multiplied as they are stored."""

import numpy as np
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session


def _cycles(queries: int, *, turned: bool) -> int:
    """Cycles of three heads with 2,048 keys of 64 bytes; `turned`: the keys come as the product reads them."""
    build = LayerBuilder(4)
    x = build.input("x", (3, queries, 64), DType.INT8)
    if turned:
        keys = build.input("keys", (3, 64, 2048), DType.INT8)
    else:
        keys = build.add("TRANSPOSE", [build.input("keys", (3, 2048, 64), DType.INT8)], perms=[0, 2, 1])
    zeros = [build.zero_point(DType.INT8, value) for value in (3, -7)]
    build.output(build.rescale(build.add("MATMUL", [x, keys, *zeros]), DType.INT16))
    session = Session(build.finish(), "emulator", "base")
    random = np.random.default_rng(5)
    feed = {each.name: random.integers(-128, 128, each.shape).astype(np.int8) for each in session.inputs}
    session.run(feed, check=True)
    return session.stats["cycles"]


def test_nothing_is_packed() -> None:
    assert _cycles(3, turned=False) < 0.6 * _cycles(3, turned=True)


def test_of_many_rows_the_matrix_is_packed() -> None:
    assert _cycles(64, turned=False) <= 1.4 * _cycles(64, turned=True)


def test_a_cache_that_grows_by_a_row_goes_through_once() -> None:
    """The keys before and a new one: what comes goes out again, and VECTOR has nothing to do with it."""
    build = LayerBuilder(4)
    old, new = build.input("old", (3, 4095, 64), DType.INT8), build.input("new", (3, 1, 64), DType.INT8)
    build.output(build.add("CONCAT", [old, new], axis=1))
    session = Session(build.finish(), "emulator", "base")
    random = np.random.default_rng(5)
    feed = {each.name: random.integers(-128, 128, each.shape).astype(np.int8) for each in session.inputs}
    session.run(feed, check=True)
    one_way_cycles = 3 * 4096 * 64 // 16
    assert session.stats["cycles"] < 1.2 * one_way_cycles
