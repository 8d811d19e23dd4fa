"""Float operators between DEQUANTIZE and QUANTIZE: a function of the values of one quantized tensor, and so a table.

Quantizers leave single operators in floats. Where all of them are elementwise and their only input is one tensor of 8
or 16 bits, the whole island is tabulated, by TFLite's own float32 arithmetic, and the model runs in integers.
"""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.tflite import float32
from tosaic.compiler.importers.tflite.float_kernels import Kernel, cast_to, kernel_of
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.tables import centred, single
from tosaic.compiler.importers.tflite.values import RANGES, TfliteValue

_LONGEST = 64
"""Operators of an island that are followed back."""


@dataclass(frozen=True)
class Island:
    """The quantized tensor that a function starts at, and the results for all its values, in steps of the grid."""

    source: TfliteValue
    results: np.ndarray


def island_of(node: TfliteNode) -> Island | None:
    """The island that a QUANTIZE ends; None if there is none. Results are without the zero point, not saturated."""
    low, tensor = node.low, node.x()
    operators = _operators(node, tensor)
    sources = {each.value().tensor: each.value() for each in operators if each.kind == "DEQUANTIZE"}
    if len(sources) != 1:
        return None
    (source,) = sources.values()
    if low.rank(source.tensor) == 0 or low.shape(source.tensor) != low.shape(tensor):
        return None
    known: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for each in reversed(operators):
            made = each.made[0]
            if each.kind == "DEQUANTIZE":
                known[made] = source.scale * single(centred(source))
                continue
            kernel = _kernel(each)
            operands = [
                _constant(each, i) if v.tensor not in known else known[v.tensor] for i, v in _inputs(each)
            ]
            if kernel is None or any(operand is None for operand in operands):
                return None
            known[made] = kernel(*operands)
        steps = known[tensor] / node.result().scale
    return Island(source, float32.to_int32(steps)) if steps.shape == centred(source).shape else None


def _operators(node: TfliteNode, tensor: str) -> list[TfliteNode]:
    """The operators that `tensor` is computed by, each before those that it reads; empty if they are no island."""
    found: list[TfliteNode] = []
    wanted = [tensor]
    while wanted:
        each = node.origins.get(wanted.pop())
        if each is None or len(found) > _LONGEST:
            return []
        if each in found:
            found.remove(each)
        found.append(each)
        if each.kind == "DEQUANTIZE":
            value = each.value()
            if value.kind not in RANGES or not value.is_quantized or value.scales_count > 1:
                return []
            continue
        wanted += [v.tensor for i, v in _inputs(each) if _constant(each, i) is None]
    return found


def _inputs(node: TfliteNode) -> list[tuple[int, TfliteValue]]:
    return [(index, value) for index, value in enumerate(node.inputs) if value is not None]


def _constant(node: TfliteNode, index: int) -> np.ndarray | None:
    """An input that is one known number; None otherwise."""
    value = node.value(index)
    data = node.low.data(value.tensor)
    if data is None or data.size != 1 or value.is_quantized:
        return None
    return data.reshape(())[()]


def _kernel(node: TfliteNode) -> Kernel | None:
    if node.kind == "CAST":
        return cast_to(node.outputs[0].kind)
    return kernel_of(node.kind, node.operator.options)
