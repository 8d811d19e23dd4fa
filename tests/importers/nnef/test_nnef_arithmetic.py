"""Rounding and grids on any float32 numbers, against exact arithmetic."""

import functools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from nnef_cases import flat

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.model import NnefModel
from tosaic.compiler.importers.nnef.tosa.importer import WHOLE, NnefImporter
from tosaic.compiler.ir import Graph
from tosaic.sim.golden import evaluate

FLOATS = st.lists(st.floats(-1e9, 1e9, width=32), min_size=16, max_size=16)
HALVES = st.lists(st.integers(-(2**24), 2**24).map(lambda n: n / 2), min_size=16, max_size=16)


@functools.cache
def graph(body: str) -> Graph:
    return NnefImporter(NnefModel(expand_document(flat(body, shape="[16]"), whole=WHOLE), {}, {})).run()


def run(body: str, values: list[float]) -> np.ndarray:
    return evaluate(graph(body), {"x": np.array(values, np.float32)})["y"]


@settings(max_examples=200, deadline=None)
@given(FLOATS | HALVES)
def test_round_is_the_floor_of_the_exact_sum(values: list[float]) -> None:
    x = np.array(values, np.float32)
    assert np.array_equal(run("y = round(x);", values), np.floor(x.astype(np.float64) + 0.5))


@settings(max_examples=200, deadline=None)
@given(FLOATS, st.integers(1, 10))
def test_linear_grid_has_its_steps_and_is_half_a_step_away_at_most(values: list[float], bits: int) -> None:
    low, high, steps = -1.5, 2.0, 2**bits - 1
    got = run(f"y = linear_quantize(x, {low}, {high}, bits = {bits});", values).astype(np.float64)
    index = (got - low) / (high - low) * steps
    assert np.abs(index - np.rint(index)).max() < 1e-3
    inside = np.clip(np.array(values, np.float32).astype(np.float64), low, high)
    assert np.abs(got - inside).max() <= (high - low) / steps / 2 + 1e-5


@settings(max_examples=200, deadline=None)
@given(FLOATS, st.integers(1, 6))
def test_logarithmic_grid_has_powers_of_two_with_the_sign(values: list[float], bits: int) -> None:
    x = np.array(values, np.float32)
    got = run(f"y = logarithmic_quantize(x, 8.0, bits = {bits});", values)
    assert np.array_equal(np.sign(got), np.sign(x))
    exponents = np.log2(np.abs(got[got != 0]).astype(np.float64))
    assert np.array_equal(exponents, np.rint(exponents))
    assert exponents.size == 0 or (exponents.min() >= 3 - (2**bits - 1) and exponents.max() <= 3)
