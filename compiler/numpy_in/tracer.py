"""The traced array: what a function sees in the place of an ndarray.

It has NumPy's type and shape, the interval that its values are proved to lie in, and tensors of the graph that hold
them. An array whose `value` is known stays in NumPy: constants fold by themselves, and `if` on them works.
"""

import inspect
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in import words
from tosaic.compiler.numpy_in.forms import (
    BOOL,
    BYTES,
    INT64,
    INTEGERS,
    MAX_RANK,
    NARROW,
    UINT32,
    ArrayView,
    Content,
    Form,
)
from tosaic.compiler.numpy_in.intervals import INT32, Interval, of_type, of_values
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, METHODS, OUT_OF_ONE_TYPE, way_out


class TracedArray:
    """See the module. Assignment changes `content` and counts `version`; views follow when they are next looked at."""

    __array_priority__ = 1000
    __hash__ = None

    def __init__(
        self,
        recorder: Recorder,
        shape: Sequence[int],
        dtype: Any,
        interval: Interval | None = None,
        *,
        value: np.ndarray | None = None,
        forms: dict[Form, str] | None = None,
    ) -> None:
        self.recorder, self.shape, self.dtype = recorder, tuple(int(size) for size in shape), np.dtype(dtype)
        if self.dtype not in INTEGERS and value is None:
            refuse(
                f"a result of type {self.dtype} is not for an integer accelerator; keep to integers (// and >> in the "
                "place of / and mean, tosaic.rescale for fixed point)"
            )
        if len(self.shape) > MAX_RANK and value is None:
            refuse(
                f"an array of rank {len(self.shape)}: TOSA's tensors have at most {MAX_RANK}; reshape first"
            )
        if value is not None and value.size and self.dtype in INTEGERS:
            interval = of_values(value)
        elif interval is None:
            interval = of_type(self.dtype) if self.dtype in INTEGERS else Interval(0, 0)
        self._content = Content(interval, value, forms)
        self._version = 0
        self._view: ArrayView | None = None
        self._kin: list[weakref.ref[TracedArray]] = []
        """Arrays that NumPy may or may not keep in the same memory."""
        self.fixed = ""
        """Why it must not be written to."""
        self.scalar = self.shape == () and not isinstance(value, np.ndarray)
        """NumPy has a scalar here, which `+=` replaces."""
        self._windows_of: TracedArray | None = None

    # --- what it holds

    @property
    def content(self) -> Content:
        chain: list[TracedArray] = []
        each = self
        while each._view is not None:
            chain.append(each)
            each = each._view.base
        for each in reversed(chain):
            each._follow_base()
        return self._content

    def _follow_base(self) -> None:
        view = self._view
        if view is not None and view.seen != view.base._version:
            self._content = view.read(view.base)._content
            self._version += 1
            self._windows_of = None
            view.seen = view.base._version

    @property
    def version(self) -> int:
        """How often its values have changed."""
        _ = self.content
        return self._version

    @property
    def interval(self) -> Interval:
        return self.content.interval

    @property
    def value(self) -> np.ndarray | None:
        """Its values, where they do not depend on inputs."""
        return self.content.value

    @property
    def forms(self) -> dict[Form, str]:
        return self.content.forms

    @property
    def windows_of(self) -> "TracedArray | None":
        """Of the sliding windows over the first two axes of an image: the image, while nothing was written."""
        _ = self.content
        return self._windows_of

    @windows_of.setter
    def windows_of(self, image: "TracedArray | None") -> None:
        self._windows_of = image

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def T(self) -> "TracedArray":
        return np.transpose(self)

    def tensor(self, form: Form) -> str:
        """The tensor that holds it in a form, made at the first call."""
        content = self.content
        if form not in content.forms:
            content.forms[form] = self._constant(form) if content.value is not None else self._converted(form)
        return content.forms[form]

    @property
    def wide(self) -> str:
        if self.value is None and not (INT32.holds(self.interval) or self.dtype == UINT32):
            refuse(
                f"{self!r} has more than 32 bits: narrow it first (>>, np.clip, or astype(np.int32), which wraps), or "
                "use tosaic.rescale for (x * multiplier) >> shift"
            )
        return self.tensor(Form.WIDE)

    @property
    def narrow(self) -> str:
        return self.tensor(Form.NARROW)

    @property
    def boolean(self) -> str:
        return self.tensor(Form.BOOL)

    def _constant(self, form: Form) -> str:
        value, record = self.value, self.recorder
        assert value is not None
        if self.dtype not in INTEGERS:
            refuse(f"a constant of type {self.dtype} meets a traced array; round it to integers first")
        if form is Form.BOOL:
            return record.constant(value.astype(bool), DType.BOOL)
        array = np.asarray(value).reshape(self.shape or (1,))
        if form is Form.NARROW:
            dtype = NARROW[self.dtype]
            return record.constant(array.view(dtype.numpy), dtype)
        if form in (Form.LOW, Form.HIGH):
            words = array.astype(np.int64) >> (32 if form is Form.HIGH else 0)
            return record.constant(words.astype(np.int32), DType.INT32)
        if self.dtype != UINT32 and array.size and not INT32.holds(self.interval):
            refuse(f"a constant of {self.interval} does not fit 32 bits; narrow it (astype)")
        bits = array.view(np.int32) if self.dtype == UINT32 else array
        return record.constant(bits.astype(np.int32), DType.INT32)

    def _converted(self, form: Form) -> str:
        record, forms = self.recorder, self.forms
        if form in (Form.LOW, Form.HIGH) and self.content.product is not None:
            first, second, addend = self.content.product
            pair = words.product(record, first.wide, second.wide)
            if addend:
                constant = TracedArray(record, (), INT64, value=np.array(addend))
                pair = words.add(record, pair, (constant.tensor(Form.LOW), constant.tensor(Form.HIGH)))
            forms[Form.LOW], forms[Form.HIGH] = pair
            return forms[form]
        if form is Form.BOOL:
            return record.add("CAST", [self.wide], dtype=DType.BOOL)
        if form is Form.NARROW:
            return record.add("CAST", [self.wide], dtype=NARROW[self.dtype])
        if form is Form.HIGH:
            if self.dtype == UINT32:
                return record.number(0)
            return record.elementwise("ARITHMETIC_RIGHT_SHIFT", self.wide, record.number(31), round=False)
        if form is Form.LOW:
            return self.wide
        if Form.BOOL in forms:
            return record.add("CAST", [forms[Form.BOOL]], dtype=DType.INT32)
        wide = record.add("CAST", [forms[Form.NARROW]], dtype=DType.INT32)
        if self.dtype.kind == "u":
            wide = record.elementwise("BITWISE_AND", wide, record.number(of_type(self.dtype).high))
        return wide

    @property
    def words(self) -> words.Words:
        """Its low and its high word."""
        return self.tensor(Form.LOW), self.tensor(Form.HIGH)

    @property
    def natural(self) -> Form:
        """The form that needs no further operator."""
        if self.dtype == BOOL:
            return Form.BOOL
        if self.dtype in NARROW and (Form.NARROW in self.forms or self.value is not None):
            return Form.NARROW
        return Form.WIDE

    @property
    def port_form(self) -> Form:
        """The form in which it enters and leaves a graph."""
        return Form.BOOL if self.dtype == BOOL else Form.NARROW if self.dtype in NARROW else Form.WIDE

    def moved_forms(self, *, renamed: bool = False) -> list[Form]:
        """The forms that an operator which moves elements carries on: few bytes, unless nothing moves (`renamed`)."""
        if self.value is None and Form.WIDE not in self.forms and self.itemsize == 8:
            return [Form.LOW, Form.HIGH]
        return [self.natural if renamed else self.port_form, *(form for form in BYTES if form in self.forms)]

    def __repr__(self) -> str:
        if self.value is not None:
            return repr(self.value)
        return f"traced {self.dtype}{list(self.shape)} in {self.interval}"

    # --- views and assignment

    def follow(
        self,
        base: "TracedArray",
        key: Any,
        read: "Callable[[TracedArray], TracedArray]",
        write: "Callable[[TracedArray, TracedArray], None]",
    ) -> "TracedArray":
        """This array, which is from now on a view of `base`: `read` makes it anew, `write` changes `base`."""
        self._view = ArrayView(base, key, read, write)
        self.scalar = False
        return self

    def is_view(self, base: "TracedArray", key: Any) -> bool:
        """Whether it is the view `key` of `base`, and nothing was written to `base` since."""
        return self._view is not None and self._view.is_of(base, key)

    def perhaps_view(self, base: "TracedArray") -> "TracedArray":
        """This array, which NumPy may keep in the memory of `base` or not: neither is written to beside the other."""
        related: list[TracedArray] = []
        each: TracedArray | None = base
        while each is not None:
            related += [each, *(other for kin in each._kin if (other := kin()) is not None)]
            each = each._view.base if each._view is not None else None
        for other in related:
            if other is not self:
                other._kin.append(weakref.ref(self))
                self._kin.append(weakref.ref(other))
        self.scalar = False
        return self

    def assign(self, values: "TracedArray") -> None:
        """New values, of this shape and type."""
        if self.fixed:
            refuse(self.fixed)
        if any(kin() is not None for kin in self._kin):
            refuse(
                "an array is written to beside a reshape of it: NumPy may change both or one; make one a .copy()"
            )
        content = values.content
        if self._view is not None:
            self._view.write(self._view.base, values)
            self._view.seen = self._view.base.version
        self._content = content
        self._version += 1
        self._windows_of = None

    def fill_from(self, values: "TracedArray") -> None:
        """As `ufunc(..., out=self)`: converts and broadcasts."""
        if np.broadcast_shapes(values.shape, self.shape) != self.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape "
                f"{np.broadcast_shapes(values.shape, self.shape)}"
            )
        converted = values.astype(self.dtype)
        self.assign(converted if converted.shape == self.shape else np.broadcast_to(converted, self.shape))

    # --- Python asks for a value

    def _known(self, what: str, way_out: str) -> np.ndarray:
        if self.value is None:
            refuse(
                f"{what} of a traced array ({self!r}): its value is not known while the function is traced; {way_out}"
            )
        return self.value

    def __bool__(self) -> bool:
        return bool(
            self._known(
                "the truth", "use np.where (both sides are computed), np.minimum, or tosaic.while_loop"
            )
        )

    def __int__(self) -> int:
        return int(
            self._known("int()", "use astype; an ndarray is filled by it: make that by np.zeros_like(x)")
        )

    def __index__(self) -> int:
        way_out = "use np.take(table, x) for a look-up, tosaic.while_loop for a loop"
        return self._known("an index, a shape or a range()", way_out).__index__()

    def __float__(self) -> float:
        return float(self._known("float()", "keep to integers"))

    def item(self, *index: Any) -> Any:
        return self._known("item()", "keep it an array").item(*index)

    def tolist(self) -> Any:
        return self._known("tolist()", "keep it an array").tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        value = self._known(
            "conversion to an ndarray",
            "an ndarray is indexed or filled by a traced array, or a function takes a list of them: np.take(table, x), "
            "np.stack([...]); make `out` by np.zeros_like(x)",
        )
        return value if dtype is None else value.astype(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> "Iterator[TracedArray]":
        return (self[i] for i in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(np.ndarray, name):
            if self.value is not None:
                method = getattr(plain(self), name)
                return lambda *given: lifted_results(self.recorder, method(*map(plain, given)))
            refuse(f"ndarray.{name} is not supported on a traced array{way_out(name)}")
        raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")

    # --- NumPy's protocols

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if method not in METHODS:
            refuse(f"np.{ufunc.__name__}.{method} is not supported on a traced array{way_out(method)}")
        if out is None:
            return METHODS[method](ufunc, *inputs, **keywords)
        target = out[0]
        if len(out) > 1 or not isinstance(target, TracedArray):
            refuse(
                f"np.{ufunc.__name__} of a traced array into an ndarray (`+=`, out=): make the target with "
                "np.zeros_like of a traced array, or write a = a + b"
            )
        if method == "__call__":
            keywords["into"] = target
        else:
            own = {key: _own(each) for key, each in keywords.items()}
            getattr(ufunc, method)(*map(_own, inputs), out=_own(target), **own)
            if ufunc in OUT_OF_ONE_TYPE:
                _check_one_type(f"np.{ufunc.__name__}.{method}", inputs[0], target)
            keywords.setdefault("dtype", target.dtype)
        target.fill_from(METHODS[method](ufunc, *inputs, **keywords))
        return target

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        name, rule = f"np.{function.__name__}", FUNCTIONS.get(function)
        all_known = known(*flat(arguments), *flat(keywords.values()))
        if function is np.empty_like:
            function = np.zeros_like  # what it holds would be another number at each tracing
        if all_known and keywords.get("out") is None:
            result = function(*map(_own, arguments), **{key: _own(each) for key, each in keywords.items()})
            return lifted_results(self.recorder, result)
        if rule is None:
            refuse(f"{name} is not supported on a traced array{way_out(function.__name__)}")
        try:
            given = inspect.signature(rule).bind(*arguments, **keywords)
        except TypeError as error:
            if "out" in keywords:
                refuse(f"out= of {name} is not supported on a traced array: out[...] = {name}(...)")
            refuse(f"{name} on a traced array: {error}{way_out(function.__name__)}")
        target = given.arguments.get("out")
        if target is None:
            return rule(*arguments, **keywords)
        # For the errors that NumPy has of its type and shape.
        result = function(*map(_own, arguments), **{key: _own(each) for key, each in keywords.items()})
        if not isinstance(target, TracedArray):
            refuse(f"out= of {name} is no array that this function made; assign the result")
        if all_known:
            target.assign(lift(self.recorder, result))
            return target
        given.arguments["out"] = None
        if "dtype" in given.signature.parameters and given.arguments.get("dtype") is None:
            given.arguments["dtype"] = target.dtype
        if function in OUT_OF_ONE_TYPE:
            _check_one_type(name, next(iter(given.arguments.values())), target)
        target.fill_from(rule(*given.args, **given.kwargs))
        return target

    # --- methods of ndarray that are no functions of NumPy

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> "TracedArray":
        wanted = np.dtype(dtype)
        return self if not copy and wanted == self.dtype else FUNCTIONS[TracedArray.astype](self, wanted)

    def view(self, dtype: Any = None) -> "TracedArray":
        if dtype is None:
            return self[...]
        wanted = np.dtype(dtype)
        if wanted.itemsize != self.itemsize or wanted.kind not in "iu" or self.dtype.kind not in "iu":
            refuse(
                f"a view of {self.dtype} as {wanted} is not supported, only between signed and unsigned of one width; "
                "take bytes apart by >> and & 255"
            )
        own = self.dtype
        return self.astype(wanted).follow(
            self,
            ("view", wanted),
            lambda base: base.astype(wanted),
            lambda base, new: base.assign(new.astype(own)),
        )

    def copy(self, order: str = "C") -> "TracedArray":
        made = TracedArray.__new__(TracedArray)
        made.__dict__ |= self.__dict__
        made._content, made._version, made._view, made._kin, made.fixed = self.content, 0, None, [], ""
        return made

    def reshape(self, *shape: Any, order: str = "C") -> "TracedArray":
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> "TracedArray":
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, order or None)

    def ravel(self, order: str = "C") -> "TracedArray":
        return np.ravel(self, order)

    def flatten(self, order: str = "C") -> "TracedArray":
        return np.ravel(self, order).copy()

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self.assign(np.sort(self, axis, kind))

    def __getitem__(self, index: Any) -> "TracedArray":
        return FUNCTIONS[TracedArray.__getitem__](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        FUNCTIONS[TracedArray.__setitem__](self, index, value)


# --- arrays out of anything


def flat(items: Iterable[Any]) -> list[Any]:
    """What lists and tuples hold, however deep."""
    found: list[Any] = []
    for item in items:
        found += flat(item) if isinstance(item, list | tuple) else [item]
    return found


def known(*items: Any) -> bool:
    """Whether no array depends on inputs."""
    return all(not isinstance(each, TracedArray) or each.value is not None for each in items)


def plain(item: Any) -> Any:
    """NumPy's own in the place of traced arrays that are known."""
    if isinstance(item, TracedArray):
        value = item._known("a shape, an axis or a count", "NumPy's shapes must not depend on inputs")
        return value[()] if item.scalar else value
    return type(item)(map(plain, item)) if isinstance(item, list | tuple) else item


def _check_one_type(name: str, array: Any, out: TracedArray) -> None:
    if getattr(array, "dtype", None) != out.dtype:
        refuse(
            f"out= of {name} is {out.dtype}, its array {getattr(array, 'dtype', 'a list')}: astype one of them"
        )


def _own(item: Any) -> Any:
    """NumPy's own in the place of traced arrays: of which no values are known, zeros."""
    if isinstance(item, TracedArray):
        found = np.zeros(item.shape, item.dtype) if item.value is None else np.array(item.value)
        return found[()] if item.scalar else found
    return type(item)(map(_own, item)) if isinstance(item, list | tuple) else item


def lift(recorder: Recorder, item: Any) -> TracedArray:
    """A traced array of what NumPy would make an array of."""
    if isinstance(item, TracedArray):
        if item.recorder is recorder:
            return item
        if item.value is not None:
            return TracedArray(recorder, item.shape, item.dtype, value=item.value)
        return _captured(recorder, item)
    if isinstance(item, list | tuple) and not known(*flat(item)):
        return np.stack([lift(recorder, each) for each in item])
    if isinstance(item, np.generic):
        array = TracedArray(recorder, (), item.dtype, value=np.asarray(item))
        array.scalar = True
        return array
    value = np.asarray(plain(item) if isinstance(item, list | tuple) else item)
    return TracedArray(recorder, value.shape, value.dtype, value=value)


def _captured(recorder: Recorder, item: TracedArray) -> TracedArray:
    """An array of the graph around a loop, as its branch reads it: by one more value of the loop."""
    if recorder.parent is None:
        refuse("a traced array of another function's graph, or of a loop that has ended, is used")
    outer = lift(recorder.parent, item)
    if id(outer) not in recorder.captured:
        name = f"{recorder.name}_captured{len(recorder.captured)}"
        inner = input_array(recorder, name, outer.shape, outer.dtype, outer.interval)
        inner.fixed = "a loop's branch writes to an array from outside: pass it as one of the loop's values"
        recorder.captured[id(outer)] = (outer, inner)
    return recorder.captured[id(outer)][1]


def input_array(
    recorder: Recorder, name: str, shape: Sequence[int], dtype: np.dtype, interval: Interval | None = None
) -> TracedArray:
    """A new input of a graph."""
    kind = DType.BOOL if dtype == BOOL else NARROW.get(dtype, DType.INT32)
    form = Form.BOOL if dtype == BOOL else Form.NARROW if dtype in NARROW else Form.WIDE
    tensor = recorder.build.input(name, tuple(shape) or (1,), kind)
    return TracedArray(recorder, shape, dtype, interval, forms={form: tensor})


def lifted_results(recorder: Recorder, result: Any) -> Any:
    """What a NumPy function gave for known arrays, with arrays as traced ones."""
    if isinstance(result, np.ndarray | np.generic):
        return lift(recorder, result)
    if isinstance(result, list | tuple) and any(isinstance(each, np.ndarray) for each in result):
        return [lifted_results(recorder, each) for each in result]
    return result


def recorder_of(*items: Any) -> Recorder:
    """The graph that operators on these arrays belong to: the innermost loop's."""
    arrays = [each for each in flat(items) if isinstance(each, TracedArray)]

    def depth(recorder: Recorder) -> int:
        return 0 if recorder.parent is None else 1 + depth(recorder.parent)

    unknown = [each.recorder for each in arrays if each.value is None] or [each.recorder for each in arrays]
    return max(unknown, key=depth)
