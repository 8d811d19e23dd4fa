"""Tables of what TFLite's integer kernels give: for 256 values of one tensor, or for the pairs of two."""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers.tflite import wide_curves
from tosaic.compiler.importers.tflite.multipliers import round_half_away
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.values import RANGES, TfliteValue
from tosaic.compiler.ir import DType

_VALUES = 256
_BEYOND = np.float32(1 << 30)
"""Steps that are far outside of every grid."""


def table(node: TfliteNode, results: np.ndarray, x: str = "") -> str:
    """A TABLE of 256 results (without the zero point, not saturated) for the 256 values of `x`, which is input 0."""
    low = node.low
    return low.op("TABLE", x or node.x(), low.constant(_held(node, results), DType.INT8))


def _held(node: TfliteNode, results: np.ndarray) -> np.ndarray:
    """Results with the zero point, saturated."""
    result = node.result()
    return np.clip(results + result.zero_point, *RANGES[result.kind])


def centred(value: TfliteValue) -> np.ndarray:
    """q - zero point for all values of q, from the lowest on."""
    least, most = RANGES[value.kind]
    return np.arange(least, most + 1) - value.zero_point


def single(values: np.ndarray) -> np.ndarray:
    """Values as float32."""
    return values.astype(np.float32)


def real_table(node: TfliteNode, function: Callable[[np.ndarray], np.ndarray]) -> str:
    """TFLite's LUTPopulate: a function of reals, at 256 values (int8) or at 513 with lines between them (int16)."""
    value, result = node.value(), node.result()
    if value.kind == "INT16":
        entries = wide_curves.populated(function, float(value.scale), float(result.scale))
        return wide_curves.lines(node, entries)
    reals = value.scale * single(centred(value))
    with np.errstate(over="ignore"):
        scaled = single(function(reals.astype(np.float64))) * (np.float32(1) / result.scale)
    return table(node, round_half_away(np.clip(scaled, -_BEYOND, _BEYOND)).astype(np.int64))


def looked_up(node: TfliteNode, results: np.ndarray, value: TfliteValue | None = None) -> str:
    """`results` (without the zero point, not saturated) for all integers of `value`, which is input 0."""
    x, dtype = (value or node.value()).tensor, node.result_type()
    if dtype is DType.INT8 and len(results) == _VALUES:
        return table(node, results, x)
    if dtype is DType.INT16 and len(results) > _VALUES:
        return wide_curves.looked_up(node, _held(node, results), x)
    return wide_curves.gathered(node, _held(node, results), x, dtype)


def of_pairs(node: TfliteNode, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> str:
    """A function of (q - zero point) of two tensors of 8 bits, as `table` has it: a GATHER of 65,536 results.

    It is a TABLE where one of the tensors is a known number.
    """
    low, values = node.low, [node.value(0), node.value(1)]
    known = [low.data(value.tensor) for value in values]
    for number, other in ((0, 1), (1, 0)):
        data = known[other]
        if data is not None and data.size == 1 and len(data.shape) <= low.rank(values[number].tensor):
            operands = [centred(value) for value in values]
            operands[other] = np.array(int(data.item()) - values[other].zero_point)
            return table(node, function(*np.broadcast_arrays(*operands)), values[number].tensor)
    results = _held(node, function(*np.meshgrid(*map(centred, values), indexing="ij"))).reshape(-1)
    a, b = low.aligned(*(low.cast(value.tensor, DType.INT32) for value in values))
    return wide_curves.gathered(
        node, results, low.plus(low.add(low.times(a, _VALUES), b), _VALUES // 2), DType.INT8
    )
