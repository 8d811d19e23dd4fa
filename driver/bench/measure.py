"""Runs a network once and says what it took."""

import dataclasses
import pathlib

import numpy as np

from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import DType
from tosaic.driver.encodings import sidecar
from tosaic.driver.jobs import Done, Job, JobFunction, Record, result_of
from tosaic.driver.runnable import plain
from tosaic.driver.session import NodeArg, Session


@dataclasses.dataclass(frozen=True)
class MemorySetting:
    """An external memory: bytes per cycle and cycles; None is what a configuration has by itself."""

    bandwidth: float | None = None
    latency: int | None = None


@dataclasses.dataclass(frozen=True)
class Compiled:
    """How a model is opened and compiled."""

    batch: int = 1
    drop_dead_channels: bool = False
    bound: Bindings | None = None


DEFAULT_MEMORY = MemorySetting()
AS_IT_IS = Compiled()


@dataclasses.dataclass(frozen=True)
class Row:
    """One network on one configuration with one external memory; figures of one sample, of a batch its share."""

    network: str
    config: str
    macs_per_cycle: int
    target: str
    memory_bandwidth: float
    memory_latency: int
    macs: int
    cycles: int
    read_bytes: int
    write_bytes: int
    bit_exact: bool | None
    dead_channels_removed: bool = False
    batch: int = 1

    @property
    def ideal_cycles(self) -> int:
        """Cycles with every multiplier busy all the time."""
        return -(-self.macs // self.macs_per_cycle)

    @property
    def utilization(self) -> float:
        return self.macs / max(self.cycles, 1) / self.macs_per_cycle


def network_name(path: pathlib.Path) -> str:
    """The file's name, or its folder's when the file is called model."""
    return path.resolve().parent.name if path.stem == "model" else path.stem


def measurement(
    path: pathlib.Path,
    target: str,
    config: str,
    memory: MemorySetting = DEFAULT_MEMORY,
    how: Compiled = AS_IT_IS,
    *,
    check: bool = False,
) -> Job:
    """The job that compiles a model and runs it on random inputs (cycles do not depend on them, but for loops)."""
    settings = {
        "memory_bandwidth": memory.bandwidth,
        "memory_latency": memory.latency,
        "check": check,
        "drop_dead_channels": how.drop_dead_channels,
        "batch": how.batch,
        **({} if how.bound is None else plain(how.bound)),
    }
    files = tuple(file for file in (sidecar(path),) if file.is_file())
    title = f"{path.parent.name}/{path.name} on {config}"
    return Job(JobFunction(f"{__name__}:measure"), path, config, target, 0, settings, files, title)


def measure(job: Job) -> Done:
    """The figures of one `measurement`."""
    assert job.model is not None
    settings = dict(job.settings)
    check = settings.pop("check")
    session = Session(job.model, job.target, job.config, **settings)
    random = np.random.default_rng(job.seed)
    session.run({argument.name: _values(random, argument) for argument in session.inputs}, check=check)
    stats = session.stats
    figures = {
        "macs_per_cycle": session.config.macs_per_cycle,
        "memory_bandwidth": stats["memory_bandwidth"],
        "memory_latency": stats["memory_latency"],
        **{
            name: -(-stats[figure] // session.batch)
            for name, figure in (
                ("macs", "macs"),
                ("cycles", "cycles"),
                ("read_bytes", "dram_read_bytes"),
                ("write_bytes", "dram_write_bytes"),
            )
        },
        "bit_exact": stats["bit_exact"],
        "dead_channels_removed": settings["drop_dead_channels"],
        "batch": session.batch,
    }
    return Done(figures)


def row_of(job: Job, record: Record) -> Row:
    """The row of a measurement; raises what its work raised."""
    assert job.model is not None
    return Row(network=network_name(job.model), config=job.config, target=job.target, **result_of(record))


def _values(random: np.random.Generator, argument: NodeArg) -> np.ndarray:
    if argument.type is DType.BOOL:
        return random.integers(0, 2, argument.shape).astype(bool)
    low, high = argument.type.min, argument.type.max
    return random.integers(low, high, argument.shape, endpoint=True, dtype=argument.numpy)
