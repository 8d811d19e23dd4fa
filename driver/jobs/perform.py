"""Does one job, in the process that calls."""

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tosaic import errors

from .content import read_by
from .job import Done, Job, JobFunction, Record, Task, described

ALL = "all"
"""The key in `Record.seconds` of the whole job."""


def perform(task: Task) -> Record:
    """The record of a job. An exception of the work is its failure; it does not leave this function."""
    key, job = task
    started = time.perf_counter()
    result, failure, parts = None, None, {}
    try:
        done = _function_of(job.work)(job)
        # As it is after it was read from a file: an executor must not make a difference.
        result, parts = json.loads(json.dumps(done.result)), dict(done.seconds)
    except Exception as error:  # The other jobs run on.
        failure = f"{type(error).__name__}: {' '.join(told(str(error), job).split())}"
    return Record(key, described(job), result, failure, {ALL: time.perf_counter() - started, **parts})


def _function_of(work: JobFunction) -> Callable[[Job], Done]:
    for folder in work.folders:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    module, _, name = work.function.partition(":")
    return getattr(importlib.import_module(module), name)


def result_of(record: Record) -> Any:
    """The result of a job. Raises what its work raised, where that is a tosaic.Error, else a DeviceError."""
    if record.failure is None:
        return record.result
    name, _, text = record.failure.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.Error):
        raise kind(text)
    raise errors.DeviceError(f"{record.job['title']}: {record.failure}")


def told(text: str, job: Job) -> str:
    """A text without the places of the files that the job reads: they differ from machine to machine."""
    for path in read_by(job):
        text = text.replace(str(path), path.name)
    return text


def failed(task: Task, reason: str, seconds: float) -> Record:
    """The record of a job that did not come to its end."""
    key, job = task
    return Record(key, described(job), None, reason, {ALL: seconds})
