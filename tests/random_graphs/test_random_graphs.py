"""Random graphs of all integer operators: golden, emulator and RTL agree bit for bit; rejections are counted."""

import random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from legal_configs import random_config
from random_growth import GROWTHS, random_graph, random_graphs
from random_runs import Tally, run_random
from rest_nightly import first_of

from tosaic.compiler.ir.operators import OPERATORS
from tosaic.driver.judge.random_graphs import RandomGraph
from tosaic.hw.config import CONFIGS

MOST_REJECTED = 0.05
"""Share of random graphs that the compiler may reject, with a reason; to be lowered as more operators run."""


def seeded(seed: int) -> RandomGraph:
    return random_graph(random.Random(seed).randint)


def test_every_integer_operator_grows() -> None:
    """CONST and the variables are no operators of a graph, CUSTOM has no meaning; 0.30's are lowered on reading."""
    wanted = {name for name, spec in OPERATORS.items() if spec.is_integer and "1.0" in spec.versions}
    others = {"CONST", "CONST_SHAPE", "CUSTOM", "VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE"}
    assert set(GROWTHS) == wanted - others


@pytest.mark.parametrize("number", range(12))
def test_random_configurations(number: int) -> None:
    """`make nightly` has 200, on the RTL as well."""
    config = random_config(random.Random(number))
    tally = Tally()
    run_random(seeded(number), number, ("emulator",), config.name, tally)
    assert tally.graphs == 1


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(random_graphs(), st.integers(0, 1000), st.booleans(), st.sampled_from(["nano", "base"]))
def test_random_graphs_on_the_emulator(g: RandomGraph, seed: int, optimize: bool, config: str) -> None:
    tally = Tally()
    run_random(g, seed, ("emulator",), config, tally, optimize=optimize, keep_layers=not optimize)
    event("rejected" if tally.rejected else "ran")


def test_parameters_computed_at_run_time() -> None:
    tally = Tally()
    for seed in range(20):
        g = seeded(seed)
        g.free_parameters()
        run_random(g, seed, ("emulator",), "small", tally, optimize=bool(seed % 2))
    assert tally.rejected_share <= MOST_REJECTED, tally.rejected.most_common()


def test_most_graphs_run() -> None:
    tally = Tally()
    for seed in range(60):
        run_random(seeded(seed), seed, ("emulator",), "base", tally)
    assert tally.rejected_share <= MOST_REJECTED, tally.rejected.most_common()


@pytest.mark.parametrize("config", CONFIGS)
def test_random_graphs_of_every_configuration(config: str) -> None:
    tally = Tally()
    for seed in range(1000, 1010):
        run_random(seeded(seed), seed, ("emulator",), config, tally, keep_layers=True)
    assert tally.ran


@pytest.mark.xdist_group("base")
@pytest.mark.parametrize("first", first_of(range(2000, 2040, 10), 1))
def test_random_graphs_on_the_rtl(first: int) -> None:
    tally = Tally()
    for seed in range(first, first + 10):
        run_random(seeded(seed), seed, ("emulator", "sim"), "base", tally)
    assert tally.ran
