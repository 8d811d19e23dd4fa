"""Lowers convolutions and pools."""

import math
from collections.abc import Sequence
from typing import Any

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.convolution import convolve, transpose_convolve
from tosaic.compiler.importers.lowering.layout import channels_first, channels_last, extend
from tosaic.compiler.importers.lowering.pooling import average_pool, max_pool, sum_pool
from tosaic.compiler.importers.lowering.windows import AxisWindow

MAX_EXTENT = 1 << 20
"""Kernels, strides and paddings beyond are taken for damage."""


def sizes_of(node: CoreMlNode, values: Sequence[int], count: int, default: int, what: str) -> list[int]:
    """A repeated field of `count` positive integers; left out, all are `default`."""
    values = [int(value) for value in values] or [default] * count
    node.require(len(values) == count, f"{what} has {len(values)} entries, not {count}")
    node.require(
        all(1 <= v <= MAX_EXTENT for v in values), f"{what} is {values}; 1 to {MAX_EXTENT} is allowed"
    )
    return values


def edges(node: CoreMlNode, borders: Any, what: str = "paddingAmounts") -> list[tuple[int, int]]:
    """BorderAmounts as (start, end) of H and W; left out they are 0."""
    amounts = [(int(edge.startEdgeSize), int(edge.endEdgeSize)) for edge in borders.borderAmounts]
    amounts = amounts or [(0, 0), (0, 0)]
    node.require(len(amounts) == 2, f"{what} has {len(amounts)} entries, not 2")
    node.require(all(max(pair) <= MAX_EXTENT for pair in amounts), f"{what} is {amounts}")
    return amounts


def _fitting(
    node: CoreMlNode, sizes: Sequence[int], windows: Sequence[AxisWindow], ceil: bool = False
) -> None:
    if any(window.outputs(size, ceil) < 1 for window, size in zip(windows, sizes, strict=True)):
        node.wrong(
            f"the kernel {[w.extent for w in windows]} is larger than the padded image {list(sizes)}, "
            "the result would be empty"
        )


def _padded(
    node: CoreMlNode, windows: list[AxisWindow], sizes: Sequence[int], oneof: str
) -> list[AxisWindow]:
    """Windows with the padding of `valid` or `same`."""
    p = node.params
    if p.WhichOneof(oneof) == "same":
        bottom_heavy = p.same.asymmetryMode == 0
        return [w.same(size, bottom_heavy) for w, size in zip(windows, sizes, strict=True)]
    amounts = edges(node, p.valid.paddingAmounts)
    return [
        AxisWindow(w.kernel, w.stride, w.dilation, *pair) for w, pair in zip(windows, amounts, strict=True)
    ]


def _image_result(node: CoreMlNode, channels_last_image: str, inner: int = 3) -> CoreMlValue:
    """An image [N, spatial..., C] as a blob: the batch is unfolded to the first input's leading axes."""
    image = channels_first(node.low, channels_last_image)
    return node.out(image, (*node.shape()[:-inner], *node.low.shape(image)[1:]))


# --- convolution ----------------------------------------------------------------------------------------------


