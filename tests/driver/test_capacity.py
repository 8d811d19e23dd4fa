"""A cluster on paper: the makespans of cases that a head can work out."""

import importlib.util
import pathlib

import pytest

_PATH = pathlib.Path(__file__).parents[2] / "bench" / "capacity.py"
_SPEC = importlib.util.spec_from_file_location("capacity", _PATH)
assert _SPEC and _SPEC.loader
capacity = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(capacity)

FREE = {"client_task": 0.0, "scheduler_task": 0.0, "process_start": 0.0}


def test_equal_jobs_share_the_workers() -> None:
    found = capacity.simulate([1.0] * 240, [0] * 240, 10, capacity.Costs(**FREE))
    assert (found.makespan, found.busy["workers"], found.bound) == (24.0, 1.0, "workers")


def test_the_longest_job_bounds_many_workers() -> None:
    found = capacity.simulate([1.0] * 99 + [50.0], [0] * 100, 100, capacity.Costs(**{**FREE, "build": 10.0}))
    assert (found.makespan, found.bound) == (60.0, "the longest batch")


@pytest.mark.parametrize(("cost", "name"), [("client_task", "client"), ("scheduler_task", "scheduler")])
def test_what_each_task_costs_bounds_the_rest(cost: str, name: str) -> None:
    """30,000 jobs in 10,000 batches of 3, one after the other through what is shared."""
    found = capacity.simulate([0.001] * 30_000, [0] * 30_000, 3_000, capacity.Costs(**{**FREE, cost: 0.01}))
    assert found.makespan == pytest.approx(100.003) and found.bound == name


def test_files_pass_the_clients_link() -> None:
    costs = capacity.Costs(**FREE, link_bytes_per_second=1e6)
    found = capacity.simulate([0.01] * 100, [1_000_000] * 100, 100, costs)
    assert found.makespan == pytest.approx(100.01) and found.bound == "link"
