"""Elementwise layers: arithmetic, comparisons, logic, unary functions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.importers.coreml.layer import Blob, Layer, Shape
from tosaic.compiler.importers.coreml.registry import HANDLERS, Handler, handles
from tosaic.compiler.importers.lowering import Lowering, trigonometry
from tosaic.compiler.importers.lowering.division import floor_divide
from tosaic.compiler.importers.lowering.power import power
from tosaic.compiler.ir import DType


def broadcast_shape(layer: Layer, indices: Sequence[int]) -> Shape:
    """The shape that inputs broadcast to, as NumPy aligns them."""
    shapes = [layer.shape(index) for index in indices]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        layer.wrong(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast")


def elementwise(layer: Layer, function: Callable[..., str], count: int | None = None) -> Blob:
    """A function of the first `count` inputs (default: all), which broadcast."""
    indices = range(len(layer.inputs) if count is None else count)
    shape = broadcast_shape(layer, indices)
    return layer.out(function(*(layer.loose(index) for index in indices)), shape)


# --- several inputs -------------------------------------------------------------------------------------------


def _folded(method: str) -> Handler:
    def handler(layer: Layer) -> Blob:
        combine = getattr(layer.low, method)
        return elementwise(layer, lambda *terms: functools.reduce(combine, terms))

    return handler


for _kind, _method in {
    "max": "maximum",
    "min": "minimum",
    "addBroadcastable": "add",
    "subtractBroadcastable": "sub",
    "multiplyBroadcastable": "mul",
    "divideBroadcastable": "div",
    "maxBroadcastable": "maximum",
    "minBroadcastable": "minimum",
}.items():
    HANDLERS[_kind] = _folded(_method)


@handles("add", "multiply")
def add(layer: Layer) -> Blob:
    """Of one input and the parameter alpha, or of all inputs."""
    low, alpha = layer.low, layer.params.alpha
    if len(layer.inputs) == 1:
        x = layer.loose()
        return layer.same(low.plus(x, alpha) if layer.kind == "add" else low.times(x, alpha))
    return _folded("add" if layer.kind == "add" else "mul")(layer)  # type: ignore[return-value]  # one blob


@handles("average")
def average(layer: Layer) -> Blob:
    """The sum of the inputs by their number."""
    low = layer.low
    return elementwise(layer, lambda *terms: low.times(functools.reduce(low.add, terms), 1.0 / len(terms)))


@handles("modBroadcastable", "floorDivBroadcastable")
def floor_division(layer: Layer) -> Blob:
    """The quotient rounded down, or the rest, which has the divisor's sign."""
    which = 0 if layer.kind.startswith("floor") else 1
    return elementwise(layer, lambda a, b: floor_divide(layer.low, a, b)[which])


@handles("powBroadcastable")
def power_of(layer: Layer) -> Blob:
    """A known exponent may be whole, and the base negative then; otherwise TOSA's POW wants a base from 0 on."""
    low = layer.low
    exponent = low.data(layer.x(1))
    if exponent is not None and (exponent == exponent.flat[0]).all():
        shape = broadcast_shape(layer, (0, 1))
        result = power(low, layer.loose(), float(exponent.flat[0]))
        return layer.out(low.broadcast_to(low.reshape(result, layer.shape()), shape))
    return elementwise(layer, lambda a, b: low.binary("POW", a, b))


@handles("whereBroadcastable")
def where(layer: Layer) -> Blob:
    """The second input where the first is not 0, else the third."""
    low = layer.low
    return elementwise(layer, lambda c, a, b: low.select(low.cast(c, DType.BOOL), a, b))


# --- comparisons and logic: 1.0 is true, and 0.0 false --------------------------------------------------------


@handles("greaterThan", "greaterEqual", "lessThan", "lessEqual", "equal", "notEqual")
def compare(layer: Layer) -> Blob:
    """Two inputs, or one and the parameter alpha."""
    low = layer.low

    def test(a: str, b: str) -> str:
        if layer.kind.startswith("less"):
            a, b = b, a
        if layer.kind.endswith("qual") and layer.kind[0] in "en":
            same = low.equal(a, b)
            return low.op("LOGICAL_NOT", same) if layer.kind == "notEqual" else same
        return low.greater_equal(a, b) if layer.kind.endswith("Equal") else low.greater(a, b)

    if len(layer.inputs) == 1:
        x = layer.loose()
        return layer.same(low.cast(test(x, low.scalar(layer.params.alpha, x)), DType.FP32))
    return elementwise(layer, lambda a, b: low.cast(test(a, b), DType.FP32))


