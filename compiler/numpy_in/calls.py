"""Calls of ufuncs: NumPy is asked for type and error, the registered rule writes the operators."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.forms import BOOL, INTEGERS
from tosaic.compiler.numpy_in.intervals import Interval
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import FUNCTIONS, UFUNCS, method_rule, way_out
from tosaic.compiler.numpy_in.tracer import TracedArray, known, lift, lifted_results, plain, recorder_of


def probe(recorder: Recorder, item: Any) -> Any:
    """What NumPy tells type and error by: what is known, and one element of what is not."""
    if isinstance(item, TracedArray) and item.value is not None:
        return plain(item)
    if isinstance(item, TracedArray):
        return np.ones((1,) * item.ndim, item.dtype) if item.shape else item.dtype.type(1)
    return probe(recorder, lift(recorder, item)) if isinstance(item, list | tuple) else item


_FLOATS = "true_divide sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh cbrt hypot arctan arctan2 "
_FLOATS += "arcsin arccos rint reciprocal float_power deg2rad rad2deg logaddexp"


_FLOAT_RULES: dict[np.ufunc, tuple[np.ufunc | None, np.ufunc]] = {
    np.less: (np.ceil, np.greater),
    np.less_equal: (np.floor, np.greater_equal),
    np.greater: (np.floor, np.less),
    np.greater_equal: (np.ceil, np.less_equal),
    np.equal: (None, np.equal),
    np.not_equal: (None, np.not_equal),
}
"""Comparisons: how a float is rounded that an integer is compared with, and the comparison the other way round."""
_BEYOND = 2**33
"""What no integer of 32 bits is equal to."""


@method_rule("__call__")
def apply_ufunc(
    ufunc: np.ufunc, *inputs: Any, dtype: Any = None, into: TracedArray | None = None, **keywords: Any
) -> Any:
    """A ufunc on operands of which some are traced; NumPy is to allow the result in `into`."""
    recorder = recorder_of(*inputs, *(() if into is None else (into,)))
    chosen = keywords.pop("where", True)
    if chosen is not True and into is None:
        refuse("where= of a ufunc without out= leaves elements undefined: use np.where")
    own = {name: value for name, value in keywords.items() if name in ("casting", "order", "subok")}
    for name in keywords.keys() - own.keys():
        refuse(f"{name}= of np.{ufunc.__name__} is not supported on a traced array")
    if dtype is not None:
        own["dtype"] = dtype
    operands = [lift(recorder, each) if isinstance(each, list | tuple) else each for each in inputs]
    made = _computed(recorder, ufunc, operands, into, own)
    return made if chosen is True or into is None else FUNCTIONS[np.where](chosen, made, into)


def _computed(
    recorder: Recorder, ufunc: np.ufunc, operands: list[Any], into: TracedArray | None, own: dict[str, Any]
) -> Any:
    if known(*operands):
        if into is not None:
            # For the errors that NumPy has of its type and shape.
            ufunc(*map(plain, operands), out=np.empty(into.shape, into.dtype), **own)
        return lifted_results(recorder, ufunc(*map(plain, operands), **own))
    if ufunc is np.divmod:
        return np.floor_divide(*operands), np.remainder(*operands)
    _check(ufunc, operands)
    probes = [_own_sizes(each) if ufunc.signature else probe(recorder, each) for each in operands]
    with np.errstate(all="ignore"):
        sample = ufunc(*probes, **own)
        if into is not None:
            ufunc(*probes, out=np.ones(np.shape(sample), into.dtype), **own)
    dtype = own.get("dtype")
    if dtype is not None and sample.dtype == BOOL and ufunc in _FLOAT_RULES and np.dtype(dtype) != BOOL:
        refuse(f"dtype= of np.{ufunc.__name__} with a traced array is not supported; leave it out")
    if dtype is not None and sample.dtype != BOOL:
        operands = [lift(recorder, each).astype(sample.dtype) for each in operands]
    if ufunc in _FLOAT_RULES:
        ufunc, operands = _of_integers(recorder, ufunc, operands)
    if ufunc.signature is not None:  # of matrices and vectors
        return UFUNCS[ufunc](*(lift(recorder, each) for each in operands))
    return _by_rule(recorder, ufunc, operands, sample.dtype)


def _own_sizes(item: Any) -> Any:
    """Zeros of an array's own shape, where axes have to fit each other."""
    return np.zeros(item.shape, item.dtype) if isinstance(item, TracedArray) else item


def _check(ufunc: np.ufunc, operands: Sequence[Any]) -> None:
    """Refuses what has no rule."""
    if ufunc.__name__ in ("divide", *_FLOATS.split()):
        refuse(
            f"np.{ufunc.__name__} gives floats; the accelerator computes integers (// or tosaic.rescale for a "
            "quotient, a table and np.take for a curve)"
        )
    if ufunc not in UFUNCS:
        refuse(f"np.{ufunc.__name__} is not supported on a traced array{way_out(ufunc.__name__)}")
    if ufunc is np.power and not known(operands[1]):
        refuse(
            "np.power with a traced exponent: its result has no bound; 1 << x is a power of 2, a table and np.take "
            "are others"
        )
    for each in operands:
        if not isinstance(each, TracedArray) and np.asarray(each).dtype.kind not in "biufcO":
            refuse(f"{each!r} meets a traced array in np.{ufunc.__name__}: it is no number")


def _of_integers(recorder: Recorder, ufunc: np.ufunc, operands: list[Any]) -> tuple[np.ufunc, list[Any]]:
    """A comparison of integers with known floats, as NumPy rounds these to the common type, is one of integers."""
    for a, b, turned in ((operands[0], operands[1], False), (operands[1], operands[0], True)):
        if not isinstance(a, TracedArray) or a.dtype not in INTEGERS or not known(b):
            continue
        number = plain(b)
        if not Interval(-_BEYOND, _BEYOND).holds(a.interval):
            continue
        if type(number) is int and abs(number) > _BEYOND:
            number = np.copysign(np.inf, number)
        if np.asarray(number).dtype.kind != "f":
            continue
        common = np.result_type(a.dtype, number)
        rounding, other = _FLOAT_RULES[ufunc]
        with np.errstate(all="ignore"):
            exact = np.asarray(number).astype(common).astype(np.float64)
        if turned:
            ufunc, (rounding, _) = other, _FLOAT_RULES[other]
        whole = np.where(exact == np.trunc(exact), exact, np.inf) if rounding is None else rounding(exact)
        never = -_BEYOND if ufunc in (np.less, np.less_equal) else _BEYOND
        whole = np.clip(np.where(np.isnan(exact), never, whole), -_BEYOND, _BEYOND)
        return ufunc, [a, lift(recorder, whole.astype(np.int64))]
    return ufunc, operands


def _by_rule(recorder: Recorder, ufunc: np.ufunc, operands: Sequence[Any], result: np.dtype) -> TracedArray:
    """The registered rule, where no floats are among the operands."""
    if any(
        np.asarray(each).dtype.kind not in "iub" for each in operands if not isinstance(each, TracedArray)
    ) or any(each.dtype not in INTEGERS for each in operands if isinstance(each, TracedArray)):
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
