"""A random graph that fails leaves a folder with its smallest failing part and a script."""

import pathlib
import random
import subprocess

import failure_folder
import pytest
from failure_folder import keep, needed, smallest
from random_growth import random_graph

from tosaic.compiler.ir import Graph, read_tosa
from tosaic.errors import MismatchError


def test_the_smallest_part_ends_with_the_first_wrong_operator() -> None:
    graph = random_graph(random.Random(5).randint).graph
    for number, operator in enumerate(graph.operators[:-1], 1):
        part = smallest(graph, lambda part, own=operator.outputs: part.outputs == own)
        assert part.outputs == operator.outputs and len(part.operators) <= number
        produced = {name for each in part.operators for name in each.outputs} | set(part.inputs)
        read = {name for each in part.operators for name in each.inputs}
        assert all(name in produced or part.const(name) is not None for name in read)


def test_a_graph_without_a_wrong_part_stays() -> None:
    graph = random_graph(random.Random(5).randint).graph
    assert smallest(graph, lambda part: False) is graph
    assert len(needed(graph, 1).operators) == 1


def test_a_failure_leaves_a_script_that_shows_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(part: Graph, *_: object) -> None:
        if len(part.operators) > 1:
            raise MismatchError("planted")

    monkeypatch.setattr(failure_folder, "run_graph", fails)
    g = random_graph(random.Random(7).randint)
    keep(tmp_path / "graph7", g, 7, ("emulator",), "nano")
    assert 1 < len(read_tosa(tmp_path / "graph7" / "model.tosa").operators) <= len(g.graph.operators)
    done = subprocess.run(
        ["sh", str(tmp_path / "graph7" / "show.sh")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr  # The failure was only planted.
