"""Random graphs as jobs: a graph for each seed, and what came of many."""

import pathlib
import random
from collections.abc import Sequence
from typing import Any

from failed_case import Case
from random_growth import random_graph
from random_runs import Tally, run_random

from tosaic.driver.jobs import Done, Job, JobFunction, Record
from tosaic.driver.jobs.perform import ALL

MODES = ({}, {"optimize": False}, {"keep_layers": True}, {"optimize": False, "keep_layers": True})
_HERE = pathlib.Path(__file__).resolve().parent
WORK = JobFunction("random_jobs:run_graph", (_HERE, _HERE.parent / "fuzzing"))
SHOWN = 600
"""Characters of what went wrong."""


def graph_job(seed: int, targets: str, config: str, *, mode: int = 0, run_time: bool = False) -> Job:
    """Graph `seed` on targets by commas; half of its parameters are inputs with `run_time`."""
    settings = {"mode": MODES[mode], "run_time": run_time}
    return Job(WORK, None, config, targets, seed, settings, title=f"graph {seed}")


def run_graph(job: Job) -> Done:
    """What a graph adds to the tally, and what went wrong, if anything did."""
    tally, wrong = Tally(), None
    try:
        g = random_graph(random.Random(job.seed).randint)
        if job.settings["run_time"]:
            g.free_parameters()
        targets = tuple(job.target.split(","))
        run_random(g, job.seed, targets, job.config, tally, **job.settings["mode"])
    except Exception as error:  # What goes wrong with one graph must not hide what goes wrong with others.
        wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:SHOWN]}"
    counts = {"rejected": tally.rejected, "operators": tally.operators}
    return Done({"ran": tally.ran, "wrong": wrong, **{name: dict(each) for name, each in counts.items()}})


def config_case(seed: int, targets: str, config: str) -> Case:
    """Graph `seed` on a configuration, as a failed case."""
    folders = (str(WORK.folders[0].parent / "fuzzing"), str(WORK.folders[0]))
    return Case("random_jobs:judge_case", folders, b"", {"seed": seed, "targets": targets, "config": config})


def judge_case(_: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with a graph on a configuration."""
    done = run_graph(graph_job(settings["seed"], settings["targets"], settings["config"]))
    return done.result["wrong"] or ""


def add(tally: Tally, records: Sequence[Record]) -> list[tuple[Record, str]]:
    """Counts what the records tell; those that went wrong, with what did."""
    wrong = []
    for record in records:
        problem = record.failure or record.result["wrong"]
        if problem:
            wrong.append((record, problem))
            continue
        tally.ran += record.result["ran"]
        tally.rejected.update(record.result["rejected"])
        tally.operators.update(record.result["operators"])
    return wrong


def slow(records: Sequence[Record], seconds: float) -> list[Record]:
    """Graphs that took longer: worth a look."""
    return [record for record in records if record.seconds[ALL] > seconds]
