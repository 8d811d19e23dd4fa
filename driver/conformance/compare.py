"""Compares the outputs of a test with the baked ones: bit for bit, or by a range where the specification has one.

Floats are judged by `float_compliance`.
"""

import pathlib

import numpy as np

from tosaic.errors import InputError

from .case import ConformanceCase
from .float_compliance import deviation


def difference(case: ConformanceCase, outputs: dict[str, np.ndarray]) -> str | None:
    """One line on the first output that is not as baked; None when all are. InputError when nothing is baked."""
    for name in case.outputs:
        if name not in outputs:
            return f"there is no output {name!r}"
        got = outputs[name]
        if name in case.floats:
            bounds = _load(case.bounds(name)) if case.bounded else None
            problem = deviation(case, name, got, _load(case.expected(name)), bounds)
        elif name in case.inexact:
            low, high = _load(case.limits(name))
            problem = _outside(name, as_numbers(got, unsigned=name in case.unsigned), low, high)
        else:
            problem = _unequal(name, got, _load(case.expected(name)))
        if problem:
            return problem
    return None


def as_numbers(values: np.ndarray, *, unsigned: bool) -> np.ndarray:
    """int64 of values that may be the bit pattern of unsigned numbers in a signed type."""
    if unsigned:
        values = values.view(f"u{values.dtype.itemsize}")
    return values.astype(np.int64)


def _load(file: pathlib.Path) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)
    except Exception:  # NumPy parses headers as Python
        raise InputError(f"{file} cannot be read: store the expected outputs with --bake first") from None


def _unequal(name: str, got: np.ndarray, wanted: np.ndarray) -> str | None:
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return (
            f"output {name!r} is {got.dtype}{list(got.shape)}, the reference model gives "
            f"{wanted.dtype}{list(wanted.shape)}"
        )
    wrong = got != wanted
    if not wrong.any():
        return None
    where = _first(wrong)
    return (
        f"output {name!r} differs at {list(where)}: got {int(got[where])}, the reference model gives "
        f"{int(wanted[where])} ({np.count_nonzero(wrong)} of {got.size} elements differ)"
    )


def _outside(name: str, got: np.ndarray, low: np.ndarray, high: np.ndarray) -> str | None:
    if got.shape != low.shape:
        return f"output {name!r} has shape {list(got.shape)}, the reference model gives {list(low.shape)}"
    wrong = (got < low) | (got > high)
    if not wrong.any():
        return None
    where = _first(wrong)
    return (
        f"output {name!r} at {list(where)}: got {int(got[where])}, allowed are {int(low[where])} to "
        f"{int(high[where])} ({np.count_nonzero(wrong)} of {got.size} elements are outside)"
    )


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index[0]) for index in np.nonzero(wrong)) if wrong.ndim else ()
