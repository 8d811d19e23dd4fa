"""Python's operators and the methods of ndarray on a traced array, by the functions of NumPy that they are."""

import operator
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.calls import probe
from tosaic.compiler.numpy_in.moves import reshaped
from tosaic.compiler.numpy_in.tracer import TracedArray, known, plain

_METHODS = (
    "sum prod max min any all argmax argmin cumsum cumprod argsort clip dot take repeat diagonal trace "
)
_METHODS += "squeeze swapaxes round put choose searchsorted"
"""Those of ndarray that are functions of NumPy."""


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
            setattr(
                TracedArray, f"__i{name}__", lambda a, b, u=ufunc: u(a, b) if a.scalar else u(a, b, out=(a,))
            )
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        long = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater"}
        ufunc = getattr(np, long.get(name, "greater_equal"))
        setattr(TracedArray, f"__{name}__", lambda a, b, u=ufunc: u(a, b))
    for name, ufunc in {
        "neg": np.negative,
        "pos": np.positive,
        "abs": np.absolute,
        "invert": np.invert,
    }.items():
        setattr(TracedArray, f"__{name}__", lambda a, u=ufunc: u(a))
    for name in _METHODS.split():
        _add_method(name)
    own = {
        "__pow__": _powered,
        "__ipow__": lambda a, b: _powered(a, b) if a.scalar else _powered(a, b, out=(a,)),
        "__round__": lambda a, *_: a._known("round()", "it is a whole number already"),
        "conj": lambda a: a,
        "conjugate": lambda a: a,
        "compress": lambda a, condition, axis=None: np.compress(condition, a, axis),
    }
    for name, method in own.items():
        setattr(TracedArray, name, method)


def _add_method(name: str) -> None:
    function = getattr(np, name)
    setattr(TracedArray, name, lambda a, *given, **keywords: function(a, *given, **keywords))


def _powered(a: TracedArray, b: Any, **out: Any) -> Any:
    """`a ** b`, which has other types than np.power has for some numbers."""
    number = plain(b) if known(b) else None
    if known(a) or number is None or np.ndim(number) or np.asarray(number).dtype.kind not in "iu":
        return np.power(a, b, **out)
    like = probe(a.recorder, a)
    with np.errstate(all="ignore"):
        if operator.pow(like, number).dtype == np.power(like, number).dtype:
            return np.power(a, b, **out)
    return np.square(a, **out) if number == 2 else np.power(a, int(number), **out)


def _flat(a: TracedArray) -> TracedArray:
    """`a.flat` as it is indexed and written to."""
    own = a.shape
    return reshaped(a, (a.size,)).follow(
        a,
        ("flat",),
        lambda base: reshaped(base, (base.size,)),
        lambda base, new: base.assign(reshaped(new, own)),
    )


def _matrix_transposed(a: TracedArray) -> TracedArray:
    if a.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return np.swapaxes(a, -1, -2)


def _add_attributes() -> None:
    attributes: dict[str, Any] = {
        "flat": (_flat, lambda a, values: np.put(a, np.arange(a.size), values)),
        "mT": (_matrix_transposed,),
        "nbytes": (lambda a: a.size * a.itemsize,),
        "real": (lambda a: a[...],),
        "imag": (np.imag,),
    }
    for name, functions in attributes.items():
        setattr(TracedArray, name, property(*functions))


_add_operators()
_add_attributes()