@handles("convolution")
def convolution(node: CoreMlNode) -> CoreMlValue:
    """Lowers convolution and deconvolution, also with weights computed at run time (the second input)."""
    low, p = node.low, node.params
    node.need_rank(3)
    kernel = sizes_of(node, p.kernelSize, 2, 3, "kernelSize")
    stride = sizes_of(node, p.stride, 2, 1, "stride")
    dilation = sizes_of(node, p.dilationFactor, 2, 1, "dilationFactor")
    groups, channels, sizes = int(p.nGroups) or 1, node.shape()[-3], node.shape()[-2:]
    outputs = int(p.outputChannels)
    _check_groups(node, channels, outputs, groups)
    if p.isDeconvolution:
        node.require(len(node.inputs) == 1, "a deconvolution takes no weights as input")
        return _deconvolution(node, kernel, stride, groups)
    windows = [AxisWindow(k, s, d) for k, s, d in zip(kernel, stride, dilation, strict=True)]
    windows = _padded(node, windows, sizes, "ConvolutionPaddingType")
    _fitting(node, sizes, windows)
    shape = (outputs, channels // groups, *kernel)
    if len(node.inputs) == 2:
        node.require(node.shape(1) == shape, f"the weights must have shape {list(shape)}")
        weight = node.x(1)
    else:
        weight = node.constant(node.weights("weights", shape))
    image, weight = channels_last(low, node.image()), channels_last(low, weight)
    return _image_result(node, convolve(low, image, weight, _bias(node, outputs), windows, groups))


def _check_groups(node: CoreMlNode, channels: int, outputs: int, groups: int) -> None:
    node.require(outputs > 0, "outputChannels is 0")
    node.require(
        channels % groups == 0 and outputs % groups == 0,
        f"{channels} input and {outputs} output channels do not divide into {groups} groups",
    )


def _bias(node: CoreMlNode, outputs: int) -> str | None:
    if not node.params.hasBias:
        return None
    return node.constant(node.weights("bias", [outputs]))


def _deconvolution(node: CoreMlNode, kernel: list[int], stride: list[int], groups: int) -> CoreMlValue:
    """Weights [C, O/groups, H, W]; dilation is not used."""
    low, p = node.low, node.params
    channels, sizes, outputs = node.shape()[-3], node.shape()[-2:], int(p.outputChannels)
    weight = node.weights("weights", (channels, outputs // groups, *kernel))
    same = p.WhichOneof("ConvolutionPaddingType") == "same"
    pads = [(0, 0), (0, 0)] if same else edges(node, p.valid.paddingAmounts)
    wanted = sizes_of(node, p.outputShape, 2, 1, "outputShape") if p.outputShape else None
    windows = []
    for axis in range(2):
        full = (sizes[axis] - 1) * stride[axis] + kernel[axis]
        before, after = pads[axis]
        if wanted or same:
            target = wanted[axis] if wanted else sizes[axis] * stride[axis]
            total = full - target
            # A result larger than the full one gets its zeros at the end.
            small = max(total, 0) // 2
            top_heavy = same and p.same.asymmetryMode == 1
            before = max(total, 0) - small if top_heavy else small
            after = total - before
        node.require(full - before - after > 0, f"the padding {pads} leaves nothing of the result")
        windows.append(AxisWindow(kernel[axis], stride[axis], 1, before, after))
    image = channels_last(low, node.image())
    # [C, O/groups, H, W] to [O/groups, H, W, C].
    taps = node.constant(weight.transpose(1, 2, 3, 0))
    return _image_result(node, transpose_convolve(low, image, taps, _bias(node, outputs), windows, groups))


@handles("convolution3d")
def convolution3d(node: CoreMlNode) -> CoreMlValue:
    """Images of rank 5, [N, C, D, H, W]; deconvolution too."""
    low, p = node.low, node.params
    node.need_rank(5, 5)
    kernel, stride, dilation = (
        sizes_of(node, [getattr(p, f"{what}{axis}") or default for axis in _AXES], 3, 1, what)
        for what, default in (("kernel", 3), ("stride", 1), ("dilation", 1))
    )
    sizes, channels, outputs, groups = node.shape()[2:], node.shape()[1], p.outputChannels, p.nGroups or 1
    node.require(groups > 0, f"nGroups is {groups}")
    _check_groups(node, channels, outputs, groups)
    image = channels_last(low, node.x())
    if p.isDeconvolution:
        weight = node.weights("weights", (channels, outputs // groups, *kernel))
        windows = _deconvolution3d_windows(node, kernel, stride, dilation)
        taps = node.constant(weight.transpose(1, 2, 3, 4, 0))
        result = transpose_convolve(low, image, taps, _bias(node, outputs), windows, groups)
        return node.out(channels_first(low, result))
    windows = _windows3d(
        node, [AxisWindow(*each) for each in zip(kernel, stride, dilation, strict=True)], sizes
    )
    _fitting(node, sizes, windows)
    kernels = node.constant(
        node.weights("weights", (outputs, channels // groups, *kernel)).transpose(0, 2, 3, 4, 1)
    )
    return node.out(channels_first(low, convolve(low, image, kernels, _bias(node, outputs), windows, groups)))


_AXES = ("Depth", "Height", "Width")
_CUSTOM = ("Front", "Back", "Top", "Bottom", "Left", "Right")


def _windows3d(node: CoreMlNode, windows: list[AxisWindow], sizes: Sequence[int]) -> list[AxisWindow]:
    """Returns the windows by paddingType: 0 custom, 1 valid, 2 same."""
    kind = node.params.paddingType
    node.require(kind in (0, 1, 2), f"paddingType {kind} is not known")
    if kind == 2:
        return [w.same(size, upper=True) for w, size in zip(windows, sizes, strict=True)]
    custom = [getattr(node.params, f"customPadding{side}") if kind == 0 else 0 for side in _CUSTOM]
    node.require(all(0 <= c <= MAX_EXTENT for c in custom), f"customPadding is {custom}")
    pairs = zip(custom[::2], custom[1::2], strict=True)
    return [AxisWindow(w.kernel, w.stride, w.dilation, *pair) for w, pair in zip(windows, pairs, strict=True)]


def _deconvolution3d_windows(
    node: CoreMlNode, kernel: list[int], stride: list[int], dilation: list[int]
) -> list[AxisWindow]:
    sizes, wanted = node.shape()[2:], list(node.params.outputShape)
    plain = [AxisWindow(*each) for each in zip(kernel, stride, dilation, strict=True)]
    if not wanted and node.params.paddingType != 2:
        windows = _windows3d(node, plain, sizes)
    else:
        targets = wanted[-3:] or [size * step for size, step in zip(sizes, stride, strict=True)]
        node.require(len(targets) == 3 and min(targets) > 0, f"outputShape is {wanted}")
        windows = []
        for w, size, target in zip(plain, sizes, targets, strict=True):
            total = (size - 1) * w.stride + w.extent - target
            before = max(total, 0) // 2
            windows.append(AxisWindow(w.kernel, w.stride, w.dilation, before, total - before))
    for w, size in zip(windows, sizes, strict=True):
        node.require((size - 1) * w.stride + w.extent > w.before + w.after, "the padding leaves nothing")
    return windows


# --- pools ----------------------------------------------------------------------------------------------------


@handles("pooling")
def pooling(node: CoreMlNode) -> CoreMlValue:
    """Pools by the maximum, the mean, or the root of the sum of squares."""
    low, p = node.low, node.params
    node.need_rank(3)
    node.require(p.type in (0, 1, 2), f"type {p.type} is not known")
    sizes, image = node.shape()[-2:], channels_last(low, node.image())
    if p.globalPooling:
        if p.type == 0:
            return _image_result(node, low.reduce("MAX", image, (1, 2)))
        if p.type == 1:
            return _image_result(node, low.mean(image, (1, 2)))
        return _image_result(node, low.sqrt(low.reduce("SUM", low.mul(image, image), (1, 2))))
    kernel = sizes_of(node, p.kernelSize, 2, 3, "kernelSize")
    stride = sizes_of(node, p.stride, 2, 1, "stride")
    windows = [AxisWindow(k, s) for k, s in zip(kernel, stride, strict=True)]
    ceil = p.WhichOneof("PoolingPaddingType") == "includeLastPixel"
    windows = _last_pixel(node, windows) if ceil else _padded(node, windows, sizes, "PoolingPaddingType")
    _fitting(node, sizes, windows, ceil)
    _affordable(node, sizes, windows)
    if p.type == 0:
        return _image_result(node, max_pool(low, image, windows, ceil))
    if p.type == 1:
        return _image_result(node, average_pool(low, image, windows, ceil, not p.avgPoolExcludePadding))
    return _image_result(node, low.sqrt(sum_pool(low, low.mul(image, image), windows, ceil)))


def _affordable(node: CoreMlNode, sizes: Sequence[int], windows: Sequence[AxisWindow]) -> None:
    """Windows that TOSA's pools do not take are gathered, element by element."""
    for size, window in zip(sizes, windows, strict=True):
        node.affordable(window.outputs(size, ceil=True) * window.kernel, "the list of its windows' elements")


def _last_pixel(node: CoreMlNode, windows: list[AxisWindow]) -> list[AxisWindow]:
    """Symmetric padding, and a size that is rounded up."""
    amounts = [int(a) for a in node.params.includeLastPixel.paddingAmounts] or [0, 0]
    node.require(len(amounts) == 2, f"paddingAmounts has {len(amounts)} entries, not 2")
    node.require(max(amounts) <= MAX_EXTENT, f"paddingAmounts is {amounts}")
    result = []
    for window, size, pad in zip(windows, node.shape()[-2:], amounts, strict=True):
        steps = -(-(size + 2 * pad - window.kernel) // window.stride)
        if not any(amounts) and steps > 0 and steps * window.stride >= size:
            # Without padding Core ML keeps a last window that begins behind the image.
            node.unsupported(
                "its last window lies outside of the image", "make the stride at most the kernel"
            )
        result.append(AxisWindow(window.kernel, window.stride, 1, pad, pad))
    return result


@handles("pooling3d")
def pooling3d(node: CoreMlNode) -> CoreMlValue:
    """Maximum or mean over windows of the last three axes."""
    low, p = node.low, node.params
    node.need_rank(5, 5)
    kernel, stride = (
        sizes_of(node, [getattr(p, f"{what}{axis}") or 1 for axis in _AXES], 3, 1, what)
        for what in ("kernel", "stride")
    )
    sizes = node.shape()[2:]
    windows = _windows3d(node, [AxisWindow(*each) for each in zip(kernel, stride, strict=True)], sizes)
    _fitting(node, sizes, windows)
    _affordable(node, sizes, windows)
    image = channels_last(low, node.x())
    if p.type == 0:
        result = max_pool(low, image, windows)
    else:
        result = average_pool(low, image, windows, count_padding=not p.countExcludePadding)
    return node.out(channels_first(low, result))


@handles("globalPooling3d")
def global_pooling3d(node: CoreMlNode) -> CoreMlValue:
    """Maximum or mean over the last three axes."""
    node.need_rank(4, 5)
    low, x = node.low, node.loose(rank=4)
    axes = [low.rank(x) - i for i in (3, 2, 1)]
    result = low.reduce("MAX", x, axes) if node.params.type == 0 else low.mean(x, axes)
    return node.out(result, (*node.shape()[:-3], 1, 1, 1))


@handles("padding")
def padding(node: CoreMlNode) -> CoreMlValue:
    """Pads the last two axes by a constant, a reflection or a repetition of the border."""
    low, p, x = node.low, node.params, node.loose(rank=2)
    node.need_rank(2)
    rank = low.rank(x)
    pads = [(0, 0)] * (rank - 2) + edges(node, p.paddingAmounts)
    which = p.WhichOneof("PaddingType") or "constant"
    sizes = node.shape()[-2:]
    grown = [size + sum(pair) for size, pair in zip(sizes, pads[-2:], strict=True)]
    node.require(math.prod(grown) <= MAX_EXTENT * 64, f"the padded image {grown} is too large")
    if which == "constant":
        result = low.pad(x, pads, p.constant.value)
    else:
        if which == "reflection":
            fits = all(max(pair) < size for size, pair in zip(sizes, pads[-2:], strict=True))
            node.require(fits, f"reflection of {pads[-2:]} elements of an image {list(sizes)}")
        result = extend(low, x, pads, "reflect" if which == "reflection" else "edge")
    return node.out(result, (*node.shape()[:-2], *grown))
