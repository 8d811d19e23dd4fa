"""Operators of floats as functions of NumPy arrays, for constants and for the curves of the quantizer.

Golden has kernels of its own.
"""

import math
from collections.abc import Callable

import numpy as np

Array = np.ndarray

_erf = np.vectorize(math.erf, otypes=[float])


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


FLOAT_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "ABS": np.abs,
    "ADD": np.add,
    "CEIL": np.ceil,
    "CLAMP": np.clip,
    "COS": np.cos,
    "EQUAL": np.equal,
    "ERF": _erf,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LOG": np.log,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_NOT": np.logical_not,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "MUL": np.multiply,
    "NEGATE": np.negative,
    "POW": np.power,
    "RECIPROCAL": lambda x: 1.0 / x,
    "RSQRT": lambda x: 1.0 / np.sqrt(x),
    "SELECT": np.where,
    "SIGMOID": _sigmoid,
    "SIN": np.sin,
    "SUB": np.subtract,
    "TANH": np.tanh,
    "REDUCE_SUM": np.sum,
    "REDUCE_PRODUCT": np.prod,
    "REDUCE_MAX": np.max,
    "REDUCE_MIN": np.min,
}
"""Functions of the data operands. CLAMP takes its bounds behind them, a reduction NumPy's `axis` and `keepdims`."""
