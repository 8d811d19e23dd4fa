"""The traced array: what a function sees in the place of an ndarray.

It has NumPy's type and shape, the interval that its values are proved to lie in, and tensors of the graph that hold
them. An array whose `value` is known stays in NumPy: constants fold by themselves, and `if` on them works.
"""

import enum
import inspect
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.numpy_in import words
from tosaic.compiler.numpy_in.intervals import INT32, Interval, of_type, of_values
from tosaic.compiler.numpy_in.recording import Recorder, refuse

NARROW = {
    np.dtype(np.int8): DType.INT8,
    np.dtype(np.uint8): DType.INT8,
    np.dtype(np.int16): DType.INT16,
    np.dtype(np.uint16): DType.INT16,
}
"""Types whose bits a tensor of 8 or 16 bits holds."""
BOOL, UINT32, INT64 = np.dtype(bool), np.dtype(np.uint32), np.dtype(np.int64)
INTEGERS = frozenset(np.dtype(t) for t in ("bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
MAX_RANK = 6


class Form(enum.Enum):
    """What a tensor of a traced array holds."""

    WIDE = "int32: the value; of uint32 its bits"
    NARROW = "int8 or int16: the bits of a type of 8 or 16 bits"
    BOOL = "bool"
    SIGNED_BYTE = "int8: the value, of a wider type"
    UNSIGNED_BYTE = "int8: the bits of a value of 0..255, of a wider type"
    LOW = "int32: the low word of a value of 64 bits"
    HIGH = "int32: the high word"


_BYTES = (Form.SIGNED_BYTE, Form.UNSIGNED_BYTE)

UfuncRule = Callable[..., "TracedArray"]
UFUNCS: dict[np.ufunc, UfuncRule] = {}
"""By ufunc: rule(recorder, dtype, shape, *arrays)."""
METHODS: dict[str, Callable[..., Any]] = {}
"""By method of ufuncs ("reduce"): rule(ufunc, *inputs, **keywords)."""
FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""By NumPy function: the rule in its place."""
WAYS_OUT: dict[str, str] = {}
"""By NumPy function without a rule: what to write instead."""


def ufunc_rule(*ufuncs: np.ufunc) -> Callable[[UfuncRule], UfuncRule]:
    """Registers the rule of ufuncs."""

    def register(rule: UfuncRule) -> UfuncRule:
        UFUNCS.update(dict.fromkeys(ufuncs, rule))
        return rule

    return register


def function_rule(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the rule of NumPy functions."""

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(functions, rule))
        return rule

    return register


class Content:
    """An array's values at a moment: never changed, but for further tensors of the same values."""

    def __init__(
        self,
        interval: Interval,
        value: np.ndarray | None = None,
        forms: dict[Form, str] | None = None,
        product: "tuple[TracedArray, TracedArray, int] | None" = None,
    ) -> None:
        self.interval, self.value, self.forms = interval, value, forms or {}
        self.product = product
        """Of 64 bits: first * second + addend, from which the words are made when they are asked for."""


class View:
    """How an array follows, and writes to, the array that it is a view of."""

    def __init__(
        self,
        base: "TracedArray",
        key: Any,
        read: "Callable[[TracedArray], TracedArray]",
        write: "Callable[[TracedArray, TracedArray], None]",
    ) -> None:
        self.base, self.key, self.read, self.write = base, key, read, write
        self.seen = base.version


class TracedArray:
    """See the module. Assignment changes `content` and counts `version`; views follow when they are next looked at."""

    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

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
            refuse(f"an array of rank {len(self.shape)}: TOSA's tensors have at most {MAX_RANK}; reshape first")
        if value is not None and value.size and self.dtype in INTEGERS:
            interval = of_values(value)
        elif interval is None:
            interval = of_type(self.dtype) if self.dtype in INTEGERS else Interval(0, 0)
        self._content = Content(interval, value, forms)
        self._version = 0
        self._view: View | None = None
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
        view = self._view
        if view is not None and view.seen != view.base.version:
            self._content = view.read(view.base).content
            self._version += 1
            self._windows_of = None
            view.seen = view.base.version
        return self._content

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
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> "TracedArray":
        return np.transpose(self)  # type: ignore[call-overload]

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
                f"{self!r} has more than 32 bits: take it apart by >> and astype(np.int32) first, or use tosaic.rescale "
                "for (x * multiplier) >> shift"
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

    def moved_forms(self) -> list[Form]:
        """The forms that an operator which moves elements carries on."""
        if self.value is None and Form.WIDE not in self.forms and self.natural is Form.WIDE:
            self.wide  # noqa: B018  (refuses two words)
        return [self.natural, *(form for form in _BYTES if form in self.forms)]

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
        self._view = View(base, key, read, write)
        self.scalar = False
        return self

    def is_view(self, base: "TracedArray", key: Any) -> bool:
        """Whether it is the view `key` of `base`, and nothing was written to `base` since."""
        view = self._view
        return view is not None and view.base is base and view.key == key and view.seen == base.version

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
        self.assign(converted if converted.shape == self.shape else np.broadcast_to(converted, self.shape))  # type: ignore[arg-type]

    # --- Python asks for a value

    def _known(self, what: str, way_out: str) -> np.ndarray:
        if self.value is None:
            refuse(
                f"{what} of a traced array ({self!r}): its value is not known while the function is traced; {way_out}"
            )
        return self.value

    def __bool__(self) -> bool:
        return bool(
            self._known("the truth", "use np.where (both sides are computed), np.minimum, or tosaic.while_loop")
        )

    def __int__(self) -> int:
        return int(self._known("int()", "use astype"))

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
            refuse(f"ndarray.{name} is not supported on a traced array{WAYS_OUT.get(name, '')}")
        raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")

    # --- NumPy's protocols

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        if method != "__call__":
            if method not in METHODS or out is not None:
                refuse(f"np.{ufunc.__name__}.{method} is not supported on a traced array")
            return METHODS[method](ufunc, *inputs, **keywords)
        recorder = recorder_of(*inputs, *(out or ()))
        if out is None:
            return apply_ufunc(recorder, ufunc, inputs, **keywords)
        target = out[0]
        if len(out) > 1 or not isinstance(target, TracedArray):
            refuse(
                f"np.{ufunc.__name__} of a traced array into an ndarray (`+=`, out=): make the target with np.zeros_like "
                "of a traced array, or write a = a + b"
            )
        ufunc(*(probe(recorder, each) for each in inputs), out=np.ones((1,) * target.ndim, target.dtype), **keywords)
        target.fill_from(apply_ufunc(recorder, ufunc, inputs, **keywords))
        return target

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        if known(*flat(arguments), *flat(keywords.values())):
            result = function(*map(plain, arguments), **{key: plain(value) for key, value in keywords.items()})
            return lifted_results(self.recorder, result)
        name = f"np.{function.__name__}"
        rule = FUNCTIONS.get(function)
        if rule is None:
            refuse(f"{name} is not supported on a traced array{WAYS_OUT.get(function.__name__, '')}")
        if keywords.get("out") is not None:
            refuse(f"out= of {name} is not supported on a traced array; assign the result: out[...] = {name}(...)")
        given = {key: value for key, value in keywords.items() if key != "out"}
        try:
            inspect.signature(rule).bind(*arguments, **given)
        except TypeError as error:
            refuse(f"{name} on a traced array: {error}")
        return rule(*arguments, **given)

    # --- methods of ndarray that are no functions of NumPy

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> "TracedArray":
        return self if not copy and np.dtype(dtype) == self.dtype else convert(self, np.dtype(dtype))

    def view(self, dtype: Any) -> "TracedArray":
        wanted = np.dtype(dtype)
        if wanted.itemsize != self.itemsize or wanted.kind not in "iu" or self.dtype.kind not in "iu":
            refuse(
                f"a view of {self.dtype} as {wanted} is not supported, only between signed and unsigned of one width; "
                "take bytes apart by >> and & 255"
            )
        own = self.dtype
        return convert(self, wanted).follow(
            self,
            ("view", wanted),
            lambda base: convert(base, wanted),
            lambda base, new: base.assign(convert(new, own)),
        )

    def copy(self, order: str = "C") -> "TracedArray":
        made = TracedArray.__new__(TracedArray)
        made.__dict__ |= self.__dict__
        made._content, made._version, made._view, made._kin, made.fixed = self.content, 0, None, [], ""
        return made

    def reshape(self, *shape: Any, order: str = "C") -> "TracedArray":
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> "TracedArray":
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, order or None)  # type: ignore[call-overload]

    def ravel(self, order: str = "C") -> "TracedArray":
        return np.ravel(self, order)  # type: ignore[call-overload]

    def flatten(self, order: str = "C") -> "TracedArray":
        return np.ravel(self, order).copy()  # type: ignore[call-overload]

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        self.assign(np.sort(self, axis, kind))  # type: ignore[call-overload]

    def __getitem__(self, index: Any) -> "TracedArray":
        return FUNCTIONS[TracedArray.__getitem__](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        FUNCTIONS[TracedArray.__setitem__](self, index, value)


def _add_operators() -> None:
    """Python's operators are ufuncs; methods of ndarray are functions of NumPy."""
    binary = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "floordiv": np.floor_divide,
        "mod": np.remainder,
        "pow": np.power,
        "truediv": np.true_divide,
        "lshift": np.left_shift,
        "rshift": np.right_shift,
        "xor": np.bitwise_xor,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "matmul": np.matmul,
        "divmod": np.divmod,
    }
    for name, ufunc in binary.items():
        setattr(TracedArray, f"__{name}__", lambda a, b, u=ufunc: u(a, b))
        setattr(TracedArray, f"__r{name}__", lambda a, b, u=ufunc: u(b, a))
        if name != "divmod":
            setattr(TracedArray, f"__i{name}__", lambda a, b, u=ufunc: u(a, b) if a.scalar else u(a, b, out=(a,)))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        long = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater"}
        ufunc = getattr(np, long.get(name, "greater_equal"))
        setattr(TracedArray, f"__{name}__", lambda a, b, u=ufunc: u(a, b))
    for name, ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
        setattr(TracedArray, f"__{name}__", lambda a, u=ufunc: u(a))
    methods = "sum prod max min any all argmax argmin mean cumsum argsort clip dot take repeat std var round squeeze swapaxes"
    for name in methods.split():
        setattr(
            TracedArray,
            name,
            lambda a, *given, f=getattr(np, name), **keywords: f(a, *given, **keywords),
        )


