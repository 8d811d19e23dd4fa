"""`pool://`: several board servers as one device. Work goes to a free board of the program's configuration."""

import collections
import threading
import urllib.parse
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.program import Program
from tosaic.driver.schemes import register_scheme
from tosaic.errors import DeviceError, InputError
from tosaic.hw.config import Config
from tosaic.sim.result import RunResult

from .device import Device

SCHEME = "pool"
OPTIONS = frozenset({"token_file", "ca"})
TRIES = 3
"""Boards on which a run fails before its error is told: the fault is then the program's."""


class _Board:
    """A board of the pool."""

    def __init__(self, device: Device, config: Config | None):
        self.device, self.config = device, config
        self.busy = False


class BoardPool(Device):
    """Boards that run programs side by side, for as many threads as there are boards.

    A run that fails is done again on another board. A board that cannot be reached is told by a warning and left out;
    DeviceError when no board of the program's configuration is left.
    """

    def __init__(self, name: str, uris: Sequence[str], open_device: Callable[[str], Device] = Device.open):
        self.name = name
        self._changed = threading.Condition()
        self._boards: list[_Board] = []
        for uri in uris:
            try:
                device = open_device(uri)
                self._boards.append(_Board(device, device.configuration()))
            except DeviceError as error:
                self._lose(uri, error)
        if not self._boards:
            raise DeviceError(f"{name}: no board of the pool answers")

    @property
    def size(self) -> int:
        """Number of boards that are left."""
        return len(self._boards)

    @property
    def memory_speed(self) -> MemorySpeed | None:
        """That of the boards, if it is the same for all."""
        speeds = {board.device.memory_speed for board in self._boards}
        return speeds.pop() if len(speeds) == 1 else None

    def close(self) -> None:
        for board in self._boards:
            board.device.close()

    def configuration(self) -> Config | None:
        """That of most boards."""
        counts = collections.Counter(board.config for board in self._boards if board.config)
        return counts.most_common(1)[0][0] if counts else None

    def run(self, program: Program, window: np.ndarray, max_cycles: int | None = None) -> RunResult:
        """Runs as `Device.run` does, on a board that is free; waits for one."""
        failed: list[_Board] = []
        while True:
            board = self._take(program, failed)
            own = window.copy()
            try:
                result = board.device.run(program, own, max_cycles)
            except DeviceError as error:
                self._settle(board, error)
                failed.append(board)
                if len(failed) == TRIES or not self._left(program, failed):
                    raise
                continue
            finally:
                self._give(board)
            window[:] = own
            return result

    # --- inside

    def _fitting(self, program: Program) -> list[_Board]:
        return [
            each for each in self._boards if each.config is None or each.config.hash == program.config.hash
        ]

    def _left(self, program: Program, failed: Sequence[_Board]) -> list[_Board]:
        """Boards on which the run has not failed."""
        with self._changed:
            return [board for board in self._fitting(program) if board not in failed]

    def _take(self, program: Program, failed: Sequence[_Board]) -> _Board:
        with self._changed:
            while True:
                fitting = self._fitting(program)
                if not fitting:
                    raise DeviceError(
                        f"{self.name}: no board of the pool has configuration {program.config.name}: "
                        "compile for another, or add a board"
                    )
                untried = [board for board in fitting if board not in failed]
                if not untried:
                    raise DeviceError(
                        f"{self.name}: the run failed on every board that is left: "
                        "see the warnings of the boards, or add one"
                    )
                free = [board for board in untried if not board.busy]
                if free:
                    free[0].busy = True
                    return free[0]
                self._changed.wait()

    def _give(self, board: _Board) -> None:
        with self._changed:
            board.busy = False
            self._changed.notify_all()

    def _settle(self, board: _Board, error: DeviceError) -> None:
        """A board that failed stays if it still answers."""
        try:
            board.device.configuration()
        except DeviceError as lost:
            with self._changed:
                if board in self._boards:
                    self._boards.remove(board)
                self._changed.notify_all()
            self._lose(board.device.name, lost)

    def _lose(self, name: str, error: DeviceError) -> None:
        warnings.warn(f"{self.name}: board {name} is lost, others do its work: {error}", stacklevel=3)


def open_device(uri: str) -> Device:
    """The device at a URI: one machine, or a pool of them."""
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme != SCHEME:
        return Device.open(uri)
    query = f"?{parts.query}" if parts.query else ""
    scheme = "tcps" if "ca" in urllib.parse.parse_qs(parts.query) else "tcp"
    hosts = [host for host in parts.netloc.split(",") if host]
    if not hosts or parts.path.strip("/"):
        raise InputError(f"{uri}: write pool://HOST:PORT,HOST:PORT")
    return BoardPool(f"pool://{parts.netloc}", [f"{scheme}://{host}{query}" for host in hosts])


def _not_one(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Device:
    raise InputError(f"{uri.geturl()}: a pool is no single device: name one of its servers")


register_scheme(SCHEME, _not_one, OPTIONS)
