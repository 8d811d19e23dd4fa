"""Jobs on a Dask cluster: the records of one process, files and code that go along, a worker that is killed."""

import pathlib
from collections.abc import Iterator

import distributed
import pytest
from dask_workers import DeadlyRecords, without_times
from test_explore import question
from test_jobs import HERE, jobs_of, lines

from tosaic.driver.explore import SPACE, explore
from tosaic.driver.jobs import DaskCluster, Job, JobFunction, RecordFile, ThisProcess, run_jobs
from tosaic.driver.jobs.cluster import BatchSizes
from tosaic.errors import InputError


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster with two workers."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def shipped(function: str, model: pathlib.Path | None, count: int, **settings: object) -> list[Job]:
    """Jobs whose work is in this folder, which no worker has on its path."""
    work = JobFunction(f"job_works:{function}", (HERE,))
    return [Job(work, model, "nano", seed=seed, settings=settings) for seed in range(count)]


def test_the_records_are_those_of_one_process(scheduler: str, tmp_path: pathlib.Path) -> None:
    model = tmp_path / "net.txt"
    model.write_text("weights")
    jobs = [*shipped("square", model, 5), *shipped("fail", model, 1), *shipped("square", None, 1)]
    assert lines(run_jobs(jobs, DaskCluster(scheduler))) == lines(run_jobs(jobs, ThisProcess()))


def test_a_killed_worker_loses_and_wrongs_nothing(scheduler: str, tmp_path: pathlib.Path) -> None:
    jobs = shipped("kill_the_worker", None, 8, folder=str(tmp_path))
    killed = run_jobs(jobs, DaskCluster(scheduler))
    assert (tmp_path / "done").exists()
    assert lines(killed) == lines(run_jobs(jobs, ThisProcess()))


def test_an_exploration_is_the_same_though_a_worker_dies(scheduler: str, tmp_path: pathlib.Path) -> None:
    """Machines of one, two, four and eight banks."""
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    asked = question(fixed=tuple(field for field in SPACE if field != "am_banks"), bandwidths=(4,), points=4)
    found = explore(asked, ThisProcess(), RecordFile(here))
    assert explore(asked, DaskCluster(scheduler), DeadlyRecords(there, scheduler)) == found
    assert without_times(there) == without_times(here) and len(found.points) == 4


@pytest.mark.nightly
def test_a_worker_with_another_tosaic_is_told(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tosaic.driver.jobs.cluster.code_digest", lambda: "another")
    (record,) = run_jobs(shipped("square", None, 1), DaskCluster(scheduler))
    assert record.failure == (
        "on the cluster: DeviceError: this worker has another Tosaic than the client: install the client's there"
    )


def batches(jobs: int, workers: int, job_seconds: float) -> list[int]:
    """Sizes where a task has ended before the next is made."""
    sizes, found = BatchSizes(jobs, workers), []
    while sizes.left:
        found.append(sizes.next())
        sizes.ended(found[-1], found[-1] * job_seconds)
    return found


def test_tasks_of_short_jobs_grow_and_of_long_ones_shrink() -> None:
    """A process starts for each task: 4,000 jobs of 10 ms in tasks of 8 would be 500 starts. Long jobs go one by one: a
    worker that is lost has worked for nothing."""
    short, long = batches(4000, 2, 0.01), batches(400, 2, 60.0)
    assert (sum(short), sum(long)) == (4000, 400)
    assert short[:2] == [8, 64] and len(short) < 100 and min(short[:-1]) == 8
    assert long == [8] + [1] * 392
    assert batches(60, 2, 1.0) == [8] * 7 + [4], "no worker is left without any"
    assert batches(5, 2, 0.01) == [1] * 5


def test_no_scheduler() -> None:
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1: "):
        run_jobs(jobs_of("square", None, 1), DaskCluster("tcp://127.0.0.1:1"))
