"""What users hand in, made ready to run: a TOSA file, a model to import or a compiled program is opened, and then
compiled for the accelerator or checked for golden."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tosaic.compiler.build import compile_graph
from tosaic.compiler.importers import IMPORTED_SUFFIXES, import_model, is_imported, survey_model
from tosaic.compiler.importers.bindings import Bindings, Bound, bind_values, refuse_types
from tosaic.compiler.importers.foreign_formats import is_saved_model, refusal
from tosaic.compiler.importers.nnr_models import import_nnr_integers
from tosaic.compiler.importers.survey import SourceOperator
from tosaic.compiler.ir import Graph, read_tosa, unsigned_ports, validate
from tosaic.compiler.ir.file_builder import IDENTIFIER
from tosaic.compiler.ir.flatbuffer import Reader
from tosaic.compiler.ir.mapped_file import contents
from tosaic.compiler.legalize.custom import without_custom
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.program import Program
from tosaic.compiler.quantizer import Encoding, Quantized
from tosaic.driver.arguments import NodeArg, argument
from tosaic.driver.encodings import Encodings, declared_of, encodings_of, parse_encodings
from tosaic.driver.function_files import is_function, open_function
from tosaic.driver.kept_programs import KeptProgram
from tosaic.driver.quantize.kept_models import open_encoded
from tosaic.driver.quantize.torch_modules import import_quantized
from tosaic.driver.state import SessionState
from tosaic.errors import InputError, ModelError, UnsupportedError, reading
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

OWN_SUFFIXES = (".tosa", ".tsc")


def open_model(source: "str | pathlib.Path | Graph | Program", bound: Bound = None) -> Graph | Program:
    """The graph or program in a file (`.tosa`, `.tsc`, or what has an importer) or of a NumPy function
    (`file.py:function`), or the object itself.

    `bound` tells sizes that an imported model leaves open, and inputs that always have one value.

    InputError when there is no such file, UnsupportedError for a format that has no importer, ModelError for a
    damaged file.
    """
    return open_with_encodings(source, bound)[0]


def open_with_encodings(
    source: "str | pathlib.Path | Graph | Program | Quantized",
    bound: Bound = None,
) -> tuple[Graph | Program, Encodings]:
    """Opens as `open_model` does, with the encodings of inputs and outputs, where integers stand for reals.

    A .tosa or .tsc file may have them in a file of its own. An ONNX model or a PyTorch program whose float inputs and
    outputs pass through a quantize and a dequantize operator becomes integers from the first to the last of these, and
    so does a TFLite model between QUANTIZE and DEQUANTIZE.
    """
    if isinstance(source, Graph | Program):
        return source, {}
    if isinstance(source, Quantized):
        return source.graph, {**source.inputs, **source.outputs}
    path = pathlib.Path(source)
    if is_function(source):
        return open_function(source, Bindings.of(bound)), {}
    refuse_types(Bindings.of(bound), str(source))
    if is_imported(path):
        with _file_named(path):
            found, why_floats = _integers(path, bound)
            if found is not None:
                return found
            graph = import_model(path, bound)  # tells of an operator without a TOSA form in full
            graph.why_floats = why_floats
            return graph, {}
    return _opened(path, bound), encodings_of(path)


def _integers(path: pathlib.Path, bound: Bound) -> tuple[tuple[Graph, Encodings] | None, str]:
    """Returns what `_encoded` does, and for a model with encodings but no integers to take the reason."""
    try:
        return _encoded(path, bound), ""
    except UnsupportedError as error:
        return None, f"{path}: {error}"


def _encoded(path: pathlib.Path, bound: Bound) -> tuple[Graph, Encodings] | None:
    """The integers of a model that brings its encodings; None for any other model. UnsupportedError for one that has no
    integers as it is."""
    if path.suffix not in (".nnr", ".onnx", ".pt2", ".tflite") or not path.is_file():
        return None
    if path.suffix == ".nnr":
        carried = import_nnr_integers(path)
        return (carried[0], parse_encodings(carried[1], str(path))) if carried else None
    if path.suffix == ".tflite":
        from tosaic.compiler.importers.tflite import import_tflite_integers

        bindings = Bindings.of(bound)
        graph, held = import_tflite_integers(path, bindings.sizes)
        encodings = {name: Encoding(*encoding) for name, encoding in held.items()}
        bind_values(
            graph, {name: _held(value, encodings.get(name)) for name, value in bindings.values.items()}
        )
        return graph, encodings
    if path.suffix == ".onnx":
        return open_encoded(path, bound)
    found = import_quantized(path)
    return (found.graph, {**found.inputs, **found.outputs}) if found else None


def _held(value: Any, encoding: Encoding | None) -> Any:
    """A bound value as integers, where these stand for reals."""
    return value if encoding is None else encoding.quantize(np.asarray(value, np.float32))


def _opened(path: pathlib.Path, bound: Bound) -> Graph | Program:
    if is_saved_model(path):
        raise UnsupportedError(refusal(path, (*OWN_SUFFIXES, *IMPORTED_SUFFIXES)))
    if not path.is_file():
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"{path}: cannot be read: {reason}; give a .tosa model or a .tsc program")
    try:
        data = contents(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if path.suffix not in OWN_SUFFIXES and Reader(data).identifier != IDENTIFIER:
        raise UnsupportedError(refusal(path, (*OWN_SUFFIXES, *IMPORTED_SUFFIXES)))
    bindings = Bindings.of(bound)
    if bindings.shapes:
        raise InputError(f"{path}: its shapes are static: leave --shape out")
    if bindings.values and path.suffix == ".tsc":
        raise InputError(f"{path}: it is compiled: leave --value out, or give it with the model")
    try:
        with reading(path, "compile, export or copy it again"):
            opened = Program.load(path) if path.suffix == ".tsc" else read_tosa(data)
        if isinstance(opened, Graph):
            opened.declared = declared_of(path, opened)
            bind_values(opened, bindings.values)
        return opened
    except ModelError as error:
        way_out = "" if path.suffix == ".tsc" else "; export or copy the model again"
        raise ModelError(f"{path}: {error}{way_out}") from None
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from None


def survey_source(
    source: str | pathlib.Path, bound: Bound = None
) -> tuple[list[SourceOperator], Graph | Program | None]:
    """What becomes of each operator of an imported model, and its graph when all of them have a TOSA form.

    Files that need no import have no source operators. Raises what `open_model` raises.
    """
    path = pathlib.Path(source)
    if not is_imported(path):
        return [], open_model(source, bound)
    refuse_types(Bindings.of(bound), str(source))
    with _file_named(path):
        operators, graph = survey_model(path, bound)
        if graph is None:
            return operators, None
        found, graph.why_floats = _integers(path, bound)
        return operators, found[0] if found else graph


@contextlib.contextmanager
def _file_named(path: pathlib.Path) -> Iterator[None]:
    """What is wrong with a model is said with the file's name, and so is what its reader did not expect."""
    try:
        with reading(path, "export or copy it again; if it is whole, report it with what --verbose prints"):
            yield
    except (ModelError, UnsupportedError) as error:
        text = str(error)
        if text.startswith(str(path)):
            raise
        error.args = (f"{path}: {text}",)
        raise