@handles("logicalAnd", "logicalOr", "logicalXor", "logicalNot")
def logic(layer: Layer) -> Blob:
    """Logic of "is not 0"."""
    low, name = layer.low, f"LOGICAL_{layer.kind.removeprefix('logical').upper()}"

    def combine(*terms: str) -> str:
        bools = [low.cast(term, DType.BOOL) for term in terms]
        result = low.op(name, *bools) if len(bools) == 1 else low.binary(name, *bools)
        return low.cast(result, DType.FP32)

    return elementwise(layer, combine)


# --- one input ------------------------------------------------------------------------------------------------


def _hyperbolic(low: Lowering, x: str, rising_sign: float) -> str:
    rising, falling = low.op("EXP", x), low.op("EXP", low.negate(x))
    both = low.add(rising, falling) if rising_sign > 0 else low.sub(rising, falling)
    return low.times(both, 0.5)


def _asinh(low: Lowering, x: str) -> str:
    size = low.op("ABS", x)
    value = low.op("LOG", low.add(size, low.sqrt(low.plus(low.mul(x, x), 1.0))))
    return low.select(low.is_negative(x), low.negate(value), value)


def _acosh(low: Lowering, x: str) -> str:
    return low.op("LOG", low.add(x, low.sqrt(low.plus(low.mul(x, x), -1.0))))


def _atanh(low: Lowering, x: str) -> str:
    ratio = low.div(low.plus(x, 1.0), low.sub(low.scalar(1, x), x))
    return low.times(low.op("LOG", ratio), 0.5)


def _sign(low: Lowering, x: str) -> str:
    zero = low.scalar(0, x)
    negative = low.select(low.greater(zero, x), low.scalar(-1, x), zero)
    return low.select(low.greater(x, zero), low.scalar(1, x), negative)


_UNARY: dict[str, Callable[[Lowering, str], str]] = {
    "ceil": lambda low, x: low.op("CEIL", x),
    "floor": lambda low, x: low.op("FLOOR", x),
    "round": lambda low, x: low.round_half_even(x),
    "sign": _sign,
    "exp2": lambda low, x: low.binary("POW", low.scalar(2, x), x),
    "sin": lambda low, x: low.op("SIN", x),
    "cos": lambda low, x: low.op("COS", x),
    "tan": trigonometry.tan,
    "asin": trigonometry.asin,
    "acos": trigonometry.acos,
    "atan": trigonometry.atan,
    "sinh": lambda low, x: _hyperbolic(low, x, -1),
    "cosh": lambda low, x: _hyperbolic(low, x, 1),
    "tanh": lambda low, x: low.op("TANH", x),
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "erf": lambda low, x: low.op("ERF", x),
}


@handles(*_UNARY)
def unary(layer: Layer) -> Blob:
    """A function of one input."""
    return layer.same(_UNARY[layer.kind](layer.low, layer.loose()))


@handles("clip")
def clip(layer: Layer) -> Blob:
    """Limited to minVal .. maxVal; NaN bounds or crossed ones are illegal in TOSA."""
    least, most = layer.params.minVal, layer.params.maxVal
    layer.require(least <= most, f"minVal {least} is not below maxVal {most}")
    return layer.same(layer.low.clamp(layer.loose(), least, most))


@handles("unary")
def unary_function(layer: Layer) -> Blob:
    """scale * x + shift first (a scale of 0 is 1), then one of eight functions."""
    low, p = layer.low, layer.params
    x = low.plus(low.times(layer.loose(), p.scale or 1.0), p.shift)
    epsilon = p.epsilon or 1e-6
    name = p.DESCRIPTOR.enum_types_by_name["Operation"].values_by_number.get(p.type)
    layer.require(name is not None, f"type {p.type} is not known")
    functions: dict[str, Callable[[], str]] = {
        "SQRT": lambda: low.sqrt(x),
        "RSQRT": lambda: low.op("RSQRT", low.plus(x, epsilon)),
        "INVERSE": lambda: low.op("RECIPROCAL", low.plus(x, epsilon)),
        "POWER": lambda: power(low, x, p.alpha),
        "EXP": lambda: low.op("EXP", x),
        "LOG": lambda: low.op("LOG", x),
        "ABS": lambda: low.op("ABS", x),
        "THRESHOLD": lambda: low.maximum(x, low.scalar(p.alpha, x)),
    }
    return layer.same(functions[name.name]())