_add_operators()


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
        value = item.value
        assert value is not None
        return value[()] if item.scalar else value
    return type(item)(map(plain, item)) if isinstance(item, list | tuple) else item


def lift(recorder: Recorder, item: Any) -> TracedArray:
    """A traced array of what NumPy would make an array of."""
    if isinstance(item, TracedArray):
        if item.recorder is recorder:
            return item
        if item.value is not None:
            return TracedArray(recorder, item.shape, item.dtype, value=item.value)
        return _captured(recorder, item)
    if isinstance(item, list | tuple) and not known(*flat(item)):
        return np.stack([lift(recorder, each) for each in item])  # type: ignore[arg-type,return-value]
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
        name = f"{recorder.build.graph.name}_captured{len(recorder.captured)}"
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


def two_words(
    recorder: Recorder, pair: words.Words, interval: Interval, shape: Sequence[int], dtype: np.dtype = INT64
) -> TracedArray:
    """An integer of 64 bits; where its values fit one word, that."""
    forms = {Form.LOW: pair[0], Form.HIGH: pair[1]}
    return TracedArray(recorder, shape, dtype, interval, forms={Form.WIDE: pair[0]} if INT32.holds(interval) else forms)


def wrapped(recorder: Recorder, name: str, interval: Interval, dtype: Any, shape: Sequence[int]) -> TracedArray:
    """The array of `dtype` that NumPy gives for true values in `interval`: these, or modulo the type's width.

    `name` holds the low 32 bits of the true values.
    """
    kind = np.dtype(dtype)
    limits = of_type(kind)
    if limits.holds(interval) and (INT32.holds(interval) or kind == UINT32):
        return TracedArray(recorder, shape, kind, interval, forms={Form.WIDE: name})
    if kind.itemsize == 8:
        refuse(
            f"a result of NumPy's type {kind} may be {interval}, more than the accelerator's 32 bits: use dtype=np.int32 "
            "(wraps), narrow what goes in (np.clip, astype), or tosaic.rescale for (x * multiplier) >> shift"
        )
    if kind in NARROW and kind.kind == "i":
        narrow = recorder.add("CAST", [name], dtype=NARROW[kind])
        return TracedArray(recorder, shape, kind, forms={Form.NARROW: narrow})
    if kind in NARROW:
        name = recorder.elementwise("BITWISE_AND", name, recorder.number(limits.high))
    return TracedArray(recorder, shape, kind, forms={Form.WIDE: name})


