"""Chains of layers that run as cascades for slow memory compute what golden computes, with every tensor compared."""

import random

import pytest
from random_chains import SMALL_NANO, random_chain
from random_runs import Tally, run_random

from tosaic.compiler.build import compile_graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config_text import get_config

SLOW = MemorySpeed(0.25)


def cascaded(seed: int, config: str) -> bool:
    graph = random_chain(random.Random(seed).randint).graph
    return any(layer.parts > 1 for layer in compile_graph(graph, get_config(config), speed=SLOW).layers)


def run(seed: int, config: str, *, keep_layers: bool) -> None:
    tally = Tally()
    g = random_chain(random.Random(seed).randint)
    run_random(g, seed, ("emulator",), config, tally, keep_layers=keep_layers, speed=SLOW)
    assert tally.ran == 1, tally.rejected


@pytest.mark.parametrize(
    "config, seed",
    [(SMALL_NANO, 305), (SMALL_NANO, 324), ("base,am_bytes=8192", 324), (SMALL_NANO, 331)],
)
def test_chains_run_as_cascades(config: str, seed: int) -> None:
    assert cascaded(seed, config)
    run(seed, config, keep_layers=False)
    run(seed, config, keep_layers=True)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(400, 500, 10))
def test_many_chains(first: int) -> None:
    for seed in range(first, first + 10):
        run(seed, SMALL_NANO, keep_layers=seed % 2 == 1)
