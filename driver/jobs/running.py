"""Brings jobs, a place and a file of records together."""

import collections
from collections.abc import Callable, Sequence

from .cluster import DaskCluster
from .content import key_of
from .job import Executor, Job, Record
from .local import LocalProcesses, ThisProcess
from .records import RecordFile

Told = Callable[[str, int, int], None]
"""Told (what, done, total), as `driver.models.Progress`."""


def place_of(processes: int = 1, cluster: str | None = None, limit_seconds: float | None = None) -> Executor:
    """Where jobs are done: by the workers of the Dask scheduler at `cluster`, or by processes of this computer; in this
    process where it is one at a time and without a limit."""
    if cluster is not None:
        return DaskCluster(cluster, limit_seconds)
    if processes == 1 and limit_seconds is None:
        return ThisProcess()
    return LocalProcesses(processes, limit_seconds)


def run_jobs(
    jobs: Sequence[Job],
    executor: Executor,
    records: RecordFile | None = None,
    progress: Told | None = None,
) -> list[Record]:
    """The records, in the order of `jobs`. What `records` knows, and is no failure, is not done again.

    A record is kept as soon as it is there; so a run that is killed loses what it was at, and a second one goes on.
    """
    records = records or RecordFile()
    tasks = [(key_of(job), job) for job in jobs]
    with records.opened():
        found = {key: record for key, _ in tasks if (record := records.find(key)) is not None}
        # Equal jobs are done once.
        waiting: dict[str, Job] = {}
        for key, job in tasks:
            if key not in found:
                waiting.setdefault(key, job)
        wanted = collections.Counter(key for key, _ in tasks)
        done = sum(wanted[key] for key in found)
        for record in executor.run(list(waiting.items())) if waiting else ():
            found[record.key] = record
            records.add(record)
            done += wanted[record.key]
            if progress:
                progress(str(record.job["title"]), done, len(tasks))
        records.settle([key for key, _ in tasks])
    return [found[key] for key, _ in tasks]
