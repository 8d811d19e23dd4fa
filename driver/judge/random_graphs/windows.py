"""Random convolutions, pools, matrix products and RESIZE for random graphs."""

import math
from typing import Any

from tosaic.compiler.ir import DType

from .elementwise import rescale_to, zero_point
from .graph import Bounds, RandomGraph

_KERNELS = (1, 1, 2, 3, 3, 4, 5)


def axis_of(g: RandomGraph, size: int, kernel: int) -> tuple[int, int, int, int]:
    """(pad before, pad after, stride, dilation) with an exact output size of one at least."""
    stride, dilation = (g.draw(1, 3) if g.chance(40) else 1), (g.draw(1, 3) if g.chance(25) else 1)
    extent = (kernel - 1) * dilation
    before, after = g.draw(0, min(extent, 3)), g.draw(0, min(extent, 3))
    after += max(0, extent + 1 - size - before - after)
    after += -(size - 1 + before + after - extent) % stride
    return before, after, stride, dilation


def convolution(op: str, spatial: int):
    depthwise = op == "DEPTHWISE_CONV2D"

    def grow(g: RandomGraph) -> None:
        # A CONV3D can become a CONV2D for each image and plane.
        few = (lambda shape: shape[0] * shape[1] <= 48) if spatial == 3 else (lambda shape: True)
        x = g.operand([DType.INT8, DType.INT8, DType.INT16], (spatial + 2, spatial + 2), few)
        kernel = [g.pick(_KERNELS[: 5 if spatial == 3 else 7]) for _ in range(spatial)]
        axes = [axis_of(g, size, k) for size, k in zip(g.extent(x)[1:-1], kernel, strict=True)]
        channels, last = g.extent(x)[-1], g.draw(1, 3) if depthwise else g.pick((1, 2, 4, 7, 16, 19, 35))
        weight = (*kernel, channels, last) if depthwise else (last, *kernel, channels)
        operands, out = weights_and_bias(
            g, x, weight, channels * last if depthwise else last, 1 if depthwise else channels
        )
        y = g.add(
            op,
            [x, *operands],
            pad=[pad for axis in axes for pad in axis[:2]],
            stride=[axis[2] for axis in axes],
            dilation=[axis[3] for axis in axes],
            local_bound=False,
            acc_type=out,
        )
        finish(g, y, math.prod(kernel) * (1 if depthwise else channels))

    return grow


def weights_and_bias(
    g: RandomGraph, x: str, weight: tuple[int, ...], channels: int, depth: int
) -> tuple[list[str], DType]:
    """Weight, bias and zero points of a convolution of x, and its accumulators' type."""
    short = g.dtype(x) is DType.INT8
    out = DType.INT32 if short else DType.INT48
    weight_type = DType.INT4 if short and g.chance(15) else DType.INT8
    bias_bounds: Bounds = (-(1 << 20), 1 << 20)
    bias_shape = (1,) if g.chance(25) else (channels,)
    if weight_type is DType.INT8 and g.chance(20):
        weights = g.input(f"input_{len(g.graph.inputs)}", weight, DType.INT8)
        g.bounds[weights] = (-128, 127)
    else:
        weights = g.fixed(weight, weight_type)
    if out is DType.INT32 and g.chance(15):
        bias = g.input(f"input_{len(g.graph.inputs)}", bias_shape, out)
        g.bounds[bias] = bias_bounds
    else:
        bias = g.fixed(bias_shape, out, bias_bounds)
    points = [zero_point(g, g.dtype(x)), zero_point(g, weight_type)]
    return [weights, bias, *points], out


def finish(g: RandomGraph, y: str, depth: int) -> None:
    """The accumulators, usually rescaled at once as quantized networks do."""
    source = 255 if g.dtype(y) is DType.INT32 else 1 << 15
    most = min(depth * source * 255 + (1 << 20), g.dtype(y).max)
    g.put(y, (-most, most))
    if g.chance(70):
        rescale_to(g, y, g.pick((DType.INT8, DType.INT8, DType.INT16, DType.INT32)))


def transpose_conv2d(g: RandomGraph) -> None:
    x = g.operand(
        [DType.INT8, DType.INT8, DType.INT16], ranks=(4, 4), fits=lambda shape: max(shape[1:3]) <= 20
    )
    kernel, stride = [g.pick(_KERNELS) for _ in range(2)], [g.draw(1, 3) for _ in range(2)]
    out_pad = []
    for size, k, s in zip(g.extent(x)[1:3], kernel, stride, strict=True):
        before = g.draw(1 - k, 3) if g.chance(50) else 0
        lowest = max(1 - k, 1 - ((size - 1) * s + before + k))
        out_pad += [before, g.draw(lowest, lowest + 4) if g.chance(50) else max(0, lowest)]
    channels, last = g.extent(x)[-1], g.pick((1, 2, 5, 17))
    operands, out = weights_and_bias(g, x, (last, *kernel, channels), last, channels)
    y = g.add(
        "TRANSPOSE_CONV2D", [x, *operands], out_pad=out_pad, stride=stride, local_bound=False, acc_type=out
    )
    finish(g, y, math.prod(kernel) * channels)


