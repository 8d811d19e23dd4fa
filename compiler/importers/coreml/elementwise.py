"""Elementwise layers: arithmetic, comparisons, logic, unary functions."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue, Shape
from tosaic.compiler.importers.coreml.registry import HANDLERS, Handler, handles
from tosaic.compiler.importers.lowering import Lowering, trigonometry
from tosaic.compiler.importers.lowering.division import floor_divide
from tosaic.compiler.importers.lowering.power import power
from tosaic.compiler.ir import DType


def broadcast_shape(node: CoreMlNode, indices: Sequence[int]) -> Shape:
    """The shape that inputs broadcast to, as NumPy aligns them."""
    shapes = [node.shape(index) for index in indices]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        node.wrong(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast")


def elementwise(node: CoreMlNode, function: Callable[..., str], count: int | None = None) -> CoreMlValue:
    """A function of the first `count` inputs (default: all), which broadcast."""
    indices = range(len(node.inputs) if count is None else count)
    shape = broadcast_shape(node, indices)
    return node.out(function(*(node.loose(index) for index in indices)), shape)


# --- several inputs -------------------------------------------------------------------------------------------


def _folded(method: str) -> Handler:
    def handler(node: CoreMlNode) -> CoreMlValue:
        combine = getattr(node.low, method)
        return elementwise(node, lambda *terms: functools.reduce(combine, terms))

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
def add(node: CoreMlNode) -> CoreMlValue:
    """Lowers a sum or product of one input and the parameter alpha, or of all inputs."""
    low, alpha = node.low, node.params.alpha
    if len(node.inputs) == 1:
        x = node.loose()
        return node.same(low.plus(x, alpha) if node.kind == "add" else low.times(x, alpha))
    return _folded("add" if node.kind == "add" else "mul")(node)  # type: ignore[return-value]  # one blob


@handles("average")
def average(node: CoreMlNode) -> CoreMlValue:
    """The sum of the inputs by their number."""
    low = node.low
    return elementwise(node, lambda *terms: low.times(functools.reduce(low.add, terms), 1.0 / len(terms)))


@handles("modBroadcastable", "floorDivBroadcastable")
def floor_division(node: CoreMlNode) -> CoreMlValue:
    """The quotient rounded down, or the rest, which has the divisor's sign."""
    which = 0 if node.kind.startswith("floor") else 1
    return elementwise(node, lambda a, b: floor_divide(node.low, a, b)[which])


@handles("powBroadcastable")
def power_of(node: CoreMlNode) -> CoreMlValue:
    """A known exponent may be whole, and the base negative then; otherwise TOSA's POW wants a base from 0 on."""
    low = node.low
    exponent = low.data(node.x(1))
    if exponent is not None and (exponent == exponent.flat[0]).all():
        shape = broadcast_shape(node, (0, 1))
        result = power(low, node.loose(), float(exponent.flat[0]))
        return node.out(low.broadcast_to(low.reshape(result, node.shape()), shape))
    return elementwise(node, lambda a, b: low.binary("POW", a, b))


@handles("whereBroadcastable")
def where(node: CoreMlNode) -> CoreMlValue:
    """The second input where the first is not 0, else the third."""
    low = node.low
    return elementwise(node, lambda c, a, b: low.select(low.cast(c, DType.BOOL), a, b))


# --- comparisons and logic: 1.0 is true, and 0.0 false --------------------------------------------------------


@handles("greaterThan", "greaterEqual", "lessThan", "lessEqual", "equal", "notEqual")
def compare(node: CoreMlNode) -> CoreMlValue:
    """Two inputs, or one and the parameter alpha."""
    low = node.low

    def test(a: str, b: str) -> str:
        if node.kind.startswith("less"):
            a, b = b, a
        if node.kind.endswith("qual") and node.kind[0] in "en":
            same = low.equal(a, b)
            return low.op("LOGICAL_NOT", same) if node.kind == "notEqual" else same
        return low.greater_equal(a, b) if node.kind.endswith("Equal") else low.greater(a, b)

    if len(node.inputs) == 1:
        x = node.loose()
        return node.same(low.cast(test(x, low.scalar(node.params.alpha, x)), DType.FP32))
    return elementwise(node, lambda a, b: low.cast(test(a, b), DType.FP32))


@handles("logicalAnd", "logicalOr", "logicalXor", "logicalNot")
def logic(node: CoreMlNode) -> CoreMlValue:
    """Logic of "is not 0"."""
    low, name = node.low, f"LOGICAL_{node.kind.removeprefix('logical').upper()}"

    def combine(*terms: str) -> str:
        bools = [low.cast(term, DType.BOOL) for term in terms]
        result = low.op(name, *bools) if len(bools) == 1 else low.binary(name, *bools)
        return low.cast(result, DType.FP32)

    return elementwise(node, combine)


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
def unary(node: CoreMlNode) -> CoreMlValue:
    """A function of one input."""
    return node.same(_UNARY[node.kind](node.low, node.loose()))


@handles("clip")
def clip(node: CoreMlNode) -> CoreMlValue:
    """Limited to minVal .. maxVal; NaN bounds or crossed ones are illegal in TOSA."""
    least, most = node.params.minVal, node.params.maxVal
    node.require(least <= most, f"minVal {least} is not below maxVal {most}")
    return node.same(node.low.clamp(node.loose(), least, most))


@handles("unary")
def unary_function(node: CoreMlNode) -> CoreMlValue:
    """scale * x + shift first (a scale of 0 is 1), then one of eight functions."""
    low, p = node.low, node.params
    x = low.plus(low.times(node.loose(), p.scale or 1.0), p.shift)
    epsilon = p.epsilon or 1e-6
    name = p.DESCRIPTOR.enum_types_by_name["Operation"].values_by_number.get(p.type)
    node.require(name is not None, f"type {p.type} is not known")
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
    return node.same(functions[name.name]())
