"""Reductions whose rows behind the reduced axis do not fit the activation memory, as reductions of pieces of them.

A tensor is [outer, axis, inner] to a reduction. The machine reduces it stretch by stretch along outer and axis
(`tile/reduction.py`), so only `inner` is cut here. The pieces' results are joined.
"""

import math

from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import ELEMENT
from tosaic.compiler.machine_numbers import REDUCED_INNER_AM_PART
from tosaic.hw.config import Config
from tosaic.hw.isa import Element

_ELEMENT_BYTES = Element.INT32.bytes
"""Bytes of an element that is reduced or of a result, which may be cast to int32 on the way."""


def split_reduction(new: Rewriting, config: Config) -> bool:
    """Rewrites a REDUCE_* or ARGMAX that does not fit."""
    graph, operator = new.graph, new.operator
    source, target = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    if source.dtype not in ELEMENT or target.dtype not in ELEMENT:
        return False
    axis = operator.attributes["axis"]
    outer, extent = math.prod(source.shape[:axis]), source.shape[axis]
    inner = math.prod(source.shape[axis + 1 :])
    if extent == 1 and operator.op != "ARGMAX":
        # It only renames its operand, and what is folded next takes it out.
        return False
    limit = max(1, config.am_bytes // REDUCED_INNER_AM_PART // _ELEMENT_BYTES)
    if inner <= limit or math.prod(source.shape) <= 2 * limit:
        return False
    # An element of the axis, a result and a partial result fit at once even if the next reduction stays apart.
    if inner <= 2 * limit and _inner_of_layer(new) <= limit:
        return False
    data = new.reshape(operator.inputs[0], (outer, extent, inner))
    parts = []
    for first in range(0, inner, limit):
        count = min(limit, inner - first)
        piece = new.slice(data, (0, 0, first), (outer, extent, count))
        shape = (outer, count) if operator.op == "ARGMAX" else (outer, 1, count)
        part = new.add(operator.op, [piece], shape, target.dtype, **{**operator.attributes, "axis": 1})
        parts.append(new.reshape(part, (outer, count)))
    whole = new.add("CONCAT", parts, (outer, inner), target.dtype, axis=1)
    new.reshape(whole, target.shape, target.name)
    return True


def _inner_of_layer(new: Rewriting) -> int:
    """Elements behind the axes that the layer reduces: a reduction of the next axis joins it."""
    graph, operator = new.graph, new.operator
    rest = graph.tensors[operator.inputs[0]].shape[operator.attributes["axis"] + 1 :]
    while rest:
        readers = graph.consumers(operator.outputs[0])
        if [reader.op for reader in readers] != [operator.op] or operator.outputs[0] in graph.outputs:
            break
        if readers[0].attributes["axis"] != operator.attributes["axis"] + 1:
            break
        operator, rest = readers[0], rest[1:]
    return math.prod(rest)
