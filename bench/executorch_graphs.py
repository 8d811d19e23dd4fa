"""Collects the TOSA graphs that ExecuTorch's own Arm tests write, as a suite that `tosaic conformance` runs.

`python bench/executorch_graphs.py -o build/executorch` runs the tests of the wheel whose names hold `tosa_INT`, with
this module's plugin. Each integer graph that a test hands to the reference model is stored with its inputs under the
test's name. Tests that have a record are not run again, so an interrupted run goes on where it stopped.
"""

import argparse
import contextlib
import functools
import gc
import hashlib
import importlib.util
import io
import json
import multiprocessing
import os
import pathlib
import re
import signal
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

SELECTED = "tosa_INT"
FOLDERS = ("ops", "models")
LONGEST_NAME = 120
"""Characters of a folder's name: file systems take up to 255 bytes."""


# --- inside pytest


class Collector:
    """Stores what the running test hands to the reference model."""

    def __init__(self, suite: pathlib.Path):
        self.suite = suite
        self.test, self.group = "", ""
        self.stored: list[str] = []
        self.seen: set[str] = set()

    def start(self, item: pytest.Item) -> None:
        """The test whose graphs follow."""
        self.test, self.group = item.name, item.path.stem.removeprefix("test_")
        self.stored, self.seen = [], set()

    def store(self, graph: bytes, extensions: Sequence[str], inputs: Sequence[np.ndarray]) -> None:
        """One graph with its inputs; the same once more is not stored again."""
        content = hashlib.sha256(graph + b"".join(each.tobytes() for each in inputs)).hexdigest()
        if content in self.seen:
            return
        name = folder_name(self.test) + (f".{len(self.seen)}" if self.seen else "")
        self.seen.add(content)
        folder = self.suite / self.group / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.tosa").write_bytes(graph)
        for index, value in enumerate(inputs):
            np.save(folder / f"input_{index}.npy", value)
        sources, results = boundary(graph)
        description = description_of(self.group, extensions, sources, results)
        (folder / "desc.json").write_text(json.dumps(description, indent=1))
        self.stored.append(name)


def folder_name(test: str) -> str:
    """A test's name without what makes trouble in a path; two names never become one."""
    plain = re.sub(r"[^\w.=,+\[\]-]", "_", test)
    if plain == test and len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[:LONGEST_NAME]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"


def boundary(graph: bytes) -> tuple[list[str], list[str]]:
    """Names of a TOSA graph's inputs and outputs, by the serializer's own reader."""
    from tosa.TosaGraph import TosaGraph

    block = TosaGraph.GetRootAsTosaGraph(graph, 0).Regions(0).Blocks(0)
    return (
        [block.Inputs(index).decode() for index in range(block.InputsLength())],
        [block.Outputs(index).decode() for index in range(block.OutputsLength())],
    )


def description_of(
    group: str, extensions: Sequence[str], sources: Sequence[str], results: Sequence[str]
) -> dict[str, Any]:
    """A test's desc.json, as TOSA's conformance suite has it and the reference model reads it."""
    return {
        "tosa_file": "test.tosa",
        "ifm_name": list(sources),
        "ifm_file": [f"input_{index}.npy" for index in range(len(sources))],
        "ofm_name": list(results),
        "ofm_file": [f"output_{index}.npy" for index in range(len(results))],
        "expected_failure": False,
        "test_details": {"operator": group},
        "test_requirements": {"extensions_required": list(extensions)},
        "meta": {"compliance": {"tensors": {name: {"mode": "EXACT"} for name in results}}},
    }


