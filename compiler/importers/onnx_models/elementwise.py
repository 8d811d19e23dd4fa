"""Elementwise operators, comparisons, logic, Where and Cast."""

import functools
import math

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, activations, trigonometry
from tosaic.compiler.importers.lowering.division import floor_divide
from tosaic.compiler.importers.lowering.power import power
from tosaic.compiler.importers.onnx_models.node import OnnxNode, storage
from tosaic.compiler.importers.onnx_models.registry import HANDLERS, Handler, handles
from tosaic.compiler.importers.onnx_models.values import KINDS, STORAGE, OnnxValue
from tosaic.compiler.ir import DType

_FLOATS = ("float32", "float16", "bfloat16")


def _unary(op: str) -> Handler:
    def handler(node: OnnxNode) -> OnnxValue:
        x = node.wide()
        if not node.low.dtype(x).is_float and op in ("CEIL", "FLOOR"):
            return node.out(x)
        return node.out(node.low.op(op, x))

    return handler


def _variadic(method: str) -> Handler:
    def handler(node: OnnxNode) -> OnnxValue:
        terms = [node.wide(i) for i in range(len(node.inputs))]
        return node.out(functools.reduce(getattr(node.low, method), terms))

    return handler


for _name, _op in {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Floor": "FLOOR",
    "Exp": "EXP",
    "Log": "LOG",
    "Sin": "SIN",
    "Cos": "COS",
    "Erf": "ERF",
    "Reciprocal": "RECIPROCAL",
    "Sigmoid": "SIGMOID",
    "Tanh": "TANH",
    "Not": "LOGICAL_NOT",
}.items():
    HANDLERS[_name] = _unary(_op)
for _name, _method in {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Sum": "add",
    "Max": "maximum",
    "Min": "minimum",
}.items():
    HANDLERS[_name] = _variadic(_method)


@handles("Div")
def div(node: OnnxNode) -> OnnxValue:
    """Integers are truncated."""
    return node.out(node.low.div(node.wide(0), node.wide(1)))


@handles("Mean")
def mean(node: OnnxNode) -> OnnxValue:
    """The sum of all inputs by their number."""
    terms = [node.wide(i) for i in range(len(node.inputs))]
    return node.out(node.low.times(functools.reduce(node.low.add, terms), 1.0 / len(terms)))


@handles("Neg")
def neg(node: OnnxNode) -> OnnxValue:
    """Returns -x."""
    return node.out(node.low.negate(node.wide()))


@handles("Sqrt")
def sqrt(node: OnnxNode) -> OnnxValue:
    """The square root."""
    return node.out(node.low.sqrt(node.wide()))


@handles("Tan", "Asin", "Acos", "Atan")
def trigonometric(node: OnnxNode) -> OnnxValue:
    """What TOSA builds from others or from polynomials."""
    return node.out(getattr(trigonometry, node.op.lower())(node.low, node.wide()))


@handles("Sinh", "Cosh")
def sinh_cosh(node: OnnxNode) -> OnnxValue:
    """Returns (exp(x) -+ exp(-x)) / 2."""
    low, x = node.low, node.wide()
    rising, falling = low.op("EXP", x), low.op("EXP", low.negate(x))
    both = low.sub(rising, falling) if node.op == "Sinh" else low.add(rising, falling)
    return node.out(low.times(both, 0.5))


@handles("Asinh", "Acosh")
def asinh_acosh(node: OnnxNode) -> OnnxValue:
    """Returns log(|x| + sqrt(x^2 +- 1)), with the sign of x for asinh."""
    low, x = node.low, node.wide()
    if node.op == "Acosh":
        return node.out(low.op("LOG", low.add(x, low.sqrt(low.plus(low.mul(x, x), -1.0)))))
    size = low.op("ABS", x)
    value = low.op("LOG", low.add(size, low.sqrt(low.plus(low.mul(x, x), 1.0))))
    return node.out(low.select(low.is_negative(x), low.negate(value), value))


@handles("Atanh")
def atanh(node: OnnxNode) -> OnnxValue:
    """Returns log((1 + x) / (1 - x)) / 2."""
    low, x = node.low, node.wide()
    ratio = low.div(low.plus(x, 1.0), low.sub(low.scalar(1, x), x))
    return node.out(low.times(low.op("LOG", ratio), 0.5))


