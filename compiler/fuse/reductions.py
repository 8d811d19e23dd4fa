"""Reductions and pools as a running value over repetitions of the body (clauses 2.3.2, 2.3.9 and 2.9).

A long axis of N elements is reduced in several passes. The first one keeps a partial result for each of P elements that
follow each other: element n goes to partial result n mod P, so that the lanes are full whatever the axis is. Further
passes reduce the partial results. Partial results that are there already may be continued with more elements.
"""

import dataclasses
from collections.abc import Callable

from tosaic.compiler.fuse.expression import Immediate, Iteration, Load, Node, Reduced, Value, substituted
from tosaic.compiler.fuse.microprogram import MicroProgram, assemble
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.machine import ELEMENT, reciprocal_scale
from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Op

_COMBINE = {
    "REDUCE_SUM": Op.ADD,
    "REDUCE_MAX": Op.MAX,
    "REDUCE_MIN": Op.MIN,
    "REDUCE_ANY": Op.OR,
    "REDUCE_ALL": Op.AND,
    "MAX_POOL2D": Op.MAX,
}

PARTIAL = "partial results"
"""What loads of partial results name as their tensor."""


def reduced_value(graph: Graph, operator: Operator, operand: Callable[[str], Value]) -> Value:
    """The running value of a reduction or pool; an average is scaled per window count (see `emit/pool.py`)."""
    source = graph.tensors[operator.inputs[0]]
    term = operand(operator.inputs[0])
    if operator.op == "AVG_POOL2D":
        zero_point = int(graph.operand_value(operator, "input_zp").reshape(-1)[0])
        output_zp = int(graph.operand_value(operator, "output_zp").reshape(-1)[0])
        total = Reduced(Op.ADD, 0, term, a_zp=zero_point)
        multiplier, shift = reciprocal_scale(1)
        low, high = (-128, 127) if source.dtype is DType.INT8 else (-32768, 32767)
        return Node(
            Op.RESCALE,
            total,
            multiplier=multiplier,
            shift=shift,
            out_zp=output_zp,
            clamp=(low, high),
            average=True,
        )
    if operator.op == "ARGMAX":
        extent = source.shape[operator.attributes["axis"]]
        return _index_of_largest(term, source.dtype.bits, index_bits(extent, 1))
    combine = _COMBINE[operator.op]
    if combine is Op.MAX:
        start = source.dtype.min
    elif combine is Op.MIN:
        start = source.dtype.max
    else:
        start = 1 if combine is Op.AND else 0
    if isinstance(term, Node) and _subtracts_only(term):
        # The running value does that itself.
        return Reduced(combine, start, term.a, a_zp=term.a_zp)
    return Reduced(combine, start, term)


def _subtracts_only(node: Node) -> bool:
    """Whether a RESCALE multiplies by 1: what is left is its zero point."""
    more = node.b is not None or node.clamp is not None or node.per_channel
    more = more or node.bias or node.wrap32 or node.out_zp != 0
    return node.op is Op.RESCALE and node.multiplier == 1 << node.shift and not more


# --- ARGMAX


def index_bits(extent: int, together: int) -> int:
    """Bits of the count of repetitions by which `extent` elements are reduced to `together` partial results."""
    return (-(-extent // together) - 1).bit_length()


def _key(term: Value, bits: int) -> Node:
    """index - value * 2^bits: the smallest key is that of the first among the largest values."""
    return Node(Op.RESCALE, term, Iteration(), multiplier=-(1 << bits))


def _largest_key(value_bits: int, bits: int) -> int:
    """A bound of the keys."""
    return (1 << (value_bits - 1 + bits)) + (1 << bits) - 1


def _index_of_largest(term: Value, value_bits: int, bits: int) -> Node:
    """ARGMAX as the smallest key, from which the index is read again."""
    smallest = Reduced(Op.MIN, _largest_key(value_bits, bits), _key(term, bits))
    return Node(Op.AND, smallest, Immediate((1 << bits) - 1))


# --- passes


@dataclasses.dataclass(frozen=True)
class Reduction:
    """What a layer that reduces computes, for making its passes."""

    value: Value
    """The layer's result, made by one pass over all elements."""
    dtype: DType
    """Type of the elements that are reduced, as they come to the running value."""
    argmax: bool

    @property
    def partial(self) -> Element:
        """The type of a partial result in memory."""
        return Element.INT32 if self.argmax else ELEMENT[self.dtype]

    def fits(self, bits: int) -> bool:
        """Whether partial results that count `bits` bits of repetitions fit their type."""
        return not self.argmax or _largest_key(self.dtype.bits, bits) <= DType.INT32.max


def _running(value: Value) -> Reduced:
    """The one reduction in an expression."""
    stack: list[Value | None] = [value]
    while True:
        found = stack.pop()
        if isinstance(found, Reduced):
            return found
        if isinstance(found, Node):
            stack += [found.a, found.b]


def first_pass(reduction: Reduction, config: Config, bits: int) -> MicroProgram:
    """Stores partial results. ARGMAX counts repetitions in `bits` bits."""
    return assemble(_first(reduction, bits), config)


def continuing_pass(reduction: Reduction, config: Config, bits: int, repetition: int = 0) -> MicroProgram:
    """Continues the partial results that are there; `repetition` is the number of its first repetition."""
    first, before = _first(reduction, bits), Load(PARTIAL, reduction.partial)
    value: Value = first
    if reduction.argmax and repetition:
        value = Node(Op.ADD, first, Immediate(repetition))
    return assemble(Node(first.combine, value, before), config)


def _first(reduction: Reduction, bits: int) -> Reduced:
    running = _running(reduction.value)
    if not reduction.argmax:
        return running
    key = running.term
    assert isinstance(key, Node)
    return Reduced(Op.MIN, _largest_key(reduction.dtype.bits, bits), _key(key.a, bits))


def _next(reduction: Reduction, repeats: int, bits: int) -> Reduced:
    """Reduces partial results `repeats` to one; ARGMAX's then count `bits` bits of repetitions."""
    running, before = _running(reduction.value), Load(PARTIAL, reduction.partial)
    if not reduction.argmax:
        # TOSA bounds the sums of the first elements; those of the passes may have wrapped.
        return Reduced(running.combine, running.start, before, wrap32=running.combine is Op.ADD)
    key = Node(Op.RESCALE, before, Iteration(), multiplier=repeats)
    return Reduced(Op.MIN, _largest_key(reduction.dtype.bits, bits), key)


def middle_pass(reduction: Reduction, config: Config, repeats: int, bits: int) -> MicroProgram:
    """Reduces partial results `repeats` to one, a power of two, and stores these; see `_next` for `bits`."""
    return assemble(_next(reduction, repeats, bits), config)


def last_pass(reduction: Reduction, config: Config, repeats: int, bits: int) -> MicroProgram:
    """Reduces partial results `repeats` to one, a power of two, and computes the layer's result of it."""
    before, running = _running(reduction.value), _next(reduction, repeats, bits)
    if not reduction.argmax:
        return assemble(substituted(reduction.value, before, running), config)
    index = _reader(reduction.value, before)
    counted = dataclasses.replace(index, a=running, b=Immediate((1 << bits) - 1))
    return assemble(substituted(reduction.value, index, counted), config)


def _reader(value: Value, read: Value) -> Node:
    """The node of an expression whose first operand is `read`."""
    stack: list[Value | None] = [value]
    while True:
        found = stack.pop()
        if isinstance(found, Node):
            if found.a is read:
                return found
            stack += [found.a, found.b]
