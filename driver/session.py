"""`Session`: a model on a target, in the manner of onnxruntime."""

import collections
import dataclasses
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, Shapes, Values
from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.batched import batched
from tosaic.compiler.program import Program
from tosaic.errors import DeviceError, InputError, MismatchError
from tosaic.hw.config import Config
from tosaic.sim.result import RunResult, Slice

from .arguments import NodeArg, checked_inputs, checked_samples, entering, reals
from .check import blame, compare
from .configuration import find_config
from .feeds import GOLDEN, SOURCE, Check, ValueInfo, array_of, checks_of, feed_of, samples_in, value_info
from .float_graphs import refuse_floats
from .layer_slices import with_layers
from .loading import CompileOptions, load
from .models import Progress, open_with_encodings
from .origin import Origin, checked_model
from .statistics import statistics_of
from .targets import (
    DEVICE,
    Runner,
    TargetOptions,
    find_target,
    make_runner,
    naming_weights,
    open_device_of,
    wave_of,
)

if TYPE_CHECKING:
    from tosaic.compiler.quantizer import Quantized
    from tosaic.sim.rtl.wave import Wave

    from .device import Device
    from .source import Agreement

__all__ = ["NodeArg", "Progress", "Session", "find_config", "run"]


_NO_GRAPH = "a compiled program cannot be checked, golden needs the graph: run the .tosa file instead"


