"""IREE: its compiler for processors, and its runtime."""

import importlib.util
import pathlib
import shlex
from importlib import metadata

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.driver.conformance.bake import find_tool
from tosaic.errors import InputError
from tosaic.install import install_command

from ..case import GRAPH, TOSA, JudgeCase, input_files, output_files
from ..outcome import Crash, Refusal
from .consumer import Outputs, consumer, placed, scratch
from .programs import run_program

MLIR = "graph.mlir"
_EMPTY, _MODULE = "empty.mlir", "graph.vmfb"
_WRITING_SECONDS = 60.0
_SHOWN_CHARACTERS = 3000
_SHOWN_ELEMENTS = 64
_COMPILER, _RUNTIME = "iree-base-compiler", "iree-base-runtime"


@consumer("iree")
class Iree:
    """`iree-compile` for llvm-cpu and `iree-run-module`; tosa-tools' `tosa-opt` writes the graph as MLIR."""

    name, form = "iree", TOSA

    def __init__(self, _: str = ""):
        self._tools: tuple[str, str, str] | None = None

    def version(self) -> str:
        self._found()
        return f"{_COMPILER} {metadata.version(_COMPILER)}, {_RUNTIME} {metadata.version(_RUNTIME)}"

    def run(self, case: JudgeCase, limit_seconds: float) -> Outputs:
        tosa_opt, compiler, runner = self._found()
        graph = case.graph
        if any(graph.tensors[name].dtype is DType.INT4 for name in (*graph.inputs, *graph.outputs)):
            raise Refusal("iree-run-module has no arrays of int4 for inputs and outputs")
        with scratch() as folder:
            place = placed(case, folder)
            write_mlir(tosa_opt, place, limit_seconds)
            run_program([compiler, *COMPILE], place, limit_seconds, refuses=(1,))
            given = [f"--input=@{file}" for file in input_files(case.graph)]
            wanted = [f"--output=@{file}" for file in output_files(case.graph)]
            run_program([runner, *RUN, *given, *wanted], place, limit_seconds, refuses=())
            try:
                return case.outputs_in(place)
            except (OSError, ValueError) as error:
                raise Crash(f"an output cannot be read: {error}".replace(f"{folder}/", "")) from None

    def steps(self, case: JudgeCase, folder: pathlib.Path) -> list[str]:
        """What shows it without Tosaic, for a report; leaves the graph as MLIR in the folder that holds the case."""
        write_mlir(self._found()[0], folder, _WRITING_SECONDS)
        text = (folder / MLIR).read_text().strip()
        shown = ["```mlir", text, "```", ""] if len(text) <= _SHOWN_CHARACTERS else []
        ports = zip(case.graph.inputs, input_files(case.graph), case.values, strict=True)
        given = [_input(case.graph.tensors[name].dtype, file, value) for name, file, value in ports]
        return [
            *shown,
            "```",
            shlex.join(["iree-compile", *COMPILE]),
            shlex.join(["iree-run-module", *RUN, *given, *["--output=-"] * len(case.graph.outputs)]),
            "```",
        ]

    def _found(self) -> tuple[str, str, str]:
        if self._tools is None:
            places = [
                _native("iree.compiler", "_mlir_libs/iree-compile"),
                _native("iree._runtime_libs", "iree-run-module"),
            ]
            if None in places:
                raise InputError(f"iree: {_COMPILER} or {_RUNTIME} is missing: {install_command('iree')}")
            self._tools = (find_tool("tosa-opt"), str(places[0]), str(places[1]))
        return self._tools


COMPILE = (
    "--iree-input-type=tosa",
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
    MLIR,
    "-o",
    _MODULE,
)
RUN = (f"--module={_MODULE}", "--device=local-sync")


def write_mlir(tosa_opt: str, folder: pathlib.Path, limit_seconds: float) -> None:
    """Write a case's graph as text of MLIR beside it, in the generic form, which does not change from release to
    release."""
    (folder / _EMPTY).write_text("module {}\n")
    read = f"--tosa-deserialize=tosa-flatbuffer-filename={GRAPH}"
    command = [tosa_opt, read, "--mlir-print-op-generic", _EMPTY, "-o", MLIR]
    run_program(command, folder, limit_seconds, refuses=(1,))


def _input(dtype: DType, file: str, value: np.ndarray) -> str:
    """The option for an input: its values, where they are few."""
    if value.size > _SHOWN_ELEMENTS:
        return f"--input=@{file}"
    kind = "i1" if dtype is DType.BOOL else f"i{dtype.bits}"
    numbers = " ".join(str(int(each)) for each in value.flat)
    return f"--input={'x'.join(map(str, [*value.shape, kind]))}={numbers}"


def _native(package: str, path: str) -> pathlib.Path | None:
    """A program inside a package: what pip puts on the path starts a Python for it."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    places = (spec.submodule_search_locations or []) if spec else []
    return next((file for place in places if (file := pathlib.Path(place, path)).is_file()), None)
