"""Random chains of layers with windows on images of many rows: on a machine of little memory they run as cascades."""

import math

from tosaic.compiler.ir import DType
from tosaic.driver.judge.random_graphs import Draw, RandomGraph
from tosaic.driver.judge.random_graphs.elementwise import rescale_to, zero_point
from tosaic.driver.judge.random_graphs.windows import axis_of, weights_and_bias

SMALL_NANO = "nano,am_bytes=4096"
"""A configuration that most of the chains do not fit."""
_MOST_PRODUCTS = 2_000_000
"""Largest number of multiplications of a layer, so that it stays fast."""


def random_chain(draw: Draw) -> RandomGraph:
    """A legal graph of 2 to 5 convolutions and pools, some of them with an operator on both their result and another
    tensor. Mostly each reads the one before it; sometimes somebody else does, too."""
    g = RandomGraph(draw, "chain")
    x = g.put(g.input("image", (1, draw(12, 40), draw(3, 10), g.pick((3, 4, 8, 11, 16))), DType.INT8))
    for _ in range(draw(2, 5)):
        if g.extent(x)[1] < 4:
            break
        x = _layer(g, x)
        if g.chance(25):
            x = _combined(g, x)
    g.close()
    g.finish()
    return g


def _layer(g: RandomGraph, x: str) -> str:
    kind = g.pick(("CONV2D", "CONV2D", "DEPTHWISE_CONV2D", "DEPTHWISE_CONV2D", "MAX_POOL2D", "AVG_POOL2D"))
    if kind in ("CONV2D", "DEPTHWISE_CONV2D"):
        return _convolution(g, x, depthwise=kind == "DEPTHWISE_CONV2D")
    kernel = [min(size, g.draw(1, 3)) for size in g.extent(x)[1:3]]
    # Windows of stride 1, with the padding that keeps the size if the kernel is odd.
    pad = [side for size in kernel for side in ((size - 1) // 2,) * 2]
    window = {"kernel": kernel, "stride": [1, 1], "pad": pad}
    if kind == "MAX_POOL2D":
        return g.put(g.add(kind, [x], nan_mode="PROPAGATE", **window))
    points = [zero_point(g, DType.INT8), zero_point(g, DType.INT8)]
    return g.put(g.add(kind, [x, *points], acc_type=DType.INT32, **window))


def _convolution(g: RandomGraph, x: str, *, depthwise: bool) -> str:
    _, height, width, channels = g.extent(x)
    kernel = [g.pick((1, 1, 3) if not depthwise else (2, 3, 3, 5)) for _ in range(2)]
    axes = [axis_of(g, size, k) for size, k in zip((height, width), kernel, strict=True)]
    last = 1 if depthwise else g.pick((4, 8, 13, 24, 40))
    if not depthwise and math.prod((height, width, channels, last, *kernel)) > _MOST_PRODUCTS:
        last = 4
    weight = (*kernel, channels, last) if depthwise else (last, *kernel, channels)
    depth = math.prod(kernel) * (1 if depthwise else channels)
    operands, out = weights_and_bias(g, x, weight, channels if depthwise else last, depth)
    y = g.add(
        "DEPTHWISE_CONV2D" if depthwise else "CONV2D",
        [x, *operands],
        pad=[side for axis in axes for side in axis[:2]],
        stride=[axis[2] for axis in axes],
        dilation=[axis[3] for axis in axes],
        local_bound=False,
        acc_type=out,
    )
    most = depth * 255 * 255 + (1 << 20)
    return rescale_to(g, g.put(y, (-most, most)), DType.INT8)


def _combined(g: RandomGraph, x: str) -> str:
    """A tensor of the same type and at least as many elements: x and another one, a constant, an input or a result."""
    if g.chance(30):
        return g.put(g.add("TABLE", [x, g.fixed((256,), DType.INT8)]))
    return g.put(g.add(g.pick(("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")), [x, g.partner(x)]))
