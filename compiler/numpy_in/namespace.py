"""The function as the tracer runs it: `np` and the ndarrays that it reads are replaced.

NumPy's protocols do not reach `ndarray.__getitem__`: `table[x]`, `out = np.zeros(n); out[i] = x` and `np.array([x, y])`
would fail. So what makes arrays makes known traced ones here, in the function and in those that it calls.
"""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.recording import Recorder, is_users, refuse
from tosaic.compiler.numpy_in.tracer import TracedArray, flat, known, lift, plain, recorder_of

_MAKERS = {
    name: getattr(np, name)
    for name in (
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "array",
        "asarray",
        "eye",
        "tri",
        "linspace",
        "identity",
    )
    + ("ascontiguousarray", "frombuffer", "hanning", "hamming", "blackman", "diag", "vander")
}
_DISPATCHER = type(np.take)
_OF_SEQUENCES = (
    np.concatenate,
    np.stack,
    np.hstack,
    np.vstack,
    np.dstack,
    np.column_stack,
    np.select,
    np.block,
    np.linalg.multi_dot,
    np.choose,
)
_COPIES = (np.array, np.asarray, np.ascontiguousarray)


class Namespace(types.ModuleType):
    """`numpy`, with functions that make arrays replaced."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__("numpy")
        self.__dict__["_recorder"] = recorder

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in _MAKERS:
            return _maker(self._recorder, found if found is not np.empty else np.zeros)
        return _called(found)


class _OfTraced(type):
    """Types of NumPy that a function calls, `np.int32(x)`, or asks for, `isinstance(x, np.ndarray)`."""

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        own: Any = cls.__base__
        if len(arguments) == 1 and isinstance(arguments[0], TracedArray) and issubclass(own, np.generic):
            made = arguments[0].astype(own)
            made.scalar = not made.shape
            return made
        return own(*arguments, **keywords)

    def __instancecheck__(cls, item: Any) -> bool:
        if isinstance(item, TracedArray):
            return (
                not item.scalar if cls.__base__ is np.ndarray else item.scalar and item.dtype == cls.__base__
            )
        return isinstance(item, cls.__base__)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__base__

    def __hash__(cls) -> int:
        return hash(cls.__base__)


_SCALARS: tuple[type, ...] = tuple(np.dtype(code).type for code in "bBhHiIlLqQ")
_TYPES: dict[Any, Any] = {kind: _OfTraced(kind.__name__, (kind,), {}) for kind in (np.ndarray, *_SCALARS)}


class _Joined:
    """`np.r_` and `np.c_`."""

    def __init__(self, plain_one: Any) -> None:
        self._plain, self._columns = plain_one, plain_one is np.c_

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(each, TracedArray) for each in items):
            return self._plain[key]
        if any(isinstance(each, str) for each in items):
            refuse("np.r_ and np.c_ with a text are not supported on traced arrays; np.concatenate")
        recorder = recorder_of(*items)
        parts = [lift(recorder, self._plain[each] if isinstance(each, slice) else each) for each in items]
        if self._columns:
            grown = [each if each.ndim > 1 else np.reshape(each, (each.size, 1)) for each in parts]
            return np.concatenate(grown, -1)
        kind = np.result_type(
            *(item if type(item) is int else part.dtype for item, part in zip(items, parts, strict=True))
        )
        return np.concatenate([np.atleast_1d(each).astype(kind) for each in parts])


def _called(found: Any) -> Any:
    """What NumPy offers, as it is called with traced arrays."""
    if isinstance(found, type) and found in _TYPES:
        return _TYPES[found]
    if found is np.r_ or found is np.c_:
        return _Joined(found)
    if isinstance(found, np.ufunc):
        return UfuncOfLists(found)
    return _caller(found) if isinstance(found, _DISPATCHER) else found


class UfuncOfLists:
    """A ufunc that takes lists with traced arrays in them, which NumPy would make ndarrays of."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._ufunc(*map(_lifted_list, arguments), **keywords)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        if name not in ("reduce", "accumulate", "reduceat", "outer"):
            return found
        return lambda *arguments, **keywords: found(*map(_lifted_list, arguments), **keywords)


def _lifted_list(item: Any) -> Any:
    if isinstance(item, list | tuple) and not known(*flat(item)):
        return lift(recorder_of(item), item)
    return item


