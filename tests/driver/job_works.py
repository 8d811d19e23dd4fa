"""Works for the tests of jobs."""

import os
import pathlib
import signal
import time

from tosaic.driver.jobs import Done, Job
from tosaic.errors import InputError


def square(job: Job) -> Done:
    """The seed's square, and what the model's file says."""
    said = job.model.read_text() if job.model else ""
    return Done({"square": job.seed**2, "model": said, "config": job.config}, {"nothing": 0.0})


def fail(job: Job) -> Done:
    raise InputError(f"{job.model}: is never right")


def killed(job: Job) -> Done:
    """Kills its process as often as the settings say; a file in their folder counts. Odd seeds do not."""
    marks = pathlib.Path(job.settings["folder"])
    times = len(list(marks.iterdir()))
    if job.seed % 2 == 0 and times < job.settings["times"]:
        (marks / str(times)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(job)


def kill_the_worker(job: Job) -> Done:
    """Once: kills the Dask worker that does the job. Its process is the parent's parent of this one."""
    mark = pathlib.Path(job.settings["folder"], "done")
    if job.seed == 3 and not mark.exists():
        mark.touch()
        parent = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(parent), signal.SIGKILL)
        time.sleep(30)
    return square(job)


def slow(job: Job) -> Done:
    time.sleep(30)
    return square(job)
