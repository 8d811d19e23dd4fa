"""`tosaic conformance --cluster`: the same verdicts from the workers of a Dask cluster."""

import pathlib
from collections.abc import Iterator

import distributed
import numpy as np
import pytest
from dask_workers import kill_a_worker, without_times
from suite_folders import make_folder, negation
from typer.testing import CliRunner

from tosaic.cli.app import app
from tosaic.driver import conformance as suite
from tosaic.driver.conformance import Verdict
from tosaic.driver.jobs import DaskCluster, RecordFile

X = np.array([[1, -2, 3, 127]], np.int8)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster with one worker, a process of its own."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Nine tests that pass and one with a wrong expectation."""
    for number in range(9):
        x = X + np.int8(number) * np.array([[1, 0, 0, 0]], np.int8)
        make_folder(tmp_path, f"right_{number}", negation(), {"x": x}, {"y": -x})
    make_folder(tmp_path, "wrong", negation(), {"x": X}, {"y": X})
    return tmp_path


def test_the_verdicts_are_those_of_this_machine(scheduler: str, folder: pathlib.Path) -> None:
    cases = suite.find_cases(folder)
    seen: list[int] = []
    results = suite.run_cases(
        cases, "emulator", "base", DaskCluster(scheduler), progress=lambda _, done, total: seen.append(done)
    )
    here = suite.run_cases(cases, "emulator", "base")
    assert [(r.case, r.verdict, r.reason) for r in results] == [(r.case, r.verdict, r.reason) for r in here]
    assert [r.verdict for r in results] == [Verdict.PASS] * 9 + [Verdict.MISMATCH]
    assert seen[-1] == 10


@pytest.mark.nightly
def test_a_killed_worker_changes_no_record(
    scheduler: str, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cases, here, there = suite.find_cases(folder), tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    suite.run_cases(cases, "golden", "base", records=RecordFile(here))
    killed = kill_a_worker(scheduler)
    suite.run_cases(cases, "golden", "base", DaskCluster(scheduler), RecordFile(there), killed)
    assert without_times(there) == without_times(here)


def test_command(scheduler: str, folder: pathlib.Path) -> None:
    records = folder / "records.jsonl"
    arguments = ["conformance", str(folder), "--cluster", scheduler, "--records", str(records)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "9 of 10 tests pass on emulator" in result.output
    assert len(records.read_text().splitlines()) == 10
