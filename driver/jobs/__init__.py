"""Jobs: one model of all work that comes in many pieces, wherever the pieces are done.

In come `Job`s; out come `Record`s, the same whether this process, processes of this computer or the workers of a Dask
cluster did them. `content` tells by content what a job is, `perform` does one, `records` keeps what is done in a file,
`local` and `cluster` are the places, `running` brings them together.
May import the errors, the instruction set and the configuration; what does the work imports this, never the reverse.
"""

from .cluster import DaskCluster
from .job import Done, Executor, Job, JobFunction, Record
from .local import LocalProcesses, ThisProcess
from .perform import result_of
from .records import RecordFile
from .running import place_of, run_jobs

__all__ = [
    "DaskCluster",
    "Done",
    "Executor",
    "Job",
    "LocalProcesses",
    "Record",
    "RecordFile",
    "ThisProcess",
    "JobFunction",
    "place_of",
    "result_of",
    "run_jobs",
]
