"""Options of onnxruntime's sessions and runs: each is honoured, without meaning for integers, or refused."""

import dataclasses
import enum
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tosaic.errors import InputError
from tosaic.hw.spelling import meant

PROVIDER = "TosaicExecutionProvider"
_PROVIDER_OPTIONS = {
    "target": str,
    "config": str,
    "compress": str,
    "memory_bandwidth": float,
    "memory_latency": int,
    "max_cycles": int,
}
"""What a provider's options may tell, and what their texts are read as: arguments of `Session`."""
DEFAULT_TARGET = "emulator"


class GraphOptimizationLevel(enum.IntEnum):
    """How much onnxruntime may change a graph; here ORT_DISABLE_ALL has a layer for each operator."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether onnxruntime runs branches side by side; the accelerator's order is the compiler's."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """The order of onnxruntime's nodes; the accelerator's order is the compiler's."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_HARMLESS_PREFIXES = ("session.intra_op", "session.inter_op", "memory.", "mlas.", "optimization.")
_HARMLESS = frozenset(
    f"session.{name}"
    for name in (
        "disable_cpu_ep_fallback",
        "disable_prepacking",
        "dynamic_block_base",
        "force_spinning_stop",
        "set_denormal_as_zero",
        "use_device_allocator_for_initializers",
        "use_env_allocators",
        "use_ort_model_bytes_directly",
        "use_ort_model_bytes_for_initializers",
    )
)
"""Entries of a configuration that change no integer: threads, memory, what is done beforehand; that nothing falls back
is true."""


def _checked_entry(key: str, value: str) -> str:
    if not isinstance(key, str) or not isinstance(value, str):
        raise InputError("an entry of a configuration is a text, and so is its value")
    if not (key.startswith(_HARMLESS_PREFIXES) or key in _HARMLESS):
        raise InputError(
            f"Tosaic has no entry {key!r} of a configuration and does not know what it changes: leave it out"
        )
    return value


@dataclasses.dataclass(slots=True)
class SessionOptions:
    """How an `InferenceSession` opens a model, by onnxruntime's names.

    Threads, memory and log levels are kept and mean nothing here. ORT_DISABLE_ALL fuses nothing, `enable_profiling`
    makes `end_profiling` write a trace of the last run, and dimensions are overridden as onnxruntime does. What
    would change results or files and cannot be honoured is an InputError.
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _sizes: dict[str, int] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _denoted: dict[str, int] = dataclasses.field(default_factory=dict, init=False, repr=False)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Binds a symbolic dimension of the model's inputs to a size."""
        self._sizes[name] = _size(name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Binds the dimensions of the model's inputs that have this denotation, as DATA_BATCH, to a size."""
        self._denoted[denotation] = _size(denotation, size)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry that changes no result; InputError for any other."""
        self._entries[key] = _checked_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry; InputError for one that was not added."""
        return _entry(self._entries, key)

    def register_custom_ops_library(self, path: str) -> None:
        """Refuses: a library of onnxruntime's kernels cannot run on the accelerator."""
        raise InputError(
            f"{path}: onnxruntime's kernels do not run here; write the operator in ONNX's own, as a local function"
        )

    def add_initializer(self, name: str, value: Any) -> None:
        """Refuses: weights are part of the model's file."""
        raise InputError(f"initializer {name!r} cannot be replaced: save the model with it")

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Refuses: weights are part of the model's file."""
        raise InputError(
            f"initializers {', '.join(map(repr, names))} cannot be replaced: save the model with them"
        )

    def bound(self, name: str | None, denotation: str) -> int | None:
        """The size that an open dimension was given."""
        return self._sizes.get(name or "", self._denoted.get(denotation or ""))

    def session_arguments(self) -> dict[str, Any]:
        """What `Session` is told; InputError for an option that cannot be honoured."""
        if self.optimized_model_filepath:
            raise InputError(
                "optimized_model_filepath: there is no optimized ONNX model; `tosaic compile NET.onnx "
                "-o net.tsc` writes the program, which InferenceSession opens"
            )
        return {"optimize": self.graph_optimization_level != GraphOptimizationLevel.ORT_DISABLE_ALL}


@dataclasses.dataclass(slots=True)
class RunOptions:
    """How one run goes, by onnxruntime's names: log levels are kept and mean nothing here."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = dataclasses.field(default_factory=dict, init=False, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keeps an entry that changes no result; InputError for any other."""
        self._entries[key] = _checked_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The value of an entry; InputError for one that was not added."""
        return _entry(self._entries, key)

    def add_active_adapter(self, adapter: Any) -> None:
        """Refuses: weights are part of the model's file."""
        raise InputError("an adapter cannot be added to a run: save the model with its weights")

    def check(self) -> None:
        """InputError for a run that is to end before it begins, as onnxruntime does."""
        if self.terminate:
            raise InputError("the run ends before it begins: RunOptions.terminate is True")


def target_options(
    providers: Sequence[Any] | None, provider_options: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """The arguments of `Session` that a list of providers tells; a warning where ours is not among those wanted."""
    if isinstance(providers, str) or (provider_options is not None and providers is None):
        raise InputError(
            f"providers are a list, as [{PROVIDER!r}], and provider_options a list of the same length"
        )
    wanted = list(providers or [PROVIDER])
    if provider_options is not None and len(provider_options) != len(wanted):
        raise InputError(
            f"there are {len(wanted)} providers and options for {len(provider_options)}: give as many"
        )
    found: dict[str, Any] | None = None
    for number, each in enumerate(wanted):
        name, options = each if isinstance(each, tuple) and len(each) == 2 else (each, {})
        if name == PROVIDER and found is None:
            found = _read({**options, **(provider_options[number] if provider_options else {})})
    if found is None:
        names = ", ".join(repr(each[0] if isinstance(each, tuple) else each) for each in wanted)
        warnings.warn(
            f"there is no provider {names}: the model runs on {PROVIDER}", UserWarning, stacklevel=3
        )
    return found or {}


def _read(options: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in options.items():
        if name not in _PROVIDER_OPTIONS:
            known = f"{meant(name, _PROVIDER_OPTIONS)}it has {', '.join(_PROVIDER_OPTIONS)}"
            raise InputError(f"{PROVIDER} has no option {name!r}; {known}")
        kind = _PROVIDER_OPTIONS[name]
        try:
            found[name] = kind(value) if isinstance(value, str) else value
        except ValueError:
            raise InputError(f"{PROVIDER}: {name} cannot be {value!r}: give a number") from None
    return found


def _size(name: str, size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"dimension {name!r} cannot have the size {size!r}: give an integer of at least 1")
    return size


def _entry(entries: Mapping[str, str], key: str) -> str:
    if key not in entries:
        raise InputError(f"there is no entry {key!r} of the configuration")
    return entries[key]
