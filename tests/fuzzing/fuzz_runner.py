"""What all fuzzing of damaged files shares: the tally of a run, the judgement of an input, a long run's command line.

A format's own module makes samples, damages them, and says what an attempt is. Each attempt must end in a result or in
an error of one line; `allowed_bytes` limits the memory that Python takes for it.
"""

import argparse
import dataclasses
import importlib
import pathlib
import resource
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import campaign_log
from failed_case import Case, leave, smaller_file

from tosaic.driver.jobs import Done, Job, JobFunction, RecordFile, place_of, run_jobs
from tosaic.errors import Error

Result = TypeVar("Result")
FREE_BYTES, FILE_FACTOR = 256 << 20, 4


def allowed_bytes(file_bytes: int) -> int:
    """The importers' rule of what a file may make them take."""
    return FREE_BYTES + FILE_FACTOR * file_bytes


@dataclass(frozen=True)
class Failure:
    """A case that went wrong, and the bytes that were damaged for it."""

    case: Case
    original: bytes


@dataclass
class Tally:
    """What became of the inputs, by kind of damage or of data; `run` counts those that were run as well."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    run: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0
    slowest: str = ""
    peak_bytes: int = 0
    failures: list["Failure"] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.accepted.total() + self.refused.total() + len(self.wrong)

    def attempt(
        self,
        kind: str,
        label: str,
        work: Callable[[], Result],
        refusal: type[Exception] = Error,
        allowed: int | None = None,
    ) -> Result | Exception:
        """Counts one input; what `work` returns, or what it raised. With `allowed` its memory is measured too."""
        if allowed is not None:
            tracemalloc.start()
        started, result = time.process_time(), None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = work()
            self.accepted[kind] += 1
        except refusal as error:
            result = error
            if "\n" in str(error) or not str(error):
                self.wrong.append(f"{label}: the message has not one line: {error!r}")
            else:
                self.refused[kind] += 1
                self.errors[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 (anything else is what is looked for)
            result = error
            self.wrong.append(f"{label}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        seconds = time.process_time() - started
        if seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = seconds, label
        if allowed is not None:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.peak_bytes = max(self.peak_bytes, peak)
            if peak > allowed:
                self.wrong.append(f"{label}: {peak >> 20} MiB of memory, {allowed >> 20} are allowed")
        return result

    def note(self, wrong_before: int, case: Case, original: bytes) -> None:
        """Keeps the case if there is more in `wrong` now than before it."""
        if len(self.wrong) > wrong_before:
            self.failures.append(Failure(case, original))

    def add(self, other: "Tally", name: str) -> None:
        """Takes up what another run found; its labels get its name in front."""
        self.accepted += other.accepted
        self.refused += other.refused
        self.errors += other.errors
        self.run += other.run
        self.wrong += [f"{name}, {line}" for line in other.wrong]
        self.failures += other.failures
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        if other.slowest_seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = other.slowest_seconds, f"{name}, {other.slowest}"


def judged(work: Callable[[], object], refusal: type[Exception] = Error, allowed: int | None = None) -> str:
    """What is wrong with one attempt: the judgement of a `Case` that calls it again."""
    tally = Tally()
    tally.attempt("case", "it", work, refusal, allowed)
    return "; ".join(tally.wrong)


def round_job(job: Job) -> Done:
    """One round of a campaign as a job: its tally, in values that JSON has."""
    module, _, function = job.settings["round"].partition(":")
    found: Tally = getattr(importlib.import_module(module), function)(
        job.settings["inputs"], job.seed, job.settings["traced"]
    )
    told = {name: getattr(found, name) for name in ("run", "wrong", "slowest", "peak_bytes")}
    told |= {name: dict(getattr(found, name)) for name in ("accepted", "refused", "errors")}
    told["failures"] = [
        dataclasses.asdict(each.case) | {"data": each.case.data.hex(), "original": each.original.hex()}
        for each in found.failures
    ]
    return Done(told, {"slowest": found.slowest_seconds})


def _tally_of(result: dict[str, Any], slowest_seconds: float) -> Tally:
    """The tally that `round_job` told."""
    failures = []
    for each in result["failures"]:
        case = Case(each["judge"], tuple(each["folders"]), bytes.fromhex(each["data"]), each["settings"])
        failures.append(Failure(case, bytes.fromhex(each["original"])))
    counters = {name: Counter(result[name]) for name in ("accepted", "refused", "errors")}
    plain = {name: result[name] for name in ("run", "wrong", "slowest", "peak_bytes")}
    return Tally(**counters, **plain, slowest_seconds=slowest_seconds, failures=failures)


def long_run(
    description: str, one_round: str, folders: Sequence[pathlib.Path], inputs_each: int, memory_gib: int = 3
) -> int:
    """The command line of a long run: jobs of `one_round`, module:function(inputs, seed, traced), until time or inputs
    are used up. A failure leaves a folder. `folders` are where its modules are."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--inputs", type=int, help="stop after this number, instead of after minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=memory_gib, help="limit of the address space in GiB")
    parser.add_argument("--traced", action="store_true", help="measure the memory of each input; slower")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="rounds at a time")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers run them")
    parser.add_argument("--records", type=pathlib.Path, help="keep what is done; a second run goes on")
    campaign_log.add_options(parser)
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory << 30, chosen.memory << 30))
    campaign = one_round.partition(":")[0]
    place, kept = place_of(chosen.jobs, chosen.cluster), RecordFile(chosen.records)
    work = JobFunction("fuzz_runner:round_job", (pathlib.Path(__file__).resolve().parent, *folders))
    started, total, number = time.monotonic(), Tally(), 0
    while total.inputs < chosen.inputs if chosen.inputs else time.monotonic() < started + 60 * chosen.minutes:
        jobs = []
        left = chosen.inputs - total.inputs if chosen.inputs else inputs_each * chosen.jobs
        while left > 0 and len(jobs) < chosen.jobs:
            settings = {"round": one_round, "inputs": min(inputs_each, left), "traced": chosen.traced}
            jobs.append(Job(work, seed=chosen.seed * 1_000_000 + number, settings=settings))
            left, number = left - inputs_each, number + 1
        for record in run_jobs(jobs, place, kept):
            name = f"seed {record.job['seed']}"
            if record.failure:
                total.wrong.append(f"{name}: {record.failure}")
                continue
            found = _tally_of(record.result, record.seconds["slowest"])
            for line in found.wrong:
                print(f"{name}, {line}", flush=True)
            for place_in, failure in enumerate(found.failures):
                folder = chosen.failures / f"{campaign}{record.job['seed']}_{place_in}"
                print(f"  sh {leave(folder, smaller_file(failure.case, failure.original))}", flush=True)
            total.add(found, name)
    seconds = time.monotonic() - started
    _report(total, seconds)
    campaign_log.append(chosen.log, campaign, total.inputs, len(total.wrong), seconds)
    return 1 if total.wrong else 0


def _report(total: Tally, seconds: float) -> None:
    print(f"{'kind':16} {'inputs':>9} {'refused':>9} {'accepted':>9}")
    for kind in sorted(total.accepted | total.refused):
        refused, accepted = total.refused[kind], total.accepted[kind]
        print(f"{kind:16} {refused + accepted:>9,} {refused:>9,} {accepted:>9,}")
    ran = f"{total.run:,} run on golden, " if total.run else ""
    errors = ", ".join(f"{count:,} {name}" for name, count in total.errors.most_common())
    print(f"{total.inputs:,} inputs ({errors}), {ran}{len(total.wrong)} wrong, {seconds:.0f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    traced = f"; {total.peak_bytes >> 20} MiB of Python's at most for one" if total.peak_bytes else ""
    print(f"the slowest took {total.slowest_seconds:.2f} s ({total.slowest}); the process {peak} MiB{traced}")
    sys.stdout.flush()
