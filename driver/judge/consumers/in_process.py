"""Consumers that are libraries: each runs in a process of its own, which outlives a case unless the case kills it."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from typing import IO

from ..case import JudgeCase
from ..outcome import Crash, OutOfTime, Refusal
from .consumer import Outputs, consumer_of
from .programs import first_words

_START_SECONDS = 120.0
"""What a process may take to import its library, before the first case's time counts."""
_READY = "ready"


class InProcess:
    """A consumer whose `compute` runs in a process of its own."""

    name: str
    _process: "_Process | None" = None

    def __init__(self, _: str = ""):
        pass

    def load(self) -> None:
        """Import what takes long: a case's time does not count it."""

    def compute(self, case: JudgeCase) -> Outputs:
        """The outputs. Raises Refusal; whatever else it raises is a crash."""
        raise NotImplementedError

    def run(self, case: JudgeCase, limit_seconds: float) -> Outputs:
        if self._process is None or not self._process.alive:
            self._process = _Process(self.name)
        return self._process.ask(case, limit_seconds)


class _Process:
    """The process, and the line to it."""

    def __init__(self, name: str):
        self._said: IO[bytes] = tempfile.TemporaryFile()
        ours, theirs = socket.socketpair()
        with theirs:
            code = f"from {__name__} import serve; serve({name!r}, {theirs.fileno()})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
            )
        self._line = Connection(ours.detach())
        self._answer(_START_SECONDS)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, case: JudgeCase, limit_seconds: float) -> Outputs:
        self._said.seek(0)
        self._said.truncate()
        with contextlib.suppress(OSError):  # It is dead: the answer says so.
            self._line.send(case)
        found = self._answer(limit_seconds)
        if isinstance(found, Exception):
            raise found
        return found

    def _answer(self, limit_seconds: float) -> "Outputs | Refusal | Crash":
        if not self._line.poll(limit_seconds):
            self._end()
            raise OutOfTime(f"not finished after {limit_seconds:g} s")
        try:
            return self._line.recv()
        except (EOFError, OSError):
            self._process.wait()
        code = self._process.returncode
        ended = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._said.seek(0)
        words = first_words(self._said.read().decode(errors="replace"))
        self._end()
        raise Crash(f"{ended}: {words}" if words else ended)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._line.close()


def serve(name: str, descriptor: int) -> None:
    """The process: cases come in, outputs go out, until the one who asks is gone."""
    line, asked = Connection(descriptor), consumer_of(name)
    assert isinstance(asked, InProcess)
    asked.load()
    line.send(_READY)
    with contextlib.suppress(EOFError, OSError):
        while True:
            case = line.recv()
            try:
                line.send({name: value for name, value in asked.compute(case).items()})
            except Refusal as refusal:
                line.send(refusal)
            except Exception as error:
                line.send(Crash(f"{type(error).__name__}: {error}"))
    os._exit(0)
