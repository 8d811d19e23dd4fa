"""Runs a network once and says what it took."""

import dataclasses
import pathlib

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.driver.session import NodeArg, Progress, Session
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Row:
    """One network on one configuration with one external memory."""

    network: str
    config: str
    macs_per_cycle: int
    target: str
    memory_bandwidth: int
    memory_latency: int
    macs: int
    cycles: int
    read_bytes: int
    write_bytes: int
    bit_exact: bool | None
    dead_channels_removed: bool = False

    @property
    def ideal_cycles(self) -> int:
        """With every multiplier busy all the time."""
        return -(-self.macs // self.macs_per_cycle)

    @property
    def utilization(self) -> float:
        return self.macs / max(self.cycles, 1) / self.macs_per_cycle


def network_name(path: pathlib.Path) -> str:
    """The file's name, or its folder's when the file is called model."""
    return path.resolve().parent.name if path.stem == "model" else path.stem


def measure(
    path: pathlib.Path,
    target: str,
    config: str | Config,
    memory_bandwidth: int | None,
    memory_latency: int | None,
    *,
    check: bool,
    drop_dead_channels: bool = False,
    progress: Progress | None = None,
) -> Row:
    """Compiles and runs a model on random inputs (cycles do not depend on them, but for loops)."""
    session = Session(
        path,
        target,
        config,
        memory_bandwidth=memory_bandwidth,
        memory_latency=memory_latency,
        drop_dead_channels=drop_dead_channels,
        progress=progress,
    )
    random = np.random.default_rng(0)
    session.run({argument.name: _values(random, argument) for argument in session.inputs}, check=check)
    stats = session.stats
    return Row(
        network=network_name(path),
        config=session.config.name,
        macs_per_cycle=session.config.macs_per_cycle,
        target=target,
        memory_bandwidth=stats["memory_bandwidth"],
        memory_latency=stats["memory_latency"],
        macs=stats["macs"],
        cycles=stats["cycles"],
        read_bytes=stats["dram_read_bytes"],
        write_bytes=stats["dram_write_bytes"],
        bit_exact=stats["bit_exact"],
        dead_channels_removed=drop_dead_channels,
    )


def _values(random: np.random.Generator, argument: NodeArg) -> np.ndarray:
    if argument.type is DType.BOOL:
        return random.integers(0, 2, argument.shape).astype(bool)
    low, high = argument.type.min, argument.type.max
    return random.integers(low, high, argument.shape, endpoint=True, dtype=argument.numpy)
