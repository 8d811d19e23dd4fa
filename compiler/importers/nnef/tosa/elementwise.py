"""Element-wise operations (4.2), activations (4.9.1), and the element-wise odds and ends of 4.9.6."""

from collections.abc import Callable

from tosaic.compiler.importers.lowering import Lowering, activations, statistics
from tosaic.compiler.importers.lowering.power import power
from tosaic.compiler.importers.lowering.rounding import round_half_up, sign
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import HANDLERS, Handler, handles
from tosaic.compiler.ir import DType

Unary = Callable[[Lowering, str], str]
Binary = Callable[[Lowering, str, str], str]


def _operator(name: str) -> Unary:
    return lambda low, x: low.op(name, x)


_UNARY: dict[str, Unary] = {
    # No operator: outputs that need a name of their own get one at the end.
    "copy": lambda low, x: x,
    "neg": Lowering.negate,
    "rcp": _operator("RECIPROCAL"),
    "exp": _operator("EXP"),
    "log": _operator("LOG"),
    "abs": _operator("ABS"),
    "sign": sign,
    "not": _operator("LOGICAL_NOT"),
    "floor": _operator("FLOOR"),
    "ceil": _operator("CEIL"),
    "round": round_half_up,
    "sqr": lambda low, x: low.mul(x, x),
    "sqrt": Lowering.sqrt,
    "rsqr": lambda low, x: low.op("RECIPROCAL", low.mul(x, x)),
    "rsqrt": _operator("RSQRT"),
    "log2": lambda low, x: low.times(low.op("LOG", x), 1.4426950408889634),
    "sigmoid": _operator("SIGMOID"),
    "relu": activations.relu,
    "elu": lambda low, x: activations.elu(low, x, 1.0),
    "tanh": _operator("TANH"),
    "softplus": activations.softplus,
}

_BINARY: dict[str, Binary] = {
    "add": Lowering.add,
    "sub": Lowering.sub,
    "mul": Lowering.mul,
    "div": Lowering.div,
    "lt": lambda low, x, y: low.greater(y, x),
    "gt": Lowering.greater,
    "le": lambda low, x, y: low.greater_equal(y, x),
    "ge": Lowering.greater_equal,
    "eq": Lowering.equal,
    "ne": lambda low, x, y: low.op("LOGICAL_NOT", low.equal(x, y)),
    "and": lambda low, x, y: low.binary("LOGICAL_AND", x, y),
    "or": lambda low, x, y: low.binary("LOGICAL_OR", x, y),
    "min": Lowering.minimum,
    "max": Lowering.maximum,
}


def _unary(function: Unary) -> Handler:
    return lambda node: function(node.low, node.tensor("x"))


def _binary(function: Binary) -> Handler:
    return lambda node: function(node.low, *node.aligned("x", "y"))


HANDLERS.update({name: _unary(function) for name, function in _UNARY.items()})
HANDLERS.update({name: _binary(function) for name, function in _BINARY.items()})


@handles("pow")
def pow_(node: NnefNode) -> str:
    """A known exponent becomes products and roots, as far as it can."""
    exponent = node.known_scalar("y")
    x, y = node.aligned("x", "y")
    if exponent is not None and len(node.shape("x")) >= len(node.shape("y")):
        return power(node.low, x, exponent)
    return node.low.binary("POW", x, y)


@handles("select")
def select(node: NnefNode) -> str:
    """Three tensors that broadcast."""
    return node.low.select(*node.aligned("condition", "true_value", "false_value"))


@handles("clamp")
def clamp(node: NnefNode) -> str:
    """max(min(x, b), a): a wins where it is above b, which TOSA's CLAMP refuses."""
    low, bottom, top = node.low, node.known_scalar("a"), node.known_scalar("b")
    if bottom is not None and top is not None and bottom <= top:
        rank = len(node.result.shape)
        if low.rank(node.tensor("x")) == rank:
            return low.clamp(node.tensor("x"), bottom, top)
    x, a, b = node.aligned("x", "a", "b")
    return low.maximum(low.minimum(x, b), a)


@handles("prelu")
def prelu(node: NnefNode) -> str:
    """The slope is a tensor."""
    return activations.leaky_relu(node.low, *node.aligned("x", "alpha"))


@handles("leaky_relu")
def leaky_relu(node: NnefNode) -> str:
    """The slope is an attribute."""
    x = node.tensor("x")
    return activations.leaky_relu(node.low, x, node.low.scalar(node["alpha"], x))


@handles("softmax")
def softmax(node: NnefNode) -> str:
    """Lowers softmax over several axes, shifted by the maximum."""
    return statistics.softmax(node.low, node.tensor("x"), node["axes"])


@handles("batch_normalization")
def batch_normalization(node: NnefNode) -> str:
    """Folded to a factor and a summand when the statistics are constants."""
    x, *rest = node.aligned("input", "mean", "variance", "offset", "scale")
    mean, variance, offset, scale = rest
    return statistics.batch_normalize(node.low, x, mean, variance, offset, scale, node["epsilon"])


@handles("copy_n")
def copy_n(node: NnefNode) -> list[str]:
    """Lowers copy_n to no operator at all."""
    return [node.tensor("x")] * node["times"]


@handles("add_n")
def add_n(node: NnefNode) -> str:
    """A chain of sums; of nothing it is 0."""
    low, parts = node.low, node.tensors("x")
    if not parts:
        return low.constant(0.0, DType.FP32)
    rank = len(node.result.shape)
    total, *rest = (low.reshape(part, low.shape(part) + (1,) * (rank - low.rank(part))) for part in parts)
    for part in rest:
        total = low.add(total, part)
    return total
