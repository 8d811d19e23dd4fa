"""Runs a random graph on golden and on targets, and says what came of it."""

import collections
import dataclasses

import numpy as np

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.program import Program
from tosaic.driver.batches import run_samples
from tosaic.driver.check import compare
from tosaic.driver.judge.random_graphs import RandomGraph
from tosaic.driver.session import Session
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate


@dataclasses.dataclass
class Tally:
    """What ran: graphs, the operators in them, and the reasons of the compiler's rejections."""

    ran: int = 0
    rejected: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    operators: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    rejected_operators: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    @property
    def graphs(self) -> int:
        return self.ran + self.rejected.total()

    @property
    def rejected_share(self) -> float:
        return self.rejected.total() / max(1, self.graphs)


def run_random(
    g: RandomGraph,
    seed: int,
    targets: tuple[str, ...],
    config: str,
    tally: Tally,
    *,
    optimize: bool = True,
    keep_layers: bool = False,
    speed: MemorySpeed = FULL_SPEED,
) -> None:
    """MismatchError unless every target, and the emulator on two samples at once, computes what golden does; an
    UnsupportedError is counted."""
    feeds = g.feeds(seed)
    program = run_graph(
        g.graph, feeds, targets, config, tally, optimize=optimize, keep_layers=keep_layers, speed=speed
    )
    if program is not None and feeds:
        other = g.feeds(seed + 1)
        _run_two(g, program, {name: np.stack([value, other[name]]) for name, value in feeds.items()})


def run_graph(
    graph: Graph,
    feeds: dict[str, np.ndarray],
    targets: tuple[str, ...],
    config: str,
    tally: Tally,
    *,
    optimize: bool = True,
    keep_layers: bool = False,
    speed: MemorySpeed = FULL_SPEED,
) -> Program | None:
    """Works like `run_random` for one sample; returns the program, or None where the compiler rejects the graph."""
    names = [operator.op for part in graph.walk() for operator in part.operators]
    golden = evaluate(graph, feeds, keep=True)
    try:
        program = compile_graph(
            graph, get_config(config), optimize=optimize, keep_layers=keep_layers, speed=speed
        )
    except UnsupportedError as error:
        tally.rejected[" ".join(str(error).split())] += 1
        tally.rejected_operators.update(set(names))
        return None
    results = []
    for target in targets:
        session = Session(program, target)
        outputs = session.run(feeds)
        compare(graph, {**session.kept, **outputs}, golden)
        results.append(outputs)
    for outputs in results[1:]:
        for name, value in outputs.items():
            np.testing.assert_array_equal(value, results[0][name], err_msg=name)
    tally.ran += 1
    tally.operators.update(names)
    return program


def _run_two(g: RandomGraph, program: Program, feeds: dict[str, np.ndarray]) -> None:
    found = run_samples(program, feeds)
    for number in range(2):
        golden = evaluate(g.graph, {name: values[number] for name, values in feeds.items()}, keep=True)
        compare(g.graph, {name: values[number] for name, values in found.items()}, golden)