def convert(a: TracedArray, dtype: np.dtype) -> TracedArray:
    """As `a.astype(dtype)`."""
    if dtype == a.dtype:
        return a.copy()
    if a.value is not None:
        return lift(a.recorder, plain(a).astype(dtype))
    if dtype not in INTEGERS:
        refuse(f"astype({dtype}): the accelerator has integers of up to 32 bits; tosaic.rescale is fixed point")
    if dtype == BOOL:
        return a != 0  # type: ignore[return-value]
    limits = of_type(dtype)
    if dtype in NARROW and a.dtype in NARROW and a.itemsize == dtype.itemsize and Form.NARROW in a.forms:
        interval = a.interval if limits.holds(a.interval) else limits
        made = TracedArray(a.recorder, a.shape, dtype, interval, forms={Form.NARROW: a.forms[Form.NARROW]})
    elif a.content.product is not None or Form.LOW in a.forms:
        made = _narrowed_words(a, dtype)
    else:
        made = wrapped(a.recorder, a.wide, a.interval, dtype, a.shape)
        if made.interval == a.interval:
            if a.itemsize == 1 and a.dtype != BOOL and Form.NARROW in a.forms:
                byte = Form.SIGNED_BYTE if a.dtype.kind == "i" else Form.UNSIGNED_BYTE
                made.forms[byte] = a.forms[Form.NARROW]
            made.forms.update({form: a.forms[form] for form in _BYTES if form in a.forms})
            made.windows_of = a.windows_of
    made.scalar = a.scalar
    return made


