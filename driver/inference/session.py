"""`InferenceSession`: a model on the accelerator, by the names of onnxruntime."""

import contextlib
import inspect
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.program import MAGIC
from tosaic.driver.arguments import NodeArg
from tosaic.driver.feeds import ValueInfo, array_of, tensor_type
from tosaic.driver.float_graphs import refuse_floats
from tosaic.driver.models import open_with_encodings
from tosaic.driver.own_types import OwnTypesSession, is_whole
from tosaic.driver.session import Session
from tosaic.driver.targets import is_device
from tosaic.driver.trace import write_trace
from tosaic.errors import Error, InputError
from tosaic.hw.spelling import meant

from .description import Description, ModelMetadata, describe_onnx
from .options import DEFAULT_TARGET, PROVIDER, RunOptions, SessionOptions, target_options
from .values import IOBinding, OrtValue

_KEPT_SHAPES = 8
"""Compiled programs of a model with open shapes that a session keeps."""
_ONNXRUNTIME_KEYWORDS = ("enable_fallback", "disabled_optimizers", "read_config_from_model")
_SESSION_KEYWORDS = tuple(inspect.signature(Session).parameters)[1:]
Options = TypeVar("Options")


class InferenceSession:
    """A model on the accelerator, by the names of onnxruntime: a script runs with `import tosaic as ort`.

    `path_or_bytes` is a file that `tosaic.Session` opens, or the bytes of an .onnx, .tosa, .tflite or .tsc file. It
    computes integers: a float model is refused with the command that quantizes it. Inputs and outputs are of the
    types that `get_inputs` and `get_outputs` tell: reals are quantized by the model's encodings. Where the file has
    integers that stand for reals (.tosa, .tflite, .tsc), they may be given as they are, and outputs are integers as
    well. A model with open shapes is compiled for each shape that it is run with.

    `providers=[("TosaicExecutionProvider", {"target": "sim", "config": "small"})]` chooses target and configuration,
    as do the keywords of `tosaic.Session`; without it the target is the emulator. Nothing ever runs elsewhere. Raises
    `tosaic.Error` subclasses.
    """

    def __init__(
        self,
        path_or_bytes: str | pathlib.Path | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **keywords: Any,
    ):
        self._session_options = _checked("sess_options", sess_options, SessionOptions) or SessionOptions()
        for name in _ONNXRUNTIME_KEYWORDS:
            if keywords.pop(name, None):
                raise InputError(
                    f"{name}: nothing runs elsewhere and no graph is optimized by name: leave it out"
                )
        for name in keywords:
            if name not in _SESSION_KEYWORDS:
                raise InputError(
                    f"a session has no option {name!r}; {meant(name, _SESSION_KEYWORDS)}leave it out"
                )
        self._arguments = {
            "target": DEFAULT_TARGET,
            **self._session_options.session_arguments(),
            **target_options(providers, provider_options),
            **keywords,
        }
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._path = self._file(path_or_bytes)
        self._sessions: dict[Any, OwnTypesSession] = {}
        self._latest: OwnTypesSession | None = None
        self._began_ns = time.time_ns()
        with self._named():
            is_onnx = self._path.suffix == ".onnx" and self._path.is_file()
            self._description = describe_onnx(self._path, self._session_options) if is_onnx else None
            if self._description is not None and self._description.open_inputs:
                self._refuse_open_floats(self._description)
            else:
                self._latest = self._opened({})

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[np.ndarray]:
        """The outputs of these names (None: all) for {input name: array}."""
        if options := _checked("run_options", run_options, RunOptions):
            options.check()
        if not isinstance(input_feed, Mapping):
            raise InputError(f"input_feed is a mapping of arrays by name, not {type(input_feed).__name__}")
        feed = {name: _array(name, value, self._type_of(name)) for name, value in input_feed.items()}
        with self._named():
            session = self._session_for(feed)
            self._check_types(session, feed)
            self._latest = session
            return session.run(list(output_names) if output_names else None, feed)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Works like `run`, with values instead of arrays."""
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[np.ndarray], Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Works like `run`, in a thread, which calls callback(outputs, user_data, "") or callback([], user_data,
        error)."""

        def work() -> None:
            try:
                results, problem = self.run(output_names, input_feed, run_options), ""
            except Error as error:
                results, problem = [], str(error)
            callback(results, user_data, problem)

        threading.Thread(target=work).start()

    def io_binding(self) -> IOBinding:
        """A binding of arrays to inputs and outputs, for `run_with_iobinding`."""
        return IOBinding(self.run)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on what is bound."""
        iobinding.run(run_options)

    def get_inputs(self) -> list[ValueInfo]:
        """Name, shape and type, as "tensor(float)", of each input."""
        return self._description.inputs if self._description else self.session.get_inputs()

    def get_outputs(self) -> list[ValueInfo]:
        """Name, shape and type, as "tensor(float)", of each output."""
        return self._description.outputs if self._description else self.session.get_outputs()

    def get_overridable_initializers(self) -> list[ValueInfo]:
        """Initializers that a feed may replace: none, weights are part of the program."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the model's file says of itself."""
        return self._description.metadata if self._description else ModelMetadata(graph_name=self._path.stem)

    def get_session_options(self) -> SessionOptions:
        """The options that the session was opened with."""
        return self._session_options

    def get_providers(self) -> list[str]:
        """The one provider there is."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the provider: target, configuration and what else was given."""
        told = {
            name: str(value) for name, value in self._arguments.items() if name not in ("optimize", "shapes")
        }
        return {PROVIDER: told}

    def set_providers(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Opens the model again on what the providers' options tell."""
        self._arguments |= target_options(providers, provider_options)
        was_open = self._latest is not None
        self.close()
        if was_open and not (self._description and self._description.open_inputs):
            with self._named():
                self._latest = self._opened({})

    def disable_fallback(self) -> None:
        """Does nothing: nothing ever runs elsewhere."""

    def enable_fallback(self) -> None:
        """Refuses: nothing ever runs elsewhere."""
        raise InputError(
            "nothing runs elsewhere than on the target, there is no fallback to enable: leave it out"
        )

    def get_profiling_start_time_ns(self) -> int:
        """When the session was opened, in nanoseconds."""
        return self._began_ns

    def end_profiling(self) -> str:
        """The name of the trace of the last run, written now; "" unless `enable_profiling` was set."""
        if not self._session_options.enable_profiling:
            return ""
        if self._latest is None or not (stats := self._latest.stats) or stats["cycles"] is None:
            raise InputError("there is no run to profile: run the session on a target that has cycles first")
        name = f"{self._session_options.profile_file_prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        write_trace(pathlib.Path(name), stats, self._latest.timeline())
        return name

    @property
    def session(self) -> OwnTypesSession:
        """The `tosaic.Session` behind it, with `stats`, `inputs`, `graph` and `state`. InputError for a model with open
        shapes before its first run."""
        if self._latest is None:
            raise InputError("the model's shapes are open until it runs: run it first")
        return self._latest

    def close(self) -> None:
        """Lets go of the programs and of the device."""
        for each in self._sessions.values():
            each.close()
        self._sessions, self._latest = {}, None

    # --- inside

    def _file(self, path_or_bytes: Any) -> pathlib.Path:
        """The model's file; one is written for bytes."""
        if isinstance(path_or_bytes, str | pathlib.Path):
            return pathlib.Path(path_or_bytes)
        if not isinstance(path_or_bytes, bytes):
            raise InputError(f"a session opens a path or a file's bytes, not {type(path_or_bytes).__name__}")
        self._folder = tempfile.TemporaryDirectory(prefix="tosaic-")
        path = pathlib.Path(self._folder.name) / f"model{_suffix(path_or_bytes)}"
        path.write_bytes(path_or_bytes)
        return path

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of a model that came as bytes do not name the file that was written for it."""
        try:
            yield
        except Error as error:
            if self._folder is not None:
                error.args = (str(error).replace(str(self._path), f"NET{self._path.suffix}"),)
            raise

    def _opened(self, shapes: Mapping[str, Sequence[int]]) -> OwnTypesSession:
        """A session for these shapes, kept; on a device one at a time."""
        key = tuple((name, tuple(shape)) for name, shape in shapes.items())
        if key not in self._sessions:
            limit = 1 if is_device(str(self._arguments["target"])) else _KEPT_SHAPES
            while len(self._sessions) >= limit:
                self._sessions.pop(next(iter(self._sessions))).close()
            described = self._description
            bound = {**(described.bound if described else {}), **shapes}
            arguments = {**self._arguments, "shapes": {**bound, **(self._arguments.get("shapes") or {})}}
            self._sessions[key] = OwnTypesSession(
                self._path,
                described.types if described else {},
                frozenset(each.name for each in described.inputs) if described else frozenset(),
                integers=described is None,
                **arguments,
            )
        return self._sessions[key]

    def _session_for(self, feed: Mapping[str, np.ndarray]) -> OwnTypesSession:
        """The session for the shapes of a feed."""
        described = self._description
        if described is None or not described.open_inputs:
            return self.session
        sizes: dict[str, int] = {}
        for each in described.open_inputs:
            if each.name not in feed:
                raise InputError(f"input {each.name!r} is missing: give a {each.type} of shape {each.shape}")
            given = feed[each.name].shape
            fits = len(given) == len(each.shape) and all(
                size == (sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted or size)
                for wanted, size in zip(each.shape, given, strict=True)
            )
            if not fits or 0 in given:
                raise InputError(f"input {each.name!r} has shape {list(given)}, the model wants {each.shape}")
        return self._opened({each.name: list(feed[each.name].shape) for each in described.open_inputs})

    def _refuse_open_floats(self, described: Description) -> None:
        """UnsupportedError for a float model, before its shapes are known."""
        shapes = {
            each.name: [size if isinstance(size, int) else 1 for size in each.shape]
            for each in described.open_inputs
        }
        try:
            graph, _ = open_with_encodings(self._path, Bindings(shapes, {}))
        except Error:
            return  # perhaps only with these sizes: a run tells
        names = {name: 1 for each in described.open_inputs for name in each.shape if isinstance(name, str)}
        refuse_floats(graph, str(self._path), str(self._arguments["target"]), Bindings(names, {}))

    def _type_of(self, name: str) -> np.dtype | None:
        """The type that an input is told to have; None for an unknown one."""
        if self._description is not None:
            return self._description.types.get(name)
        return self.session.type_of(name)

    def _check_types(self, session: OwnTypesSession, feed: Mapping[str, np.ndarray]) -> None:
        """InputError for an array of another type than the input's, as in onnxruntime."""
        known: dict[str, NodeArg] = {each.name: each for each in session.inputs}
        for name, value in feed.items():
            wanted = self._type_of(name)
            whole = self._description is None and name in known and is_whole(known[name], value)
            if wanted is None or value.dtype == wanted or whole:
                continue
            way_out = (
                f"give x.astype(np.{wanted})"
                if np.can_cast(value.dtype, wanted, "same_kind")
                else f"give {wanted}"
            )
            raise InputError(
                f"input {name!r} is {tensor_type(value.dtype)}, the model wants {tensor_type(wanted)}: {way_out}"
            )


def _checked(name: str, options: Any, kind: type[Options]) -> Options | None:
    """The options; InputError for an object of another class, onnxruntime's own too."""
    if options is not None and not isinstance(options, kind):
        raise InputError(
            f"{name} are a tosaic.{kind.__name__}, not {type(options).__module__}.{type(options).__name__}"
        )
    return options


def _array(name: str, value: Any, wanted: np.dtype | None) -> np.ndarray:
    """The array of a value, of an array, or of a list in the type that the model wants."""
    if isinstance(value, OrtValue):
        return value.numpy()
    array = array_of(name, value)
    if wanted is not None and isinstance(value, list | tuple | float | int):
        cast = array.astype(wanted)
        return cast if wanted.kind == "f" or np.array_equal(cast, array) else array
    return array


def _suffix(data: bytes) -> str:
    """What a file with these bytes ends in."""
    if data[: len(MAGIC)] == MAGIC:
        return ".tsc"
    return {b"TOSA": ".tosa", b"TFL3": ".tflite"}.get(data[4:8], ".onnx")
