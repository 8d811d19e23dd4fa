"""Jobs on this computer: in this process, or in processes of their own, each under a time limit."""

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Iterator, Sequence

from tosaic.errors import DeviceError

from .job import Record, Task
from .perform import failed, perform

_SPAWN = multiprocessing.get_context("spawn")
"""How processes start. Not by fork: a job that crashes must leave nothing behind, and NumPy's threads do not
survive a fork.
"""
_POLL_SECONDS = 0.5
"""How often time limits are looked at while nothing happens."""
DEATHS_MAX = 3
"""A job whose process dies is done again: somebody else may have killed it. After DEATHS_MAX deaths it has failed."""


class ThisProcess:
    """Jobs one after the other, here; there is no time limit."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Record]:
        """The records in the order of `tasks`."""
        return map(perform, tasks)


@dataclasses.dataclass(frozen=True)
class LocalProcesses:
    """Several jobs at a time, each in a process of this computer that outlives it, unless the job kills it."""

    count: int = 1
    limit_seconds: float | None = None
    """A job that takes longer is given up."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Record]:
        """The records as they come; processes that were killed or died are replaced."""
        waiting = list(reversed(tasks))
        deaths: dict[str, int] = {}
        processes = [_JobProcess.start() for _ in range(max(1, min(self.count, len(tasks))))]
        try:
            while waiting or any(process.task for process in processes):
                told = multiprocessing.connection.wait([each.connection for each in processes], _POLL_SECONDS)
                for index, process in enumerate(processes):
                    if process.connection in told:
                        record, death = process.receive()
                    elif process.task and self.limit_seconds and process.seconds > self.limit_seconds:
                        reason = f"not finished after {self.limit_seconds:g} s"
                        record, death = failed(process.task, reason, process.seconds), reason
                    else:
                        continue
                    if death:
                        record = record or _lost(process, death, deaths, waiting)
                        process.stop()
                        processes[index] = _JobProcess.start()
                    elif waiting:
                        process.give(waiting.pop())
                    else:
                        process.task = None
                    if record is not None:
                        yield record
        finally:
            for process in processes:
                process.stop()


def _lost(process: "_JobProcess", death: str, deaths: dict[str, int], waiting: list[Task]) -> Record | None:
    """The job of a dead process: it waits again, or it has failed."""
    task = process.task
    if task is None:
        raise DeviceError(f"a process {death} before its first job: is memory exhausted?")
    deaths[task[0]] = deaths.get(task[0], 0) + 1
    if deaths[task[0]] < DEATHS_MAX:
        waiting.append(task)
        return None
    return failed(task, f"{DEATHS_MAX} processes that ran it died, the last one {death}", process.seconds)


def _work(connection: multiprocessing.connection.Connection) -> None:
    """A process: jobs come in, records go out, None ends it, and so does the end of the one who gives."""
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        connection.send(None)  # Ready: imports do not count against the first job's time.
        while (task := connection.recv()) is not None:
            connection.send(perform(task))


@dataclasses.dataclass
class _JobProcess:
    process: multiprocessing.process.BaseProcess
    connection: multiprocessing.connection.Connection
    task: Task | None = None
    """What it works on; None before it is ready, and when there is nothing left."""
    started: float = 0.0

    @staticmethod
    def start() -> "_JobProcess":
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return _JobProcess(process, ours)

    @property
    def seconds(self) -> float:
        """Seconds since it was given its job."""
        return time.monotonic() - self.started

    def give(self, task: Task) -> None:
        self.task, self.started = task, time.monotonic()
        # A process that is dead already is found at the next look.
        with contextlib.suppress(OSError):
            self.connection.send(task)

    def receive(self) -> tuple[Record | None, str]:
        """(what it says, how it died): its first message, that it is ready, is no record."""
        try:
            return self.connection.recv(), ""
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            return None, f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
