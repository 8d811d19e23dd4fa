"""MATMUL int8 on the emulator, with the race check, equal golden."""

import dataclasses
import functools

import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder
from runtime_graphs import attention, product

from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config

BASE, NANO = get_config("base"), get_config("nano")
TINY = dataclasses.replace(BASE, am_bytes=4 << 10, am_banks=1, wm_bytes=8 << 10)
check = functools.partial(assert_equal_to_golden, check_hazards=True)


SHAPES = [
    (1, 1, 1, 1),
    (1, 64, 64, 64),
    (3, 49, 32, 49),
    (2, 5, 17, 16),
    (70, 1, 3, 2),
    (1, 7, 200, 33),
    (4, 33, 16, 8),
]


@pytest.mark.long
@pytest.mark.parametrize("config", [NANO, BASE], ids=lambda config: config.name)
@pytest.mark.parametrize("tail", ["raw", "per tensor", "per channel"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matmul(shape, tail, config):
    check(product(*shape, a_zp=-3, b_zp=11, tail=tail), config)


@pytest.mark.parametrize("constant", ["a", "b", "ab"])
@pytest.mark.parametrize("shape", SHAPES[2:5], ids=str)
def test_operands_are_constant(shape, constant):
    check(product(*shape, a_zp=9, b_zp=-8, tail="per channel", constant=constant), BASE)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("made", ["transpose", "add"])
def test_the_second_operand_is_computed(made, optimize):
    graph = product(3, 10, 21, 19, a_zp=9, b_zp=-8, tail="per tensor", made=made)
    check(graph, BASE, optimize=optimize)


@pytest.mark.parametrize("shape", [(2, 100, 60, 50), (5, 30, 20, 100), (1, 8, 300, 25)], ids=str)
def test_operands_exceed_the_activation_memory(shape):
    check(product(*shape, a_zp=9, b_zp=-8, tail="per tensor"), TINY)


@pytest.mark.parametrize("constant", ["", "a", "b"])
@pytest.mark.parametrize("shape", [(2, 3, 1300, 5), (1, 2, 2049, 18)], ids=str)
def test_inner_dimension_exceeds_the_memories(shape, constant):
    graph = product(*shape, a_zp=9, b_zp=-8, tail="per tensor", constant=constant)
    check(graph, TINY)


def test_more_rows_than_a_field_counts():
    config = dataclasses.replace(BASE, am_bytes=1 << 20, am_banks=1)
    check(product(1, 70001, 2, 3, a_zp=9, b_zp=-8, tail="per tensor"), config)


def test_both_operands_are_one_tensor():
    build = LayerBuilder(3)
    x = build.input("x", (2, 19, 19), DType.INT8)
    square = build.add("MATMUL", [x, x, build.zero_point(DType.INT8, 4), build.zero_point(DType.INT8, -5)])
    build.output(build.rescale(square, DType.INT8))
    check(build.finish(), BASE)


@pytest.mark.parametrize("config", [NANO, BASE], ids=lambda config: config.name)
def test_attention(config):
    check(attention(), config)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 70), st.integers(1, 40)),
    st.integers(-128, 127),
    st.integers(-128, 127),
    st.sampled_from(["raw", "per tensor", "per channel"]),
    st.sampled_from([NANO, BASE, TINY]),
)
def test_random_products(shape, a_zp, b_zp, tail, config):
    check(product(*shape, a_zp=a_zp, b_zp=b_zp, tail=tail), config)
