"""Comparisons, logic and selection."""

from tosaic.compiler.importers.tflite.arithmetic import scaled
from tosaic.compiler.importers.tflite.multipliers import quantized_multiplier
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.values import OFFSET
from tosaic.compiler.ir import DType

_SHIFT = 8
"""Bits of fraction in which quantized tensors are compared."""


def _operands(node: TfliteNode) -> tuple[str, str]:
    low = node.low
    # TFLite orders 16-bit tensors by their integers, whatever they stand for.
    by_integers = node.value().kind == "INT16" and node.kind not in ("EQUAL", "NOT_EQUAL")
    if node.is_quantized and not by_integers:
        values = [node.value(0), node.value(1)]
        wide = [scaled(node, v, _SHIFT, quantized_multiplier(float(v.scale))) for v in values]
        return wide[0], wide[1]
    a, b = node.x(0), node.x(1)
    if low.dtype(a) in (DType.BOOL, DType.INT8, DType.INT16):
        a, b = low.cast(a, DType.INT32), low.cast(b, DType.INT32)
    return a, b


@handles("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
def compare(node: TfliteNode) -> str:
    """Compares quantized tensors in TFLite's fixed point."""
    low = node.low
    a, b = _operands(node)
    if node.kind.startswith("LESS"):
        a, b = b, a
    if node.kind.endswith("EQUAL") and not node.kind.startswith(("GREATER", "LESS")):
        same = low.equal(a, b)
        return low.op("LOGICAL_NOT", same) if node.kind == "NOT_EQUAL" else same
    return low.greater_equal(a, b) if node.kind.endswith("EQUAL") else low.greater(a, b)


@handles("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")
def logic(node: TfliteNode) -> str:
    """Lowers logic of bools."""
    low = node.low
    if node.kind == "LOGICAL_NOT":
        return low.op(node.kind, node.x())
    return low.binary(node.kind, node.x(0), node.x(1))


@handles("BITWISE_XOR")
def exclusive_or(node: TfliteNode) -> str:
    """Computes the XOR of the stored bits; unsigned integers are held with the highest bit inverted."""
    low, kind = node.low, node.value().kind
    y = low.binary("LOGICAL_XOR" if kind == "BOOL" else "BITWISE_XOR", node.x(0), node.x(1))
    return low.binary("BITWISE_XOR", y, low.scalar(-OFFSET[kind], y)) if kind in OFFSET else y


@handles("RIGHT_SHIFT")
def right_shift(node: TfliteNode) -> str:
    """The stored integers, shifted by as many bits as they have at most."""
    low, value, dtype = node.low, node.value(), node.low.dtype(node.x())
    offset, bits = OFFSET.get(value.kind, 0), dtype.numpy.itemsize * 8
    a, b = (low.plus(low.cast(node.x(index), DType.INT32), offset) for index in (0, 1))
    inside = low.minimum(low.maximum(b, low.scalar(0, b)), low.scalar(bits - 1, b))
    y = low.binary("ARITHMETIC_RIGHT_SHIFT", a, inside, round=False)
    return low.cast(low.plus(y, -offset), dtype)


@handles("SELECT", "SELECT_V2")
def select(node: TfliteNode) -> str:
    """The second input where the first holds, else the third; an older SELECT has one condition for each row."""
    low, condition = node.low, node.x(0)
    if node.kind == "SELECT" and len(node.shape(0)) == 1 and len(node.shape(1)) > 1:
        condition = low.reshape(condition, (*node.shape(0), *(1,) * (len(node.shape(1)) - 1)))
    known = low.data(condition)
    if known is not None and known.size == 1 and node.shape(1) == node.shape(2):
        return node.x(1) if known.item() else node.x(2)
    return low.select(condition, node.x(1), node.x(2))
