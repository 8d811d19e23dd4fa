"""TFLite's elementwise kernels of reals in NumPy, step by step in float32."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.tflite import float32
from tosaic.compiler.importers.tflite.reader import names_of

Options = Mapping[str, Any]
Kernel = Callable[..., np.ndarray]

_SINGLE = np.float32
_BOUNDS = {
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
    "NONE": (-np.inf, np.inf),
}
_LOGISTIC_LOW, _LOGISTIC_HIGH = _SINGLE(-9), _SINGLE(16.619047164916992188)
"""Where the kernel leaves 1 / (1 + exp(-x)) for its limits."""
_TYPES: dict[str, type] = {"FLOAT32": np.float32, "INT32": np.int32, "BOOL": np.bool_}


def kernel_of(kind: str, options: Options) -> Kernel | None:
    """The kernel of an operator, a function of its inputs; None if it is not elementwise, or not one of these."""
    if kind in _BOUNDS:
        return lambda x: _clamped(x, kind)
    if kind in _ARITHMETIC:
        function = names_of("ActivationFunctionType").get(options.get("FusedActivationFunction", 0), "")
        arithmetic = _ARITHMETIC[kind]
        return (lambda a, b: _clamped(arithmetic(a, b), function)) if function in _BOUNDS else None
    if kind == "LEAKY_RELU":
        slope = _SINGLE(options.get("Alpha", 0.0))
        return lambda x: np.where(x > 0, x, x * slope)
    if kind == "GELU":
        return float32.gelu_by_tanh if options.get("Approximate", False) else float32.gelu
    return _PLAIN.get(kind)


def cast_to(kind: str) -> Kernel | None:
    """The kernel of a CAST to a type of the schema; reals lose their fraction."""
    return (lambda x: x.astype(_TYPES[kind])) if kind in _TYPES else None


def _clamped(x: np.ndarray, function: str) -> np.ndarray:
    least, most = _BOUNDS[function]
    return np.minimum(np.maximum(x, _SINGLE(least)), _SINGLE(most))


def _logistic(x: np.ndarray) -> np.ndarray:
    middle = float32.logistic(x)
    return np.where(x > _LOGISTIC_HIGH, _SINGLE(1), np.where(x < _LOGISTIC_LOW, float32.exp(x), middle))


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return x * np.minimum(_SINGLE(6), np.maximum(_SINGLE(0), x + _SINGLE(3))) / _SINGLE(6)


def _floor_mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


def _floor_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.floor(a.astype(np.float64) / b).astype(np.float32)


_ARITHMETIC: dict[str, Kernel] = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide}
_PLAIN: dict[str, Kernel] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": float32.of(np.cos),
    "ELU": lambda x: np.where(x < 0, float32.of(np.expm1)(x), x),
    "EQUAL": np.equal,
    "EXP": float32.exp,
    "FLOOR": np.floor,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "HARD_SWISH": _hard_swish,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "LOG": float32.of(np.log),
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_NOT": np.logical_not,
    "LOGICAL_OR": np.logical_or,
    "LOGISTIC": _logistic,
    "MAXIMUM": lambda a, b: np.where(a > b, a, b),
    "MINIMUM": lambda a, b: np.where(a < b, a, b),
    "NEG": np.negative,
    "NOT_EQUAL": np.not_equal,
    "POW": lambda a, b: float32.of(lambda x: np.power(x, np.float64(b)))(a + _SINGLE(0) * b),
    "PRELU": lambda x, slope: np.where(x >= 0, x, x * slope),
    "ROUND": np.round,
    "RSQRT": lambda x: _SINGLE(1) / np.sqrt(x),
    "SELECT": np.where,
    "SELECT_V2": np.where,
    "SIGN": np.sign,
    "SIN": float32.of(np.sin),
    "SQRT": np.sqrt,
    "SQUARE": lambda x: x * x,
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) * (a - b),
    "TANH": float32.tanh,
}
