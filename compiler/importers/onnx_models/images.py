"""Convolution and pooling: channels-first images to TOSA's channels-last ones and back."""

from collections.abc import Sequence

from tosaic.compiler.importers.lowering import Lowering, blocks, statistics
from tosaic.compiler.importers.lowering.convolution import convolve, transpose_convolve
from tosaic.compiler.importers.lowering.layout import channels_first, channels_last
from tosaic.compiler.importers.lowering.pooling import average_pool, max_pool, sum_pool
from tosaic.compiler.importers.lowering.statistics import batch_normalize
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue


def node_windows(node: OnnxNode, sizes: Sequence[int], kernel: Sequence[int]) -> list[AxisWindow]:
    """The windows that a node's attributes describe, padding included. `pads` are all begins, then all ends."""
    rank = len(sizes)
    strides = node.attr("strides") or [1] * rank
    dilations = node.attr("dilations") or [1] * rank
    pads = node.attr("pads") or [0] * (2 * rank)
    mode = node.attr("auto_pad", "NOTSET")
    windows = []
    for i, size in enumerate(sizes):
        window = AxisWindow(int(kernel[i]), int(strides[i]), int(dilations[i]))
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            window = window.same(size, mode == "SAME_UPPER")
        elif mode == "NOTSET":
            window = AxisWindow(
                window.kernel, window.stride, window.dilation, int(pads[i]), int(pads[rank + i])
            )
        windows.append(window)
    return windows


def check_fits(
    node: OnnxNode, sizes: Sequence[int], windows: Sequence[AxisWindow], ceil: bool = False
) -> None:
    """Raises UnsupportedError where a window does not fit its image: the result would be empty."""
    if any(w.outputs(size, ceil) < 1 for w, size in zip(windows, sizes, strict=True)):
        node.unsupported(
            f"the kernel {[w.kernel for w in windows]} is larger than the padded image {list(sizes)}",
            "use a larger image or more padding",
        )


@handles("Conv")
def conv(node: OnnxNode) -> OnnxValue:
    """Weights [O, C/groups, kernel...]."""
    low, sizes = node.low, node.shape()[2:]
    if not sizes or len(sizes) > 3:
        node.unsupported(f"{len(sizes)} spatial axes", "TOSA has convolutions of 1 to 3")
    windows = node_windows(node, sizes, node.shape(1)[2:])
    check_fits(node, sizes, windows)
    bias = node.raw(2) if node.has(2) else None
    image, weight = channels_last(low, node.raw(0)), channels_last(low, node.raw(1))
    return node.out(channels_first(low, convolve(low, image, weight, bias, windows, node.attr("group", 1))))


@handles("ConvTranspose")
def conv_transpose(node: OnnxNode) -> OnnxValue:
    """Weights [C, O/groups, kernel...]."""
    low, sizes, kernel = node.low, node.shape()[2:], node.shape(1)[2:]
    rank = len(sizes)
    if not sizes or rank > 3:
        node.unsupported(f"{rank} spatial axes", "TOSA has convolutions of 1 to 3")
    strides = node.attr("strides") or [1] * rank
    dilations = node.attr("dilations") or [1] * rank
    extra = node.attr("output_padding") or [0] * rank
    pads = node.attr("pads") or [0] * (2 * rank)
    mode, wanted = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    windows = []
    for i, size in enumerate(sizes):
        window = AxisWindow(int(kernel[i]), int(strides[i]), int(dilations[i]))
        full = (size - 1) * window.stride + window.extent + extra[i]
        if wanted or mode.startswith("SAME"):
            target = wanted[len(wanted) - rank + i] if wanted else size * window.stride
            total = full - target
            # A result that is larger than the windows reach gets its zeros at the end.
            small = max(total, 0) // 2
            before = small if mode == "SAME_UPPER" else max(total, 0) - small
            after = total - before
        elif mode == "VALID":
            before = after = 0
        else:
            before, after = pads[i], pads[rank + i]
        windows.append(AxisWindow(window.kernel, window.stride, window.dilation, before, after - extra[i]))
    image = channels_last(low, node.raw(0))
    weight = low.transpose(node.raw(1), [1, *range(2, rank + 2), 0])
    bias = node.raw(2) if node.has(2) else None
    return node.out(
        channels_first(low, transpose_convolve(low, image, weight, bias, windows, node.attr("group", 1)))
    )


