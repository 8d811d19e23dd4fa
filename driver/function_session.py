"""A session in the terms of a NumPy function: its types and shapes in and out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in import Traced
from tosaic.driver.arguments import as_declared
from tosaic.driver.session import Session
from tosaic.errors import InputError


class FunctionSession(Session):
    """A session whose `run` takes and gives NumPy's own types: uint8, uint32, int64, and numbers without an axis.

    Called as the function is, it gives what the function gives. What the function's states hold is in `state`, as the
    machine holds it. Everything else is as in `Session`.
    """

    def __init__(
        self, traced: Traced, name: str, target: Any = "emulator", config: Any = None, **options: Any
    ):
        super().__init__(traced.graph, target, config, **options)
        self.model = name
        self._traced = traced
        self._declared = traced.graph.declared

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The function's results for its arguments but the states, in their order or by name."""
        names = [each.name for each in self.inputs]
        if len(arrays) > len(names):
            raise InputError(f"{self.model} takes {len(names)} arrays, not {len(arrays)}: {', '.join(names)}")
        return self.call(dict(zip(names, arrays, strict=False)) | named)

    def call(self, given: Mapping[str, Any], *, check: bool = False) -> Any:
        """Runs the function with arguments by name; `check` works as in `Session.run`."""
        return self._traced.packed(self.run(dict(given), check=check))

    def _entered(self, given: Mapping[str, np.ndarray], *, real: bool) -> dict[str, np.ndarray]:
        return {name: self._entering(name, np.asarray(value)) for name, value in given.items()}

    def _entering(self, name: str, value: np.ndarray) -> np.ndarray:
        declared = self._declared.get(name)
        if declared is None:
            return value
        if str(value.dtype) != declared.dtype:
            raise InputError(
                f"input {name!r} has dtype {value.dtype}, the function was traced for {declared.dtype}: convert it, or "
                "trace it for that type"
            )
        return value.reshape(1) if declared.shape == value.shape == () else value

    def _given_back(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: as_declared(value, self._declared[name]) for name, value in outputs.items()}
