"""Plans of layers over the whole space: tests/recorded_runs.json has what is predicted and decided, and the programs.

Nothing runs here: other tests compare what such programs compute. A change of a cost formula, a limit or an order of
choices shows as a difference of that file, which `make recorded-runs` writes.
"""

import random

import pytest
from layers_at_large import KINDS, layer, machine, memory, wide_machine
from random_growth import random_graph

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.hw.config import Config

TESTS = {"convolution": 32, "chain": 32, "depthwise": 20, "gather": 8, "product": 8}
"""Of other kinds MORE."""
MORE = 14
TOGETHER = 4
"""Plans of a test."""


def planned(graph: Graph, dice: random.Random, config: Config, **options: bool) -> None:
    program = compile_graph(graph, config, speed=memory(dice), **options)
    assert [port.name for port in program.outputs] == list(graph.run_outputs)


@pytest.mark.parametrize(
    "kind, number", [(kind, number) for kind in KINDS for number in range(TESTS.get(kind, MORE))]
)
def test_layers(kind: str, number: int) -> None:
    for each in range(TOGETHER):
        dice = random.Random(f"{kind} {number} {each}")
        planned(layer(kind, dice), dice, machine(dice), optimize=dice.random() < 0.9)


@pytest.mark.parametrize("number", range(60))
def test_graphs(number: int) -> None:
    dice = random.Random(5000 + number)
    graph, config = random_graph(dice.randint).graph, wide_machine(dice)
    planned(graph, dice, config, keep_layers=dice.random() < 0.2)
