"""An evaluation as jobs: each judges a part of the data set on one target, wherever the executor does it."""

import functools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tosaic.compiler.importers.bindings import Bindings
from tosaic.driver.digests import digest_of
from tosaic.driver.encodings import sidecar
from tosaic.driver.jobs import Done, Executor, Job, JobFunction, RecordFile, result_of, run_jobs
from tosaic.driver.models import Progress
from tosaic.driver.quantize import load_samples
from tosaic.driver.runnable import plain
from tosaic.driver.source import find_network
from tosaic.errors import InputError

from .counts import FLOAT, Counts
from .evaluation import CHUNK_SAMPLES, DEFAULT_TERMS, Evaluation, EvaluationTerms, Facts, Judge

Files = tuple[pathlib.Path, pathlib.Path, pathlib.Path | None]
"""Model, data set (.npz) and float model."""


def evaluate_in_parts(
    files: Files,
    targets: Sequence[str],
    place: Executor,
    records: RecordFile | None = None,
    *,
    terms: EvaluationTerms = DEFAULT_TERMS,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluates files as `evaluate` does, by jobs at `place`; the figures are the same.

    `records` keeps what is done. Raises what `evaluate` raises, DeviceError for a job that fails; InputError also for
    two files of the same name, which a cluster's worker could not tell apart.
    """
    model, data, against = files
    if not targets:
        raise InputError("there is no target to evaluate on; name one, as emulator or golden")
    if terms.check and against is None:
        origin = find_network(str(model)).origin
        against = pathlib.Path(origin) if isinstance(origin, str | pathlib.Path) else None
    settings = {
        "data": data.name,
        "labels": terms.labels,
        "against": against.name if against else None,
        "config": terms.config,
        **plain(Bindings.of(terms.bound)),
    }
    beside = _beside(model, data, against)
    arrays = load_samples(data, "test data")
    # What does not fit is said here, once, and not by each job.
    opened = targets[0] if model.suffix == ".tsc" else "golden"
    with Judge(str(model), arrays, [opened], against, terms) as judge:
        count = judge.samples
    work = JobFunction(f"{__name__}:judge")
    jobs = [
        Job(
            work,
            model,
            terms.config or "base",
            target,
            0,
            {**settings, "start": start},
            beside,
            f"{target}, from {start}",
        )
        for target in dict.fromkeys(targets)
        for start in range(0, count, CHUNK_SAMPLES)
    ]
    found = run_jobs(jobs, place, records, progress)
    parts = [(job.target, result_of(record), record.seconds) for job, record in zip(jobs, found, strict=True)]
    facts, counts, seconds = _joined(parts)
    evaluation = facts.evaluation(counts, seconds)
    evaluation.problem = judge.problem(counts, facts.targets)
    return evaluation


def judge(job: Job) -> Done:
    """The counts of one part."""
    assert job.model is not None
    here = {path.name: path for path in job.files}
    settings = job.settings
    against = here[settings["against"]] if settings["against"] else None
    read = (job.model, here[settings["data"]], against)
    shared = json.dumps({name: value for name, value in settings.items() if name != "start"}, sort_keys=True)
    own = _judge(read, tuple(digest_of(path) for path in read if path), job.target, shared)
    before = dict(own.seconds)
    counts = own.counts(settings["start"])
    spent = {name: seconds - before.get(name, 0.0) for name, seconds in own.seconds.items()}
    facts = own.facts
    said = {"model": facts.model, "samples": facts.samples, "against": facts.against}
    outputs = [[name, list(shape)] for name, shape in facts.outputs]
    said["steps"] = [list(each) for each in facts.steps]
    told = {**said, "outputs": outputs, "labelled": list(facts.labelled), "counts": counts.as_json()}
    return Done(told, spent)


@functools.lru_cache(1)
def _judge(read: Files, digests: tuple[str, ...], target: str, shared: str) -> Judge:
    """The parts that a process judges one after the other are mostly of one model: it is compiled once."""
    del digests  # They tell files of one name apart.
    model, data, against = read
    settings = json.loads(shared)
    terms = EvaluationTerms(
        settings["labels"], settings["config"], Bindings(settings["shapes"], settings["values"])
    )
    arrays = load_samples(data, "test data")
    return Judge(str(model), arrays, [target], against, terms)


def _beside(
    model: pathlib.Path, data: pathlib.Path, against: pathlib.Path | None
) -> tuple[pathlib.Path, ...]:
    """What a part reads beside the model."""
    found = (data, *((against,) if against else ()))
    files = tuple(dict.fromkeys((*found, *(each for each in (sidecar(model),) if each.is_file()))))
    names = [path.name for path in dict.fromkeys((model, *files))]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two of the files are called {name}: give one another name, to evaluate in parts"
            )
    return files


def _joined(
    parts: Sequence[tuple[str, Mapping[str, Any], Mapping[str, float]]],
) -> tuple[Facts, Counts, dict[str, float]]:
    """What was counted on all parts, and the seconds; each target has the float model's counts: one's are enough."""
    targets = tuple(dict.fromkeys(target for target, *_ in parts))
    counts, seconds = Counts(), dict.fromkeys((FLOAT, *targets), 0.0)
    for target, said, spent in parts:
        own = [each for each in said["counts"] if target == targets[0] or each["target"] != FLOAT]
        counts.join(Counts.of_json(own))
        for name in spent.keys() & seconds.keys():
            seconds[name] += spent[name]
    first = parts[0][1]
    if first["against"] is None:
        del seconds[FLOAT]
    facts = Facts(
        first["model"],
        first["samples"],
        first["against"],
        targets,
        tuple((name, tuple(shape)) for name, shape in first["outputs"]),
        tuple(first["labelled"]),
        tuple((name, step) for name, step in first["steps"]),
    )
    return facts, counts, seconds
