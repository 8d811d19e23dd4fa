"""Where cases come from: random graphs by their number, TOSA's conformance suite, folders and files of graphs."""

import pathlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, read_tosa, validate
from tosaic.driver import conformance
from tosaic.driver.conformance.case import ConformanceCase
from tosaic.driver.conformance.case import read_case as read_test
from tosaic.errors import InputError

from .case import GRAPH, TOSA, JudgeCase, load_values, read_case
from .random_graphs import random_graph

RANDOM, SUITE, FOLDER, FILE = "random graphs", "TOSA's suite", "graphs", "files"


@dataclass(frozen=True)
class CaseSource:
    """How a case is made: what kind it is, its folder or file, or the seed of a random one."""

    kind: str
    path: pathlib.Path | None = None
    seed: int = 0

    @property
    def group(self) -> str:
        """What the page calls the cases beside it."""
        if self.kind == FOLDER and self.path is not None:
            return self.path.parent.name
        return "graphs" if self.kind == FILE else self.kind

    @property
    def title(self) -> str:
        return f"graph {self.seed}" if self.path is None else self.path.name

    def has(self, form: str) -> bool:
        """Whether the network has that form."""
        if form == TOSA:
            return True
        return self.kind == FOLDER and self.path is not None and (self.path / f"graph.{form}").is_file()

    def load(self) -> JudgeCase:
        """The case. InputError or ModelError where it cannot be read."""
        if self.path is None:
            grown = random_graph(random.Random(self.seed).randint, wide_shifts=False)
            return JudgeCase(f"random{self.seed}", grown.graph, grown.feeds(self.seed))
        if self.kind == SUITE:
            return _suite_case(self.path)
        return read_case(self.path) if self.kind == FOLDER else _file_case(self.path, self.seed)


def find_sources(texts: Sequence[str], seed: int, sample: int | None = None) -> list[CaseSource]:
    """The cases of `random:N`, of a suite's folder, of folders with graph.tosa, and of .tosa files.

    Random graphs are numbers 0 to N - 1 of a seed. `sample` takes that number of the others, evenly drawn."""
    found: list[CaseSource] = []
    for text in texts:
        matched = re.fullmatch(r"random:(\d+)", text)
        if matched:
            found += [CaseSource(RANDOM, seed=seed * 1_000_000 + number) for number in range(int(matched[1]))]
            continue
        found += _below(pathlib.Path(text), seed, sample)
    return found


def _below(path: pathlib.Path, seed: int, sample: int | None) -> list[CaseSource]:
    if path.is_file() and path.suffix == ".tosa":
        return [CaseSource(FILE, path, seed)]
    folders = sorted(file.parent for file in path.rglob(GRAPH))
    if folders:
        return [CaseSource(FOLDER, each) for each in _drawn(folders, sample, seed)]
    if next(path.rglob("desc.json"), None):
        tests = [each for each in conformance.find_cases(path) if judged(each)]
        chosen = conformance.choose(tests, [], sample, seed)
        return [CaseSource(SUITE, each.folder) for each in chosen]
    files = sorted(path.rglob("*.tosa"))
    if not files:
        raise InputError(
            f"{path}: there are no graphs: give random:N, a .tosa file, a folder of such files, of folders with "
            f"{GRAPH}, or of TOSA's conformance suite"
        )
    return [CaseSource(FILE, each, seed) for each in _drawn(files, sample, seed)]


def _drawn(paths: list[pathlib.Path], sample: int | None, seed: int) -> list[pathlib.Path]:
    return (
        paths if sample is None or sample >= len(paths) else sorted(random.Random(seed).sample(paths, sample))
    )


def judged(test: ConformanceCase) -> bool:
    """Whether a test of the suite has one right result of integers."""
    return not (test.negative or test.inexact or test.floats)


def _suite_case(folder: pathlib.Path) -> JudgeCase:
    test = read_test(folder / "desc.json")
    graph = read_tosa(folder / test.graph)
    validate(graph)
    feeds = {name: load_values(graph, name, folder / file) for name, file in test.inputs}
    return JudgeCase(folder.name, graph, feeds)


def _file_case(file: pathlib.Path, seed: int) -> JudgeCase:
    """A graph with random inputs, each value as likely as another."""
    graph = read_tosa(file)
    validate(graph)
    generator = np.random.default_rng(seed)
    feeds = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype.is_float:
            raise InputError(
                f"{file}: input {tensor} is a float; the judge compares integers: quantize it first"
            )
        low, high = (0, 1) if tensor.dtype is DType.BOOL else (tensor.dtype.min, tensor.dtype.max)
        drawn = generator.integers(low, high, tuple(tensor.shape), endpoint=True)
        feeds[name] = np.asarray(drawn).astype(tensor.dtype.numpy)
    return JudgeCase(file.stem, graph, feeds)
