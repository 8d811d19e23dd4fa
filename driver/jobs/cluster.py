"""Runs jobs on the workers of a Dask cluster.

A worker gets the files of its jobs and needs nothing but Tosaic, of this version. It does them in a process of its own,
under the ordinary executor: so a crash or a job without end costs one job, not the worker. A worker that is lost costs
nothing: the scheduler gives its jobs to another."""

import collections
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tosaic.driver.digests import CODE_SUFFIXES, code_digest, digest_of
from tosaic.errors import DeviceError, InputError
from tosaic.install import install_command

from .content import pack, read_by, unpack
from .job import Job, JobFunction, Record, Task
from .local import LocalProcesses
from .perform import ALL, failed

BATCH_JOBS = 8
"""Jobs in a task while nothing is known of their times, at most."""
BATCH_JOBS_MAX = 64
"""Jobs in a task: what they read crosses the network with it."""
BATCH_SECONDS = 10.0
"""What a task is to take: its process takes a second to start, and a worker that is lost has worked for nothing."""
TASKS_AHEAD = 3
"""Tasks for each worker that the scheduler has at a time."""
_START_SECONDS = 600.0
"""What a batch may take beside its jobs' limits: the first one on a worker builds the RTL simulator."""


@dataclasses.dataclass(frozen=True)
class _Remote:
    """A job whose files are in archives: digests of the archive of what it reads, and of each folder of its code."""

    task: Task
    reads: str
    folders: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Batch:
    jobs: tuple[_Remote, ...]
    limit_seconds: float | None
    code: str


@dataclasses.dataclass(frozen=True)
class DaskCluster:
    """The workers of the Dask scheduler at an address ("tcp://host:8786")."""

    address: str
    limit_seconds: float | None = None

    def run(self, tasks: Sequence[Task]) -> Iterator[Record]:
        """The records as they come. InputError when there is no such scheduler, it has no workers, or Dask is not
        installed."""
        distributed, client = self._connected()
        with client:
            threads = sum(client.nthreads().values())
            if not threads:
                raise InputError(
                    f"the Dask scheduler at {self.address} has no workers: start some with `dask worker`"
                )
            sizes = BatchSizes(len(tasks), threads)
            waiting = iter(tasks)
            parcels = _Parcels(client, tasks)
            running: dict[Any, Sequence[Task]] = {}
            ended = distributed.as_completed()

            def submit(count: int) -> None:
                for _ in range(count):
                    if not (batch := list(itertools.islice(waiting, sizes.next()))):
                        return
                    jobs, archives = parcels.of(batch)
                    work = _Batch(jobs, self.limit_seconds, code_digest())
                    future = client.submit(_run_batch, pickle.dumps(work), archives, pure=False)
                    running[future] = batch
                    ended.add(future)

            submit(TASKS_AHEAD * threads)
            for future in ended:
                records = _told(future, running.pop(future))
                sizes.ended(len(records), sum(record.seconds.get(ALL, 0.0) for record in records))
                yield from records
                submit(1)

    def _connected(self) -> tuple[Any, Any]:
        try:
            import distributed
        except ImportError:
            raise InputError(f"a cluster needs Dask: {install_command('cluster')}") from None
        try:
            return distributed, distributed.Client(self.address, timeout=10)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at {self.address}: {error}") from None


@dataclasses.dataclass
class BatchSizes:
    """How many jobs the next task has: as many as take BATCH_SECONDS, as those have that ended, and so few that no
    worker is left without any. `bench/capacity.py` asks it, too."""

    left: int
    """Jobs that are in no task yet."""
    workers: int
    done: int = 0
    done_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._first = max(1, min(BATCH_JOBS, self._share()))

    def next(self) -> int:
        """The size of the next task; it counts as made."""
        size = self._first
        if self.done_seconds:
            wanted = int(BATCH_SECONDS * self.done / self.done_seconds)
            size = max(1, min(wanted, BATCH_JOBS_MAX, max(self._first, self._share())))
        size = min(size, self.left)
        self.left -= size
        return size

    def ended(self, jobs: int, seconds: float) -> None:
        """A task has ended."""
        self.done += jobs
        self.done_seconds += seconds

    def _share(self) -> int:
        return self.left // (TASKS_AHEAD * self.workers)


