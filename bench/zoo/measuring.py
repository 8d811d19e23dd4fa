"""One network through all stages: import, floats against its framework, quantizing, held-out score, the accelerator."""

import dataclasses
import math
import pathlib
import time

import numpy as np
from catalogue import Network, fetch
from framework import Arrays, framework
from samples import Task, make
from signals import Source

from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.driver.jobs import Done, Job
from tosaic.driver.models import open_with_encodings
from tosaic.driver.quantize import Measurement, Quantization, measure, quantize_graph
from tosaic.driver.quantize.measurement import Difference
from tosaic.driver.quantize.samples import split_samples
from tosaic.driver.session import Session
from tosaic.sim.golden import evaluate

ENOUGH_DB = 20.0
"""Decibels below which the network is quantized to int16 activations too."""
FLOAT_TOLERANCE = 1e-4
"""Share of an output's range that golden may be from the framework."""


@dataclasses.dataclass
class Record:
    """What came of a network, as far as it came: None is not reached. `failure` tells where it stopped, and why."""

    name: str
    failure: str | None = None
    golden_error: float | None = None
    """The largest difference of golden in floats and the framework, as a share of the output's range."""
    sqnr_db: float | None = None
    """Decibels of the worst output, int8, on samples that calibration did not see; infinite is given as 999."""
    int16_sqnr_db: float | None = None
    """Decibels with activations of 16 bits, where 8 are not enough."""
    wide_sqnr_db: float | None = None
    """Decibels with weights of 16 bits too, where those are not enough."""
    weakest: str | None = None
    """Where SQNR falls most, when it is too low."""
    agreement: float | None = None
    """Share of equal largest elements along the last axis, of classifiers."""
    macs: int | None = None
    cycles: int | None = None
    utilization: float | None = None
    program_bytes: int | None = None
    target: str | None = None
    bit_exact: bool | None = None
    partial: bool = False
    """Whether it was not run on the accelerator, because the network is large."""
    seconds: float | None = None
    commit: str | None = None
    """Commit of the repository when it was measured; None before this was kept."""


def measure_job(job: Job) -> Done:
    """The record of the network in the job's settings, without what differs from place to place: seconds, and the
    commit, which a worker of a cluster does not know."""
    settings = dict(job.settings)
    folder, large = pathlib.Path(settings.pop("folder")), settings.pop("large_ones")
    found = dataclasses.asdict(measure_network(Network(**settings), folder, large))
    del found["seconds"], found["commit"]
    return Done(found)


def measure_network(network: Network, folder: pathlib.Path, large: bool = False) -> Record:
    """The record of a network; what fails is in it, and never raised."""
    record, started = Record(network.name), time.perf_counter()
    try:
        _fill(record, network, folder, large)
    except Exception as error:  # noqa: BLE001 (a zoo goes on, and tells)
        stage = next(name for name, reached in _STAGES.items() if getattr(record, reached) is None)
        record.failure = f"{stage}: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
    record.seconds = round(time.perf_counter() - started, 1)
    return record


_STAGES = {"import": "golden_error", "quantize": "sqnr_db", "run": "bit_exact", "after the run": "failure"}


def _fill(record: Record, network: Network, folder: pathlib.Path, large: bool) -> None:
    path = fetch(network, folder)
    graph, _ = open_with_encodings(path, Bindings(network.shapes, network.values))
    assert isinstance(graph, Graph)
    run = framework(path, network.values)
    seen = make(
        network.samples, Task(graph, network.calibration, Source(0, np.random.default_rng(1)), run, folder)
    )
    unseen = make(
        network.samples, Task(graph, network.held_out, Source(1, np.random.default_rng(2)), run, folder)
    )
    if not _has_floats(graph):
        _integers(record, network, graph, run, unseen)
        return
    record.golden_error = _golden_error(graph, run, unseen[:2])
    if network.large and not large:
        record.partial = True
        return
    quantization = quantize_graph(graph, _stacked(seen))
    arrays = _stacked(unseen)
    held_out = {"samples": split_samples(graph, arrays), "calibration": arrays}
    measured = measure(dataclasses.replace(quantization, **held_out))
    rows = [run(each) for each in unseen]
    record.sqnr_db = _worst_db(quantization.canonical, measured, _named(graph, rows))
    if network.classifies:
        record.agreement = min(measured.agreement.values())
    if record.sqnr_db < ENOUGH_DB:
        record.weakest = _weakest(quantization, measured)
        named = _named(graph, rows)

        def finer_db(weights: str) -> float:
            finer = quantize_graph(graph, _stacked(seen), activations="int16", weights=weights)
            return _worst_db(finer.canonical, measure(dataclasses.replace(finer, **held_out)), named)

        record.int16_sqnr_db = finer_db("int8")
        if record.int16_sqnr_db < ENOUGH_DB:
            record.wide_sqnr_db = finer_db("int16")
    result = quantization.result
    encoded = {
        name: result.inputs[name].quantize(value) if name in result.inputs else value
        for name, value in held_out["samples"][0].items()
    }
    _execute(record, Session(result, network.target, "base"), [encoded])


