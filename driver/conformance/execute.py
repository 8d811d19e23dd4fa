"""Runs tests on a target, each as a job."""

import pathlib
import time
from collections.abc import Sequence

import numpy as np

from tosaic.driver.jobs import Done, Executor, Job, JobFunction, LocalProcesses, RecordFile, run_jobs
from tosaic.driver.jobs.perform import ALL, told
from tosaic.driver.session import Progress, Session
from tosaic.errors import Error, ModelError, UnsupportedError

from .case import ConformanceCase, read_case
from .compare import difference
from .float_files import load_input
from .result import Result, Verdict

LIMIT_SECONDS = 120.0


def run_cases(
    cases: Sequence[ConformanceCase],
    target: str,
    config: str,
    executor: Executor | None = None,
    records: RecordFile | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """The verdicts, in the order of `cases`. A test whose job fails (time limit, crash) is an ERROR; the others run on.

    By itself in a process of this computer, LIMIT_SECONDS for each test; `records` keeps what is done."""
    work = JobFunction(f"{__name__}:run_job")
    jobs = [Job(work, case.folder, config, target, title=f"{case.operator} {case.name}") for case in cases]
    found = run_jobs(jobs, executor or LocalProcesses(1, LIMIT_SECONDS), records, progress)
    return [
        Result(case, Verdict.ERROR, record.failure, record.seconds[ALL])
        if record.failure is not None
        else Result(case, Verdict(record.result["verdict"]), record.result["reason"], record.seconds[ALL])
        for case, record in zip(cases, found, strict=True)
    ]


def run_job(job: Job) -> Done:
    """The verdict on the test in the job's folder."""
    assert job.model is not None
    result = run_case(read_case(pathlib.Path(job.model) / "desc.json"), job.target, job.config)
    return Done({"verdict": result.verdict.value, "reason": told(result.reason, job)})


def run_case(case: ConformanceCase, target: str, config: str) -> Result:
    """The verdict on a test; no exception leaves this function."""
    started = time.perf_counter()
    try:
        verdict, reason = (
            _negative(case, target, config) if case.negative else _positive(case, target, config)
        )
    except Exception as error:  # A crash is a verdict: the other tests must run on.
        verdict, reason = Verdict.ERROR, f"{type(error).__name__}: {error}"
    return Result(case, verdict, " ".join(reason.split()), time.perf_counter() - started)


def _outputs(case: ConformanceCase, target: str, config: str) -> dict[str, np.ndarray]:
    session = Session(case.folder / case.graph, target, config)
    types = {argument.name: argument.type for argument in session.inputs}
    return session.run({name: load_input(case.folder / file, types.get(name)) for name, file in case.inputs})


def _positive(case: ConformanceCase, target: str, config: str) -> tuple[Verdict, str]:
    try:
        outputs = _outputs(case, target, config)
    except UnsupportedError as error:
        return Verdict.REJECTED, str(error)
    except Error as error:
        return Verdict.ERROR, f"{type(error).__name__}: {error}"
    problem = difference(case, outputs)
    return (Verdict.MISMATCH, problem) if problem else (Verdict.PASS, "")


def _negative(case: ConformanceCase, target: str, config: str) -> tuple[Verdict, str]:
    try:
        _outputs(case, target, config)
    except ModelError as error:
        return Verdict.PASS, str(error)
    except UnsupportedError as error:
        return Verdict.REJECTED, f"rejected as unsupported, not as illegal: {error}"
    except Error as error:
        return Verdict.ERROR, f"{type(error).__name__}: {error}"
    return Verdict.ACCEPTED, "the graph is illegal and was not rejected"
