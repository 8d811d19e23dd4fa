"""Runs tests on the workers of a Dask cluster.

A worker gets the tests' files and needs nothing but Tosaic; it runs them in a process of its own under the ordinary
pool, so that a crash or a test without end costs one test, not the worker."""

import dataclasses
import functools
import io
import pathlib
import pickle
import subprocess
import sys
import tarfile
import tempfile
from typing import Any

from tosaic.driver.session import Progress
from tosaic.errors import DeviceError, InputError

from .case import Case
from .pool import run_cases
from .result import Result, Verdict

_BATCH_TESTS = 8
"""Tests of a task: a worker's process takes about a second to start."""
_START_SECONDS = 600.0
"""What a batch may take beside its tests' limits: the first one on a worker builds the RTL simulator."""


@dataclasses.dataclass(frozen=True)
class _Batch:
    """Tests with their files."""

    cases: tuple[Case, ...]
    """Their folders are `0`, `1` and so on in the archive."""
    archive: bytes
    target: str
    config: str
    limit_seconds: float


def run_on_cluster(
    cases: list[Case],
    target: str,
    config: str,
    *,
    scheduler: str,
    limit_seconds: float = 120.0,
    progress: Progress | None = None,
) -> list[Result]:
    """The verdicts, in the order of `cases`, from the workers of the Dask `scheduler` ("tcp://host:8786").

    InputError when there is no such scheduler, it has no workers, or Dask is not installed."""
    try:
        import distributed
    except ImportError:
        raise InputError("a cluster needs Dask: pip install 'tosaic[cluster]'") from None
    try:
        client = distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {scheduler}: {error}") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise InputError(
                f"the Dask scheduler at {scheduler} has no workers: start some with `dask worker`"
            )
        batches = [cases[start : start + _BATCH_TESTS] for start in range(0, len(cases), _BATCH_TESTS)]
        pack = functools.partial(_pack, target=target, config=config, limit_seconds=limit_seconds)
        futures = {client.submit(_run_batch, pack(batch), pure=False): batch for batch in batches}
        results: dict[int, Result] = {}
        for future in distributed.as_completed(futures):
            for case, result in zip(futures[future], _told(future, futures[future]), strict=True):
                results[id(case)] = dataclasses.replace(result, case=case)
            if progress:
                progress(futures[future][-1].operator, len(results), len(cases))
    return [results[id(case)] for case in cases]


def _told(future: Any, batch: list[Case]) -> list[Result]:
    """What a task brought; a task that failed is an ERROR of each of its tests."""
    try:
        return future.result()
    except Exception as error:  # Whatever a worker may die of: the other tests run on.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return [Result(case, Verdict.ERROR, f"on the cluster: {reason}", 0.0) for case in batch]


def _pack(batch: list[Case], *, target: str, config: str, limit_seconds: float) -> _Batch:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for number, case in enumerate(batch):
            archive.add(case.folder, str(number))
    return _Batch(tuple(batch), buffer.getvalue(), target, config, limit_seconds)


def _run_batch(batch: _Batch) -> list[Result]:
    """A task. Dask's workers may not have children by multiprocessing, as the pool wants them."""
    limit_seconds = len(batch.cases) * batch.limit_seconds + _START_SECONDS
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import work_on_batch; work_on_batch()"],
            input=pickle.dumps(batch),
            capture_output=True,
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"a batch of tests was not finished after {limit_seconds:g} s") from None
    if done.returncode:
        raise DeviceError((done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1])
    return pickle.loads(done.stdout)


def work_on_batch() -> None:
    """The process of a task: a batch comes in by stdin, its results go out by stdout; both are our own pickles."""
    batch: _Batch = pickle.loads(sys.stdin.buffer.read())
    with tempfile.TemporaryDirectory(prefix="tosaic-") as folder:
        root = pathlib.Path(folder)
        with tarfile.open(fileobj=io.BytesIO(batch.archive)) as archive:
            archive.extractall(root, filter="data")
        cases = [
            dataclasses.replace(case, folder=root / str(number)) for number, case in enumerate(batch.cases)
        ]
        results = run_cases(cases, batch.target, batch.config, limit_seconds=batch.limit_seconds)
    sys.stdout.buffer.write(pickle.dumps(results))
