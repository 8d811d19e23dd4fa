"""Judges cases, each with each consumer as a job, and finds the smallest part of what goes wrong."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.driver.jobs import Done, Executor, Job, JobFunction, Record, RecordFile, run_jobs
from tosaic.driver.jobs.perform import told
from tosaic.driver.session import Progress
from tosaic.errors import InputError, ModelError, UnpredictableError, UnsupportedError
from tosaic.sim.golden import evaluate

from .case import TOSA, JudgeCase
from .consumers import Consumer, consumer_of
from .minimize import minimized, operators_of, part_of, signature
from .outcome import VERDICTS, JudgeOutcome, JudgeVerdict, compared, failed
from .sources import CaseSource

LIMIT_SECONDS = 60.0
SHOWN = (JudgeVerdict.DIFFERS, JudgeVerdict.CRASHED)
"""Verdicts whose graphs are made smaller at once; of refusals one for each reason is, in the end."""
ARBITER = "reference-model"


@dataclasses.dataclass(frozen=True)
class Judged:
    """What a consumer made of a case."""

    source: CaseSource
    consumer: str
    outcome: JudgeOutcome
    operators: tuple[str, ...]
    """Operators in the graph."""
    part: tuple[int, ...]
    """Numbers of the operators of the smallest part that shows it; all where it was not looked for."""
    smallest: JudgeOutcome
    """The outcome of that part."""
    signature: str
    """That part in words."""
    arbiter: str
    """The reference model's verdict on that part; empty where it was not asked."""

    @property
    def wrong(self) -> bool:
        return self.outcome.verdict in (*SHOWN, JudgeVerdict.TIMED_OUT)

    @property
    def refused(self) -> bool:
        return self.outcome.verdict is JudgeVerdict.REFUSED


def judge_all(
    sources: Sequence[CaseSource],
    consumers: Sequence[str],
    executor: Executor,
    records: RecordFile | None = None,
    progress: Progress | None = None,
    *,
    limit_seconds: float = LIMIT_SECONDS,
) -> list[Judged]:
    """What each consumer makes of each case that has its form. `records` keeps what is done, as every run of jobs. Of
    the refusals one for each reason is made smaller.

    InputError for a consumer that is unknown or missing."""
    found = {name: consumer_of(name) for name in consumers}
    versions = {name: each.version() for name, each in found.items()}
    for each in found.values():
        if not any(source.has(each.form) for source in sources):
            raise InputError(
                f"{each.name} reads graph.{each.form}, which none of the {len(sources):,} graphs has; "
                "`python bench/judge_cases.py` of the repository makes graphs in several forms"
            )
    pairs = [(source, name) for name in found for source in sources if source.has(found[name].form)]
    records = records or RecordFile()

    def done(pairs: Sequence[tuple[CaseSource, str]], refusals: bool) -> list[Judged]:
        jobs = [_job(*pair, versions[pair[1]], limit_seconds, refusals) for pair in pairs]
        ended = run_jobs(jobs, executor, records, progress)
        return [_judged(*pair, record) for pair, record in zip(pairs, ended, strict=True)]

    judged = done(pairs, refusals=False)
    examples = {
        (each.consumer, each.outcome.kind): number
        for number, each in reversed(list(enumerate(judged)))
        if each.refused
    }
    numbers = sorted(examples.values())
    for number, smaller in zip(
        numbers, done([pairs[number] for number in numbers], refusals=True), strict=True
    ):
        judged[number] = smaller
    return judged


def versions_of(consumers: Sequence[str]) -> dict[str, str]:
    """What is installed, by consumer."""
    return {name: consumer_of(name).version() for name in consumers}


def _job(source: CaseSource, name: str, version: str, limit_seconds: float, refusals: bool) -> Job:
    settings = {
        "kind": source.kind,
        "consumer": name,
        "version": version,
        "limit_seconds": limit_seconds,
        "refusals": refusals,
    }
    work = JobFunction(f"{__name__}:run_job")
    return Job(work, source.path, target=name, seed=source.seed, settings=settings, title=source.title)


