"""Random graphs of all integer operators: each program is EQUAL."""

import random

import pytest
from random_growth import random_graph

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.hw.config_text import get_config

GROUP = 20
"""Graphs of a test."""


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 6), *(pytest.param(GROUP * k, GROUP, marks=pytest.mark.nightly) for k in range(10))],
)
def test_random_graphs(first: int, count: int, config: str) -> None:
    """The 200 graphs of `bench/random_graphs.py --seed 1`; in `make test` some of the first."""
    equal, undecided = 0, []
    for seed in range(1_000_000 + first, 1_000_000 + first + count):
        graph = random_graph(random.Random(seed).randint).graph
        try:
            program = compile_graph(graph, get_config(config))
        except tosaic.UnsupportedError:
            continue
        done = tosaic.certify(graph, program, keyed=False)
        equal += done.verdict == "EQUAL"
        if done.verdict != "EQUAL":
            undecided.append((seed, done.verdict, done.reason))
    print(f"{equal} of {count} EQUAL")
    assert undecided == [] and equal
