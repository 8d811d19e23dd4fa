"""`Lowering`: a GraphBuilder that folds layout operators of constants, aligns ranks and widens nothing silently."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.importers.lowering.allowance import MAX_OPERATORS, Allowance, TooLargeError
from tosaic.compiler.importers.lowering.folding import fold, worth_storing
from tosaic.compiler.ir import DType, Graph, GraphBuilder, nearest

Pads = Sequence[tuple[int, int]]
_SMALL_ELEMENTS = 64
"""Constants up to this size are not counted; operators are."""


class Lowering:
    """Builds one TOSA graph. Tensors are named by strings, as in GraphBuilder.

    Layout operators (reshape, transpose, slice, pad, concat) of constants are computed at once; an operator
    that would change nothing is left out. Arithmetic aligns ranks from the right, as NumPy does.
    Constants count against the `allowance` of an import, if there is one: TooLargeError.
    """

    def __init__(self, name: str, allowance: Allowance | None = None) -> None:
        self.build = GraphBuilder(name)
        self.allowance = allowance

    @property
    def graph(self) -> Graph:
        """The graph under construction."""
        return self.build.graph

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.graph.tensors[tensor].shape

    def rank(self, tensor: str) -> int:
        """Number of axes of a tensor."""
        return len(self.shape(tensor))

    def dtype(self, tensor: str) -> DType:
        """Element type of a tensor."""
        return self.graph.tensors[tensor].dtype

    def data(self, tensor: str) -> np.ndarray | None:
        """Value of a constant tensor, else None."""
        return self.graph.tensors[tensor].data

    def constant(self, values: ArrayLike, dtype: DType) -> str:
        """A constant; floats are rounded to the type."""
        array = np.asarray(values)
        if array.dtype != dtype.numpy:
            self.make_room(array.shape, dtype.numpy)
        name = self.build.constant(array, dtype)
        data = self.data(name)
        if self.allowance is not None and data is not None and data.size > _SMALL_ELEMENTS:
            self.allowance.hold(data)
        return name

    def make_room(self, shape: Sequence[int], dtype: Any = np.float32) -> None:
        """TooLargeError when an array of this shape and NumPy type is more than the import may make."""
        if self.allowance is not None:
            self.allowance.check(math.prod(shape) * np.dtype(dtype).itemsize)

    def scalar(self, value: float, like: str) -> str:
        """A constant of one element with the type and the rank of tensor `like`."""
        return self.constant(np.full((1,) * self.rank(like), value), self.dtype(like))

    def zero_point(self, tensor: str, value: int = 0) -> str:
        """The zero-point operand of a tensor."""
        return self.constant([value], self.dtype(tensor))

    def op(
        self,
        name: str,
        *inputs: str,
        dtype: DType | None = None,
        **attributes: Any,
    ) -> str:
        """Adds an operator with one result; of small constants it is computed at once."""
        folded = fold(name, [self.graph.tensors[tensor] for tensor in inputs], attributes, dtype)
        if folded is not None:
            return self.constant(*folded)
        if self.allowance is not None and len(self.graph.operators) >= MAX_OPERATORS:
            raise TooLargeError(
                f"the model becomes more than {MAX_OPERATORS:,} TOSA operators: make its loops or sequences shorter"
            )
        return self.build.add(name, list(inputs), dtype=dtype, **attributes)

    # --- layout ---------------------------------------------------------------------------------------------

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """The same elements in another shape."""
        shape = tuple(int(size) for size in shape)
        if shape == self.shape(x):
            return x
        data = self.data(x)
        if data is not None:
            if not data.flags.c_contiguous and any(data.strides):
                self.make_room(data.shape, data.dtype)
            return self.constant(data.reshape(shape), self.dtype(x))
        return self.op("RESHAPE", x, self.build.shape(shape))

    def transpose(self, x: str, perms: Sequence[int]) -> str:
        """Axis i of the result is axis perms[i] of x."""
        perms = [int(axis) for axis in perms]
        if perms == list(range(len(perms))):
            return x
        data = self.data(x)
        if data is not None:
            return self.constant(data.transpose(perms), self.dtype(x))
        return self.op("TRANSPOSE", x, perms=perms)

    def slice(self, x: str, start: Sequence[int], size: Sequence[int]) -> str:
        """The box of `size` elements from `start` on."""
        size = tuple(int(extent) for extent in size)
        if size == self.shape(x):
            return x
        data = self.data(x)
        if data is not None:
            box = tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))
            return self.constant(data[box], self.dtype(x))
        return self.op("SLICE", x, self.build.shape([int(a) for a in start]), self.build.shape(size))

    def slice_axis(self, x: str, axis: int, start: int, size: int) -> str:
        """`size` elements of one axis from `start` on."""
        starts, sizes = [0] * self.rank(x), list(self.shape(x))
        starts[axis], sizes[axis] = start, size
        return self.slice(x, starts, sizes)

    def pad(self, x: str, pads: Pads, value: float = 0) -> str:
        """Adds `value` before and after each axis; negative amounts cut elements off."""
        shape = self.shape(x)
        cut = [(max(-before, 0), max(-after, 0)) for before, after in pads]
        x = self.slice(
            x, [before for before, _ in cut], [n - a - b for n, (a, b) in zip(shape, cut, strict=True)]
        )
        grown = [max(amount, 0) for pair in pads for amount in pair]
        if not any(grown):
            return x
        data = self.data(x)
        pairs = list(zip(grown[::2], grown[1::2], strict=True))
        if data is not None and worth_storing(
            data, [n + a + b for n, (a, b) in zip(data.shape, pairs, strict=True)]
        ):
            self.make_room([n + a + b for n, (a, b) in zip(data.shape, pairs, strict=True)], data.dtype)
            return self.constant(np.pad(data, pairs, constant_values=value), self.dtype(x))
        return self.op("PAD", x, self.build.shape(grown), self.constant([value], self.dtype(x)))

    def concat(self, parts: Sequence[str], axis: int) -> str:
        """Parts one after the other along an axis."""
        if len(parts) == 1:
            return parts[0]
        values = [self.data(part) for part in parts]
        known = [value for value in values if value is not None]
        if len(known) == len(parts):
            self.make_room([sum(value.size for value in known)], known[0].dtype)
            return self.constant(np.concatenate(known, axis), self.dtype(parts[0]))
        return self.op("CONCAT", *parts, axis=axis)

    def tile(self, x: str, multiples: Sequence[int]) -> str:
        """Repeats x along each axis."""
        multiples = [int(count) for count in multiples]
        if all(count == 1 for count in multiples):
            return x
        data = self.data(x)
        if data is not None and worth_storing(
            data, [n * m for n, m in zip(data.shape, multiples, strict=True)]
        ):
            self.make_room([n * m for n, m in zip(data.shape, multiples, strict=True)], data.dtype)
            return self.constant(np.tile(data, multiples), self.dtype(x))
        return self.op("TILE", x, self.build.shape(multiples))

    def reverse(self, x: str, axis: int) -> str:
        """x backwards along an axis."""
        if self.shape(x)[axis] == 1:
            return x
        data = self.data(x)
        if data is not None:
            return self.constant(np.flip(data, axis), self.dtype(x))
        return self.op("REVERSE", x, axis=axis)

    def broadcast_to(self, x: str, shape: Sequence[int]) -> str:
        """x repeated to `shape`, ranks aligned from the right."""
        x = self.reshape(x, (1,) * (len(shape) - self.rank(x)) + self.shape(x))
        return self.tile(x, [wanted // have for wanted, have in zip(shape, self.shape(x), strict=True)])

    def take(self, x: str, axis: int, indices: Sequence[int] | np.ndarray) -> str:
        """The elements `indices` (known now) of an axis; neighbours become a SLICE, others a GATHER."""
        indices = np.asarray(indices, np.int64).reshape(-1)
        if np.array_equal(indices, np.arange(indices[0], indices[0] + len(indices))):
            return self.slice_axis(x, axis, int(indices[0]), len(indices))
        data = self.data(x)
        if data is not None:
            self.make_room([data.size // data.shape[axis] * len(indices)], data.dtype)
            return self.constant(np.take(data, indices, axis), self.dtype(x))
        return self.gather(x, axis, self.constant(indices, DType.INT32))

    def gather(self, x: str, axis: int, indices: str) -> str:
        """numpy.take: the axis is replaced by the shape of `indices` (int32, in range and not negative)."""
        if self.dtype(x) is DType.BOOL:
            bits = self.gather(self.cast(x, DType.INT8), axis, indices)
            return self.cast(bits, DType.BOOL)
        shape, wanted = self.shape(x), self.shape(indices)
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        count = math.prod(wanted)
        flat = self.broadcast_to(self.reshape(indices, (1, count)), (before, count))
        rows = self.op("GATHER", self.reshape(x, (before, shape[axis], after)), flat)
        return self.reshape(rows, (*shape[:axis], *wanted, *shape[axis + 1 :]))

    # --- arithmetic -----------------------------------------------------------------------------------------

    def aligned(self, *tensors: str) -> list[str]:
        """The tensors with equal ranks: axes of one element are put in front."""
        rank = max(self.rank(tensor) for tensor in tensors)
        return [self.reshape(t, (1,) * (rank - self.rank(t)) + self.shape(t)) for t in tensors]

    def binary(self, name: str, a: str, b: str, **attributes: Any) -> str:
        """An elementwise operator of two tensors that broadcast."""
        return self.op(name, *self.aligned(a, b), **attributes)

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self.binary("ADD", a, b)

    def sub(self, a: str, b: str) -> str:
        """a - b."""
        return self.binary("SUB", a, b)

    def mul(self, a: str, b: str) -> str:
        """a * b, with no shift."""
        return self.op("MUL", *self.aligned(a, b), self.constant([0], DType.INT8))

    def div(self, a: str, b: str) -> str:
        """a / b: of integers truncated, of floats as a product with the reciprocal."""
        if not self.dtype(a).is_float:
            return self.binary("INTDIV", a, b)
        data = self.data(b)
        if data is not None:
            with np.errstate(divide="ignore"):
                return self.mul(a, self.constant(1.0 / data.astype(np.float64), self.dtype(b)))
        return self.mul(a, self.op("RECIPROCAL", b))

    def plus(self, x: str, value: float) -> str:
        """x + value."""
        return x if value == 0 else self.add(x, self.scalar(value, x))

    def times(self, x: str, value: float) -> str:
        """x * value."""
        return x if value == 1 else self.mul(x, self.scalar(value, x))

    def negate(self, x: str) -> str:
        """-x."""
        zero = self.zero_point(x)
        return self.op("NEGATE", x, zero, zero)

    def sqrt(self, x: str) -> str:
        """Square root of a float."""
        return self.op("RECIPROCAL", self.op("RSQRT", x))

    def maximum(self, a: str, b: str) -> str:
        """The larger element."""
        return self.binary("MAXIMUM", a, b)

    def minimum(self, a: str, b: str) -> str:
        """The smaller element."""
        return self.binary("MINIMUM", a, b)

    def clamp(self, x: str, low: float, high: float) -> str:
        """x limited to low .. high."""
        if self.dtype(x).is_float:
            low, high = (float(nearest(np.array(bound), self.dtype(x))) for bound in (low, high))
        return self.op("CLAMP", x, min_val=low, max_val=high)

    def greater(self, a: str, b: str) -> str:
        """a > b."""
        return self.binary("GREATER", a, b)

    def greater_equal(self, a: str, b: str) -> str:
        """a >= b."""
        return self.binary("GREATER_EQUAL", a, b)

    def equal(self, a: str, b: str) -> str:
        """a == b."""
        return self.binary("EQUAL", a, b)

    def select(self, condition: str, a: str, b: str) -> str:
        """a where the condition holds, else b."""
        return self.op("SELECT", *self.aligned(condition, a, b))

    def is_negative(self, x: str) -> str:
        """x < 0."""
        return self.greater(self.scalar(0, x), x)

    def cast(self, x: str, dtype: DType) -> str:
        """TOSA's CAST: floats to integers round to the nearest, integers wrap; bool and float by selection."""
        source = self.dtype(x)
        if source is dtype:
            return x
        data = self.data(x)
        if data is not None and not (source.is_float and not dtype.is_float):
            return self.constant(data.astype(dtype.numpy) if dtype.is_integer else data, dtype)
        if source is DType.BOOL and dtype.is_float:
            ones = (1,) * self.rank(x)
            return self.select(x, self.constant(np.ones(ones), dtype), self.constant(np.zeros(ones), dtype))
        if dtype is DType.BOOL and source.is_float:
            return self.op("LOGICAL_NOT", self.equal(x, self.scalar(0, x)))
        if {source, dtype} == {DType.FP16, DType.BF16}:
            x = self.op("CAST", x, dtype=DType.FP32)
        return self.op("CAST", x, dtype=dtype)

    def truncate(self, x: str) -> str:
        """A float without its fraction."""
        return self.select(self.is_negative(x), self.op("CEIL", x), self.op("FLOOR", x))

    def round_half_even(self, x: str) -> str:
        """The nearest whole number, ties to the even one."""
        low = self.op("FLOOR", x)
        fraction = self.sub(x, low)
        half = self.times(low, 0.5)
        odd = self.greater(self.sub(half, self.op("FLOOR", half)), self.scalar(0, x))
        at_half = self.op("LOGICAL_AND", self.equal(fraction, self.scalar(0.5, x)), odd)
        up = self.op("LOGICAL_OR", self.greater(fraction, self.scalar(0.5, x)), at_half)
        return self.select(up, self.plus(low, 1), low)

    # --- reductions -----------------------------------------------------------------------------------------

    def reduce(self, name: str, x: str, axes: Sequence[int], keep: bool = True) -> str:
        """REDUCE_`name` over several axes; neighbouring axes are joined to one first."""
        shape = self.shape(x)
        axes = sorted(axis % len(shape) for axis in axes)
        final = [1 if axis in axes else n for axis, n in enumerate(shape) if keep or axis not in axes]
        if len(axes) > 1 and axes == list(range(axes[0], axes[-1] + 1)):
            joined = math.prod(shape[axes[0] : axes[-1] + 1])
            x = self.reshape(x, (*shape[: axes[0]], joined, *shape[axes[-1] + 1 :]))
            axes = axes[:1]
        for axis in axes:
            x = self.op(f"REDUCE_{name}", x, axis=axis)
        return self.reshape(x, final)

    def mean(self, x: str, axes: Sequence[int]) -> str:
        """Mean over axes, which stay with one element."""
        count = math.prod(self.shape(x)[axis] for axis in axes)
        return self.times(self.reduce("SUM", x, axes), 1.0 / count)
