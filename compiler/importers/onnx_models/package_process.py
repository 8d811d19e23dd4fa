"""Runs shape inference and function expansion of the package `onnx` in a process of their own.

Both are C++ and trust the model: an index that no tensor has, or a stride of 0, ends the process they run in. One
process answers every import of this one; after a crash the next question starts another.
"""

import atexit
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any

from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.errors import UnsupportedError

LIMIT_SECONDS = 60
"""Processor seconds for one question; the caller waits four times as long."""
_PROGRAM = pathlib.Path(__file__).with_name("package_worker.py")


class PackageRefusalError(ValueError):
    """The package's own complaint about a model."""


class PackageCrashError(ValueError):
    """The package's process ended over a model, or used up its memory or time (`late`). The message is one line."""

    def __init__(self, message: str, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


def check_types(model: Any) -> None:
    """Raises PackageRefusalError where the types and shapes of a ModelProto contradict each other."""
    _ask("check_types", model)


def infer_shapes(model: Any) -> Any:
    """A ModelProto with the types and shapes that can be inferred, without nodes."""
    return _ask("infer_shapes", model)


def inline_local_functions(model: Any) -> Any:
    """The ModelProto without functions of its own."""
    return _ask("inline_local_functions", model)


def inline_operator(model: Any, operator: str) -> Any:
    """The ModelProto with ONNX's function body in the place of an operator's nodes."""
    return _ask("inline_operator", model, operator=operator)


def convert_version(model: Any, opset: int) -> Any:
    """The ModelProto in the words of another opset."""
    return _ask("convert_version", model, opset=opset)


def start() -> None:
    """Starts the process ahead of the first question."""
    with _worker.lock:
        _worker.start()


def _ask(operation: str, model: Any, **options: str | int) -> Any:
    onnx = load_onnx_package()
    with _worker.lock:
        return onnx.ModelProto.FromString(_worker.ask(operation, model.SerializeToString(), options))


class _Worker:
    """The process, and the pipes to it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.strangers: list[subprocess.Popen[bytes]] = []

    def start(self) -> "subprocess.Popen[bytes]":
        """The running process."""
        if self.process is not None and self.process.poll() is None:
            return self.process
        self.stop()
        # The same packages as here, without the program that runs here.
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **paths},
            )
        except OSError as error:
            raise UnsupportedError(f"ONNX models need a process for the onnx package: {error}") from None
        return self.process

    def ask(self, operation: str, data: bytes, options: dict[str, str | int]) -> bytes:
        """What the process answers. PackageRefusalError or PackageCrashError."""
        process, late = self.start(), threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(4 * LIMIT_SECONDS, end)
        timer.daemon = True
        timer.start()
        try:
            status, answer = self._exchange(process, operation, data, options)
        except (OSError, EOFError):
            code = process.wait()
            if late.is_set() or code == -getattr(signal, "SIGXCPU", 0):
                raise PackageCrashError(f"the onnx package takes more than {LIMIT_SECONDS} s", True) from None
            ending = f"({signal.Signals(-code).name})" if code < 0 else f"with exit code {code}"
            raise PackageCrashError(f"the onnx package crashes {ending}") from None
        except BaseException:
            self.stop()  # its answer must not be taken for the next one's
            raise
        finally:
            timer.cancel()
        if status == "memory":
            self.stop()
            raise PackageCrashError("the onnx package takes more memory than 1 GiB and 32 times the model")
        if status == "refused":
            raise PackageRefusalError(answer.decode(errors="replace"))
        return answer

    def _exchange(
        self, process: "subprocess.Popen[bytes]", operation: str, data: bytes, options: dict[str, str | int]
    ) -> tuple[str, bytes]:
        assert process.stdin is not None and process.stdout is not None
        asked = {
            "operation": operation,
            "options": options,
            "bytes": len(data),
            "limit_seconds": LIMIT_SECONDS,
        }
        process.stdin.write(json.dumps(asked).encode() + b"\n" + data)
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise EOFError
        told = json.loads(line)
        answer = process.stdout.read(told["bytes"])
        if len(answer) < told["bytes"]:
            raise EOFError
        return told["status"], answer

    def stop(self) -> None:
        """Ends the process, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in filter(None, (self.process.stdin, self.process.stdout)):
                with contextlib.suppress(OSError):  # what it did not read any more
                    pipe.close()
            self.process = None

    def forget(self) -> None:
        """Drops, in a fork, the process and pipes that belong to the parent."""
        self.lock = threading.Lock()
        if self.process is None:
            return
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            # Closing would write what another thread has left in the buffer.
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, pipe.fileno(), inheritable=False)
            os.close(null)
        self.process.returncode = 0  # not this one's child to wait for
        self.strangers.append(self.process)
        self.process = None


_worker = _Worker()
atexit.register(_worker.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.forget)
