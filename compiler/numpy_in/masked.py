"""What a traced mask chooses, `x[mask]`: how many values it has depends on inputs.

So it is computed with as a whole, with numbers and with what the same mask chooses, and written to where that mask
holds: `y[mask] += 1`, `y[mask] = 2 * x[mask]`; or it is counted and summed up.
"""

from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tosaic.compiler.numpy_in.forms import BOOL
from tosaic.compiler.numpy_in.moves import reshaped, where
from tosaic.compiler.numpy_in.recording import Recorder, refuse, users_line
from tosaic.compiler.numpy_in.rules import METHODS
from tosaic.compiler.numpy_in.tracer import TracedArray
from tosaic.errors import TraceError

SHAPE = "a traced mask as an index: the result's shape would depend on values; use np.where(mask, x, other)"


class Masked(NDArrayOperatorsMixin):
    """The elements of an array where a mask holds, over its axes from number `before` on."""

    __array_priority__ = 2000
    __hash__ = None

    def __init__(self, whole: TracedArray, mask: TracedArray, before: int = 0) -> None:
        self.whole, self.mask, self.before = whole.copy(), mask.copy(), before
        self.dtype = whole.dtype
        self._line = users_line()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """With the line of x[mask]: what asks for the shape may be NumPy, or the function's end."""
        raise TraceError(self._line + SHAPE) from None

    def at(self, mask: TracedArray, before: int) -> TracedArray:
        """The array that it was chosen from, to be written where `mask` holds."""
        if self.before != before or not _are_same(self.mask, mask):
            refuse("what one mask chose is written where another one holds; use np.where")
        return self.whole

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if method != "__call__" or ufunc is np.matmul:
            self._refuse()
        operands = [self._operand(each) for each in inputs]
        target = None if out is None else out[0]
        if target is not None and not isinstance(target, Masked):
            self._refuse()
        into = None if target is None else self._operand(target)
        found = METHODS[method](ufunc, *operands, into=into, **keywords)
        if isinstance(found, tuple):
            return tuple(self._of(each) for each in found)
        if target is None or into is None:
            return self._of(found)
        target.whole = found.astype(into.dtype)  # as NumPy's `+=`: whoever has the chosen elements sees it
        return target

    def _operand(self, item: Any) -> Any:
        if isinstance(item, Masked):
            return item.at(self.mask, self.before)
        if np.ndim(item) or isinstance(item, TracedArray) and item.size > 1:
            self._refuse()
        return item

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        own = {
            np.sum: self.sum,
            np.count_nonzero: self._count,
            np.any: self.any,
            np.all: self.all,
            np.clip: self.clip,
        }
        if function not in own or arguments[0] is not self:
            self._refuse()
        return own[function](*arguments[1:], **keywords)

    def _of(self, whole: TracedArray) -> "Masked":
        return Masked(whole, self.mask, self.before)

    def astype(self, dtype: Any) -> "Masked":
        return self._of(self.whole.astype(dtype))

    def copy(self) -> "Masked":
        return self._of(self.whole)

    def clip(self, *ends: Any, **keywords: Any) -> "Masked":
        return self._of(np.clip(self.whole, *map(self._operand, ends), **keywords))

    def sum(self, axis: Any = None, dtype: Any = None) -> Any:
        self._check_axis(axis)
        kind = self.dtype.type
        return np.sum(where(self._hit, self.whole, kind(0)), dtype=dtype)

    def _count(self, axis: Any = None) -> Any:
        self._check_axis(axis)
        return np.count_nonzero(self._hit & (self.whole != 0))

    def any(self, axis: Any = None) -> Any:
        self._check_axis(axis)
        return np.any(self._hit & (self.whole != 0))

    def all(self, axis: Any = None) -> Any:
        self._check_axis(axis)
        return np.all(~self._hit | (self.whole != 0))

    def _check_axis(self, axis: Any) -> None:
        if axis not in (None, 0) or (axis == 0 and self.mask.ndim != self.whole.ndim):
            self._refuse()

    @property
    def _hit(self) -> Any:
        after = self.whole.ndim - self.mask.ndim - self.before
        return reshaped(self.mask, (*(1,) * self.before, *self.mask.shape, *(1,) * after))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    __array__ = __len__ = __bool__ = __int__ = __index__ = __float__ = __iter__ = _refuse
    __getitem__ = __setitem__ = _refuse


def _are_same(one: TracedArray, other: TracedArray) -> bool:
    """Whether two masks hold for the same elements: one array, or computed alike from the same ones."""
    if one.content is other.content:
        return True
    if one.shape != other.shape or one.dtype != BOOL or one.value is not None or other.value is not None:
        return False
    recorder = one.recorder
    return recorder is other.recorder and _alike(recorder, one.boolean, other.boolean)


def _alike(recorder: Recorder, one: str, other: str) -> bool:
    """Whether two tensors are results of the same operators."""
    makers = {name: each for each in recorder.build.operators for name in each.outputs}
    pairs, seen = [(one, other)], set()
    while pairs:
        pair = pairs.pop()
        if pair[0] == pair[1] or pair in seen:
            continue
        seen.add(pair)
        first, second = (makers.get(name) for name in pair)
        if first is None or second is None:
            known, like = (recorder.build.graph.tensors[name].data for name in pair)
            if known is None or like is None or known.dtype != like.dtype or not np.array_equal(known, like):
                return False
        elif first.attributes != second.attributes or first.op != second.op:
            return False
        elif len(first.inputs) != len(second.inputs):
            return False
        else:
            pairs += zip(first.inputs, second.inputs, strict=True)
    return True
