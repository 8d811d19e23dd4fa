"""The TOSA graph that a traced function writes, and how its refusals name the user's line."""

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.ir.building.graph_builder import GraphBuilder
from tosaic.errors import TraceError

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NUMPY_FOLDER = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


def is_users(file: str) -> bool:
    """Whether a code's file is neither the tracer's nor NumPy's."""
    inside = os.path.abspath(file).startswith((_OWN_FOLDER, _NUMPY_FOLDER))
    return not inside and not file.startswith("<__array")


def users_line() -> str:
    """ "file.py:12: " of the innermost line that is neither of the tracer nor of NumPy; "" without one."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            return f"{os.path.basename(file)}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


def refuse(text: str) -> NoReturn:
    """TraceError with the line of the user's function that does what is refused."""
    raise TraceError(users_line() + text) from None


class Recorder:
    """Operators and constants of one graph; of a loop's branch `parent` is the recorder around it.

    Tensors are told by name; one of shape () has the shape [1]. Equal constants are one tensor.
    """

    def __init__(
        self, name: str, parent: "Recorder | None" = None, builder: GraphBuilder | None = None
    ) -> None:
        self.name, self.parent = name, parent
        self.build = builder or GraphBuilder(name)
        """`builder`: of operators that take another one's place."""
        self.loops = 0
        """Loops so far, counted in the outermost graph."""
        self.active = self
        """The graph that is being traced now, told by the outermost one: a loop's branch, or itself."""
        self.captured: dict[int, Any] = {}
        """Arrays of the graph around a loop that its branch reads, by their identity."""
        self._constants: dict[tuple[Any, ...], str] = {}

    @property
    def root(self) -> "Recorder":
        return self if self.parent is None else self.parent.root

    def constant(self, values: np.ndarray, dtype: DType) -> str:
        array = np.ascontiguousarray(values).reshape(np.shape(values) or (1,))
        key = (array.tobytes(), array.shape, array.dtype, dtype)
        if key not in self._constants:
            self._constants[key] = self.build.constant(array, dtype)
        return self._constants[key]

    def number(self, value: int) -> str:
        """An int32 constant of one element."""
        return self.constant(np.array([value], np.int32), DType.INT32)

    def byte(self, value: int) -> str:
        """An int8 constant of one element: a zero point or a shift."""
        return self.constant(np.array([value], np.int8), DType.INT8)

    def sizes(self, values: Sequence[int]) -> str:
        return self.build.shape([int(value) for value in values])

    def add(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.build.add(op, inputs, **attributes)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.build.graph.tensors[name].shape

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        wanted = tuple(shape) or (1,)
        if self.shape(name) == wanted:
            return name
        return self.add("RESHAPE", [name, self.sizes(wanted)])

    def elementwise(self, op: str, *names: str, **attributes: Any) -> str:
        """An operator on tensors that are broadcast as NumPy does: shorter shapes get leading ones."""
        rank = max(len(self.shape(name)) for name in names)
        operands = [self.reshape(n, (1,) * (rank - len(self.shape(n))) + self.shape(n)) for n in names]
        return self.add(op, operands, **attributes)

    def multiply(self, first: str, second: str, shift: int = 0) -> str:
        """MUL: with a shift the product of 64 bits, rounded half up."""
        rank = max(len(self.shape(first)), len(self.shape(second)))
        operands = [
            self.reshape(n, (1,) * (rank - len(self.shape(n))) + self.shape(n)) for n in (first, second)
        ]
        return self.add("MUL", [*operands, self.byte(shift)])

    def own_result(self, name: str) -> str:
        """A tensor that an operator writes and that is no output yet, so that it may become one."""
        graph = self.build.graph
        if name in graph.inputs or name in graph.outputs or graph.tensors[name].data is not None:
            return self.add("IDENTITY", [name])
        return name