class Plugin:
    """Pytest's hooks around one file of tests."""

    def __init__(self, suite: pathlib.Path, records: pathlib.Path, seconds: int, per_function: int | None):
        self.collector = Collector(suite)
        self.records, self.seconds, self.per_function = records, seconds, per_function
        self.skipped = 0
        """Tests that are left for a later run."""

    def pytest_configure(self) -> None:
        """Puts the collector in front of the reference model."""
        from executorch.backends.arm.test import runner_utils

        run, collector = runner_utils.run_tosa_graph, self.collector

        def run_stored(graph: Any, specification: Any, inputs: Any, output_node: Any) -> Any:
            if specification.support_integer() and not specification.support_float():
                arrays = [runner_utils.torch_tensor_to_numpy(tensor) for tensor in inputs]
                collector.store(bytes(graph), sorted(specification.extensions), arrays)
            return run(graph, specification, inputs, output_node)

        runner_utils.run_tosa_graph = run_stored
        run_every_graph()
        leave_random_weights()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves out tests that have a record, and of a function's parameters those beyond the limit; makes images
        smaller."""
        for module in {item.module for item in items if isinstance(item, pytest.Function)}:
            make_smaller(module)
        known = {record["test"] for record in read_records(self.records)}
        counts: dict[str, int] = {}
        chosen = []
        for item in (item for item in items if SELECTED in item.name):
            function = item.name.split("[")[0]
            counts[function] = counts.get(function, 0) + 1
            if self.per_function is not None and counts[function] > self.per_function:
                self.skipped += 1
            elif item.name not in known:
                chosen.append(item)
        items[:] = chosen

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Tells the collector the test, and ends the test at its time limit."""
        self.collector.start(item)

        def stop(*_: object) -> None:
            raise TimeoutError(f"more than {self.seconds} s")

        signal.signal(signal.SIGALRM, stop)
        signal.alarm(self.seconds)
        try:
            return (yield)
        finally:
            signal.alarm(0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[Any]:
        """One line of JSON per test: what came of it and which graphs were stored."""
        report = yield
        if report.when == "call" or report.when == "setup" and report.outcome != "passed":
            reason = call.excinfo.exconly() if call.excinfo is not None else ""
            line = {
                "test": item.name,
                "outcome": report.outcome,
                "expected": bool(getattr(report, "wasxfail", "")),
                "graphs": self.collector.stored if report.when == "call" else [],
                "reason": " ".join(reason.split())[:300],
            }
            with self.records.open("a") as file:
                file.write(json.dumps(line) + "\n")
        return report


def run_every_graph() -> None:
    """Gives the reference model the graphs of tests that leave it out, too; there nothing is compared."""
    from executorch.backends.arm.test.tester.test_pipeline import TosaPipelineINT

    run, stage = TosaPipelineINT.run, "run_method_and_compare_outputs"

    def run_all(pipeline: Any) -> None:
        if not pipeline.has_stage(stage):
            pipeline.add_stage(
                getattr(pipeline.tester, stage), inputs=pipeline.test_data, compare_outputs=False
            )
        run(pipeline)

    TosaPipelineINT.run = run_all


def leave_random_weights() -> None:
    """Models whose trained weights would be downloaded keep those that they are made with."""
    import torch

    torch.manual_seed(0)
    load = torch.nn.Module.load_state_dict

    def load_if_there(module: Any, state: Any, *arguments: Any, **options: Any) -> Any:
        return None if state is None else load(module, state, *arguments, **options)

    torch.nn.Module.load_state_dict = load_if_there
    with contextlib.suppress(ImportError):
        from torchvision.models import WeightsEnum

        WeightsEnum.get_state_dict = lambda *_, **__: None
    with contextlib.suppress(ImportError):
        from timm.models import _builder

        _builder.load_pretrained = lambda *_, **__: None


IMAGE_SIDE = 80
"""Pixels of the models' images, 224 and more in the wheel: the least that all of them take is 75."""
WHOLE_IMAGES = ("test_deit_tiny_arm",)
"""Models that take only the size they are made for."""


def make_smaller(module: Any) -> None:
    """The first image of what a file of models has as inputs, and its upper left corner: RTL takes a day for more."""
    if module.__name__.split(".")[-1] in WHOLE_IMAGES:
        return
    for owner in (module, *(each for each in vars(module).values() if isinstance(each, type))):
        for name in ("model_inputs", "model_example_inputs"):
            found = vars(owner).get(name)
            if isinstance(found, tuple) and getattr(found[0], "ndim", 0) == 4:
                cut = found[0][:1, :, :IMAGE_SIDE, :IMAGE_SIDE].contiguous()
                setattr(owner, name, (cut, *found[1:]))


def read_records(path: pathlib.Path) -> list[dict[str, Any]]:
    """What came of the tests of a file so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


# --- the command


def main() -> None:
    """Runs every file of tests that has not been run, `--jobs` at a time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/executorch"))
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=900, help="time limit of one test")
    parser.add_argument("--only", default="", help="regular expression: files of tests to run")
    parser.add_argument(
        "--per-function", type=int, help="at most this number of parameter sets of each test function"
    )
    options = parser.parse_args()
    output = options.output.resolve()
    for name in ("records", "suite"):
        (output / name).mkdir(parents=True, exist_ok=True)
    found = [file for file in test_files() if re.search(options.only, str(file))]
    wanted = [file for file in found if not records_of(output, file).with_suffix(".done").is_file()]
    print(f"{len(found)} files of tests, {len(wanted)} to run")
    preload()
    arguments = [(file, output, options.seconds, options.per_function) for file in wanted]
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
        for line in pool.imap_unordered(run_file, arguments, chunksize=1):
            print(line, flush=True)