def _narrowed_words(a: TracedArray, dtype: np.dtype) -> TracedArray:
    """Of two words: the low one, modulo the type's width."""
    if dtype.itemsize == 8:
        if of_type(dtype).holds(a.interval):
            made = a.copy()
            made.dtype = dtype
            return made
        refuse(f"astype({dtype}) of {a!r} wraps beyond 32 bits; keep to int64")
    low = a.tensor(Form.LOW)
    return wrapped(a.recorder, low, a.interval, dtype, a.shape)


# --- ufuncs


def probe(recorder: Recorder, item: Any) -> Any:
    """What NumPy tells type and error by: what is known, and one element of what is not."""
    if isinstance(item, TracedArray) and item.value is not None:
        return plain(item)
    if isinstance(item, TracedArray):
        return np.ones((1,) * item.ndim, item.dtype) if item.shape else item.dtype.type(1)
    return probe(recorder, lift(recorder, item)) if isinstance(item, list | tuple) else item


_FLOATS = "true_divide sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh cbrt hypot arctan arctan2 "
_FLOATS += "arcsin arccos rint reciprocal float_power deg2rad rad2deg logaddexp isnan isinf isfinite"


def apply_ufunc(
    recorder: Recorder, ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any = None, **keywords: Any
) -> Any:
    """A ufunc on operands of which some are traced."""
    for name, value in keywords.items():
        if name == "where" and value is not True:
            refuse("where= of a ufunc leaves elements undefined: use np.where")
        if name not in ("where", "casting", "order", "subok", "axes", "axis", "keepdims"):
            refuse(f"{name}= of np.{ufunc.__name__} is not supported on a traced array")
    operands = [lift(recorder, each) if isinstance(each, list | tuple) else each for each in inputs]
    if known(*operands):
        own = {} if dtype is None else {"dtype": dtype}
        return lifted_results(recorder, ufunc(*map(plain, operands), **own))
    if ufunc is np.matmul:
        return UFUNCS[ufunc](*(lift(recorder, each) for each in operands))
    if ufunc is np.divmod:
        return np.floor_divide(*operands), np.remainder(*operands)
    if ufunc.__name__ in ("divide", *_FLOATS.split()):
        refuse(
            f"np.{ufunc.__name__} gives floats; the accelerator computes integers (// or tosaic.rescale for a quotient; a "
            "table and np.take for a curve)"
        )
    if ufunc not in UFUNCS:
        refuse(f"np.{ufunc.__name__} is not supported on a traced array")
    if ufunc is np.power and not known(operands[1]):
        refuse("np.power with a traced exponent: its result has no bound; use a table and np.take")
    with np.errstate(all="ignore"):
        sample = ufunc(*(probe(recorder, each) for each in operands), **({"dtype": dtype} if dtype else {}))
    return _by_rule(recorder, ufunc, operands, sample.dtype)


def _by_rule(recorder: Recorder, ufunc: np.ufunc, operands: Sequence[Any], result: np.dtype) -> TracedArray:
    """The registered rule, where no floats are among the operands."""
    if any(np.asarray(each).dtype.kind not in "iub" for each in operands if not isinstance(each, TracedArray)) or any(
        each.dtype not in INTEGERS for each in operands if isinstance(each, TracedArray)
    ):
        refuse(f"a constant that is no integer meets a traced array in np.{ufunc.__name__}; round it first")
    if result not in INTEGERS:
        kinds = " and ".join(str(getattr(each, "dtype", type(each).__name__)) for each in operands)
        refuse(f"np.{ufunc.__name__} of {kinds} gives {result} in NumPy: convert one side (astype)")
    arrays = [
        lift(recorder, np.asarray(each, result))
        if isinstance(each, int) and not isinstance(each, bool) and result != BOOL
        else lift(recorder, each)
        for each in operands
    ]
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    if 0 in shape:
        return lift(recorder, np.zeros(shape, result))
    made = UFUNCS[ufunc](recorder, result, shape, *arrays)
    made.scalar = shape == ()
    return made