def _caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as NumPy's protocol calls it, which asks some arguments only: not the indices of `np.take`, nor the
    arrays in a list."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        traced = [each for each in flat((*arguments, *keywords.values())) if isinstance(each, TracedArray)]
        if known(*traced):
            return function(*arguments, **keywords)
        placed = [each if function in _OF_SEQUENCES else _lifted_list(each) for each in arguments]
        return traced[0].__array_function__(function, (), placed, keywords)

    return call


def _maker(recorder: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes arrays, of known traced ones or, from traced elements, of others."""

    def make(*arguments: Any, **keywords: Any) -> Any:
        if function in _COPIES and arguments and not known(*flat(arguments[:1])):
            array = lift(recorder, arguments[0])
            dtype = keywords.get("dtype", arguments[1] if len(arguments) > 1 else None)
            if dtype is not None:
                array = array.astype(dtype, copy=function is np.array)
            elif function is np.array:
                array = array.copy()
            array.scalar = False if array is not arguments[0] else array.scalar
            return array
        if not known(*flat(arguments), *flat(keywords.values())):
            if function is not np.full:
                return function(*arguments, **keywords)
            shape, value = arguments[:2]
            like = np.empty(plain(shape), keywords.get("dtype") or (arguments[2:] or (value.dtype,))[0])
            return np.full_like(like, value)
        return lift(
            recorder,
            function(*map(plain, arguments), **{key: plain(value) for key, value in keywords.items()}),
        )

    return make


class Replacer:
    """Replaces what functions read, once for each."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._functions: dict[Any, Any] = {}
        self._namespace = Namespace(recorder)

    def function(self, function: Any) -> Any:
        """A function with its globals, closure and defaults replaced; what is no Python function as it is."""
        if isinstance(function, types.MethodType):
            return types.MethodType(self.function(function.__func__), function.__self__)
        if isinstance(function, functools.partial):
            named = {key: self.value(each) for key, each in function.keywords.items()}
            return functools.partial(self.function(function.func), *map(self.value, function.args), **named)
        if not isinstance(function, types.FunctionType):
            return function
        if function in self._functions:
            return self._functions[function]
        own: dict[str, Any] = dict(function.__globals__)
        closure = tuple(types.CellType() for _ in function.__closure__ or ())
        made = types.FunctionType(
            function.__code__, own, function.__name__, None, closure if function.__closure__ else None
        )
        self._functions[function] = made
        made.__defaults__ = tuple(map(self.value, function.__defaults__)) if function.__defaults__ else None
        made.__kwdefaults__ = {key: self.value(each) for key, each in (function.__kwdefaults__ or {}).items()}
        for cell, outer in zip(closure, function.__closure__ or (), strict=True):
            if not _is_empty(outer):
                cell.cell_contents = self.value(outer.cell_contents)
        for name in _names_in(function.__code__):
            if name in own:
                own[name] = self.value(own[name])
        return made

    def value(self, value: Any) -> Any:
        """What the function finds in the place of a value of its surroundings."""
        if value is np:
            return self._namespace
        if isinstance(value, np.ndarray):
            array = lift(self.recorder, value)
            array.fixed = (
                "an array from outside of the function is written to: NumPy would change it; use a .copy()"
            )
            return array
        if isinstance(value, list | tuple | dict) and _holds_arrays(value):
            if isinstance(value, dict):
                return {key: self.value(each) for key, each in value.items()}
            made = [self.value(each) for each in value]
            return (
                made
                if isinstance(value, list)
                else tuple(made)
                if type(value) is tuple
                else type(value)(*made)
            )
        inner = value
        if (
            callable(value)
            and not isinstance(value, type | types.FunctionType)
            and hasattr(value, "__wrapped__")
        ):
            inner = inspect.unwrap(value)  # of @tosaic.function, the function
        if isinstance(inner, types.FunctionType) and is_users(inner.__code__.co_filename):
            return self.function(inner)
        return self._made_by(value)

    def _made_by(self, value: Any) -> Any:
        """`from numpy import zeros`: its replacement; all else as it is."""
        if any(maker is value for maker in _MAKERS.values()):
            return getattr(self._namespace, value.__name__)
        return _called(value)


def _holds_arrays(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(
        isinstance(each, np.ndarray) or (isinstance(each, list | tuple | dict) and _holds_arrays(each))
        for each in items
    )


def _is_empty(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def _names_in(code: types.CodeType) -> set[str]:
    """Names that a code and those inside it read."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names_in(constant)
    return found
