"""Float operators between two quantized tensors of 8 bits: a function of 256 values, and so a TABLE.

Quantizers leave single operators in floats, between DEQUANTIZE and QUANTIZE. Where all of them are elementwise and
their only input is one int8 tensor, the whole island is tabulated, and the model runs in integers.
"""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.ir import DType, Operator, Tensor, nearest
from tosaic.compiler.ir.building import fold

_LONGEST = 64
"""Operators of an island that are followed back."""
_ELEMENTWISE = {
    "ABS",
    "ADD",
    "CAST",
    "CEIL",
    "CLAMP",
    "EQUAL",
    "EXP",
    "FLOOR",
    "GREATER",
    "GREATER_EQUAL",
    "LOG",
    "LOGICAL_AND",
    "LOGICAL_NOT",
    "LOGICAL_OR",
    "MAXIMUM",
    "MINIMUM",
    "MUL",
    "NEGATE",
    "POW",
    "RECIPROCAL",
    "RSQRT",
    "SELECT",
    "SIGMOID",
    "SUB",
    "TANH",
}


@dataclass(frozen=True)
class Island:
    """The int8 tensor that an elementwise function starts at, and its float results for -128 to 127."""

    source: str
    results: np.ndarray


def island_of(low: Lowering, tensor: str) -> Island | None:
    """The island whose last tensor is `tensor`; None if it is none."""
    chain = _chain(low, tensor)
    if chain is None:
        return None
    source, operators = chain
    if low.rank(source) == 0:
        return None
    line = np.arange(-128, 128, dtype=np.int8).reshape(256, *(1,) * (low.rank(source) - 1))
    known = {source: Tensor(source, line.shape, DType.INT8, line)}
    for op in operators:
        operands = [known.get(name) or low.graph.tensors[name] for name in op.inputs]
        made = low.graph.tensors[op.outputs[0]]
        if op.op == "CAST" and operands[0].dtype is DType.BOOL:
            return None
        folded = fold(op.op, operands, op.attributes, made.dtype)
        if folded is None:
            return None
        data, dtype = folded
        held = nearest(data, dtype) if dtype.is_float else data.astype(dtype.numpy)
        known[op.outputs[0]] = Tensor(made.name, held.shape, dtype, held)
    results = known[tensor].data
    if results is None or results.size != line.size or not np.isfinite(results).all():
        return None
    return Island(source, results.reshape(-1))


def _chain(low: Lowering, tensor: str) -> tuple[str, list[Operator]] | None:
    """The int8 tensor that `tensor` is a function of, and the operators between in order."""
    producers = {op.outputs[0]: op for op in low.graph.operators[-4 * _LONGEST :]}
    sources: set[str] = set()
    wanted, needed = [tensor], set[str]()
    while wanted and len(needed) <= _LONGEST:
        name = wanted.pop()
        constant = low.data(name)
        if constant is not None:
            if constant.size != 1:
                return None
        elif low.dtype(name) is DType.INT8:
            sources.add(name)
        elif name not in producers or producers[name].op not in _ELEMENTWISE:
            return None
        elif name not in needed:
            needed.add(name)
            wanted.extend(producers[name].inputs)
    if wanted or len(sources) != 1 or not needed:
        return None
    (source,) = sources
    if low.shape(source) != low.shape(tensor):
        return None
    return source, [op for op in low.graph.operators[-4 * _LONGEST :] if op.outputs[0] in needed]
