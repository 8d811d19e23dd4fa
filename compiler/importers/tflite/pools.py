"""Lowers pooling."""

from tosaic.compiler.importers.lowering.pooling import average_pool, max_pool
from tosaic.compiler.importers.lowering.windows import fit, flat_pads
from tosaic.compiler.importers.tflite.arithmetic import activated
from tosaic.compiler.importers.tflite.convolutions import windows_of
from tosaic.compiler.importers.tflite.multipliers import fused
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.values import OFFSET
from tosaic.compiler.ir import DType


@handles("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(node: TfliteNode) -> str:
    """Pools [N, H, W, C]; padding takes no part."""
    low, x = node.low, node.x()
    kernel = (node.option("FilterHeight", 1), node.option("FilterWidth", 1))
    windows = windows_of(node, node.shape()[1:-1], kernel)
    if node.kind == "MAX_POOL_2D":
        y = max_pool(low, x, windows)
        return fused(node, y) if node.is_quantized else activated(node, y)
    if node.is_float:
        return activated(node, average_pool(low, x, windows))
    x, windows = fit(low, x, windows)
    # The mean of the stored integers; halves go away from zero, which for unsigned ones is the lowest.
    zero = low.zero_point(x, -OFFSET.get(node.value().kind, 0))
    y = low.op(
        "AVG_POOL2D",
        x,
        zero,
        zero,
        kernel=[w.kernel for w in windows],
        stride=[w.stride for w in windows],
        pad=flat_pads(windows),
        acc_type=DType.INT32,
    )
    return fused(node, y) if node.is_quantized else activated(node, y)


@handles("L2_POOL_2D")
def l2_pool(node: TfliteNode) -> str:
    """The root of the mean of squares."""
    low, x = node.low, node.x()
    kernel = (node.option("FilterHeight", 1), node.option("FilterWidth", 1))
    windows = windows_of(node, node.shape()[1:-1], kernel)
    return activated(node, low.sqrt(average_pool(low, low.mul(x, x), windows)))