def _judged(source: CaseSource, name: str, record: Record) -> Judged:
    if record.failure is not None:
        outcome = JudgeOutcome(JudgeVerdict.FAILED, record.failure)
        return Judged(source, name, outcome, (), (), outcome, "", "")
    result = record.result
    return Judged(
        source,
        name,
        JudgeOutcome.of_plain(result["outcome"]),
        tuple(result["operators"]),
        tuple(result["part"]),
        JudgeOutcome.of_plain(result["smallest"]),
        result["signature"],
        result["arbiter"],
    )


def run_job(job: Job) -> Done:
    """A case through a consumer."""
    settings = job.settings
    asked = _consumer(settings["consumer"])
    if asked.version() != settings["version"]:
        raise InputError(
            f"{asked.name}: {asked.version()} is installed here, {settings['version']} is asked for"
        )
    try:
        case = CaseSource(settings["kind"], job.model, job.seed).load()
    except ModelError as error:
        return Done(_plain(JudgeOutcome(JudgeVerdict.OPEN, f"the graph is illegal: {told(str(error), job)}")))
    wanted = (*SHOWN, JudgeVerdict.REFUSED) if settings["refusals"] else SHOWN
    return Done(_result(case, asked, settings["limit_seconds"], wanted))


@functools.cache
def _consumer(text: str) -> Consumer:
    return consumer_of(text)


def _result(
    case: JudgeCase, asked: Consumer, limit_seconds: float, wanted: Sequence[JudgeVerdict]
) -> dict[str, Any]:
    outcome = judge(case, asked, limit_seconds)
    numbers, smallest, shown = tuple(range(len(case.graph.operators))), outcome, ""
    arbiter: JudgeVerdict | None = None
    if outcome.verdict in wanted:
        part = minimized(case, outcome, lambda each: judge(each, asked, limit_seconds))
        numbers, smallest = part.operators, part.outcome
        small = part_of(case, numbers) if len(numbers) < len(case.graph.operators) else case
        shown, arbiter = signature(small), _arbiter(small, asked, limit_seconds)
        if arbiter is JudgeVerdict.OPEN:
            outcome = smallest = JudgeOutcome(
                JudgeVerdict.OPEN, f"TOSA leaves it open, by its reference model: {shown}"
            )
    found = _plain(outcome, smallest)
    found |= {"operators": operators_of(case.graph), "part": list(numbers), "signature": shown}
    return found | {"arbiter": arbiter.value if arbiter else ""}


def _plain(outcome: JudgeOutcome, smallest: JudgeOutcome | None = None) -> dict[str, Any]:
    """A record's result."""
    whole = {"outcome": outcome.plain(), "smallest": (smallest or outcome).plain()}
    return {**whole, "operators": [], "part": [], "signature": "", "arbiter": ""}


def _arbiter(case: JudgeCase, asked: Consumer, limit_seconds: float) -> JudgeVerdict | None:
    """The reference model's verdict; None where it is not installed, or is the one that is judged."""
    if asked.name == ARBITER:
        return None
    model = _consumer(ARBITER)
    try:
        model.version()
    except InputError:
        return None
    return judge(case, model, limit_seconds).verdict


def judge(case: JudgeCase, asked: Consumer, limit_seconds: float = LIMIT_SECONDS) -> JudgeOutcome:
    """What a consumer makes of a case, against golden."""
    try:
        golden = _golden(case)
    except (UnpredictableError, UnsupportedError, InputError) as error:
        return JudgeOutcome(JudgeVerdict.OPEN, " ".join(str(error).split()))
    try:
        return compared(case, asked.run(case, limit_seconds), golden, near=asked.form != TOSA)
    except tuple(VERDICTS) as error:
        return failed(error)


def _golden(case: JudgeCase) -> Mapping[str, np.ndarray]:
    graph = case.graph
    if graph.states:
        raise UnsupportedError("the graph remembers values from run to run (VARIABLE)")
    floats = [name for name in graph.outputs if graph.tensors[name].dtype.is_float]
    if floats:
        raise UnsupportedError(f"output {graph.tensors[floats[0]]} is a float; the judge compares integers")
    return evaluate(graph, dict(case.feeds), strict=True)
