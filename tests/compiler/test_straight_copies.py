"""Layout operators whose sources LOAD brings to their places in the result: VECTOR copies nothing."""

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, decode


def cache(build, token=1, width=64):
    """A cache of 3 heads with another token behind it."""
    old, new = (build.input(name, (1, 3, n, width), DType.INT8) for name, n in (("old", 20), ("new", token)))
    return build.add("CONCAT", [old, new], axis=2)


def slice_of(build, size=(1, 5, 64)):
    x = build.input("x", (2, 9, 64), DType.INT8)
    return build.add("SLICE", [x, build.shape((1, 3, 0)), build.shape(size)])


def padded(build):
    x = build.input("x", (2, 7, 64), DType.INT8)
    return build.add("PAD", [x, build.shape((0, 0, 1, 2, 0, 0)), build.constant([-5], DType.INT8)])


def turned(build):
    """Rows of 64 bytes in another order; a GO reads them in their own, too."""
    x = build.input("x", (1, 6, 5, 64), DType.INT8)
    build.output(build.clamp(x, -5, 5))
    return build.add("TRANSPOSE", [x], perms=[0, 2, 1, 3])


def graph_of(make):
    build = LayerBuilder(4)
    # Something computes with the result, so that it is worth to have it here.
    build.output(build.clamp(make(build), -100, 100))
    return build.finish()


def copies(graph, config="base"):
    """VECTOR_GOs of the program beside the last layer's one."""
    program = compile_graph(graph, get_config(config))
    raw = program.image[program.program_address :][: program.program_bytes]
    found = [decode(raw[start : start + 16]).opcode for start in range(0, len(raw), 16)]
    return found.count(Opcode.VECTOR_GO) - 1


@pytest.mark.parametrize("make, gos", [(cache, 0), (slice_of, 0), (padded, 2), (turned, 2)])
@pytest.mark.parametrize("config", ["base", "small", "nano"])
def test_results_are_those_of_golden(make, gos, config):
    """A PAD still fills what is around its input. Rows that go to two axes apart take more than one command."""
    graph = graph_of(make)
    if config == "base":
        assert copies(graph) == gos
    assert_equal_to_golden(graph, config, check_hazards=True)


def test_short_rows_are_copied_by_vector():
    """A burst for each row of 8 bytes would take longer."""
    graph = graph_of(lambda build: cache(build, width=8))
    assert copies(graph) > 0
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_a_source_that_others_read_is_brought_once():
    build = LayerBuilder(4)
    x, y = (build.input(name, (1, 3, 20, 64), DType.INT8) for name in "xy")
    build.output(build.clamp(build.add("CONCAT", [x, y], axis=2), -100, 100))
    build.output(build.clamp(x, -5, 5))
    graph = build.finish()
    assert_equal_to_golden(graph, "base", check_hazards=True)


def test_the_same_source_twice():
    build = LayerBuilder(4)
    x = build.input("x", (1, 3, 20, 64), DType.INT8)
    build.output(build.clamp(build.add("CONCAT", [x, x], axis=2), -100, 100))
    assert_equal_to_golden(build.finish(), "base", check_hazards=True)


def test_a_result_that_does_not_fit():
    build = LayerBuilder(4)
    x, y = (build.input(name, (1, 3, 700, 64), DType.INT8) for name in "xy")
    build.output(build.clamp(build.add("CONCAT", [x, y], axis=2), -100, 100))
    assert_equal_to_golden(build.finish(), "small", check_hazards=True)
