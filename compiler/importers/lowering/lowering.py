"""`Lowering`: the folding builder of all importers, with NumPy's habits: ranks are aligned, nothing widens silently."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.importers.lowering.allowance import MAX_OPERATORS, Allowance, TooLargeError
from tosaic.compiler.ir import DType, GraphBuilder, Trait, nearest, operators_with
from tosaic.compiler.ir.building import FoldingBuilder, LateConstant

_SMALL_ELEMENTS = 64
"""Constants up to this size are not counted; operators are."""
_NOT_OF_BOOL = operators_with(Trait.INDEXED)


class Lowering(FoldingBuilder):
    """Builds one TOSA graph. Tensors are named by strings, as in GraphBuilder.

    Arithmetic aligns ranks from the right, as NumPy does. Constants count against the `allowance` of an import, if
    there is one: TooLargeError.
    """

    def __init__(self, name: str, allowance: Allowance | None = None) -> None:
        super().__init__(GraphBuilder(name))
        self.allowance = allowance

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
        """Raises TooLargeError when an array of this shape and NumPy type is more than the import may make."""
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
        *operands: str | LateConstant,
        dtype: DType | None = None,
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """Adds an operator with one result, or computes it; TooLargeError when there are too many.

        Truth values go as int8 through operators that TOSA has of numbers only.
        """
        if self.allowance is not None and len(self.graph.operators) >= MAX_OPERATORS:
            raise TooLargeError(
                f"the model becomes more than {MAX_OPERATORS:,} TOSA operators: make its loops or sequences shorter"
            )
        if name in _NOT_OF_BOOL and self._is_bool(operands[0]):
            held = [self.cast(str(x), DType.INT8) if self._is_bool(x) else x for x in operands]
            moved = self.op(name, *held, **attributes)
            return super().op("CAST", moved, dtype=DType.BOOL, output=output)
        return super().op(name, *operands, dtype=dtype, output=output, **attributes)

    def _is_bool(self, operand: str | LateConstant) -> bool:
        return isinstance(operand, str) and self.dtype(operand) is DType.BOOL

    # --- layout ---------------------------------------------------------------------------------------------

    def broadcast_to(self, x: str, shape: Sequence[int]) -> str:
        """Returns x repeated to `shape`, ranks aligned from the right."""
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
        shape, wanted = self.shape(x), self.shape(indices)
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        count = math.prod(wanted)
        flat = self.broadcast_to(self.reshape(indices, (1, count)), (before, count))
        rows = self.gather_rows(self.reshape(x, (before, shape[axis], after)), flat)
        return self.reshape(rows, (*shape[:axis], *wanted, *shape[axis + 1 :]))

    def gather_rows(self, values: str, indices: str) -> str:
        """Rows of values [N, K, C] at indices [N, W]; of bools, which TOSA's GATHER has not, as int8."""
        if self.dtype(values) is DType.BOOL:
            return self.cast(self.op("GATHER", self.cast(values, DType.INT8), indices), DType.BOOL)
        return self.op("GATHER", values, indices)

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
        """Returns x + value."""
        return x if value == 0 else self.add(x, self.scalar(value, x))

    def times(self, x: str, value: float) -> str:
        """Returns x * value."""
        return x if value == 1 else self.mul(x, self.scalar(value, x))

    def negate(self, x: str) -> str:
        """Returns -x."""
        zero = self.zero_point(x)
        return self.op("NEGATE", x, zero, zero)

    def sqrt(self, x: str) -> str:
        """Returns the square root of a float."""
        return self.op("RECIPROCAL", self.op("RSQRT", x))

    def maximum(self, a: str, b: str) -> str:
        """The larger element."""
        return self.binary("MAXIMUM", a, b)

    def minimum(self, a: str, b: str) -> str:
        """The smaller element."""
        return self.binary("MINIMUM", a, b)

    def clamp(self, x: str, low: float, high: float) -> str:
        """Returns x limited to low .. high."""
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
        """Returns x < 0."""
        return self.greater(self.scalar(0, x), x)

    def cast(self, x: str, dtype: DType) -> str:
        """TOSA's CAST: floats to integers round to the nearest, integers wrap; bool and float by selection."""
        source = self.dtype(x)
        if source is dtype:
            return x
        if self.data(x) is not None and (dtype.is_float or not source.is_float):
            return self.op("CAST", x, dtype=dtype)
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
