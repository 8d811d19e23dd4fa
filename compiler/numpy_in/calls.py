"""Calls of ufuncs: NumPy is asked for type and error, the registered rule writes the operators."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.numpy_in.forms import BOOL, INTEGERS
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.rules import UFUNCS, method_rule
from tosaic.compiler.numpy_in.tracer import TracedArray, known, lift, lifted_results, plain, recorder_of


def probe(recorder: Recorder, item: Any) -> Any:
    """What NumPy tells type and error by: what is known, and one element of what is not."""
    if isinstance(item, TracedArray) and item.value is not None:
        return plain(item)
    if isinstance(item, TracedArray):
        return np.ones((1,) * item.ndim, item.dtype) if item.shape else item.dtype.type(1)
    return probe(recorder, lift(recorder, item)) if isinstance(item, list | tuple) else item


_FLOATS = "true_divide sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh cbrt hypot arctan arctan2 "
_FLOATS += "arcsin arccos rint reciprocal float_power deg2rad rad2deg logaddexp isnan isinf isfinite"


@method_rule("__call__")
def apply_ufunc(
    ufunc: np.ufunc, *inputs: Any, dtype: Any = None, into: TracedArray | None = None, **keywords: Any
) -> Any:
    """A ufunc on operands of which some are traced; NumPy is to allow the result in `into`."""
    recorder = recorder_of(*inputs, *(() if into is None else (into,)))
    for name, value in keywords.items():
        if name == "where" and value is not True:
            refuse("where= of a ufunc leaves elements undefined: use np.where")
        if name not in ("where", "casting", "order", "subok", "axes", "axis", "keepdims"):
            refuse(f"{name}= of np.{ufunc.__name__} is not supported on a traced array")
    operands = [lift(recorder, each) if isinstance(each, list | tuple) else each for each in inputs]
    if known(*operands):
        own = {} if dtype is None else {"dtype": dtype}
        if into is not None:
            # For the errors that NumPy has of its type and shape.
            ufunc(*map(plain, operands), out=np.empty(into.shape, into.dtype), **own)
        return lifted_results(recorder, ufunc(*map(plain, operands), **own))
    if ufunc is np.matmul:
        return UFUNCS[ufunc](*(lift(recorder, each) for each in operands))
    if ufunc is np.divmod:
        return np.floor_divide(*operands), np.remainder(*operands)
    if ufunc.__name__ in ("divide", *_FLOATS.split()):
        refuse(
            f"np.{ufunc.__name__} gives floats; the accelerator computes integers (// or tosaic.rescale for a "
            "quotient, a table and np.take for a curve)"
        )
    if ufunc not in UFUNCS:
        refuse(f"np.{ufunc.__name__} is not supported on a traced array")
    if ufunc is np.power and not known(operands[1]):
        refuse("np.power with a traced exponent: its result has no bound; use a table and np.take")
    with np.errstate(all="ignore"):
        sample = ufunc(*(probe(recorder, each) for each in operands), **({"dtype": dtype} if dtype else {}))
        if into is not None:
            room = np.ones(np.shape(sample), into.dtype)
            ufunc(
                *(probe(recorder, each) for each in operands), out=room, **({"dtype": dtype} if dtype else {})
            )
    if dtype is not None and sample.dtype == BOOL:
        refuse(f"dtype= of np.{ufunc.__name__} with a traced array is not supported; leave it out")
    if dtype is not None:
        operands = [lift(recorder, each).astype(sample.dtype) for each in operands]
    return _by_rule(recorder, ufunc, operands, sample.dtype)


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
