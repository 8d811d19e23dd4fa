"""Lets ExecuTorch's runtime run lowered programs in this process: import it before a program is loaded.

from executorch.runtime import Runtime
from tosaic_executorch import runtime

runtime.use("sim")  # by itself the emulator
method = Runtime.get().load_program("net.pte").load_method("forward")
"""

import ctypes
import itertools
import pathlib
from typing import Any

import executorch.kernels.quantized  # noqa: F401  quantizing at the border of a part
import numpy as np
from executorch.extension.pybindings import portable_lib  # noqa: F401  loads ExecuTorch's own library first

from tosaic.compiler.program import Program
from tosaic.driver.configuration import find_config
from tosaic.driver.session import Session
from tosaic.driver.targets import find_target
from tosaic.errors import Error
from tosaic.sim.cache import cached
from tosaic.sim.rtl.build import simulator_library
from tosaic_executorch.building import LIBRARY, build_library, sources_digest

_OPENS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
_RUNS = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p)
)
_CLOSES = ctypes.CFUNCTYPE(None, ctypes.c_uint64)


class Parts:
    """The delegated parts that are loaded: a `tosaic.Session` for each."""

    def __init__(self) -> None:
        self.target = "emulator"
        self.options: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._sessions: dict[int, Session] = {}
        self._problem = ctypes.create_string_buffer(1)

    def sessions(self) -> list[Session]:
        """In the order in which they were loaded; `stats` of each tells of its last run."""
        return list(self._sessions.values())

    def opens(self, data: int, count: int, number: Any) -> int | None:
        """A session for the .tsc file at an address."""
        try:
            session = Session(Program.load(ctypes.string_at(data, count)), self.target, **self.options)
        except Exception as error:  # nothing may be raised through C++
            return self._told(error)
        number[0] = next(self._numbers)
        self._sessions[number[0]] = session
        return None

    def runs(self, number: int, inputs: Any, outputs: Any) -> int | None:
        """Runs on arrays at addresses; outputs go to addresses."""
        try:
            session = self._sessions[number]
            feed = {
                port.name: np.frombuffer(
                    ctypes.string_at(inputs[index], port.numpy.itemsize * int(np.prod(port.shape))),
                    port.numpy,
                ).reshape(port.shape)
                for index, port in enumerate(session.inputs)
            }
            results = session.run(feed)
        except Exception as error:  # nothing may be raised through C++
            return self._told(error)
        for index, port in enumerate(session.outputs):
            array = np.ascontiguousarray(results[port.name])
            ctypes.memmove(outputs[index], array.ctypes.data, array.nbytes)
        return None

    def closes(self, number: int) -> None:
        """Lets go of a part."""
        session = self._sessions.pop(number, None)
        if session is not None:
            session.close()

    def _told(self, error: Exception) -> int:
        """The address of the error's text, which lives until the next error."""
        text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        self._problem = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self._problem)


parts = Parts()
"""What this process has loaded."""


def _library_path() -> pathlib.Path:
    """That of the wheel; in a checkout one that is built once and kept in Tosaic's cache."""
    path = pathlib.Path(__file__).with_name(LIBRARY)
    return path if path.exists() else cached("executorch", "backend", sources_digest(), ".so", build_library)


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(_library_path()))
    library.tosaic_executorch_problem.restype = ctypes.c_char_p
    return library


_LIBRARY = _library()
_CALLBACKS = (_OPENS(parts.opens), _RUNS(parts.runs), _CLOSES(parts.closes))


def use(target: str = "emulator", **options: Any) -> None:
    """Programs that are loaded from now on run on `target`; `options` are others of `tosaic.Session`.

    "native:ADDRESS" runs them without Python, by the C kit: native:tcp://HOST:PORT, native:udp://HOST,
    native:sim://CONFIG. Raises tosaic.InputError for a target that cannot be.
    """
    if target.startswith("native:"):
        address = target.removeprefix("native:")
        if address.startswith("sim://") and "/" not in address[6:]:
            address = f"sim://{simulator_library(find_config(address[6:]))}"
        _LIBRARY.tosaic_executorch_use(None, None, None, address.encode())
        return
    find_target(target)
    parts.target, parts.options = target, options
    _LIBRARY.tosaic_executorch_use(*_CALLBACKS, None)


def problem() -> str:
    """What failed last in a part, in words: ExecuTorch's own error has only a number."""
    return _LIBRARY.tosaic_executorch_problem().decode(errors="replace")


use()
