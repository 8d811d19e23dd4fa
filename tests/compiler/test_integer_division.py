"""INTDIV on the emulator equals golden for every kind of operand."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType

LOW, HIGH = -(1 << 31), (1 << 31) - 1
EDGES = [0, 1, 2, 3, 5, 7, 10, (1 << 15) - 1, 1 << 16, (1 << 30) - 1, 1 << 30, (1 << 30) + 1, HIGH - 1, HIGH]
EDGES += [-value for value in EDGES if value] + [LOW, LOW + 1]


def division(shape, other):
    build = LayerBuilder(1)
    operands = [build.input("n", shape, DType.INT32), build.input("d", other, DType.INT32)]
    build.output(build.add("INTDIV", operands))
    return build.finish()


def compare(n, d, config="base"):
    n, d = np.asarray(n, np.int32).reshape(-1), np.asarray(d, np.int32).reshape(-1)
    legal = (d != 0) & ~((n == LOW) & (d == -1))
    n, d = n[legal], d[legal]
    assert_equal_to_golden(division(n.shape, d.shape), config, {"n": n, "d": d})


@pytest.mark.parametrize("config", ["nano", "base"])
def test_extreme_operands(config):
    n, d = np.meshgrid(EDGES, EDGES)
    compare(n, d, config)


def test_quotients_near_a_whole_number():
    random = np.random.default_rng(1)
    d = random.integers(1, 1 << random.integers(1, 32, 3000), dtype=np.int64)
    q = random.integers(0, HIGH // d + 1)
    for offset in (-1, 0, 1):
        n = np.clip(q * d + offset, LOW, HIGH)
        compare(n, d)
        compare(-n, d)
        compare(n, -d)


word = st.integers(LOW, HIGH) | st.integers(0, 31).flatmap(
    lambda bits: st.integers(-(1 << bits), (1 << bits) - 1)
)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(word, word.filter(bool)), min_size=50, max_size=300))
def test_random_operands(pairs):
    compare(*zip(*pairs, strict=True))


@pytest.mark.parametrize("shape, other", [((3, 1, 5), (1, 4, 5)), ((2, 3), (1, 1)), ((), ())])
def test_broadcast_operands(shape, other):
    values = {"n": np.full(shape, -1000, np.int32), "d": np.full(other, 7, np.int32)}
    assert_equal_to_golden(division(shape, other), "base", values)
