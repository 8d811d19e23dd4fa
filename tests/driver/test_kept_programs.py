"""A large network is compiled once, and read from the cache afterwards."""

import pathlib
import warnings

import numpy as np
import pytest

from tosaic import Session
from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver import kept_programs, loading
from tosaic.sim.golden import evaluate

INPUTS = {"x": np.arange(-8, 8, dtype=np.int8).reshape(2, 8)}


def large(addend: int = 1, operators: int = kept_programs.LARGE_OPERATORS) -> Graph:
    """Pairs of ADD and CLAMP on int32 values."""
    builder = GraphBuilder("large")
    value = builder.add("CAST", [builder.input("x", (2, 8), DType.INT8)], dtype=DType.INT32)
    one = builder.constant(np.full((1, 1), addend), DType.INT32)
    while len(builder.graph.operators) < operators:
        value = builder.add("ADD", [value, one])
    builder.output(value)
    return builder.graph


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty cache, in which whatever is large is kept."""
    monkeypatch.setenv("TOSAIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_programs, "LONG_SECONDS", 0)
    return tmp_path / "cache" / "programs"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configuration of each graph that is compiled."""
    done, compile_graph = [], loading.compile_graph

    def counted(graph, config, **options):
        done.append(config.name)
        return compile_graph(graph, config, **options)

    monkeypatch.setattr(loading, "compile_graph", counted)
    return done


def test_a_large_graph_is_compiled_once(compilations: list[str], cache: pathlib.Path) -> None:
    first, again = (Session(large(), "emulator", "nano") for _ in range(2))
    assert compilations == ["nano"]
    assert {file.suffix for file in cache.iterdir()} == {".json", ".tsc", ".sha256"}
    # All of it, what the file of a program does not hold too.
    assert again.program == first.program
    assert again.program.memory_blocks
    name = again.graph.outputs[0]
    found = again.run(INPUTS)[name]
    assert np.array_equal(found, evaluate(again.graph, INPUTS)[name])


def test_what_the_program_depends_on_makes_another_one(compilations: list[str]) -> None:
    Session(large(), "emulator", "nano")
    Session(large(addend=2), "emulator", "nano")
    Session(large(), "emulator", "small")
    Session(large(), "emulator", "nano", memory_bandwidth=1)
    Session(large(), "emulator", "nano", optimize=False)
    assert compilations == ["nano", "nano", "small", "nano", "nano"]


def test_small_and_quickly_compiled_graphs_are_not_kept(
    compilations: list[str], cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = large(operators=kept_programs.LARGE_OPERATORS - 1)
    monkeypatch.setattr(kept_programs, "LONG_SECONDS", 1e9)
    for graph in (small, small, large(), large()):
        Session(graph, "emulator", "nano")
    assert len(compilations) == 4
    assert not cache.exists()


@pytest.mark.parametrize("suffix", [".tsc", ".json"])
def test_a_damaged_file_is_replaced(compilations: list[str], cache: pathlib.Path, suffix: str) -> None:
    first = Session(large(), "emulator", "nano")
    for file in cache.glob(f"*{suffix}"):
        file.write_bytes(file.read_bytes()[:-1])
    for _ in range(2):
        assert Session(large(), "emulator", "nano").program == first.program
    assert len(compilations) == 2


def test_a_cache_that_cannot_be_written_does_no_harm(compilations: list[str], cache: pathlib.Path) -> None:
    cache.parent.write_text("a file where the folder should be")
    with warnings.catch_warnings(action="error"):
        Session(large(), "emulator", "nano").run(INPUTS)
    assert compilations == ["nano"]
