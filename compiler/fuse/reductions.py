"""Reductions and pools as a running value over repetitions of the body (clauses 2.3.2, 2.3.9 and 2.9)."""

from collections.abc import Callable

from tosaic.compiler.fuse.expression import Immediate, Iteration, Node, Reduced, Value
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.machine import reciprocal_scale
from tosaic.errors import UnsupportedError
from tosaic.hw.isa import Op

_COMBINE = {
    "REDUCE_SUM": Op.ADD,
    "REDUCE_MAX": Op.MAX,
    "REDUCE_MIN": Op.MIN,
    "REDUCE_ANY": Op.OR,
    "REDUCE_ALL": Op.AND,
    "MAX_POOL2D": Op.MAX,
}


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
        return _index_of_largest(graph, operator, term)
    combine = _COMBINE[operator.op]
    if combine is Op.MAX:
        start = source.dtype.min
    elif combine is Op.MIN:
        start = source.dtype.max
    else:
        start = 1 if combine is Op.AND else 0
    return Reduced(combine, start, term)


def _index_of_largest(graph: Graph, operator: Operator, term: Value) -> Value:
    """ARGMAX as the largest of value * 2^n - index, from which the index is read again: the first of equals wins."""
    source = graph.tensors[operator.inputs[0]]
    extent = source.shape[operator.attributes["axis"]]
    bits = max(1, (extent - 1).bit_length())
    if (source.dtype.min << bits) - extent < DType.INT32.min:
        raise UnsupportedError(
            f"{operator}: {source} has {extent} elements along the axis, and value and index do not fit 32 bits; "
            "split the axis"
        )
    key = Node(Op.SUB, Node(Op.MUL, term, Immediate(1 << bits)), Iteration())
    largest = Reduced(Op.MAX, DType.INT32.min, key)
    return Node(Op.AND, Node(Op.MUL, largest, Immediate(-1)), Immediate((1 << bits) - 1))