def _execute(record: Record, session: Session, runs: list[Arrays]) -> None:
    """Runs on the accelerator, bit for bit against golden; the figures are those of the last run."""
    for inputs in runs:
        session.run(inputs, check=True)
    stats, program = session.stats, session.program
    assert program is not None
    record.macs, record.cycles = stats["macs"], stats["cycles"]
    record.utilization, record.program_bytes = stats["mac_utilization"], len(program.image)
    record.target, record.bit_exact = session.target, stats["bit_exact"]


def _integers(record: Record, network: Network, graph: Graph, run: object, samples: list[Arrays]) -> None:
    """A network of integers: golden must be the framework's reference kernels, from run to run with its state."""
    golden, differences = Session(graph, "golden"), [0.0]
    for inputs in samples:
        wanted, got = run(inputs), golden.run(inputs)  # type: ignore[operator]
        for name, value in _paired(got, wanted):
            differences.append(float(np.abs(got[name].astype(np.int64) - value.astype(np.int64)).max()))
    record.golden_error = max(differences) / 255
    record.sqnr_db = 999.0 if max(differences) == 0 else None
    _execute(record, Session(graph, network.target, "base"), samples[:3])


def _named(graph: Graph, rows: list[Arrays]) -> list[Arrays]:
    """The framework's outputs under our names."""
    return [
        dict(_paired({name: np.zeros(graph.tensors[name].shape) for name in graph.outputs}, row))
        for row in rows
    ]


def _has_floats(graph: Graph) -> bool:
    return any(tensor.dtype.is_float for tensor in graph.tensors.values())


def _paired(got: Arrays, wanted: Arrays) -> list[tuple[str, np.ndarray]]:
    """The framework's output for each of ours: by name, or by place where the names differ; unsigned as we hold it."""
    # What a network remembers stands behind its own outputs.
    matching = wanted if set(wanted) <= set(got) else dict(zip(got, wanted.values(), strict=False))
    pairs = []
    for name, other in matching.items():
        value = got[name]
        pairs.append((name, (other.view(np.int8) if other.dtype == np.uint8 else other).reshape(value.shape)))
    return pairs


def _golden_error(graph: Graph, run: object, samples: list[Arrays]) -> float:
    """The largest difference, each as a share of its output's range: 1 for a probability, else as in the samples."""
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for inputs in samples:
        got = evaluate(graph, inputs)
        for name, value in _paired(got, run(inputs)):  # type: ignore[operator]
            found.setdefault(name, []).append((np.asarray(got[name], float), np.asarray(value, float)))
    errors = []
    for name, pairs in found.items():
        whole = np.concatenate([wanted.reshape(-1) for _, wanted in pairs])
        span = float(np.ptp(whole)) if len(whole) > 16 else float(np.abs(whole).max())
        if _is_probability(graph, name):
            span = 1.0
        errors.append(max(float(np.abs(got - wanted).max()) for got, wanted in pairs) / (span or 1.0))
    return max(errors)


def _is_probability(graph: Graph, name: str) -> bool:
    """Whether a tensor is the result of a SIGMOID, or its elements moved."""
    producer = graph.producer(name)
    while producer is not None and producer.op in ("RESHAPE", "TRANSPOSE", "CONCAT", "SLICE"):
        producer = graph.producer(producer.inputs[0])
    return producer is not None and producer.op == "SIGMOID"


def _stacked(samples: list[Arrays]) -> Arrays:
    return {name: np.stack([each[name] for each in samples]) for name in samples[0]}


def _worst_db(graph: Graph, measured: Measurement, rows: list[Arrays]) -> float:
    decibels = {each.name: each.sqnr_db for each in (*measured.layers, *measured.outputs)}
    worst = min((_judged_db(graph, each, rows, decibels) for each in measured.outputs), default=math.inf)
    return max(min(worst, 999.0), -999.0)


NEVER = 0.05
"""Where a probability stays below it in all samples, what goes into the SIGMOID is judged: 8 bits show no more."""


def _judged_db(graph: Graph, output: Difference, rows: list[Arrays], decibels: dict[str, float]) -> float:
    if (
        not _is_probability(graph, output.name)
        or max(np.abs(each[output.name]).max() for each in rows) > NEVER
    ):
        return output.sqnr_db
    producer = graph.producer(output.name)
    while producer is not None and producer.inputs[0] not in decibels:
        producer = graph.producer(producer.inputs[0])
    return output.sqnr_db if producer is None else decibels[producer.inputs[0]]


def _weakest(quantization: Quantization, measured: Measurement) -> str:
    """The layer whose SQNR is furthest below that of what it reads."""
    graph = quantization.canonical
    decibels = {each.name: each.sqnr_db for each in (*measured.layers, *measured.outputs)}
    falls = []
    for op in graph.operators:
        read = [decibels[name] for name in op.inputs if name in decibels]
        made = [decibels[name] for name in op.outputs if name in decibels]
        # The factors of equalization change what each channel weighs.
        if read and made and math.isfinite(min(read)) and not op.outputs[0].endswith("/even"):
            falls.append((min(read) - min(made), op, min(read), min(made)))
    if not falls:
        return "?"
    _, op, before, after = max(falls, key=lambda each: each[0])
    return f"{op.op} `{op.outputs[0]}`: {before:.1f} to {after:.1f} dB"
