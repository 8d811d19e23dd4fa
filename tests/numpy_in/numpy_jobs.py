"""Cases of NumPy in as jobs: a slice of the type matrix or of the random programs, and what came of each case."""

import collections
import itertools
import json
import pathlib
from typing import Any

from failed_case import Case as FailedCase
from failed_case import fewest
from numpy_cases import BOTH, Case, Verdict, judge, matrix, of_steps, program

from tosaic.driver.jobs import Done, Job, JobFunction

KINDS = ("matrix", "programs")
MATRIX_CASES = sum(1 for _ in matrix(0))
"""Cases of the type matrix for one seed."""
_HERE = pathlib.Path(__file__).resolve().parent
_FOLDERS = (_HERE, _HERE.parent / "fuzzing")
SHOWN = 600
"""Characters of what went wrong."""


def cases_job(kind: str, seed: int, first: int, count: int, rtl_every: int) -> Job:
    """Cases `first` to `first + count`; every `rtl_every`-th also on the RTL, none with 0."""
    settings = {"kind": kind, "first": first, "count": count, "rtl_every": rtl_every}
    title = f"{kind} {seed}.{first}"
    return Job(JobFunction("numpy_jobs:judge_cases", _FOLDERS), None, "nano", "", seed, settings, title=title)


def judge_cases(job: Job) -> Done:
    """How many verdicts of each kind, and what was wrong by the number of its case."""
    tally: collections.Counter[str] = collections.Counter()
    wrong, chosen = {}, job.settings
    first, last = chosen["first"], chosen["first"] + chosen["count"]
    # Each case of the matrix goes on with the generator of the ones before it, so it is made once for a slice.
    made = itertools.islice(matrix(job.seed), first, last) if chosen["kind"] == "matrix" else None
    for number in range(first, last):
        targets = _targets(number, chosen["rtl_every"])
        tally["on the RTL"] += len(targets) > len(BOTH)
        try:
            case = next(made) if made else program(job.seed, number)
            verdict, label = judge(case, targets), case.label
        except Exception as error:  # What goes wrong with one case must not hide what goes wrong with others.
            verdict, label = Verdict("WRONG", f"{type(error).__name__}: {error}"), "stopped"
        if verdict.kind == "WRONG" or (chosen["kind"] == "programs" and verdict.kind != "exact"):
            wrong[str(number)] = f"{verdict.kind} {verdict.text}: {label}"[:SHOWN]
        else:
            tally[verdict.kind] += 1
    return Done({"tally": dict(tally), "wrong": wrong})


def case_of(kind: str, seed: int, number: int) -> Case:
    """A case by its number."""
    return program(seed, number) if kind == "programs" else next(itertools.islice(matrix(seed), number, None))


def _targets(number: int, rtl_every: int) -> tuple[str, ...]:
    return (*BOTH, "sim") if rtl_every and number % rtl_every == 0 else BOTH


def smallest(kind: str, seed: int, number: int, rtl_every: int) -> FailedCase:
    """A case that went wrong, as one to keep; of a program the steps that it takes."""
    settings = {"kind": kind, "seed": seed, "number": number, "targets": _targets(number, rtl_every)}
    steps = case_of(kind, seed, number).steps
    case = FailedCase(
        "numpy_jobs:judge_case", tuple(map(str, _FOLDERS)), json.dumps(steps).encode(), settings
    )
    if not case.fails_with():
        return case

    def fails(some: list[Any]) -> bool:
        return "WRONG" in judge(of_steps(seed, number, some), settings["targets"]).kind

    left = fewest(list(steps), fails) if steps and fails(list(steps)) else steps
    return FailedCase(case.judge, case.folders, json.dumps(left).encode(), settings)


def judge_case(data: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with a case that a campaign kept."""
    seed, number, steps = settings["seed"], settings["number"], json.loads(data)
    case = of_steps(seed, number, steps) if steps else case_of(settings["kind"], seed, number)
    verdict = judge(case, settings["targets"])
    return f"{verdict.text}: {case.label}" if verdict.kind == "WRONG" else ""
