"""Logarithms of a wide range: what they read keeps more steps than the type of an activation has.

A logarithm tells ratios: of powers over ten decades the smallest count as much as the largest, and 16 bits of equal
steps hold four decades. What it reads is kept in int32; a convolution before it (the filters behind a power spectrum)
reads int32 as two halves; and a sum of two squares, whose own 31 bits hold nine decades, is computed a second time from
saturated numbers of finer steps, for results that are small.
"""

from dataclasses import replace

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.emission import Emission
from tosaic.compiler.quantizer.encoding import Encoding, Integers
from tosaic.compiler.quantizer.functions import RENAMES
from tosaic.compiler.quantizer.plan import MOVES, Plan
from tosaic.compiler.quantizer.tables import is_log_like

_HALF_BITS = 15
_SURE = 2.0**9
"""Steps from which on a sum of squares is precise: an error of one step is a hundredth of a decibel."""
_DEEPEST = 2.0**-30
"""Logarithms are told by their values above this share of the largest."""


def reads_logarithm(plan: Plan, tensor: str) -> bool:
    """Whether all that is computed from a tensor are logarithms of a range that no activation holds."""
    readers, functions = plan.readers.get(tensor, set()), plan.functions
    low, high = plan.statistics.range_seen(tensor)
    low = max(low, high * _DEEPEST)
    return (
        bool(readers)
        and 0 < low < high
        and all(functions.is_table(name) for name in readers)
        and all(is_log_like(lambda x, name=name: functions(name, x), low, high) for name in readers)  # type: ignore[misc]
    )


def keeps_range(plan: Plan, op: Operator) -> bool:
    """Whether a convolution reads int32 in two halves, because logarithms read its result."""
    graph, tensor = plan.graph, op.inputs[0]
    kept = {*graph.outputs, *plan.forced}
    while True:
        producer = plan.producers.get(tensor)
        if producer is None or tensor in kept or len(graph.consumers(tensor)) > 1:
            return False
        if producer.op != "RESHAPE":
            return producer.op not in MOVES and reads_logarithm(plan, op.outputs[0])
        tensor = producer.inputs[0]


def halves(emission: Emission, tensor: str) -> list[Integers]:
    """An int32 tensor as int16 tensors whose reals add up to it: one, or its high and its low bits."""
    low, op = emission.low, emission.plan.producers[tensor]
    if op.op == "RESHAPE":
        shape = emission.shape(tensor)
        parts = halves(emission, op.inputs[0])
        return [replace(part, tensor=low.reshape(part.tensor, shape), encoding=None) for part in parts]
    wide = emission.as_uniform(emission.as_int32(emission.within_bounds(emission.natural(tensor))))
    bits = int(np.ceil(np.log2(max(wide.bound, 2.0)))) - _HALF_BITS
    if bits <= 0:
        encoding = Encoding(DType.INT16, wide.step)
        return [emission.held(emission.convert(wide, encoding), encoding)]
    upper = Encoding(DType.INT16, wide.step * 2.0**bits)
    first = emission.held(emission.convert(wide, upper), upper)
    back = emission.as_int32(first, wide.step)
    rest = Integers(
        low.op("SUB", wide.tensor, back.tensor), DType.INT32, wide.scale, 0, 2.0 ** max(bits - 1, 1)
    )
    # Half a step more than a low half of 16 bits saturates by one.
    lower = Encoding(DType.INT16, wide.step * 2.0 ** max(bits - 1 - _HALF_BITS, 0))
    second = emission.held(emission.convert(rest, lower), lower)
    return [first, second]


def small_squares(emission: Emission, tensor: str, coarse: Integers) -> Integers | None:
    """A sum of two squares in finer steps than `coarse`, right below its `high`; None if it is no such sum."""
    top = coarse.step * _SURE
    step = np.sqrt(top) / DType.INT16.max
    squares: list[str] = []
    if not _find_squares(emission, tensor, squares) or len(squares) > 2:
        return None
    bound = 2.0 * DType.INT16.max**2
    return Integers(_finer(emission, tensor, step), DType.INT32, np.array(step * step), 0, bound, high=top)


def _find_squares(emission: Emission, tensor: str, squares: list[str]) -> bool:
    """Whether a tensor is a sum of squares, of which each element of `squares` is one for each summand."""
    op = emission.plan.producers.get(tensor)
    if op is None:
        return False
    if op.op == "MUL" and op.inputs[0] == op.inputs[1]:
        squares.append(tensor)
        return True
    if op.op in RENAMES:
        return _find_squares(emission, op.inputs[0], squares)
    if op.op == "REDUCE_SUM":
        count = emission.shape(op.inputs[0])[op.attributes["axis"]]
        return all(_find_squares(emission, op.inputs[0], squares) for _ in range(min(count, 3)))
    return op.op == "ADD" and all(_find_squares(emission, name, squares) for name in op.inputs)


def _finer(emission: Emission, tensor: str, step: float) -> str:
    op = emission.plan.producers[tensor]
    low = emission.low
    if op.op == "MUL":
        encoding = Encoding(DType.INT16, step)
        root = emission.convert(emission.within_bounds(emission.wide(op.inputs[0])), encoding)
        # Two squares of -32768 would be 2^31.
        root = low.op("CLAMP", root, min_val=-DType.INT16.max, max_val=DType.INT16.max)
        return low.op("MUL", root, root, low.constant([0], DType.INT8), dtype=DType.INT32)
    parts = [_finer(emission, name, step) for name in (op.inputs if op.op == "ADD" else op.inputs[:1])]
    if op.op in RENAMES:
        return low.reshape(parts[0], emission.shape(tensor))
    return low.op(op.op, *parts, **op.attributes)
