"""MATMULs whose operands a TRANSPOSE makes: the TRANSPOSE needs no layer where strides say where the elements are."""

import dataclasses

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds
from rtl_configs import on_rtl

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.strided import strided
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

BASE = get_config("base")
TINY = dataclasses.replace(get_config("small"), name="tiny", am_bytes=1 << 11, wm_bytes=1 << 10)


def transposed(build, name, shape, perms):
    """An input of the type [tokens, heads, depth], in some order of its axes."""
    stored = [0] * len(perms)
    for axis, source in enumerate(perms):
        stored[source] = shape[axis]
    return build.add("TRANSPOSE", [build.input(name, tuple(stored), DType.INT8)], perms=list(perms))


def product(build, a, b, a_zp=0, b_zp=0):
    zero_points = [build.zero_point(DType.INT8, zp) for zp in (a_zp, b_zp)]
    return build.add("MATMUL", [a, b, *zero_points])


def heads(tokens=21, count=3, depth=20):
    """Attention's two products, with the heads of queries, keys and values side by side in memory."""
    build = LayerBuilder(5)
    query, key, value = (
        build.add(
            "TRANSPOSE",
            [
                build.add(
                    "RESHAPE",
                    [
                        build.input(name, (1, tokens, count * depth), DType.INT8),
                        build.shape((1, tokens, count, depth)),
                    ],
                )
            ],
            perms=perms,
        )
        for name, perms in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
    )
    query, value = (build.add("RESHAPE", [x, build.shape((count, tokens, depth))]) for x in (query, value))
    key = build.add("RESHAPE", [key, build.shape((count, depth, tokens))])
    scores = build.rescale(product(build, query, key, 3, -4), DType.INT8, output_zp=2)
    build.output(build.rescale(product(build, scores, value, 2, 5), DType.INT8, output_zp=-1))
    return build.finish()


def operators(graph, config=BASE, **options):
    return [info.op for info in compile_graph(graph, config, **options).layers]


def test_heads_are_read_where_they_are():
    assert operators(heads()) == ["MATMUL", "MATMUL"]
    for config in (BASE, get_config("small"), get_config("nano"), TINY):
        assert_equal_to_golden(heads(), config, check_hazards=True)
    assert_equal_to_golden(heads(), BASE, check_hazards=True, keep_layers=True)
    assert_equal_to_golden(heads(), BASE, check_hazards=True, optimize=False)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.data())
@pytest.mark.nightly
def test_any_order_of_any_operand(data):
    n, h, c, w = (data.draw(st.sampled_from((1, 2, 3, 16, 19, 33)), label=name) for name in "nhcw")
    build = LayerBuilder(6)
    orders = st.none() | st.permutations(range(3))
    operands = []
    for name, shape in (("a", (n, h, c)), ("b", (n, c, w))):
        perms = data.draw(orders, label=name)
        if perms is None:
            operands.append(build.input(name, shape, DType.INT8))
        else:
            operands.append(transposed(build, name, shape, perms))
    y = product(build, *operands, data.draw(st.integers(-128, 127)), data.draw(st.integers(-128, 127)))
    build.output(build.rescale(y, data.draw(st.sampled_from((DType.INT8, DType.INT16)))))
    graph = build.finish()
    config = data.draw(st.sampled_from((BASE, get_config("small"), get_config("nano"), TINY)))
    assert_equal_to_golden(graph, config, feeds(graph, data.draw(st.integers(0, 9))), check_hazards=True)


@pytest.mark.parametrize("reader", ["output", "other", "same product"])
def test_a_transpose_that_others_read_stays(reader):
    build = LayerBuilder(7)
    x = transposed(build, "x", (2, 19, 19), (1, 0, 2))
    if reader == "output":
        build.output(x)
    if reader == "other":
        build.output(build.add("ABS", [build.add("CAST", [x], dtype=DType.INT32)]))
    other = x if reader == "same product" else build.input("other", (2, 19, 19), DType.INT8)
    build.output(product(build, x, other))
    graph = build.finish()
    assert "TRANSPOSE" in operators(graph)
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_rows_whose_bytes_lie_apart_are_transposed_first():
    build = LayerBuilder(8)
    a = transposed(build, "a", (2, 17, 20), (0, 2, 1))
    build.output(product(build, a, build.input("b", (2, 20, 18), DType.INT8)))
    assert operators(build.finish()) == ["TRANSPOSE", "MATMUL"]
    assert_equal_to_golden(build.finish(), "base")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_strides_name_every_element(data):
    shape = tuple(data.draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=2, max_size=5)))
    build = LayerBuilder(9)
    perms = list(data.draw(st.permutations(range(len(shape)))))
    x = build.add("TRANSPOSE", [build.input("x", shape, DType.INT8)], perms=perms)
    turned = build.graph.tensors[x].shape
    sizes = [n for n in turned if data.draw(st.booleans()) or n > 1]
    cut = data.draw(st.integers(0, len(sizes)))
    joined = (*sizes[:cut], int(np.prod(sizes[cut:])))
    y = build.add("RESHAPE", [x, build.shape(joined)])
    seen = strided(build.graph, build.graph.index(), y)
    if seen is None:
        return
    values = np.arange(int(np.prod(shape))).reshape(shape)
    wanted = values.transpose(perms).reshape(joined)
    index = sum(
        np.arange(n).reshape((n, *(1,) * (len(joined) - 1 - i))) * s
        for i, (n, s) in enumerate(zip(joined, seen.strides, strict=True))
    )
    np.testing.assert_array_equal(np.broadcast_to(index, joined), wanted)


@pytest.mark.parametrize("config", [on_rtl(name) for name in ("small", "base")])
def test_rtl(config):
    cycles = {}
    for target in ("sim", "emulator"):
        session = Session(heads(), target, config)
        session.run(feeds(heads(), 2), check=True)
        cycles[target] = session.stats["cycles"]
    assert cycles["emulator"] == pytest.approx(cycles["sim"], rel=0.03)