class Session:
    """A model compiled for a configuration and loaded on a target: `run` runs it. See `Session.__init__`."""

    def __init__(
        self,
        model: "str | pathlib.Path | Graph | Program | Quantized",
        target: "str | Device" = "sim",
        config: str | Config | None = None,
        *,
        memory_bandwidth: float | None = None,
        memory_latency: int | None = None,
        max_cycles: int | None = None,
        optimize: bool = True,
        drop_dead_channels: bool = False,
        keep_layers: bool = False,
        compress: str | None = None,
        batch: int = 1,
        progress: Progress | None = None,
        shapes: Shapes | None = None,
        values: Values | None = None,
        source: Any = None,
        wave: "Wave | str | pathlib.Path | None" = None,
    ):
        """Opens a model. Raises `tosaic.Error` subclasses.

        model: a path (`.tosa`, a compiled `.tsc`, or a model that `tosaic import` takes), a `Graph`, a `Quantized`
            graph with its encodings, or a `Program`; for a torch.nn.Module there is `tosaic.from_torch`.
        target: golden, emulator, sim (Verilated RTL in process) or cocotb, the URI of a device (docs/driver.md), or an
            open `Device`, which several sessions may share. A target that cannot honour an option refuses it.
        config: a name or a `Config`; without it what the device has or a program was compiled for, else "base".
        memory_bandwidth, memory_latency: of external memory, in bytes per cycle (default: the bus width) and cycles
            (default: 50).
        max_cycles: a run that is not at its end by then raises DeviceError (None: no limit but the emulator's own):
            a WHILE_LOOP may be endless.
        optimize: fuses operators into layers; False has a layer for each.
        drop_dead_channels: removes channels that carry nothing; results stay the same, tensors inside become smaller.
        keep_layers: keeps tensors inside, in `self.kept`, which `check` then compares as well.
        compress: "nnr" stores weights compressed where that is smaller; the accelerator decodes them, once before the
            first run. With "nnr-stream" every run decodes them; "fast" packs what then loads faster.
        batch: runs that many samples at once, with one fetch of the weights for all: an array [k, ...] of the model
            holds theirs one after the other, [batch * k, ...], and each has a state of its own.
        progress: progress(what, done, total) is called while the model is compiled.
        shapes: binds what an imported model leaves open: a symbolic dimension's name to its size, or an input's name
            to its whole shape.
        values: binds inputs that always have one value: an input's name to a number, or to as many as it has elements.
        wave: a file that ends in .fst or .vcd, or a `tosaic.Wave`: each run on sim writes its waveform there.
        source: the network that the model was made of, for `run(check="source")`: a path, a float `Graph`, or a
            function of a sample's arrays by name; None: what the file says.
        """
        self.model = str(model) if isinstance(model, str | pathlib.Path) else f"<{type(model).__name__}>"
        """The path that was given; the type of an object that has none."""
        self.device: Device | None = open_device_of(target)
        """The device that runs the program, if the target is one."""
        self._owns_device = False
        self._kind = find_target(target)
        self.target = target if isinstance(target, str) else target.name
        self._options = TargetOptions(memory_bandwidth, memory_latency, max_cycles, wave_of(wave))
        self._kind.check(self.target, self._options)
        self._origin = Origin(model, source, Bindings(shapes or {}, values or {}))
        single, encodings = open_with_encodings(checked_model(model), self._origin.bound)
        refuse_floats(single, self.model, self.target, self._origin.bound)
        opened = _batched(single, batch)
        if self.device is None and self._kind is DEVICE:
            from .board_pool import open_device

            self.device, self._owns_device = open_device(self.target), True
        # What is known of a device's memory is more than what options may say of it: nothing.
        speed = (self.device.memory_speed if self.device else None) or self._options.speed
        how = CompileOptions(optimize, drop_dead_channels, keep_layers, compress, progress, speed)
        if isinstance(single, Graph) and batch > 1:
            how = dataclasses.replace(how, single=single, samples=batch)
        try:
            self._loaded = load(opened, encodings, self._chosen(config, opened), self.target == "golden", how)
        except BaseException:
            self.close()
            raise
        loaded = self._loaded
        self.batch = batch
        """Samples of a run."""
        self._single = single
        """The graph of one sample; or a program."""
        self.graph, self.program, self.config = loaded.graph, loaded.program, loaded.config
        self.inputs, self.outputs = loaded.inputs, loaded.outputs
        # A program file does not say how it was compiled.
        removed = drop_dead_channels and self.target != "golden"
        self._removed = None if isinstance(opened, Program) else removed
        self._runner: Runner | None = None
        self._booted: np.ndarray | None = None
        """The image with what the boot part decodes, for samples that are computed together."""
        self.state = loaded.state
        """What the model remembers from run to run, by name: to read, to set and to `reset`."""
        holder = self.program or self.graph
        self.labels: dict[str, list[str | int]] = dict(holder.labels) if holder else {}
        """Class labels by output, of a classifier."""
        self._stats: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        """Figures of `stats` that the program does not tell."""
        self._values: dict[str, np.ndarray] = {}
        self.result: RunResult | None = None
        """Measurements of the last run of a program."""
        self.kept: dict[str, np.ndarray] = {}
        """Intermediate tensors of the last run (`keep_layers`)."""

    @property
    def stats(self) -> dict[str, Any]:
        """Figures of the last run; {} before it, and after one that failed. On a device the first look reads
        when each layer ended: two round trips of a serial line.
        """
        if self._facts and not self._stats:
            self._stats = {**statistics_of(self.program, self.config, self.result), **self._facts}
        return self._stats

    def _chosen(self, config: str | Config | None, opened: Graph | Program) -> Config | None:
        """The configuration that was asked for, or that the device has; None: a program's own, or the default."""
        if config is None and self.device is not None and isinstance(opened, Graph):
            config = self.device.configuration()
        return find_config(config) if config is not None else None

    @overload
    def run(
        self, inputs: Any, *, check: Check = False, strict: bool = False, limit_db: float | None = None
    ) -> dict[str, np.ndarray]: ...

    @overload
    def run(
        self,
        inputs: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        *,
        check: Check = False,
        strict: bool = False,
        limit_db: float | None = None,
    ) -> list[np.ndarray]: ...

    def run(
        self,
        inputs: Any,
        input_feed: Mapping[str, Any] | None = None,
        *,
        check: Check = False,
        strict: bool = False,
        limit_db: float | None = None,
    ) -> dict[str, np.ndarray] | list[np.ndarray]:
        """Runs the network on {input name: array} and returns {output name: array}; a model with one input
        takes the array alone.

        `run(names, {input name: array})` gives the outputs of these names as a list (None: all), as onnxruntime does.
        Arrays have the shapes and NumPy types of `self.inputs`. Where the model takes one sample, [1, ...], arrays
        [N, ...] are N samples: they run one after the other, and outputs are put together along the first axis.

        `check=True` or "golden" also evaluates golden and raises MismatchError, naming the first differing element,
        unless everything is equal, or UnpredictableError where the specification does not define what these inputs
        give. That says nothing of the network that the integers were made of: `check="source"` runs it, in floats on
        the same reals (arrays may be reals then), and raises MismatchError where an output is too far away: 3 dB below
        what `tosaic quantize` measured, or `limit_db`. `check=("golden", "source")` does both.

        `strict` raises UnpredictableError before the run, whether or not the target and golden agree. `self.stats`
        tells of the (last) run. What the model remembers is in `self.state`. A DeviceError resets it with the machine,
        other errors leave it.
        """
        checks = checks_of(check)
        if (GOLDEN in checks or strict) and self.graph is None:
            raise InputError(_NO_GRAPH)
        feed = feed_of(inputs, input_feed, self.inputs, self.outputs)
        given = {name: array_of(name, value) for name, value in feed.arrays.items()}
        count = samples_in(self.inputs, self.outputs, given) if not self.state and self.batch == 1 else None
        samples = (
            [given] if count is None else [{n: v[i : i + 1] for n, v in given.items()} for i in range(count)]
        )
        agreement = None
        if SOURCE in checks:
            agreement = self._origin.network(remembers=bool(self.state)).agreement(self.outputs)
        parts = [self._run_one(sample, checks, strict, agreement) for sample in samples]
        if agreement is not None:
            self.stats["source"] = agreement.as_json()
            self.stats["source"]["told"] = agreement.lines
            agreement.judge(self._origin.limits(limit_db))
        outputs = (
            parts[0] if len(parts) == 1 else {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        )
        outputs = self._given_back(outputs)
        return outputs if feed.names is None else [outputs[name] for name in feed.names]

    def _run_one(
        self,
        given: dict[str, np.ndarray],
        checks: frozenset[str],
        strict: bool,
        agreement: "Agreement | None",
    ) -> dict[str, np.ndarray]:
        """One run; `agreement` learns how near its outputs are to the network's."""
        values = checked_inputs(self.inputs, self._entered(given, real=agreement is not None)) | dict(
            self.state
        )
        # Nobody waits for the marks of the run before.
        self.result, self._stats, self._facts = None, {}, {}
        started = time.perf_counter()
        if strict:
            golden = self._golden(values, keep=False, strict=True)
        left: dict[str, np.ndarray] = {}
        if self.target == "golden":
            outputs, result = golden if strict else self._golden(values, keep=False), None
            assert self.graph is not None
            left = {name: outputs.pop(state.output) for name, state in self.graph.states.items()}
        else:
            outputs, left, result = self._execute(values)
        seconds = time.perf_counter() - started
        bit_exact = None
        if GOLDEN in checks:
            assert self.graph is not None
            following = {self.graph.states[name].output: value for name, value in left.items()}
            self._check(values, {**self.kept, **outputs, **following})
            bit_exact = True
        if agreement is not None:
            self._compare(agreement, given, values, outputs)
        self.state.update(left)
        self.result, self._values = result, values
        self._facts = {
            **self._memory_statistics(),
            "model": self.model,
            "target": self.target,
            "batch": self.batch,
            "seconds": seconds,
            "bit_exact": bit_exact,
            "source": None,
            "dead_channels_removed": self._removed,
        }
        if self.device is None:
            # At once, as a program that marks what it does not list is refused.
            self._stats = self.stats
        return outputs

    def get_inputs(self) -> list[ValueInfo]:
        """Returns the inputs in onnxruntime's terms: name, shape (a list) and type, as "tensor(int8)"; more
        is in `inputs`.
        """
        return [value_info(each) for each in self.inputs]

    def get_outputs(self) -> list[ValueInfo]:
        """Returns the outputs in onnxruntime's terms."""
        return [value_info(each) for each in self.outputs]

    def run_batch(
        self,
        inputs: Mapping[str, np.ndarray],
        *,
        check: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, np.ndarray]:
        """Runs the network on {input name: [samples, ...]} and returns {output name: [samples, ...]}.

        The emulator computes many samples at once and predicts no cycles; other targets take one after the other, or
        `self.batch` of them.
        What a model remembers is `self.state` for every sample, and stays it. `check` and errors are those of `run`;
        `progress(what, done, total)` is called between samples. `self.stats` stays that of the last `run`.
        """
        if check and self.graph is None:
            raise InputError(_NO_GRAPH)
        if self.batch > 1:
            return self._run_in_batches(inputs, check, progress)
        values = checked_samples([*self.inputs, *self.state.arguments], inputs, self.state)
        count, size, parts = len(next(iter(values.values()))), 1, []
        if self.target == "emulator":
            from .batches import batch_size

            assert self.program is not None
            size = batch_size(self.program)
        for first in range(0, count, size):
            if progress is not None:
                progress("run", first, count)
            own = {name: array[first : first + size] for name, array in values.items()}
            parts.append(self._execute_samples(own))
            for number in range(len(next(iter(own.values()))) if check else 0):
                sample = {name: array[number] for name, array in own.items()}
                self._check(sample, {name: array[number] for name, array in parts[-1].items()})
        if progress is not None:
            progress("run", count, count)
        return {port.name: np.concatenate([part[port.name] for part in parts]) for port in self.outputs}

    def map(self, batches: Iterable[Mapping[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
        """Runs the network on many {input name: array} and yields their {output name: array}, in order.

        On a pool of boards as many runs go on at once as there are boards. InputError for a model that remembers: its
        runs depend on each other. `self.stats` stays that of the last `run`.
        """
        if self.state:
            raise InputError("a model with state has runs that depend on each other: call run for each")
        boards = self.device.size if self.device else 1

        def one(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            values = checked_inputs(self.inputs, inputs)
            return self._golden(values, keep=False) if self.target == "golden" else self._execute(values)[0]

        from concurrent.futures import Future, ThreadPoolExecutor

        with ThreadPoolExecutor(boards) as threads:
            ahead: collections.deque[Future[dict[str, np.ndarray]]] = collections.deque()
            for inputs in batches:
                ahead.append(threads.submit(one, inputs))
                if len(ahead) > 2 * boards:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def __repr__(self) -> str:
        """One line: model, target, configuration, and name, type and shape of every input and output."""
        sides = (
            f"{side}=[{', '.join(f'{each.name!r} {each.type.name.lower()}{list(each.shape)}' for each in arguments)}]"
            for side, arguments in (("inputs", self.inputs), ("outputs", self.outputs))
        )
        return f"Session({self.model!r}, {self.target!r}, {self.config.name!r}, {', '.join(sides)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: inputs and outputs; after a run its figures and its dearest layers."""
        from tosaic.driver.run_display import session_html

        heading = f"{self.model} on {self.target} ({self.config.name})"
        return session_html(heading, self.inputs, self.outputs, self.stats)

    def close(self) -> None:
        """Lets go of the device that the session opened; does nothing for other targets."""
        if self.device is not None and self._owns_device:
            self.device.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def timeline(self) -> list[Slice]:
        """Returns when each unit worked on what, and for which layer, in the last run: every GO, in cycles measured on
        the RTL, elsewhere by the emulator's cycle model.

        After a run on another target than the emulator the program is executed there once more. Empty on golden."""
        if self.program is None or self.result is None:
            return []
        if not self.result.slices:
            runner = make_runner(
                "emulator", self.program, dataclasses.replace(self._options, max_cycles=None, wave=None)
            )
            memory = self.program.memory()
            for port in (*self.program.inputs, *self.program.states):
                port.write(memory, self._values[port.name])
            slices = runner(memory).slices
            if self.result.activity:
                from tosaic.sim.rtl.measured import measured_slices

                slices = measured_slices(slices, self.result.activity) or slices
            self.result = dataclasses.replace(self.result, slices=slices)
        return with_layers(self.program, self.result.slices)

    # --- inside

    def _entered(self, given: Mapping[str, np.ndarray], *, real: bool) -> dict[str, np.ndarray]:
        """What the machine gets for what users give; `real`: they may give reals."""
        known = {each.name: each for each in self.inputs} if real else {}
        return {name: entering(known[name], v) if name in known else v for name, v in given.items()}

    def _given_back(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What users get for what the machine gives."""
        return outputs

    def _compare(
        self,
        agreement: "Agreement",
        given: Mapping[str, np.ndarray],
        values: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> None:
        """Runs the network on the same reals, sample by sample of a batch."""
        network = self._origin.network(remembers=bool(self.state))
        known = {each.name: each for each in (*self.inputs, *self.state.arguments)}
        asked = {
            **given,
            **{name: reals(each, given.get(name, values[name])) for name, each in known.items()},
        }
        sides = [dict(side) for side in (asked, values, outputs)]
        parts = [
            {name: np.split(array, self.batch) if self.batch > 1 else [array] for name, array in side.items()}
            for side in sides
        ]
        single = [dataclasses.replace(o, shape=parts[2][o.name][0].shape) for o in self.outputs]
        for number in range(self.batch):
            reals_of, integers, got = ({name: each[number] for name, each in side.items()} for side in parts)
            agreement.add(single, network.outputs_for(reals_of, single), got)
            if isinstance(self._single, Graph):
                worst = network.worst(self._single, reals_of, integers)
                if worst is not None and (agreement.worst is None or worst[1] < agreement.worst[1]):
                    agreement.worst = worst

    def _golden(
        self, values: dict[str, np.ndarray], keep: bool, strict: bool = False
    ) -> dict[str, np.ndarray]:
        """What golden gives: each sample by itself, so that it also tells whether the batch is right. `keep`: with the
        tensors inside."""
        from tosaic.sim.golden import evaluate

        assert self.graph is not None
        if self.batch == 1:
            return evaluate(self.graph, values, keep=keep, strict=strict)
        assert isinstance(self._single, Graph)
        single = self._single
        parts = zip(*(np.split(array, self.batch) for array in values.values()), strict=True)
        each = [evaluate(single, dict(zip(values, part, strict=True)), strict=strict) for part in parts]
        inside = evaluate(self.graph, values, keep=True) if keep else {}
        return inside | {name: np.concatenate([outputs[name] for outputs in each]) for name in each[0]}

    def _run_in_batches(
        self, inputs: Mapping[str, np.ndarray], check: bool, progress: Progress | None
    ) -> dict[str, np.ndarray]:
        """Runs as `run_batch` does; the last batch is filled with its last sample."""
        arrays = {name: np.asarray(values) for name, values in inputs.items()}
        count = max((len(values) for values in arrays.values() if values.ndim), default=0)
        filled = {}
        for name, values in arrays.items():
            if values.ndim > 1 and len(values) == count:
                values = np.concatenate([values, *[values[-1:]] * (-count % self.batch)])
                values = values.reshape(-1, self.batch * values.shape[1], *values.shape[2:])
            filled[name] = values
        samples = checked_samples([*self.inputs, *self.state.arguments], filled, self.state)
        parts = []
        for first, runs in enumerate(zip(*samples.values(), strict=True)):
            own = dict(zip(samples, runs, strict=True))
            if progress is not None:
                progress("run", first * self.batch, count)
            parts.append(self._execute_samples({name: array[None] for name, array in own.items()}))
            if check:
                self._check(own, {name: array[0] for name, array in parts[-1].items()})
        if progress is not None:
            progress("run", count, count)
        return {
            port.name: np.concatenate([part[port.name] for part in parts]).reshape(
                -1, port.shape[0] // self.batch, *port.shape[1:]
            )[:count]
            for port in self.outputs
        }

    def _execute(
        self, values: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], RunResult]:
        """Outputs, what the run leaves of the states, and measurements."""
        program = self.program
        assert program is not None
        if self._runner is None:
            self._runner = make_runner(self.device or self.target, program, self._options)
        memory = program.memory()
        for port in (*program.inputs, *program.states):
            port.write(memory, values[port.name])
        try:
            result = naming_weights(program, self._runner)(memory)
        except DeviceError:
            self.state.reset()
            raise
        self.kept = {port.name: port.read(memory) for port in program.kept}
        outputs, left = (
            {port.name: port.read(memory) for port in ports} for ports in (program.outputs, program.states)
        )
        return outputs, left, result

    def _execute_samples(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs [samples, ...]; those of the emulator with what was kept of layers, too."""
        if self.target == "emulator":
            from .batches import booted_image, run_samples

            assert self.program is not None
            run = naming_weights(self.program, run_samples)
            if self._booted is None:
                self._booted = naming_weights(self.program, booted_image)(self.program)
            return run(self.program, values, self._options.max_cycles, self._booted)
        samples = [dict(zip(values, arrays, strict=True)) for arrays in zip(*values.values(), strict=True)]
        if self.target == "golden":
            outputs = [self._golden(sample, keep=False) for sample in samples]
        else:
            outputs = [self._execute(sample)[0] for sample in samples]
        return {name: np.stack([each[name] for each in outputs]) for name in outputs[0]}

    def _check(self, values: dict[str, np.ndarray], tensors: dict[str, np.ndarray]) -> None:
        """Raises MismatchError unless golden has the same outputs, and the same tensors inside where there are some."""
        assert self.graph is not None
        golden = self._golden(values, keep=self.program is not None and bool(self.program.kept))
        try:
            compare(self.graph, tensors, golden)
        except MismatchError as mismatch:
            raise blame(self.graph, values, mismatch) from None

    def _memory_statistics(self) -> dict[str, float | None]:
        """What the target's memory was told to be like; None where it is as it is."""
        options, honours = self._options, self._kind.honours
        bandwidth = options.memory_bandwidth or self.config.bus_bytes
        # 16, not 16.0, where people and programs read it.
        bandwidth = int(bandwidth) if bandwidth == int(bandwidth) else bandwidth
        return {
            "memory_bandwidth": bandwidth if "memory_bandwidth" in honours else None,
            "memory_latency": options.latency_cycles if "memory_latency" in honours else None,
        }


def _batched(model: Graph | Program, batch: int) -> Graph | Program:
    if isinstance(model, Graph):
        return batched(model, batch)
    if batch != 1:
        raise InputError("a compiled program has the batch that it was compiled for: leave the batch out")
    return model


def run(
    model: str | pathlib.Path | Graph | Program,
    inputs: Mapping[str, np.ndarray],
    target: str = "sim",
    *,
    strict: bool = False,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Runs a model once, as `Session(model, target, **options).run(inputs, strict=strict)` does."""
    return Session(model, target, **options).run(inputs, strict=strict)
