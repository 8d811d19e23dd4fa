"""Reductions begin with their first element, and store the last sum as it is made."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, decode

INT32 = ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN")
BOOL = ("REDUCE_ANY", "REDUCE_ALL")


def reduced(op, extent, *, shifted=False, constant=False):
    build = LayerBuilder(9)
    dtype = DType.BOOL if op in BOOL else DType.INT32
    x = build.input("x", (3, extent), dtype)
    if shifted:
        amount = build.constant(np.array([[3]]), DType.INT32)
        x = build.add("ARITHMETIC_RIGHT_SHIFT", [x, amount], round=True)
    if constant:
        x = build.add("ADD", [x, build.constant(np.full((3, extent), 4), DType.INT32)])
    how = dict(nan_mode="PROPAGATE") if op in ("REDUCE_MAX", "REDUCE_MIN") else {}
    build.output(build.add(op, [x], axis=1, **how))
    return build.finish()


def gos(graph):
    """(repeats, micro-operations) of each VECTOR_GO on `base`."""
    program = compile_graph(graph, get_config("base"))
    raw = program.image[program.program_address :][: program.program_bytes]
    found = [decode(raw[start : start + 16]) for start in range(0, len(raw), 16)]
    return [(go.repeats, go.uops) for go in found if go.opcode is Opcode.VECTOR_GO]


@pytest.mark.parametrize("op", INT32 + BOOL)
@pytest.mark.parametrize("extent", [1, 2, 3, 4, 7])
def test_short_axes(op, extent):
    for config in ("base", "nano"):
        assert_equal_to_golden(reduced(op, extent), config, check_hazards=True)


@pytest.mark.long
@pytest.mark.parametrize("op", INT32)
@pytest.mark.parametrize("extent", [1, 2, 3, 7, 100])
def test_terms_that_are_computed(op, extent):
    for how in ({"shifted": True}, {"constant": True}, {"shifted": True, "constant": True}):
        assert_equal_to_golden(reduced(op, extent, **how), "base", check_hazards=True)


@pytest.mark.parametrize("extent, repeats", [(2, 1), (3, 1), (7, 5)])
def test_the_first_and_the_last_repetition_are_outside(extent, repeats):
    assert gos(reduced("REDUCE_MAX", extent)) == [(repeats, 3)]


def test_the_last_repetition_of_a_longer_body_stays():
    assert gos(reduced("REDUCE_SUM", 7, shifted=True)) == [(6, 4)]


def test_argmax_counts_its_repetitions():
    build = LayerBuilder(9)
    build.output(build.add("ARGMAX", [build.input("x", (3, 5), DType.INT8)], axis=1, nan_mode="PROPAGATE"))
    graph = build.finish()
    assert [repeats for repeats, _ in gos(graph)] == [5]
    assert_equal_to_golden(graph, "base", check_hazards=True)
