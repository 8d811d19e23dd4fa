"""`Session`: a model on a target, in the manner of onnxruntime."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph, Tensor, validate
from tosaic.compiler.program import Port, Program
from tosaic.compiler.quantizer import Encoding
from tosaic.errors import InputError, MismatchError, ModelError
from tosaic.hw.config import Config, get_config
from tosaic.hw.csr_map import MARKS
from tosaic.sim.result import RunResult, Slice

from .check import blame, compare
from .device import Device
from .encodings import Encodings
from .models import open_with_encodings
from .targets import DEVICE, Runner, RunOptions, find_target, make_runner, naming_weights
from .units import unit_figures

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """A graph input or output: name, shape and TOSA type.

    Of a quantized model `encoding` tells what the integers stand for: real = scale * (q - zero_point).
    """

    name: str
    shape: tuple[int, ...]
    type: DType
    encoding: Encoding | None = None

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(self.type.numpy)


class Session:
    """A model compiled for a configuration and loaded on a target.

    `model` is a path (`.tosa`, a compiled `.tsc`, or a model that `tosaic import` takes), a `Graph` or a
    `Program`; `target` one of golden, emulator, sim
    (Verilated RTL in process) and cocotb, the URI of a device (docs/driver.md) or an open `Device`, which several
    sessions may share. `config` is a name or a `Config`; without it what the device has or a program was compiled for,
    else "base". `memory_bandwidth` is in bytes per cycle (default: the bus width), `memory_latency` in cycles (default:
    50). A run that is not at its end after `max_cycles` raises DeviceError (None: no limit but the emulator's own): a
    WHILE_LOOP may be endless. A target that cannot honour one of these refuses it with an InputError.
    `compress="nnr"` stores weights compressed where that is smaller;
    the accelerator decodes them. `drop_dead_channels` removes channels that carry nothing before compiling; results
    stay the same, tensors inside become smaller. `shapes` binds what an imported model leaves open: a symbolic
    dimension's name to its size, or an input's name to its whole shape. `progress(what, done, total)` is called while
    the model is compiled. Raises `tosaic.Error` subclasses.
    """

    def __init__(
        self,
        model: str | pathlib.Path | Graph | Program,
        target: "str | Device" = "sim",
        config: str | Config | None = None,
        *,
        memory_bandwidth: int | None = None,
        memory_latency: int | None = None,
        max_cycles: int | None = None,
        optimize: bool = True,
        drop_dead_channels: bool = False,
        keep_layers: bool = False,
        compress: str | None = None,
        progress: Progress | None = None,
        shapes: Mapping[str, int | Sequence[int]] | None = None,
    ):
        self.model = str(model) if isinstance(model, str | pathlib.Path) else f"<{type(model).__name__}>"
        """The path that was given; the type of an object that has none."""
        self.device: Device | None = target if isinstance(target, Device) else None
        """The device that runs the program, if the target is one."""
        self._owns_device = False
        self._kind = find_target(target)
        self.target = target.name if isinstance(target, Device) else target
        self._progress = progress
        self._options = RunOptions(memory_bandwidth, memory_latency, max_cycles)
        self._kind.check(self.target, self._options)
        opened, encodings = open_with_encodings(model, shapes)
        if self.device is None and self._kind is DEVICE:
            self.device, self._owns_device = Device.open(self.target), True
        try:
            self._prepare(opened, encodings, config, optimize, drop_dead_channels, keep_layers, compress)
        except BaseException:
            self.close()
            raise

    def _prepare(
        self,
        opened: Graph | Program,
        encodings: Encodings,
        config: str | Config | None,
        optimize: bool,
        drop_dead_channels: bool,
        keep_layers: bool,
        compress: str | None,
    ) -> None:
        """Compiles the model for the configuration that was chosen, or that the target has."""
        target, progress = self.target, self._progress
        if config is None and self.device is not None and isinstance(opened, Graph):
            config = self.device.configuration() or "base"
        chosen = find_config(config or "base")
        self.graph = opened if isinstance(opened, Graph) else None
        self.program: Program | None = None
        self._runner: Runner | None = None
        if drop_dead_channels and keep_layers:
            raise InputError(
                "layers cannot be compared with golden when dead channels are removed: leave out one of them"
            )
        # A program file does not say how it was compiled.
        self._removed = None if isinstance(opened, Program) else drop_dead_channels and target != "golden"
        if target == "golden":
            if self.graph is None:
                raise InputError(
                    "a compiled program cannot run on golden, which needs the graph: give the .tosa file"
                )
            validate(self.graph)
            self.config = chosen
            self.inputs = [_argument(self.graph.tensors[name], encodings) for name in self.graph.inputs]
            self.outputs = [_argument(self.graph.tensors[name], encodings) for name in self.graph.outputs]
        else:
            if isinstance(opened, Program):
                if config is not None and opened.config.hash != chosen.hash:
                    raise InputError(
                        f"the program was compiled for configuration {opened.config.name}, not {chosen.name}: "
                        f"compile the model for {chosen.name}, or do not name a configuration"
                    )
                if compress is not None:
                    raise InputError(
                        "a compiled program cannot be compressed: compile the model again with it"
                    )
                self.program = opened
            else:
                on_layer = (lambda name, i, n: progress(f"compile {name}", i, n)) if progress else None
                self.program = compile_graph(
                    opened,
                    chosen,
                    optimize=optimize,
                    drop_dead_channels=drop_dead_channels,
                    keep_layers=keep_layers,
                    compress=compress,
                    on_layer=on_layer,
                )
            self.config = self.program.config
            self.inputs = [_argument(port, encodings) for port in self.program.inputs]
            self.outputs = [_argument(port, encodings) for port in self.program.outputs]
        self.state = {name: state.initial for name, state in self.graph.states.items()} if self.graph else {}
        """Inputs that the next run takes from here unless it is given them: what a model remembers, by name."""
        holder = self.program or self.graph
        self.labels: dict[str, list[str | int]] = dict(holder.labels) if holder else {}
        """Class labels by output, of a classifier."""
        self.stats: dict[str, Any] = {}
        self._values: dict[str, np.ndarray] = {}
        self.result: RunResult | None = None
        """Measurements of the last run of a program."""
        self.kept: dict[str, np.ndarray] = {}
        """Intermediate tensors of the last run (`keep_layers`)."""

    def run(
        self, inputs: Mapping[str, np.ndarray], *, check: bool = False, strict: bool = False
    ) -> dict[str, np.ndarray]:
        """Runs the network once: {input name: array} to {output name: array}.

        Arrays have the shapes and NumPy types of `self.inputs`. `check` also evaluates golden and raises
        MismatchError, naming the first differing element, unless everything is equal, or UnpredictableError where the
        specification does not define what these inputs give. `strict` raises that error before the run, whether or not
        the target and golden agree. `self.stats` tells of the run.
        What the model remembers (`self.state`) is carried from run to run, and need not be given.
        """
        if (check or strict) and self.graph is None:
            raise InputError(
                "a compiled program cannot be checked, golden needs the graph: run the .tosa file instead"
            )
        values = self._checked({**self.state, **inputs})
        started = time.perf_counter()
        if strict:
            golden = self._golden(values, keep=False, strict=True)
        if self.target == "golden":
            outputs, result = golden if strict else self._golden(values, keep=False), None
        else:
            outputs, result = self._execute(values)
        seconds = time.perf_counter() - started
        bit_exact = None
        if check:
            self._check(values, outputs)
            bit_exact = True
        if self.graph is not None:
            self.state = {name: outputs[state.output] for name, state in self.graph.states.items()}
        self.result, self._values = result, values
        self.stats = self._statistics(result, seconds, bit_exact)
        return outputs

    def __repr__(self) -> str:
        """One line: model, target, configuration, and name, type and shape of every input and output."""
        sides = (
            f"{side}=[{', '.join(f'{each.name!r} {each.type.name.lower()}{list(each.shape)}' for each in arguments)}]"
            for side, arguments in (("inputs", self.inputs), ("outputs", self.outputs))
        )
        return f"Session({self.model!r}, {self.target!r}, {self.config.name!r}, {', '.join(sides)})"

    def close(self) -> None:
        """Let go of the device that the session opened; of no meaning for other targets."""
        if self.device is not None and self._owns_device:
            self.device.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def timeline(self) -> list[Slice]:
        """When each unit worked on what in the last run: every GO, by the cycle model of the emulator.

        After a run on another target than the emulator the program is executed there once more. Empty on golden."""
        if self.program is None or self.result is None:
            return []
        if not self.result.slices:
            runner = make_runner(
                "emulator", self.program, dataclasses.replace(self._options, max_cycles=None)
            )
            memory = self.program.memory()
            for port in self.program.inputs:
                port.write(memory, self._values[port.name])
            self.result = dataclasses.replace(self.result, slices=runner(memory).slices)
        return self.result.slices

    # --- inside

    def _checked(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [argument.name for argument in self.inputs]
        for name in inputs:
            if name not in names:
                raise InputError(
                    f"the model has no input {name!r}; it has {', '.join(map(repr, names)) or 'none'}"
                )
        values = {}
        for argument in self.inputs:
            if argument.name not in inputs:
                wanted = f"{argument.numpy} array of shape {list(argument.shape)}"
                raise InputError(f"input {argument.name!r} is missing: give an {wanted}")
            value = np.asarray(inputs[argument.name])
            if tuple(value.shape) != argument.shape:
                raise InputError(
                    f"input {argument.name!r} has shape {list(value.shape)}, the model wants {list(argument.shape)}: "
                    "reshape or crop it first"
                )
            if value.dtype != argument.numpy:
                quantize = "" if argument.type.is_float else "quantize it first, or "
                raise InputError(
                    f"input {argument.name!r} has dtype {value.dtype}, the model wants {argument.numpy}: "
                    f"{quantize}convert it with .astype(np.{argument.numpy})"
                )
            values[argument.name] = value
        return values

    def _golden(
        self, values: dict[str, np.ndarray], keep: bool, strict: bool = False
    ) -> dict[str, np.ndarray]:
        from tosaic.sim.golden import evaluate

        assert self.graph is not None
        return evaluate(self.graph, values, keep=keep, strict=strict)

    def _execute(self, values: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], RunResult]:
        program = self.program
        assert program is not None
        if self._runner is None:
            self._runner = make_runner(self.device or self.target, program, self._options)
        memory = program.memory()
        for port in program.inputs:
            port.write(memory, values[port.name])
        result = naming_weights(program, self._runner)(memory)
        self.kept = {port.name: port.read(memory) for port in program.kept}
        return {port.name: port.read(memory) for port in program.outputs}, result

    def _check(self, values: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
        assert self.graph is not None
        golden = self._golden(values, keep=bool(self.kept))
        try:
            compare(self.graph, {**self.kept, **outputs}, golden)
        except MismatchError as mismatch:
            raise blame(self.graph, values, mismatch) from None

    def _memory_statistics(self) -> dict[str, int | None]:
        """What the target's memory was told to be like; None where it is as it is."""
        options, honours = self._options, self._kind.honours
        bandwidth = options.memory_bandwidth or self.config.word_bytes
        return {
            "memory_bandwidth": bandwidth if "memory_bandwidth" in honours else None,
            "memory_latency": options.latency_cycles if "memory_latency" in honours else None,
        }

    def _statistics(self, result: RunResult | None, seconds: float, bit_exact: bool | None) -> dict[str, Any]:
        stats: dict[str, Any] = {
            "target": self.target,
            "config": self.config.name,
            "cycles": None,
            "macs": self.program.macs if self.program else None,
            "mac_utilization": None,
            "dram_read_bytes": None,
            "dram_write_bytes": None,
            **self._memory_statistics(),
            "seconds": seconds,
            "bit_exact": bit_exact,
            "dead_channels_removed": self._removed,
            "layers": [],
        }
        if result is None or self.program is None:
            return stats
        # Layers of a loop come as often as they ran, those of a branch that was not taken do not come.
        layers: list[dict[str, Any]] = []
        last = 0
        for index, end in result.marks:
            if index >= len(self.program.layers):
                raise ModelError(
                    f"the program marks layer {index}, it lists {len(self.program.layers)}; compile the model again"
                )
            layer = self.program.layers[index]
            layers.append({"name": layer.name, "op": layer.op, "cycles": end - last, "macs": layer.macs})
            last = end
        if len(result.marks) == MARKS:
            layers.append(
                {"name": f"after {MARKS} layers", "op": "", "cycles": result.cycles - last, "macs": 0}
            )
        macs = sum(layer["macs"] for layer in layers)
        stats |= {
            "cycles": result.cycles,
            "macs": macs,
            "mac_utilization": macs / max(result.cycles, 1) / self.config.macs_per_cycle,
            "dram_read_bytes": result.dram_read_bytes,
            "dram_write_bytes": result.dram_write_bytes,
            "layers": layers,
            "counters": result.counters,
            "units": {
                figures.unit: {"bytes": figures.bytes, "cycles": {s.label: s.cycles for s in figures.shares}}
                for figures in unit_figures(result.counters, result.cycles, self.config.word_bytes)
            },
            "weights": {
                "tensors": len(self.program.weights),
                "compressed_tensors": sum(weights.coded for weights in self.program.weights),
                "bytes": sum(weights.bytes for weights in self.program.weights),
                "stored_bytes": sum(weights.stored_bytes for weights in self.program.weights),
                "load_bytes": result.counters.get("load_beats", 0) * self.config.word_bytes,
                "decode_cycles": result.counters.get("decode_active", 0),
                "hidden_decode_cycles": result.counters.get("decode_hidden", 0),
            },
        }
        return stats


def run(
    model: str | pathlib.Path | Graph | Program,
    inputs: Mapping[str, np.ndarray],
    target: str = "sim",
    *,
    strict: bool = False,
    **options: Any,
) -> dict[str, np.ndarray]:
    """One-shot `Session(model, target, **options).run(inputs, strict=strict)`."""
    return Session(model, target, **options).run(inputs, strict=strict)


def find_config(config: str | Config) -> Config:
    """A configuration by name; InputError lists the names there are."""
    if isinstance(config, Config):
        return config
    try:
        return get_config(config)
    except ValueError as error:
        raise InputError(str(error)) from None


def _argument(tensor: Tensor | Port, encodings: Encodings) -> NodeArg:
    encoding = encodings.get(tensor.name)
    # The file may be that of another model of the same name.
    if encoding is not None and encoding.dtype is not tensor.dtype:
        encoding = None
    return NodeArg(tensor.name, tuple(tensor.shape), tensor.dtype, encoding)