def pool(op: str):
    def grow(g: RandomGraph) -> None:
        x = g.operand([DType.INT8, DType.INT16], ranks=(4, 4))
        kernel, stride, pad = [], [], []
        for size in g.extent(x)[1:3]:
            k, s, before, after = g.draw(1, min(size, 5)), g.draw(1, 3), 0, 0
            if k > 1 and g.chance(50):
                before, after = g.draw(0, k - 1), g.draw(0, k - 1)
            # The output size must be exact, and no window may lie in the padding alone.
            if (size + before + after - k) % s or (size + before + after - k) // s * s >= before + size:
                before, after, s = 0, 0, 1
            kernel.append(k)
            stride.append(s)
            pad += [before, after]
        window: dict[str, Any] = {"kernel": kernel, "stride": stride, "pad": pad}
        if op == "AVG_POOL2D":
            points = [zero_point(g, g.dtype(x)), zero_point(g, g.dtype(x))]
            g.put(g.add(op, [x, *points], acc_type=DType.INT32, **window))
        else:
            g.put(g.add(op, [x], nan_mode="PROPAGATE", **window))

    return grow


def matmul(g: RandomGraph) -> None:
    # Every matrix is a pass of its own, of an int16 product four.
    a = g.operand([DType.INT8, DType.INT8, DType.INT16], (3, 3), lambda shape: shape[0] <= 12)
    n, _, depth = g.extent(a)
    dtype = g.dtype(a)
    known = [name for name in g.live if g.dtype(name) is dtype and len(g.extent(name)) == 3]
    known = [name for name in known if g.extent(name)[:2] == (n, depth)]
    b = g.pick(known) if known and g.chance(70) else g.source((n, depth, g.pick((1, 2, 5, 16, 18))), dtype)
    y = g.add("MATMUL", [a, b, zero_point(g, dtype), zero_point(g, dtype)])
    most = min(depth * (255**2 if dtype is DType.INT8 else 1 << 30), g.dtype(y).max)
    g.put(y, (-most, most))
    if g.chance(60):
        rescale_to(g, y, g.pick((DType.INT8, DType.INT16, DType.INT32)))


def resize(g: RandomGraph) -> None:
    x = g.operand([DType.INT8, DType.INT16], ranks=(4, 4), fits=lambda shape: math.prod(shape) <= 1500)
    y_axis, x_axis = (_resized(g, size) for size in g.extent(x)[1:3])
    mode = g.pick(("BILINEAR", "NEAREST"))
    wide = DType.INT32 if g.dtype(x) is DType.INT8 else DType.INT48
    operands = [g.shape([*y_axis[:2], *x_axis[:2]]), g.shape([y_axis[2], x_axis[2]])]
    operands.append(g.shape([y_axis[3], x_axis[3]]))
    y = g.add("RESIZE", [x, *operands], mode=mode, dtype=wide if mode == "BILINEAR" else g.dtype(x))
    if mode == "NEAREST":
        g.put(y, g.bounds[x])
        return
    most = (1 << (g.dtype(x).bits - 1)) * y_axis[0] * x_axis[0]
    g.put(y, (-most, most))
    if g.chance(50):
        rescale_to(g, y, g.dtype(x))


def _resized(g: RandomGraph, size: int) -> tuple[int, int, int, int]:
    """(n, d, offset, border): positions from -n/2 at most to less than a pixel beyond the last one."""
    n = g.pick((1, 2, 2, 4, 4, 8, 3, 7, 16))
    d = g.draw(1, min(16 * n - 1, 3 * n))
    offset = g.draw(-(n // 2), n - 1) if size > 1 else g.draw(-(n // 2), 0)
    most = min((size * n - 1 - offset) // d, ((size - 1) * n - offset + n - 1) // d, 24)
    fewest = max(0, -(-((size - 1) * n - offset - 16 * n) // d))
    if fewest > most:
        return 1, 1, 0, 0
    steps = most if g.chance(60) else g.draw(fewest, most)
    return n, d, offset, steps * d - ((size - 1) * n - offset)


GROWTHS = {
    "AVG_POOL2D": pool("AVG_POOL2D"),
    "CONV2D": convolution("CONV2D", 2),
    "CONV3D": convolution("CONV3D", 3),
    "DEPTHWISE_CONV2D": convolution("DEPTHWISE_CONV2D", 2),
    "MATMUL": matmul,
    "MAX_POOL2D": pool("MAX_POOL2D"),
    "RESIZE": resize,
    "TRANSPOSE_CONV2D": transpose_conv2d,
}
