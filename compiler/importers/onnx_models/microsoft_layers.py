"""Normalizations, activations and products of ONNX Runtime's own domain, as its optimizer writes them."""

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, activations, statistics
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.onnx_models.attention import rows
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.reductions import layer_normalization
from tosaic.compiler.importers.onnx_models.registry import HANDLERS, handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.compiler.ir import DType

_EPSILON = 1e-12
"""Epsilon of the normalizations that follow a sum; others have ONNX's."""

HANDLERS["com.microsoft.LayerNormalization"] = layer_normalization


@handles("com.microsoft.SkipLayerNormalization")
def skip_layer_normalization(node: OnnxNode) -> list[OnnxValue]:
    """Layer normalization of the sum of two tensors and a bias; the sum is an output too."""
    total = _sum(node, 4)
    y, mean, inverse = _normalized(node, total, 2, 3)
    return [node.out(y), node.out(mean, "float32"), node.out(inverse, "float32"), node.out(total)]


@handles("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(node: OnnxNode) -> list[OnnxValue]:
    """The same by the root of the mean square, without an offset."""
    total = _sum(node, 3)
    y, inverse = _by_mean_square(node, total, node.low.rank(total) - 1, _EPSILON, 2)
    return [node.out(y), inverse, inverse, node.out(total)]


@handles("com.microsoft.SimplifiedLayerNormalization")
def simplified_layer_normalization(node: OnnxNode) -> list[OnnxValue]:
    """Divides by the root of the mean square over all axes from `axis` on."""
    y, inverse = _by_mean_square(node, node.wide(), node.axis(-1), 1e-5, 1)
    return [node.out(y), inverse]


def _by_mean_square(node: OnnxNode, x: str, axis: int, epsilon: float, scale: int) -> tuple[str, OnnxValue]:
    low = node.low
    wide = low.cast(x, DType.FP32)
    square = low.mean(low.mul(wide, wide), range(axis, low.rank(x)))
    inverse = low.op("RSQRT", low.plus(square, node.attr("epsilon", epsilon)))
    y = low.mul(low.cast(low.mul(wide, inverse), low.dtype(x)), node.wide(scale))
    return y, node.out(inverse, "float32")


def _sum(node: OnnxNode, bias: int) -> str:
    low = node.low
    total = low.add(node.wide(0), node.wide(1))
    if low.shape(total) != node.shape(0):
        raise ValueError(f"skip {list(node.shape(1))} beside input {list(node.shape(0))}")
    return low.add(total, node.wide(bias)) if node.has(bias) else total


def _normalized(node: OnnxNode, x: str, scale: int, offset: int) -> tuple[str, str, str]:
    low = node.low
    wide = low.cast(x, DType.FP32)
    y, mean, inverse = statistics.standardize(low, wide, [low.rank(x) - 1], node.attr("epsilon", _EPSILON))
    y = low.mul(low.cast(y, low.dtype(x)), node.wide(scale))
    return low.add(y, node.wide(offset)) if node.has(offset) else y, mean, inverse


@handles("com.microsoft.EmbedLayerNormalization")
def embed_layer_normalization(node: OnnxNode) -> list[OnnxValue]:
    """Rows of tables for words, positions and segments; their sum, normalized, and how many words count."""
    low, kind = node.low, node.kind(2)
    batch, length = node.shape(0)
    total = _row(node, 2, node.wide(0))
    if node.has(8):
        total = low.add(total, _row(node, 3, node.wide(8)))
    else:
        total = low.add(total, _row(node, 3, low.constant(np.arange(length).reshape(1, length), DType.INT32)))
    if node.has(1) and node.has(4):
        total = low.add(total, _row(node, 4, node.wide(1)))
    y, _, _ = _normalized(node, total, 5, 6)
    if node.has(7):
        count = low.reduce("SUM", node.wide(7), [1], keep=False)
    else:
        count = low.constant(np.zeros(batch), DType.INT32)
    return [node.out(y, kind), node.out(count, "int32"), node.out(total, kind)]


def _row(node: OnnxNode, table: int, indices: str) -> str:
    return rows(node.low, node.raw(table), indices)


# --- activations --------------------------------------------------------------------------------------------------


@handles("com.microsoft.Gelu", "com.microsoft.BiasGelu", "com.microsoft.FastGelu")
def gelu(node: OnnxNode) -> OnnxValue:
    """Lowers GELU of the sum with a bias, if there is one; FastGelu uses TANH."""
    low, x = node.low, node.wide()
    if node.has(1):
        x = low.add(x, node.wide(1))
    return node.out(activations.gelu(low, x, tanh=node.op == "FastGelu"))


@handles("com.microsoft.QuickGelu")
def quick_gelu(node: OnnxNode) -> OnnxValue:
    """Returns x * sigmoid(alpha * x)."""
    low, x = node.low, node.wide()
    return node.out(low.mul(x, low.op("SIGMOID", low.times(x, node.attr("alpha", 1.702)))))


# --- products -----------------------------------------------------------------------------------------------------


@handles("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_matmul(node: OnnxNode) -> OnnxValue:
    """Returns alpha * A' B'."""
    low = node.low
    a, b = (
        _turned(low, node.raw(i), bool(node.attr(f"trans{side}", 0)), bool(node.attr(f"transBatch{side}", 0)))
        for i, side in enumerate("AB")
    )
    return node.out(low.times(matmul(low, a, b), node.attr("alpha", 1.0)))


def _turned(low: Lowering, x: str, turn: bool, rows_first: bool) -> str:
    """`rows_first`: the rows' axis lies before the batch. `turn`: rows and columns are exchanged."""
    rank = low.rank(x)
    order = list(range(rank))
    if rows_first:
        if rank < 3:
            raise ValueError(f"a batch in rank {rank}")
        order = [*order[1:-1], 0, rank - 1]
    if turn and rank > 1:
        order[-2:] = order[:-3:-1]
    return low.transpose(x, order)
