"""What a job is, and what comes of it."""

import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tosaic.errors import InputError


@dataclasses.dataclass(frozen=True)
class JobFunction:
    """A function of a `Job` that returns a `Done`, and what Python needs to find it elsewhere."""

    function: str
    """The function as module:function."""
    folders: tuple[pathlib.Path, ...] = ()
    """Where modules are that are not installed; their Python files go with the job."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One piece of work. All that its record depends on is here, or in the files that it names."""

    work: JobFunction
    model: pathlib.Path | None = None
    """A file, or a folder with all that is in it."""
    config: str = "base"
    """A configuration by a name that says its sizes (base,rows=8)."""
    target: str = "emulator"
    seed: int = 0
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Whatever else decides the record: values that JSON has."""
    files: tuple[pathlib.Path, ...] = ()
    """Other files that the work reads. They keep their places beside the model where they are in its folder."""
    title: str = ""
    """What progress bars and records call the job; by itself the model's name."""

    @property
    def label(self) -> str:
        return self.title or (self.model.name if self.model else self.work.function.partition(":")[2])


@dataclasses.dataclass(frozen=True)
class Done:
    """What a work's function returns."""

    result: Any
    """Values that JSON has; no times."""
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """What took how long, where that is worth telling apart."""


@dataclasses.dataclass(frozen=True)
class Record:
    """What came of a job: equal for equal jobs but for `seconds`, wherever they were done."""

    key: str
    """The job's content (`content.key_of`)."""
    job: Mapping[str, Any]
    """The job in words, for readers."""
    result: Any = None
    failure: str | None = None
    """Why there is no result: an exception, the time limit, a process that died. Such a job is done again by the next
    run."""
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Seconds by what took them; `all` of it."""

    def line(self, *, times: bool = True) -> str:
        """A line of JSON, without the times where only what is always the same is wanted."""
        found = dataclasses.asdict(self)
        if not times:
            del found["seconds"]
        return json.dumps(found, sort_keys=True) + "\n"

    @staticmethod
    def of_line(line: str) -> "Record":
        """Raises ValueError, TypeError or KeyError for what is no record."""
        return Record(**json.loads(line))


def described(job: Job) -> dict[str, Any]:
    """The job in words: `Record.job`."""
    return {
        "work": job.work.function,
        "title": job.label,
        "config": job.config,
        "target": job.target,
        "seed": job.seed,
        "settings": dict(job.settings),
    }


Task = tuple[str, Job]
"""A job with its key."""


class Executor(Protocol):
    """A place where jobs are done."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Record]:
        """The records, as they come."""


def require_plain(job: Job) -> None:
    """Raises InputError unless a job's settings are values that JSON has."""
    try:
        json.dumps(dict(job.settings))
    except (TypeError, ValueError) as error:
        raise InputError(f"the settings of job {job.label!r} must be values that JSON has: {error}") from None
