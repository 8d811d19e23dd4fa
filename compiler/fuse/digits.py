"""int32 tensors that lie in memory as four bytes apart.

A lane stores and loads one element of at most its share of a word: of int32 elements a word has W / 4. Where an array
layer makes an int32 tensor and array layers add it on their way out, its bytes lie apart instead: for every pixel the
lowest bytes of all channels, then the next ones. The array then works on W channels at a time, not on W / 4.

The bytes are signed digits to the base 256: x = d0 + 256 * (d1 + 256 * (d2 + 256 * d3)), -128 <= d < 128, modulo 2^32.
"""

import math

from tosaic.compiler.fuse.expression import Load, Node
from tosaic.compiler.ir import Graph, Operator
from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Op

DIGITS = 4
_DENSE = ("CONV2D", "MATMUL")


def joined(tensor: str) -> Node:
    """The value of a tensor that lies as digits; the top one comes first out of its load stream."""
    load = Load(tensor, Element.INT32, digits=True)
    value = Node(Op.MOV, load)
    for _ in range(DIGITS - 1):
        value = Node(Op.RESCALE, value, load, multiplier=256, shift=0)
    value.wrap32 = True
    return value


def digits_of(value: Node) -> list[Node]:
    """The digits of an int32 value, the lowest first: what a store of one byte keeps."""
    digits, lower = [Node(Op.MOV, value)], 0
    for number in range(1, DIGITS):
        # Rounding adds half of 256^number, and `lower` the halves below: a digit above 127 counts one further up.
        digits.append(Node(Op.RESCALE, value, multiplier=1, shift=8 * number, a_zp=-lower))
        lower += 1 << (8 * number - 1)
    return digits


def products(graph: Graph, operator: Operator) -> int | None:
    """Multiplications per output of a dense array operator; None for others."""
    if operator.op not in _DENSE:
        return None
    shape = graph.tensors[operator.inputs[1]].shape
    return shape[1] if operator.op == "MATMUL" else math.prod(shape[1:])


def slots_per_channel(config: Config, products: int, uops: int, lane_bytes: int) -> float:
    """Array slots or micro-operations that a batch of pixels takes for one output channel."""
    return max(products, config.vector_slots * uops) / max(1, config.columns // lane_bytes)