@handles("Round")
def round_(node: OnnxNode) -> OnnxValue:
    """Ties go to the even number."""
    return node.out(node.low.round_half_even(node.wide()))


@handles("Sign")
def sign(node: OnnxNode) -> OnnxValue:
    """Returns -1, 0 or 1."""
    low, x = node.low, node.wide()
    zero = low.scalar(0, x)
    negative = low.select(low.greater(zero, x), low.scalar(-1, x), zero)
    return node.out(low.select(low.greater(x, zero), low.scalar(1, x), negative))


@handles("Pow")
def pow_(node: OnnxNode) -> OnnxValue:
    """Whole exponents known now are products; TOSA's POW takes no negative base with a fraction, nor does ONNX."""
    low, x = node.low, node.wide(0)
    exponent = node.value(1)
    if exponent.data is not None and exponent.data.size == 1:
        known = float(exponent.data.reshape(-1)[0])
        if low.dtype(x).is_float or 1 <= known <= 16 and known == int(known):
            shape = np.broadcast_shapes(exponent.shape, low.shape(x))
            return node.out(low.reshape(power(low, x, known), shape))
    if low.dtype(x).is_float:
        return node.out(low.binary("POW", x, low.cast(node.wide(1), low.dtype(x))))
    # fp32 holds whole numbers up to 2^24, and its POW is correct to the nearest there.
    result = low.binary("POW", low.cast(x, DType.FP32), low.cast(node.wide(1), DType.FP32))
    if not low.dtype(node.wide(1)).is_float:
        return node.out(low.cast(low.round_half_even(result), DType.INT32))
    return node.out(low.cast(low.truncate(result), DType.INT32))


@handles("Mod")
def mod(node: OnnxNode) -> OnnxValue:
    """fmod has the dividend's sign, mod the divisor's."""
    low, a, b = node.low, node.wide(0), node.wide(1)
    if low.dtype(a).is_float:
        return node.out(_float_mod(low, a, b, bool(node.attr("fmod", 0))))
    rest = low.sub(a, low.mul(low.binary("INTDIV", a, b), b))
    if node.attr("fmod", 0):
        return node.out(rest)
    zero = low.scalar(0, rest)
    signs_differ = low.binary("LOGICAL_XOR", low.greater(zero, rest), low.greater(zero, b))
    wrong = low.binary("LOGICAL_AND", signs_differ, low.op("LOGICAL_NOT", low.equal(rest, zero)))
    return node.out(low.select(wrong, low.add(rest, b), rest))


def _float_mod(low: Lowering, a: str, b: str, fmod: bool) -> str:
    """a less a whole multiple of b; by an infinite b, which has no multiples, a itself or b of the other sign."""
    rest = low.sub(a, low.mul(low.truncate(low.div(a, b)), b)) if fmod else floor_divide(low, a, b)[1]
    divisors = low.data(b)
    if divisors is not None and np.isfinite(divisors).all():
        return rest
    endless = low.scalar(np.inf, a)
    infinite = low.equal(low.op("ABS", b), endless)
    finite = low.greater(endless, low.op("ABS", a))
    kept = a
    if not fmod:
        opposite = low.greater(low.scalar(0, a), low.mul(a, b))
        kept = low.select(opposite, b, a)
    return low.select(low.binary("LOGICAL_AND", infinite, finite), kept, rest)


# --- comparisons and logic ------------------------------------------------------------------------------------


@handles("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")
def compare(node: OnnxNode) -> OnnxValue:
    """Comparisons of numbers; Equal of bools too."""
    low, a, b = node.low, node.wide(0), node.wide(1)
    if node.op == "Equal" and low.dtype(a) is DType.BOOL:
        return node.out(low.op("LOGICAL_NOT", low.binary("LOGICAL_XOR", a, b)), "bool")
    if node.op.startswith("Less"):
        a, b = b, a
    method = low.equal if node.op == "Equal" else low.greater_equal if "Or" in node.op else low.greater
    return node.out(method(a, b), "bool")