# --- ready to run

DEFAULT_CONFIG = "base"
Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """How a graph is compiled, see `compile_graph`."""

    optimize: bool = True
    drop_dead_channels: bool = False
    keep_layers: bool = False
    compress: str | None = None
    progress: Progress | None = None
    speed: MemorySpeed = FULL_SPEED


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model that can run."""

    graph: Graph | None
    """None for a compiled program."""
    program: Program | None
    """The program; None on golden."""
    config: Config
    inputs: list[NodeArg]
    outputs: list[NodeArg]
    state: SessionState


def find_config(config: str | Config) -> Config:
    """A configuration by name; InputError lists the names there are."""
    if isinstance(config, Config):
        return config
    try:
        return get_config(config)
    except ValueError as error:
        raise InputError(str(error)) from None


def load(
    opened: Graph | Program, encodings: Encodings, config: Config | None, golden: bool, how: CompileOptions
) -> Loaded:
    """The model for a configuration (None: a program's own, or the default one), for golden or for the accelerator.

    Raises InputError where the options contradict each other or the target, and what `compile_graph` raises."""
    if how.drop_dead_channels and how.keep_layers:
        raise InputError(
            "layers cannot be compared with golden when dead channels are removed: leave out one of them"
        )
    if golden:
        return _for_golden(opened, encodings, config or get_config(DEFAULT_CONFIG))
    if isinstance(opened, Program):
        program = _compiled_before(opened, config, how)
    else:
        program = _compiled(opened, config or get_config(DEFAULT_CONFIG), how)
    graph = opened if isinstance(opened, Graph) else None
    unsigned = unsigned_ports(graph) if graph is not None else ()
    inputs, outputs, states = (
        [argument(port, encodings, those, program.declared.get(port.name)) for port in ports]
        for ports, those in (
            (program.inputs, unsigned),
            (program.outputs, unsigned),
            (program.states, ()),
        )
    )
    return Loaded(
        graph,
        program,
        program.config,
        inputs,
        outputs,
        SessionState(
            states,
            {
                port.name: port.initial(program.image if port.initial_address is not None else b"")
                for port in program.states
            },
        ),
    )


def _for_golden(opened: Graph | Program, encodings: Encodings, config: Config) -> Loaded:
    if isinstance(opened, Program):
        raise InputError(
            "a compiled program cannot run on golden, which needs the graph: give the .tosa file"
        )
    validate(opened)
    unsigned = unsigned_ports(opened)
    inputs, outputs, states = (
        [argument(opened.tensors[name], encodings, unsigned, opened.declared.get(name)) for name in names]
        for names in (opened.run_inputs, opened.run_outputs, opened.states)
    )
    initial = {
        each.name: opened.states[each.name].initial.astype(each.numpy).reshape(each.shape) for each in states
    }
    return Loaded(opened, None, config, inputs, outputs, SessionState(states, initial))


def _compiled_before(program: Program, config: Config | None, how: CompileOptions) -> Program:
    if config is not None and program.config.hash != config.hash:
        raise InputError(
            f"the program was compiled for configuration {program.config.name}, not {config.name}: "
            f"compile the model for {config.name}, or do not name a configuration"
        )
    if how.compress is not None:
        raise InputError("a compiled program cannot be compressed: compile the model again with it")
    return program


def _compiled(graph: Graph, config: Config, how: CompileOptions) -> Program:
    progress = how.progress
    place = None
    # The compiler warns where compressed weights are slower, each time.
    if how.compress is None:
        options = {
            "optimize": how.optimize,
            "drop_dead_channels": how.drop_dead_channels,
            "keep_layers": how.keep_layers,
            "speed": dataclasses.asdict(how.speed),
        }
        place = KeptProgram(without_custom(graph), config, options)
        if (found := place.read()) is not None:
            return found
    program = compile_graph(
        graph,
        config,
        optimize=how.optimize,
        drop_dead_channels=how.drop_dead_channels,
        keep_layers=how.keep_layers,
        compress=how.compress,
        speed=how.speed,
        on_layer=(lambda name, i, n: progress(f"compile {name}", i, n)) if progress else None,
    )
    if place is not None:
        place.keep(program)
    return program