class _Parcels:
    """Archives by digest. What many jobs read crosses the network once for each worker, as a result that the scheduler
    can have made again."""

    def __init__(self, client: Any, tasks: Sequence[Task]):
        self._client = client
        self._held: dict[str, Any] = {}
        self._readers = collections.Counter(_reads(job) for _, job in tasks)

    def of(self, batch: Sequence[Task]) -> tuple[tuple[_Remote, ...], dict[str, Any]]:
        jobs, archives = [], {}
        for task in batch:
            job = task[1]
            reads, folders = _reads(job), tuple(digest_of(folder) for folder in job.work.folders)
            archives[reads] = self._archive(reads, read_by(job), None, self._readers[reads] > len(batch))
            for digest, folder in zip(folders, job.work.folders, strict=True):
                archives[digest] = self._archive(digest, [folder], CODE_SUFFIXES, True)
            jobs.append(_Remote(task, reads, folders))
        return tuple(jobs), archives

    def _archive(
        self, digest: str, paths: list[pathlib.Path], suffixes: frozenset[str] | None, shared: bool
    ) -> Any:
        if digest not in self._held:
            data = pack(paths, suffixes)
            if not shared:
                return data
            self._held[digest] = self._client.submit(_same, data, key=f"tosaic-{digest}")
        return self._held[digest]


def _reads(job: Job) -> str:
    return "+".join(f"{path.name}:{digest_of(path)}" for path in read_by(job))


def _same(data: bytes) -> bytes:
    return data


def _told(future: Any, batch: Sequence[Task]) -> Sequence[Record]:
    """What a task brought; a task that failed is a failure of each of its jobs."""
    try:
        return pickle.loads(future.result())
    except Exception as error:  # Whatever a worker may die of: the other jobs run on.
        reason = " ".join(f"on the cluster: {type(error).__name__}: {error}".split())
        return [failed(task, reason, 0.0) for task in batch]


def _run_batch(batch: bytes, archives: Mapping[str, bytes]) -> bytes:
    """A task. Dask's workers may not have children by multiprocessing, as the executor wants them."""
    opened: _Batch = pickle.loads(batch)
    limit = None if opened.limit_seconds is None else len(opened.jobs) * opened.limit_seconds + _START_SECONDS
    code = f"from {__name__} import work_on_batch; work_on_batch()"
    with tempfile.TemporaryDirectory(prefix="tosaic-") as folder:
        for number, archive in enumerate(archives.values()):
            unpack(archive, pathlib.Path(folder, str(number)))
        places = {digest: pathlib.Path(folder, str(number)) for number, digest in enumerate(archives)}
        records, said = _in_process([sys.executable, "-c", code], pickle.dumps((opened, places)), limit)
    if not records:
        raise DeviceError(
            (said.decode(errors="replace").strip().splitlines() or ["its process was killed"])[-1]
        )
    return records


def _in_process(command: list[str], given: bytes, limit_seconds: float | None) -> tuple[bytes, bytes]:
    """What a process says on stdout and stderr; it is killed after the limit."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin and process.stdout and process.stderr
        with concurrent.futures.ThreadPoolExecutor(1) as listener:
            said = listener.submit(process.stderr.read)
            watch = threading.Timer(limit_seconds, process.kill) if limit_seconds else None
            try:
                if watch:
                    watch.start()
                # It stays open: its end tells the process that this worker is gone.
                process.stdin.write(given)
                process.stdin.flush()
                return process.stdout.read(), said.result()
            finally:
                process.kill()
                if watch:
                    watch.cancel()


def work_on_batch() -> None:
    """The process of a task: a batch comes in by stdin, its records go out by stdout; both are our own pickles."""
    batch, places = pickle.load(sys.stdin.buffer)
    if batch.code != code_digest():
        sys.exit("this worker has another Tosaic than the client: install the client's there")
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    tasks = [(remote.task[0], _here(remote, places)) for remote in batch.jobs]
    records = list(LocalProcesses(1, batch.limit_seconds).run(tasks))
    sys.stdout.buffer.write(pickle.dumps(records))
    sys.stdout.flush()
    os._exit(0)  # The thread that listens must not hold up the end.


def _end_with_the_worker() -> None:
    sys.stdin.buffer.read(1)
    os._exit(1)


def _here(remote: _Remote, places: Mapping[str, pathlib.Path]) -> Job:
    """The job with the paths of this machine."""
    job = remote.task[1]
    folder = places[remote.reads]
    folders = tuple(
        places[digest] / path.name for digest, path in zip(remote.folders, job.work.folders, strict=True)
    )
    return dataclasses.replace(
        job,
        work=JobFunction(job.work.function, folders),
        model=folder / job.model.name if job.model else None,
        files=tuple(folder / path.name for path in job.files),
        title=job.label,
    )


__all__ = ["BatchSizes", "DaskCluster", "work_on_batch"]
