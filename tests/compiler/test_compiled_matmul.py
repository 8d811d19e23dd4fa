"""MATMUL int8 on the emulator, with the race check, equal golden."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.compiler.ir.errors import UnsupportedError
from tosaic.hw.config import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

BASE, NANO = get_config("base"), get_config("nano")
TINY = dataclasses.replace(BASE, am_bytes=4 << 10, am_banks=1, wm_bytes=8 << 10)


def assert_equal_to_golden(graph, config, **options):
    program, values = compile_graph(graph, config, **options), feeds(graph, 1)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(config, check_hazards=True).run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])


def product(n, h, c, w, *, a_zp=0, b_zp=0, tail="raw", constant="", made="input"):
    """[n, h, c] times [n, c, w]; `constant` names the operands that are, `made` says where B comes from."""
    build = LayerBuilder(7)
    operands = []
    for name, shape in (("a", (n, h, c)), ("b", (n, c, w))):
        if name in constant:
            operands.append(build.random_constant(shape, DType.INT8, -128, 127))
        elif name == "b" and made == "transpose":
            turned = build.input(name, (n, w, c), DType.INT8)
            operands.append(build.add("TRANSPOSE", [turned], perms=[0, 2, 1]))
        elif name == "b" and made == "add":
            x = build.rescale(build.input(name, shape, DType.INT8), DType.INT32, shift=20)
            total = build.add("ADD", [x, build.input("other", shape, DType.INT32)])
            operands.append(build.rescale(total, DType.INT8, shift=43))
        else:
            operands.append(build.input(name, shape, DType.INT8))
    y = build.add("MATMUL", [*operands, *(build.zero_point(DType.INT8, zp) for zp in (a_zp, b_zp))])
    if tail != "raw":
        y = build.rescale(y, DType.INT8, per_channel=tail == "per channel", output_zp=-4)
        y = build.clamp(y, -100, 90)
    build.output(y)
    return build.finish()


SHAPES = [
    (1, 1, 1, 1),
    (1, 64, 64, 64),
    (3, 49, 32, 49),
    (2, 5, 17, 16),
    (70, 1, 3, 2),
    (1, 7, 200, 33),
    (4, 33, 16, 8),
]


@pytest.mark.parametrize("config", [NANO, BASE], ids=lambda config: config.name)
@pytest.mark.parametrize("tail", ["raw", "per tensor", "per channel"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matmul(shape, tail, config):
    assert_equal_to_golden(product(*shape, a_zp=-3, b_zp=11, tail=tail), config)


@pytest.mark.parametrize("constant", ["a", "b", "ab"])
@pytest.mark.parametrize("shape", SHAPES[2:5], ids=str)
def test_operands_are_constant(shape, constant):
    assert_equal_to_golden(product(*shape, a_zp=9, b_zp=-8, tail="per channel", constant=constant), BASE)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("made", ["transpose", "add"])
def test_the_second_operand_is_computed(made, optimize):
    graph = product(3, 10, 21, 19, a_zp=9, b_zp=-8, tail="per tensor", made=made)
    assert_equal_to_golden(graph, BASE, optimize=optimize)


@pytest.mark.parametrize("shape", [(2, 100, 60, 50), (5, 30, 20, 100), (1, 8, 300, 25)], ids=str)
def test_operands_exceed_the_activation_memory(shape):
    assert_equal_to_golden(product(*shape, a_zp=9, b_zp=-8, tail="per tensor"), TINY)


@pytest.mark.parametrize("constant", ["", "a", "b"])
@pytest.mark.parametrize("shape", [(2, 3, 1300, 5), (1, 2, 2049, 18)], ids=str)
def test_inner_dimension_exceeds_the_memories(shape, constant):
    graph = product(*shape, a_zp=9, b_zp=-8, tail="per tensor", constant=constant)
    assert_equal_to_golden(graph, TINY)


def test_more_rows_than_a_field_counts():
    config = dataclasses.replace(BASE, am_bytes=1 << 20, am_banks=1)
    assert_equal_to_golden(product(1, 70001, 2, 3, a_zp=9, b_zp=-8, tail="per tensor"), config)


def test_both_operands_are_one_tensor():
    build = LayerBuilder(3)
    x = build.input("x", (2, 19, 19), DType.INT8)
    square = build.add("MATMUL", [x, x, build.zero_point(DType.INT8, 4), build.zero_point(DType.INT8, -5)])
    build.output(build.rescale(square, DType.INT8))
    assert_equal_to_golden(build.finish(), BASE)


def test_attention():
    """Scores of queries and keys, a table, and their product with the values."""
    build = LayerBuilder(5)
    q, k, v = (build.input(name, (4, 20, 24), DType.INT8) for name in "qkv")
    zero_points = [build.zero_point(DType.INT8, 3), build.zero_point(DType.INT8, -2)]
    keys = build.add("TRANSPOSE", [k], perms=[0, 2, 1])
    scores = build.rescale(build.add("MATMUL", [q, keys, *zero_points]), DType.INT8, shift=44)
    table = build.constant(np.random.default_rng(1).integers(-128, 128, 256), DType.INT8)
    weights = build.add("TABLE", [scores, table])
    build.output(build.rescale(build.add("MATMUL", [weights, v, *zero_points]), DType.INT8, shift=44))
    for config in (NANO, BASE):
        assert_equal_to_golden(build.finish(), config)


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 70), st.integers(1, 40)),
    st.integers(-128, 127),
    st.integers(-128, 127),
    st.sampled_from(["raw", "per tensor", "per channel"]),
    st.sampled_from([NANO, BASE, TINY]),
)
def test_random_products(shape, a_zp, b_zp, tail, config):
    assert_equal_to_golden(product(*shape, a_zp=a_zp, b_zp=b_zp, tail=tail), config)


def test_a_zero_point_from_an_input_is_refused_by_name():
    build = LayerBuilder(6)
    a, b = build.input("a", (1, 4, 4), DType.INT8), build.input("b", (1, 4, 4), DType.INT8)
    build.output(
        build.add("MATMUL", [a, b, build.zero_point(DType.INT8, 0), build.input("zp", (1,), DType.INT8)])
    )
    with pytest.raises(UnsupportedError, match=r"MATMUL.*operand B_zp .*'zp'.* is computed at run time"):
        compile_graph(build.finish(), BASE)
