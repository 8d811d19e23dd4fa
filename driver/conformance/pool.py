"""Runs many tests in worker processes, each under a time limit."""

import dataclasses
import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Iterator

from tosaic.driver.session import Progress
from tosaic.errors import DeviceError

from .case import Case
from .execute import run_case
from .result import Result, Verdict

_SPAWN = multiprocessing.get_context("spawn")
"""Not fork: a test that crashes must leave nothing behind, and NumPy's threads do not survive a fork."""

_POLL_SECONDS = 0.5
"""How often time limits are looked at while nothing happens."""


def _work(connection: multiprocessing.connection.Connection, target: str, config: str) -> None:
    """A worker: tests come in, results go out, None ends it."""
    connection.send(None)  # Ready: imports do not count against the first test's time.
    while (case := connection.recv()) is not None:
        connection.send(run_case(case, target, config))


@dataclasses.dataclass
class _Worker:
    process: multiprocessing.process.BaseProcess
    connection: multiprocessing.connection.Connection
    case: Case | None = None
    """What it works on; None before it is ready, and when there is nothing left."""
    started: float = 0.0

    @staticmethod
    def start(target: str, config: str) -> "_Worker":
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(theirs, target, config), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    @property
    def seconds(self) -> float:
        """Since it was given its test."""
        return time.monotonic() - self.started

    def give(self, case: Case | None) -> None:
        self.case, self.started = case, time.monotonic()
        self.connection.send(case)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_cases(
    cases: list[Case],
    target: str,
    config: str,
    *,
    jobs: int = 1,
    limit_seconds: float = 120.0,
    progress: Progress | None = None,
) -> list[Result]:
    """The verdicts, in the order of `cases`.

    A test that takes longer than `limit_seconds`, or takes its process down, is an ERROR; the others run on.
    """
    results: dict[int, Result] = {}
    for result in _results(cases, target, config, max(1, min(jobs, len(cases))), limit_seconds):
        results[id(result.case)] = result
        if progress:
            progress(result.case.operator, len(results), len(cases))
    return [results[id(case)] for case in cases]


def _results(
    cases: list[Case], target: str, config: str, jobs: int, limit_seconds: float
) -> Iterator[Result]:
    """Results as they come; workers that were killed or died are replaced."""
    waiting = list(reversed(cases))
    workers = [_Worker.start(target, config) for _ in range(jobs)]
    try:
        while waiting or any(worker.case for worker in workers):
            told = multiprocessing.connection.wait([worker.connection for worker in workers], _POLL_SECONDS)
            for index, worker in enumerate(workers):
                if worker.connection in told:
                    result, alive = _receive(worker)
                elif worker.case and worker.seconds > limit_seconds:
                    reason = f"not finished after {limit_seconds:g} s"
                    result, alive = Result(worker.case, Verdict.ERROR, reason, worker.seconds), False
                else:
                    continue
                if not alive:
                    worker.stop()
                    workers[index] = _Worker.start(target, config)
                elif waiting:
                    worker.give(waiting.pop())
                else:
                    worker.case = None
                if result is not None:
                    yield result
    finally:
        for worker in workers:
            worker.stop()


def _receive(worker: _Worker) -> tuple[Result | None, bool]:
    """(what a worker says, whether it lives): its first message is that it is ready."""
    case, seconds = worker.case, worker.seconds
    try:
        message = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        code = worker.process.exitcode or 0
        how = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
        if case is None:
            raise DeviceError(
                f"a process that runs tests {how} before its first test: is memory exhausted?"
            ) from None
        return Result(case, Verdict.ERROR, f"the process that ran the test {how}", seconds), False
    return (dataclasses.replace(message, case=case) if case else None), True