def preload() -> None:
    """Imports once what takes 20 seconds, for the processes that are forked from this one."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        # PyPI's torchvision is built for CUDA; beside a CPU build of torch its import needs these operators' names.
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.append(library)
    from executorch.backends.arm.test.tester import test_pipeline  # noqa: F401

    run_once()
    gc.collect()
    gc.freeze()
    # A test's graphs are many small objects that live to its end.
    gc.set_threshold(200_000)


def run_once() -> None:
    """Runs one test, for what PyTorch imports and collects the first time: half of a small test's time."""
    from torch._export import utils

    # Asked in every pass for the names of all C++ operators, which stay what they are.
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    file = next(each for each in test_files() if each.name == "test_abs.py")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = pathlib.Path(folder)
        pytest.main(pytest_options(file), [Plugin(path / "suite", path / "records.jsonl", 900, 1)])


KEPT: list[Any] = []
"""Libraries of operators, which live as long as they are referred to."""


def records_of(folder: pathlib.Path, tests: pathlib.Path) -> pathlib.Path:
    """Where the records of a file of tests are."""
    return folder / "records" / f"{tests.parent.name}-{tests.stem}.jsonl"


def test_files() -> list[pathlib.Path]:
    """The files of the wheel's tests that have a test of an integer graph."""
    package = importlib.util.find_spec("executorch")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the package executorch is not installed: pip install '.[torch]'")
    root = pathlib.Path(package.submodule_search_locations[0]) / "backends" / "arm" / "test"
    return [
        file
        for folder in FOLDERS
        for file in sorted((root / folder).rglob("test_*.py"))
        if SELECTED in file.read_text()
    ]


def pytest_options(file: pathlib.Path) -> list[str]:
    """The arguments of pytest's that run a file of the wheel's tests as they are."""
    options = ["-p", "no:cacheprovider", "-q", "--tb=short", "-W", "ignore"]
    return ["-c", os.devnull, "--rootdir", str(file.parent), *options, str(file)]


def run_file(arguments: tuple[pathlib.Path, pathlib.Path, int, int | None]) -> str:
    """Runs the chosen tests of a file, in a process of its own; one line on what came of them."""
    file, output, seconds, per_function = arguments
    records = records_of(output, file)
    plugin = Plugin(output / "suite", records, seconds, per_function)
    with records.with_suffix(".log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        os.chdir(output)
        code = pytest.main(pytest_options(file), [plugin])
    ran = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    if ran and not plugin.skipped:
        records.with_suffix(".done").touch()
    found = read_records(records)
    graphs = sum(len(record["graphs"]) for record in found)
    return f"{file.parent.name}/{file.name}: {len(found)} tests, {graphs} graphs" + (
        "" if ran else f", {code!r}"
    )


if __name__ == "__main__":
    main()