@handles("And", "Or", "Xor")
def logic(node: OnnxNode) -> OnnxValue:
    """Lowers logic of bools."""
    return node.out(node.low.binary(f"LOGICAL_{node.op.upper()}", node.raw(0), node.raw(1)))


@handles("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(node: OnnxNode) -> OnnxValue:
    """Lowers logic of bits."""
    name = f"BITWISE_{node.op.removeprefix('Bitwise').upper()}"
    return node.out(node.low.binary(name, node.wide(0), node.wide(1)))


@handles("BitwiseNot")
def bitwise_not(node: OnnxNode) -> OnnxValue:
    """Every bit reversed."""
    return node.out(node.low.op("BITWISE_NOT", node.wide()))


@handles("BitShift")
def bit_shift(node: OnnxNode) -> OnnxValue:
    """int32 holds every type, so that a right shift may be arithmetic. Shifts out of range shift everything out."""
    low, x, shift = node.low, node.wide(0), node.wide(1)
    bits = STORAGE[node.kind()].bits
    outside = low.binary(
        "LOGICAL_OR", low.is_negative(shift), low.greater(shift, low.scalar(bits - 1, shift))
    )
    shift = low.select(outside, low.scalar(31, shift), shift)
    if node.attr("direction") == "LEFT":
        shifted = low.binary("LOGICAL_LEFT_SHIFT", x, shift)
        return node.out(low.select(outside, low.scalar(0, x), shifted))
    return node.out(low.binary("ARITHMETIC_RIGHT_SHIFT", x, shift, round=False))


@handles("IsNaN")
def is_nan(node: OnnxNode) -> OnnxValue:
    """NaN is not equal to itself."""
    x = node.wide()
    return node.out(node.low.op("LOGICAL_NOT", node.low.equal(x, x)), "bool")


@handles("IsInf")
def is_inf(node: OnnxNode) -> OnnxValue:
    """Comparison with the infinities that are asked for."""
    low, x = node.low, node.wide()
    tests = []
    if node.attr("detect_positive", 1):
        tests.append(low.equal(x, low.scalar(math.inf, x)))
    if node.attr("detect_negative", 1):
        tests.append(low.equal(x, low.scalar(-math.inf, x)))
    if not tests:
        return node.out_constant(np.broadcast_to(np.zeros((), bool), node.shape()))
    return node.out(functools.reduce(lambda a, b: low.binary("LOGICAL_OR", a, b), tests), "bool")


@handles("Where")
def where(node: OnnxNode) -> OnnxValue:
    """The second input where the first holds, else the third."""
    return node.out_raw(node.low.select(node.raw(0), node.raw(1), node.raw(2)), node.kind(1))


# --- Cast and Clip --------------------------------------------------------------------------------------------


@handles("Cast", "CastLike")
def cast(node: OnnxNode) -> OnnxValue:
    """Floats to integers lose their fraction, as in C."""
    if node.op == "CastLike":
        kind = node.kind(1)
    else:
        number = int(node.attr("to"))
        kind = KINDS.get(number, f"number {number}")
    target = storage(node, kind)
    low, x = node.low, node.wide()
    if low.dtype(x).is_float and target.is_integer:
        x = low.cast(low.truncate(x), DType.INT32)
    elif target.is_integer:
        x = low.cast(x, DType.INT32)
    else:
        x = low.cast(x, target)
    return node.out(x, kind)


@handles("Clip")
def clip(node: OnnxNode) -> OnnxValue:
    """Bounds are attributes in old opsets, and inputs, known now or not, in new ones."""
    low, x = node.low, node.wide()
    bounds: list[float | None] = []
    for index, name in ((1, "min"), (2, "max")):
        if name in node.attributes:
            bounds.append(float(node.attr(name)))
        elif node.has(index):
            data = node.value(index).data
            bounds.append(None if data is None else float(data.reshape(-1)[0]))
        else:
            bounds.append(-math.inf if name == "min" else math.inf)
    lowest, highest = bounds
    if lowest is not None and highest is not None and low.dtype(x).is_float and lowest <= highest:
        return node.out(low.clamp(x, lowest, highest))
    for index, name, method in ((1, "min", low.maximum), (2, "max", low.minimum)):
        if name in node.attributes:
            x = method(x, low.scalar(float(node.attr(name)), x))
        elif node.has(index):
            x = method(x, node.wide(index))
    return node.out(x)


# --- activations ----------------------------------------------------------------------------------------------


@handles("Relu")
def relu(node: OnnxNode) -> OnnxValue:
    """Returns max(x, 0)."""
    return node.out(activations.relu(node.low, node.wide()))


@handles("LeakyRelu")
def leaky_relu(node: OnnxNode) -> OnnxValue:
    """A constant slope below 0."""
    x = node.wide()
    return node.out(activations.leaky_relu(node.low, x, node.low.scalar(node.attr("alpha", 0.01), x)))


@handles("PRelu")
def prelu(node: OnnxNode) -> OnnxValue:
    """A slope below 0 that broadcasts to x."""
    return node.out(activations.leaky_relu(node.low, node.wide(0), node.wide(1)))


@handles("ThresholdedRelu")
def thresholded_relu(node: OnnxNode) -> OnnxValue:
    """Returns x above alpha, else 0."""
    low, x = node.low, node.wide()
    above = low.greater(x, low.scalar(node.attr("alpha", 1.0), x))
    return node.out(low.select(above, x, low.scalar(0, x)))


@handles("Shrink")
def shrink(node: OnnxNode) -> OnnxValue:
    """Moves x towards 0 by `bias` outside -lambd .. lambd; inside it is 0."""
    low, x = node.low, node.wide()
    edge, bias = node.attr("lambd", 0.5), node.attr("bias", 0.0)
    inner = low.select(low.greater(x, low.scalar(edge, x)), low.plus(x, -bias), low.scalar(0, x))
    return node.out(low.select(low.greater(low.scalar(-edge, x), x), low.plus(x, bias), inner))


@handles("Elu", "Selu", "Celu")
def elu(node: OnnxNode) -> OnnxValue:
    """The exponential below 0."""
    alpha = float(node.attr("alpha", 1.67326319217681884765625 if node.op == "Selu" else 1.0))
    gamma = float(node.attr("gamma", 1.05070102214813232421875)) if node.op == "Selu" else 1.0
    inner = alpha if node.op == "Celu" else 1.0
    low, x = node.low, node.wide()
    # Short floats: their difference from 1 would be of few bits.
    y = activations.elu(low, low.cast(x, DType.FP32), alpha, gamma, inner)
    return node.out(low.cast(y, low.dtype(x)))


@handles("HardSigmoid")
def hard_sigmoid(node: OnnxNode) -> OnnxValue:
    """A line between 0 and 1."""
    low = node.low
    return node.out(
        activations.hard_sigmoid(low, node.wide(), node.attr("alpha", 0.2), node.attr("beta", 0.5))
    )


@handles("HardSwish")
def hard_swish(node: OnnxNode) -> OnnxValue:
    """Returns x * hard_sigmoid(x), with 1/6 and 1/2."""
    x = node.wide()
    return node.out(node.low.mul(x, activations.hard_sigmoid(node.low, x, 1 / 6, 0.5)))


@handles("Swish")
def swish(node: OnnxNode) -> OnnxValue:
    """Returns x * sigmoid(alpha * x)."""
    x = node.wide()
    gate = node.low.op("SIGMOID", node.low.times(x, node.attr("alpha", 1.0)))
    return node.out(node.low.mul(x, gate))


@handles("Softplus")
def softplus(node: OnnxNode) -> OnnxValue:
    """Returns log(1 + exp(x))."""
    return node.out(activations.softplus(node.low, node.wide()))


@handles("Softsign")
def softsign(node: OnnxNode) -> OnnxValue:
    """Returns x / (1 + |x|)."""
    return node.out(activations.softsign(node.low, node.wide()))


@handles("Gelu")
def gelu(node: OnnxNode) -> OnnxValue:
    """Computes GELU exactly by ERF, or approximates it by TANH."""
    return node.out(activations.gelu(node.low, node.wide(), node.attr("approximate", "none") == "tanh"))


@handles("Mish")
def mish(node: OnnxNode) -> OnnxValue:
    """Returns x * tanh(softplus(x))."""
    return node.out(activations.mish(node.low, node.wide()))
