"""Random graphs on many samples at once: what golden computes for each by itself, or a refusal by name."""

import random

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from random_growth import random_graph, random_graphs

from tosaic.compiler.ir import validate
from tosaic.compiler.legalize.batched import batched
from tosaic.driver.judge.random_graphs import RandomGraph
from tosaic.errors import UnsupportedError
from tosaic.sim.golden import evaluate

MOST_REFUSED = 0.8
"""Share of random graphs without a batch: control flow, scalars, tensors of rank 6, outputs of constants alone."""


def stacked(
    g: RandomGraph, samples: int, seed: int
) -> tuple[list[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Inputs of each sample, and all of them for the batch."""
    each = [g.feeds(seed + number) for number in range(samples)]
    return each, {name: np.concatenate([np.atleast_1d(one[name]) for one in each]) for name in each[0]}


def compare_golden(g: RandomGraph, samples: int, seed: int) -> bool:
    """False if the graph has no batch, by an error that tells what to do."""
    try:
        graph = batched(g.graph, samples)
    except UnsupportedError as error:
        assert "run the samples one after the other" in str(error)
        return False
    validate(graph)
    each, all_of_them = stacked(g, samples, seed)
    got = evaluate(graph, all_of_them)
    for number, sample in enumerate(each):
        for name, wanted in evaluate(g.graph, sample).items():
            np.testing.assert_array_equal(np.split(got[name], samples)[number], wanted)
    return True


@settings(
    max_examples=80,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(random_graphs(), st.integers(2, 5), st.integers(0, 1000))
def test_a_batch_is_its_samples(g: RandomGraph, samples: int, seed: int) -> None:
    event("ran" if compare_golden(g, samples, seed) else "refused")


def test_most_graphs_have_a_batch() -> None:
    ran = [compare_golden(random_graph(random.Random(seed).randint), 3, seed) for seed in range(60)]
    assert ran.count(False) <= MOST_REFUSED * len(ran)
