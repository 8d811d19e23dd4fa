"""What a handler sees of one NNEF operation: its tensors in TOSA, its attributes, the shapes of its results."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, SourceNode
from tosaic.compiler.importers.nnef.call import shape_of
from tosaic.compiler.importers.nnef.graph import NnefOperation, Shape, TensorValue, Value
from tosaic.compiler.ir import DType

STORAGE = {"scalar": DType.FP32, "integer": DType.INT32, "logical": DType.BOOL}
"""TOSA type that holds a data-type."""

MAX_RANK = 6
"""The rank that TOSA's tensors have at most (MAX_RANK of level 8K)."""

MAX_NUMBER = (1 << 31) - 1
"""Extents and attributes of TOSA have 32 bits."""

TABLE_LIMIT = 1 << 23
"""Elements of the largest table that an operation's lowering makes."""


class NnefNode(SourceNode):
    """One operation and the graph under construction; `tensors` are the TOSA names of values that are computed."""

    def __init__(self, low: Lowering, operation: NnefOperation, tensors: Mapping[int, str]) -> None:
        super().__init__(low)
        self.operation, self._tensors = operation, tensors

    def __str__(self) -> str:
        origin = self.operation.origin
        inner = f"{self.operation.name} in " if self.operation.name != origin.name else ""
        return f"{origin.position}: {inner}{origin.name} of {origin.target!r}"

    def described_tensors(self) -> str:
        """The arguments that are tensors, with their shapes."""
        shapes = ", ".join(
            f"{name} {list(value.shape)}"
            for name, value in self.operation.arguments.items()
            if isinstance(value, TensorValue)
        )
        return f" ({shapes})" if shapes else ""

    def check_size(self, elements: int, what: str) -> None:
        """Raises UnsupportedError for tables that a few lines of text can ask for and no machine holds."""
        if elements > TABLE_LIMIT:
            self.unsupported(
                f"{what} would have {elements} elements, at most {TABLE_LIMIT} are made",
                "use smaller extents",
            )

    def __getitem__(self, name: str) -> Any:
        """An argument as the document gives it; attributes are Python values."""
        return self.operation.arguments[name]

    def shape(self, name: str) -> Shape:
        """Shape of a tensor argument; a literal has rank 0."""
        return shape_of(self.operation.arguments[name])

    @property
    def result(self) -> TensorValue:
        """The only result."""
        (result,) = self.operation.results.values()
        assert isinstance(result, TensorValue)
        return result

    def tensor(self, name: str) -> str:
        """A tensor argument in TOSA."""
        return self.held(self.operation.arguments[name])

    def tensors(self, name: str) -> list[str]:
        """An argument that is an array of tensors."""
        return [self.held(value) for value in self[name]]

    def held(self, value: Value) -> str:
        """A tensor in TOSA; a literal becomes a constant of rank 0."""
        if isinstance(value, TensorValue):
            if id(value) not in self._tensors:
                self.unsupported(
                    f"it reads {value!r}, which TOSA cannot hold", "use scalar, integer or logical tensors"
                )
            return self._tensors[id(value)]
        assert isinstance(value, bool | int | float)
        kind = "logical" if isinstance(value, bool) else "integer" if isinstance(value, int) else "scalar"
        return constant(self, np.array(value), STORAGE[kind])

    def aligned(self, *names: str) -> list[str]:
        """Tensor arguments with equal ranks: NNEF broadcasts from the first dimension on (4.2.2)."""
        held = [self.tensor(name) for name in names]
        return align(self.low, held, max(self.low.rank(tensor) for tensor in held))

    def known(self, name: str) -> np.ndarray | None:
        """The value of a tensor argument if it is a constant, else None."""
        return self.low.data(self.tensor(name))

    def known_scalar(self, name: str) -> float | None:
        """The value of a tensor argument if it is a constant of one element, else None."""
        data = self.known(name)
        return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


def align(low: Lowering, tensors: list[str], rank: int) -> list[str]:
    """Axes of one element are put behind, up to a rank."""
    return [low.reshape(t, low.shape(t) + (1,) * (rank - low.rank(t))) for t in tensors]


def constant(node: NnefNode, values: np.ndarray, dtype: DType) -> str:
    """A constant; UnsupportedError for integers beyond int32."""
    if dtype is DType.INT32 and values.size and not dtype.min <= values.min() <= values.max() <= dtype.max:
        node.unsupported(
            f"its integers go from {values.min()} to {values.max()}, TOSA's to 32 bits",
            "use smaller integers, or scalars",
        )
    return node.low.constant(values.astype(bool) if dtype is DType.BOOL else values, dtype)
