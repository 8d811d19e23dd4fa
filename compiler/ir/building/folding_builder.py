"""`FoldingBuilder`: operators of constants are computed at once, operators that change nothing are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.ir.building.folding import fold
from tosaic.compiler.ir.building.graph_builder import GraphBuilder
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.tensors import Tensor


@dataclass(frozen=True, eq=False)
class LateConstant:
    """A constant operand that becomes a tensor only when its operator is added."""

    values: np.ndarray
    dtype: DType


def sizes(values: Sequence[int]) -> LateConstant:
    """A shape_t operand."""
    return LateConstant(np.array([int(value) for value in values], np.int64), DType.SHAPE)


class FoldingBuilder:
    """Adds operators to the graph of a `GraphBuilder`. Tensors are named by strings."""

    def __init__(self, build: GraphBuilder) -> None:
        self.build = build
        self._folded: dict[tuple[object, ...], str] = {}
        """Constants by the operator and the constants that they were computed from."""

    @property
    def graph(self) -> Graph:
        """The graph under construction."""
        return self.build.graph

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return self.graph.tensors[tensor].shape

    def rank(self, tensor: str) -> int:
        """Number of axes of a tensor."""
        return len(self.shape(tensor))

    def dtype(self, tensor: str) -> DType:
        """Returns the element type of a tensor."""
        return self.graph.tensors[tensor].dtype

    def data(self, tensor: str) -> np.ndarray | None:
        """Returns the value of a constant tensor, else None."""
        return self.graph.tensors[tensor].data

    def constant(self, values: ArrayLike, dtype: DType) -> str:
        """A constant; floats are rounded to the type. ModelError if an integer does not fit it."""
        return self.build.constant(values, dtype)

    def make_room(self, shape: Sequence[int], dtype: Any = np.float32) -> None:
        """Called before an array of this shape and NumPy type is made; a subclass may refuse it."""

    def op(
        self,
        name: str,
        *operands: str | LateConstant,
        dtype: DType | None = None,
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """Adds an operator with one result and returns its name; of constants it is computed, where it can be.

        `output` names the result, which is then never folded away. Nor is a RESCALE, which makes bytes wider: legalize
        does that where no reader of the bytes can.
        """
        if output is None and name != "RESCALE":
            read = [self._operand(o) for o in operands]
            key = _origin(name, read, attributes, dtype)
            if key is not None and key in self._folded:
                return self._folded[key]
            folded = fold(name, read, attributes, dtype, self.make_room)
            if folded is not None:
                found = self.constant(*folded)
                if key is not None:
                    self._folded[key] = found
                return found
        names = [self._name(operand) for operand in operands]
        return self.build.add(name, names, dtype=dtype, output=output, **attributes)

    def _name(self, operand: str | LateConstant) -> str:
        if isinstance(operand, str):
            return operand
        is_shape = operand.dtype is DType.SHAPE
        return (
            self.build.shape(operand.values.tolist())
            if is_shape
            else self.constant(operand.values, operand.dtype)
        )

    def _operand(self, operand: str | LateConstant) -> Tensor:
        if isinstance(operand, str):
            return self.graph.tensors[operand]
        return Tensor("", operand.values.shape, operand.dtype, operand.values)

    # --- layout ---------------------------------------------------------------------------------------------

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """The same elements in another shape."""
        return x if tuple(shape) == self.shape(x) else self.op("RESHAPE", x, sizes(shape))

    def transpose(self, x: str, perms: Sequence[int]) -> str:
        """Axis i of the result is axis perms[i] of x."""
        perms = [int(axis) for axis in perms]
        return x if perms == list(range(len(perms))) else self.op("TRANSPOSE", x, perms=perms)

    def slice(self, x: str, start: Sequence[int], size: Sequence[int]) -> str:
        """The box of `size` elements from `start` on."""
        return x if tuple(size) == self.shape(x) else self.op("SLICE", x, sizes(start), sizes(size))

    def slice_axis(self, x: str, axis: int, start: int, size: int) -> str:
        """`size` elements of one axis from `start` on."""
        starts, extents = [0] * self.rank(x), list(self.shape(x))
        starts[axis], extents[axis] = start, size
        return self.slice(x, starts, extents)

    def pad(self, x: str, pads: Sequence[tuple[int, int]], value: float = 0) -> str:
        """Adds `value` before and after each axis; negative amounts cut elements off."""
        cut = [(max(-before, 0), max(-after, 0)) for before, after in pads]
        kept = [n - before - after for n, (before, after) in zip(self.shape(x), cut, strict=True)]
        if min(kept, default=1) <= 0:
            whole = [n + before + after for n, (before, after) in zip(self.shape(x), pads, strict=True)]
            if min(whole) > 0:  # nothing of x is left
                return self.constant(np.full(whole, value), self.dtype(x))
        x = self.slice(x, [before for before, _ in cut], kept)
        grown = [max(amount, 0) for pair in pads for amount in pair]
        if not any(grown):
            return x
        return self.op("PAD", x, sizes(grown), LateConstant(np.array([value]), self.dtype(x)))

    def concat(self, parts: Sequence[str], axis: int) -> str:
        """Parts one after the other along an axis."""
        return parts[0] if len(parts) == 1 else self.op("CONCAT", *parts, axis=axis)

    def tile(self, x: str, multiples: Sequence[int]) -> str:
        """Repeats x along each axis."""
        return x if all(count == 1 for count in multiples) else self.op("TILE", x, sizes(multiples))

    def reverse(self, x: str, axis: int) -> str:
        """x backwards along an axis."""
        return x if self.shape(x)[axis] == 1 else self.op("REVERSE", x, axis=axis)


def _origin(
    name: str, read: Sequence[Tensor], attributes: dict[str, Any], dtype: DType | None
) -> tuple[object, ...] | None:
    """What a constant is computed from, where each step of a network would compute it again; None if there is no
    need to know: where nothing large is a constant."""
    if not any(tensor.data is not None and tensor.data.size >= _LARGE_ELEMENTS for tensor in read):
        return None
    parts = [
        tensor.name or (tensor.dtype, tensor.shape, np.asarray(tensor.data).tobytes()) for tensor in read
    ]
    return (name, dtype, *parts, *(f"{key}={value}" for key, value in sorted(attributes.items())))


_LARGE_ELEMENTS = 256
"""A constant of this size is worth looking up."""