@handles("MaxPool", "AveragePool", "LpPool")
def pool(node: OnnxNode) -> OnnxValue | list[OnnxValue]:
    """Pools of one to three axes; rounding up and dilation included."""
    low, sizes = node.low, node.shape()[2:]
    if node.op == "MaxPool" and node.wants(1):
        node.unsupported("its output Indices is used", "TOSA's pools give no indices: drop the output")
    if not sizes or len(sizes) > 3:
        node.unsupported(f"{len(sizes)} spatial axes", "TOSA has pools of 1 to 3")
    ceil = bool(node.attr("ceil_mode", 0)) and node.attr("auto_pad", "NOTSET") == "NOTSET"
    windows = node_windows(node, sizes, node.attr("kernel_shape"))
    check_fits(node, sizes, windows, ceil)
    x = channels_last(low, node.raw())
    if node.op == "MaxPool":
        return node.out_raw(channels_first(low, max_pool(low, x, windows, ceil)))
    if node.op == "AveragePool":
        padded = bool(node.attr("count_include_pad", 0))
        return node.out(channels_first(low, average_pool(low, x, windows, ceil, padded)))
    norm = int(node.attr("p", 2))
    return node.out(
        channels_first(low, _root(low, sum_pool(low, _powers(low, x, norm), windows, ceil), norm))
    )


def _powers(low: Lowering, x: str, norm: int) -> str:
    if norm == 2:
        return low.mul(x, x)
    size = low.op("ABS", x)
    return size if norm == 1 else low.binary("POW", size, low.scalar(norm, size))


def _root(low: Lowering, x: str, norm: int) -> str:
    if norm == 2:
        return low.sqrt(x)
    return x if norm == 1 else low.binary("POW", x, low.scalar(1 / norm, x))


@handles("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(node: OnnxNode) -> OnnxValue:
    """A reduction over every spatial axis."""
    low, x = node.low, channels_last(node.low, node.raw())
    axes = range(1, low.rank(x) - 1)
    if node.op == "GlobalMaxPool":
        return node.out_raw(channels_first(low, low.reduce("MAX", x, axes)))
    if node.op == "GlobalAveragePool":
        return node.out(channels_first(low, low.mean(x, axes)))
    norm = int(node.attr("p", 2))
    sums = low.reduce("SUM", _powers(low, x, norm), axes)
    return node.out(channels_first(low, _root(low, sums, norm)))


@handles("BatchNormalization")
def batch_normalization(node: OnnxNode) -> OnnxValue:
    """A factor and a summand per channel; they are constants when the statistics are."""
    low = node.low
    if node.attr("training_mode", 0) or node.wants(1):
        node.unsupported("training mode", "export the model for inference")
    x, rank = node.raw(), len(node.shape())
    scale, offset, mean, variance = (
        low.cast(low.reshape(node.raw(i), (node.shape(i)[0], *(1,) * (rank - 2))), low.dtype(x))
        for i in range(1, 5)
    )
    epsilon = node.attr("epsilon", 1e-5)
    return node.out(batch_normalize(low, x, mean, variance, offset, scale, epsilon))


@handles("LRN")
def lrn(node: OnnxNode) -> OnnxValue:
    """x / (bias + alpha / size * sum of squares of neighbouring channels)^beta."""
    low, size = node.low, int(node.attr("size"))
    image = channels_last(low, node.raw())
    response = statistics.local_response(
        low,
        image,
        size,
        node.attr("alpha", 1e-4) / size,
        node.attr("beta", 0.75),
        node.attr("bias", 1.0),
    )
    return node.out(channels_first(low, response))


@handles("DepthToSpace")
def depth_to_space(node: OnnxNode) -> OnnxValue:
    """Channels become blocks of pixels; DCR and CRD order."""
    block_first = node.attr("mode", "DCR") == "DCR"
    return node.out_raw(blocks.depth_to_space(node.low, node.raw(), int(node.attr("blocksize")), block_first))


@handles("SpaceToDepth")
def space_to_depth(node: OnnxNode) -> OnnxValue:
    """Blocks of pixels become channels."""
    block_first = node.attr("mode", "DCR") == "DCR"
    return node.out_raw(blocks.space_to_depth(node.low, node.raw(), int(node.attr("blocksize")), block_first))
