"""Rotary embeddings: a layer for each half, that reads both where they lie; one stream brings them in turn."""

import dataclasses

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

LITTLE = dataclasses.replace(get_config("small"), name="small, 4 KiB", am_bytes=4096)
"""Holds hardly any tensor of these graphs: they are fetched box by box."""
CONFIGS = ["nano", "small", "base", LITTLE]


def rotary(tokens: int, heads: int, width: int, *, seed: int = 1, stored: DType = DType.INT8) -> Graph:
    """As exporters write it: x * cos + concat(-half, half) * sin, of 16 bits."""
    b = LayerBuilder(seed)
    x, half = b.input("x", (tokens, heads, width), DType.INT16), (tokens, heads, width // 2)
    low, high = (b.add("SLICE", [x, b.shape((0, 0, start)), b.shape(half)]) for start in (0, width // 2))
    wide = b.rescale(high, DType.INT32, shift=22)
    negated = b.add("NEGATE", [wide, b.zero_point(DType.INT32), b.zero_point(DType.INT32)])
    turned = b.add("CONCAT", [b.rescale(negated, DType.INT16, shift=40), low], axis=2)
    angles = [b.random_constant((tokens, 1, width), DType.INT16, -32768, 32767) for _ in range(2)]
    products = [
        b.rescale(b.add("MUL", [each, angle, b.zero_point(DType.INT8)]), DType.INT32, shift=34)
        for each, angle in zip((x, turned), angles, strict=True)
    ]
    y = b.add("ADD", products)
    b.output(y if stored is DType.INT32 else b.rescale(y, stored, shift=52))
    return b.finish()


def split(tokens: int, heads: int, width: int) -> Graph:
    """The same as two results, each of which reads both halves."""
    b, half = LayerBuilder(2), (tokens, heads, width)
    x = b.input("x", (tokens, heads, 2 * width), DType.INT16)
    parts = [b.add("SLICE", [x, b.shape((0, 0, start)), b.shape(half)]) for start in (0, width)]
    lines = [b.random_constant((tokens, 1, width), DType.INT16, -999, 999) for _ in range(2)]
    products = [
        b.add("MUL", [each, line, b.zero_point(DType.INT8)]) for each, line in zip(parts, lines, strict=True)
    ]
    b.output(b.rescale(b.add("SUB", products), DType.INT8, shift=46))
    return b.finish()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: getattr(each, "name", each))
@pytest.mark.parametrize("shape", [(20, 3, 64), (1, 2, 32), (5, 1, 70), (130, 2, 6)], ids=str)
def test_halves_equal_golden(shape, config):
    graph = rotary(*shape)
    assert_equal_to_golden(graph, config, feeds(graph, 3))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda each: getattr(each, "name", each))
def test_one_stream_brings_both_halves(config):
    graph = split(9, 4, 48)
    assert_equal_to_golden(graph, config, feeds(graph, 4))


def test_a_layer_for_each_half():
    program = compile_graph(rotary(20, 3, 64), get_config("base"))
    assert [layer.op for layer in program.layers] == ["RESCALE", "RESCALE", "CONCAT"]
    assert [layer.op for layer in compile_graph(split(9, 4, 48), get_config("base")).layers] == ["RESCALE"]


def test_wide_results_are_put_together_first():
    """Four bytes in place of two would be copied."""
    program = compile_graph(rotary(20, 3, 64, stored=DType.INT32), get_config("base"))
    assert [layer.op for layer in program.layers][-1] != "CONCAT"


def test_cycles_of_a_rotary_embedding():
    """127,239 in five layers."""
    graph = rotary(128, 9, 64)
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    assert session.stats["cycles"] <= 76_000


@pytest.mark.xdist_group("nano")
def test_on_the_rtl():
    graph = rotary(3, 2, 20)
    session = Session(graph, "sim", "nano")
    session.run(feeds(graph, 5), check=True)
