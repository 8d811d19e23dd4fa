"""What a failed random graph leaves: its smallest part that still fails, its inputs, and a script that shows it."""

import pathlib
import shlex
from collections.abc import Callable

import numpy as np
from random_runs import Tally, run_graph

from tosaic.compiler.ir import Graph, write_tosa
from tosaic.driver.judge.random_graphs import RandomGraph

Feeds = dict[str, np.ndarray]


def smallest(graph: Graph, wrong: Callable[[Graph], bool]) -> Graph:
    """The first operators up to one that is `wrong`, without those that it does not need; the whole graph where it has
    states or no part of it is wrong."""
    for count in range(1, len(graph.operators)) if not graph.states else ():
        part = needed(graph, count)
        if wrong(part):
            return part
    return graph


def needed(graph: Graph, count: int) -> Graph:
    """Operator number `count`, from 1 on, whose outputs are the graph's, and what it needs."""
    part = graph.copy()
    part.outputs = list(part.operators[count - 1].outputs)
    wanted, kept = set(part.outputs), []
    for operator in reversed(part.operators[:count]):
        if wanted & set(operator.outputs):
            wanted.update(operator.inputs)
            kept.append(operator)
    part.operators = kept[::-1]
    part.inputs = [name for name in part.inputs if name in wanted]
    wanted.update(name for operator in kept for name in operator.outputs)
    part.tensors = {name: tensor for name, tensor in part.tensors.items() if name in wanted}
    return part


def keep(folder: pathlib.Path, g: RandomGraph, seed: int, targets: tuple[str, ...], config: str) -> None:
    """Write model.tosa, its inputs and show.sh."""
    feeds = g.feeds(seed)

    def wrong(part: Graph) -> bool:
        try:
            run_graph(part, {name: feeds[name] for name in part.inputs}, targets, config, Tally())
        except Exception:  # noqa: BLE001 (whatever goes wrong is what is looked for)
            return True
        return False

    part = smallest(g.graph, wrong)
    folder.mkdir(parents=True, exist_ok=True)
    write_tosa(part, folder / "model.tosa")
    options = []
    for number, name in enumerate(part.inputs):
        np.save(folder / f"input{number}.npy", feeds[name])
        options += ["-i", f"{name}=input{number}.npy"]
    commands = [
        shlex.join(["tosaic", "run", "model.tosa", *options, "--check", "--config", config, "--on", target])
        for target in targets
    ]
    (folder / "show.sh").write_text("\n".join(["set -e", 'cd "$(dirname "$0")"', *commands]) + "\n")
