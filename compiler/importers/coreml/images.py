"""Convolutions and pools."""

import math
from collections.abc import Sequence
from typing import Any

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.convolution import convolve, transpose_convolve
from tosaic.compiler.importers.lowering.layout import channels_first, channels_last, extend
from tosaic.compiler.importers.lowering.pooling import average_pool, max_pool, sum_pool
from tosaic.compiler.importers.lowering.windows import Window

MAX_EXTENT = 1 << 20
"""Kernels, strides and paddings beyond are taken for damage."""


def sizes_of(layer: Layer, values: Sequence[int], count: int, default: int, what: str) -> list[int]:
    """A repeated field of `count` positive integers; left out, all are `default`."""
    values = [int(value) for value in values] or [default] * count
    layer.require(len(values) == count, f"{what} has {len(values)} entries, not {count}")
    layer.require(
        all(1 <= v <= MAX_EXTENT for v in values), f"{what} is {values}; 1 to {MAX_EXTENT} is allowed"
    )
    return values


def edges(layer: Layer, borders: Any, what: str = "paddingAmounts") -> list[tuple[int, int]]:
    """BorderAmounts as (start, end) of H and W; left out they are 0."""
    amounts = [(int(edge.startEdgeSize), int(edge.endEdgeSize)) for edge in borders.borderAmounts]
    amounts = amounts or [(0, 0), (0, 0)]
    layer.require(len(amounts) == 2, f"{what} has {len(amounts)} entries, not 2")
    layer.require(all(max(pair) <= MAX_EXTENT for pair in amounts), f"{what} is {amounts}")
    return amounts


def _fitting(layer: Layer, sizes: Sequence[int], windows: Sequence[Window], ceil: bool = False) -> None:
    if any(window.outputs(size, ceil) < 1 for window, size in zip(windows, sizes, strict=True)):
        layer.wrong(
            f"the kernel {[w.extent for w in windows]} is larger than the padded image {list(sizes)}, "
            "the result would be empty"
        )


def _padded(layer: Layer, windows: list[Window], sizes: Sequence[int], oneof: str) -> list[Window]:
    """Windows with the padding of `valid` or `same`."""
    p = layer.params
    if p.WhichOneof(oneof) == "same":
        bottom_heavy = p.same.asymmetryMode == 0
        return [w.same(size, bottom_heavy) for w, size in zip(windows, sizes, strict=True)]
    amounts = edges(layer, p.valid.paddingAmounts)
    return [Window(w.kernel, w.stride, w.dilation, *pair) for w, pair in zip(windows, amounts, strict=True)]


def _image_result(layer: Layer, channels_last_image: str, inner: int = 3) -> Blob:
    """An image [N, spatial..., C] as a blob: the batch is unfolded to the first input's leading axes."""
    image = channels_first(layer.low, channels_last_image)
    return layer.out(image, (*layer.shape()[:-inner], *layer.low.shape(image)[1:]))


# --- convolution ----------------------------------------------------------------------------------------------


@handles("convolution")
def convolution(layer: Layer) -> Blob:
    """Also deconvolution, and convolution with weights computed at run time (the second input)."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    kernel = sizes_of(layer, p.kernelSize, 2, 3, "kernelSize")
    stride = sizes_of(layer, p.stride, 2, 1, "stride")
    dilation = sizes_of(layer, p.dilationFactor, 2, 1, "dilationFactor")
    groups, channels, sizes = int(p.nGroups) or 1, layer.shape()[-3], layer.shape()[-2:]
    outputs = int(p.outputChannels)
    _check_groups(layer, channels, outputs, groups)
    if p.isDeconvolution:
        layer.require(len(layer.inputs) == 1, "a deconvolution takes no weights as input")
        return _deconvolution(layer, kernel, stride, groups)
    windows = [Window(k, s, d) for k, s, d in zip(kernel, stride, dilation, strict=True)]
    windows = _padded(layer, windows, sizes, "ConvolutionPaddingType")
    _fitting(layer, sizes, windows)
    shape = (outputs, channels // groups, *kernel)
    if len(layer.inputs) == 2:
        layer.require(layer.shape(1) == shape, f"the weights must have shape {list(shape)}")
        weight = layer.x(1)
    else:
        weight = layer.constant(layer.weights("weights", shape))
    image, weight = channels_last(low, layer.image()), channels_last(low, weight)
    return _image_result(layer, convolve(low, image, weight, _bias(layer, outputs), windows, groups))


def _check_groups(layer: Layer, channels: int, outputs: int, groups: int) -> None:
    layer.require(outputs > 0, "outputChannels is 0")
    layer.require(
        channels % groups == 0 and outputs % groups == 0,
        f"{channels} input and {outputs} output channels do not divide into {groups} groups",
    )


def _bias(layer: Layer, outputs: int) -> str | None:
    if not layer.params.hasBias:
        return None
    return layer.constant(layer.weights("bias", [outputs]))


def _deconvolution(layer: Layer, kernel: list[int], stride: list[int], groups: int) -> Blob:
    """Weights [C, O/groups, H, W]; dilation is not used."""
    low, p = layer.low, layer.params
    channels, sizes, outputs = layer.shape()[-3], layer.shape()[-2:], int(p.outputChannels)
    weight = layer.weights("weights", (channels, outputs // groups, *kernel))
    same = p.WhichOneof("ConvolutionPaddingType") == "same"
    pads = [(0, 0), (0, 0)] if same else edges(layer, p.valid.paddingAmounts)
    wanted = sizes_of(layer, p.outputShape, 2, 1, "outputShape") if p.outputShape else None
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
        layer.require(full - before - after > 0, f"the padding {pads} leaves nothing of the result")
        windows.append(Window(kernel[axis], stride[axis], 1, before, after))
    image = channels_last(low, layer.image())
    # [C, O/groups, H, W] to [O/groups, H, W, C].
    taps = layer.constant(weight.transpose(1, 2, 3, 0))
    return _image_result(layer, transpose_convolve(low, image, taps, _bias(layer, outputs), windows, groups))


@handles("convolution3d")
def convolution3d(layer: Layer) -> Blob:
    """Images of rank 5, [N, C, D, H, W]; deconvolution too."""
    low, p = layer.low, layer.params
    layer.need_rank(5, 5)
    kernel, stride, dilation = (
        sizes_of(layer, [getattr(p, f"{what}{axis}") or default for axis in _AXES], 3, 1, what)
        for what, default in (("kernel", 3), ("stride", 1), ("dilation", 1))
    )
    sizes, channels, outputs, groups = layer.shape()[2:], layer.shape()[1], p.outputChannels, p.nGroups or 1
    layer.require(groups > 0, f"nGroups is {groups}")
    _check_groups(layer, channels, outputs, groups)
    image = channels_last(low, layer.x())
    if p.isDeconvolution:
        weight = layer.weights("weights", (channels, outputs // groups, *kernel))
        windows = _deconvolution3d_windows(layer, kernel, stride, dilation)
        taps = layer.constant(weight.transpose(1, 2, 3, 4, 0))
        result = transpose_convolve(low, image, taps, _bias(layer, outputs), windows, groups)
        return layer.out(channels_first(low, result))
    windows = _windows3d(layer, [Window(*each) for each in zip(kernel, stride, dilation, strict=True)], sizes)
    _fitting(layer, sizes, windows)
    kernels = layer.constant(
        layer.weights("weights", (outputs, channels // groups, *kernel)).transpose(0, 2, 3, 4, 1)
    )
    return layer.out(
        channels_first(low, convolve(low, image, kernels, _bias(layer, outputs), windows, groups))
    )


_AXES = ("Depth", "Height", "Width")
_CUSTOM = ("Front", "Back", "Top", "Bottom", "Left", "Right")


def _windows3d(layer: Layer, windows: list[Window], sizes: Sequence[int]) -> list[Window]:
    """paddingType: 0 custom, 1 valid, 2 same."""
    kind = layer.params.paddingType
    layer.require(kind in (0, 1, 2), f"paddingType {kind} is not known")
    if kind == 2:
        return [w.same(size, upper=True) for w, size in zip(windows, sizes, strict=True)]
    custom = [getattr(layer.params, f"customPadding{side}") if kind == 0 else 0 for side in _CUSTOM]
    layer.require(all(0 <= c <= MAX_EXTENT for c in custom), f"customPadding is {custom}")
    pairs = zip(custom[::2], custom[1::2], strict=True)
    return [Window(w.kernel, w.stride, w.dilation, *pair) for w, pair in zip(windows, pairs, strict=True)]


def _deconvolution3d_windows(
    layer: Layer, kernel: list[int], stride: list[int], dilation: list[int]
) -> list[Window]:
    sizes, wanted = layer.shape()[2:], list(layer.params.outputShape)
    plain = [Window(*each) for each in zip(kernel, stride, dilation, strict=True)]
    if not wanted and layer.params.paddingType != 2:
        windows = _windows3d(layer, plain, sizes)
    else:
        targets = wanted[-3:] or [size * step for size, step in zip(sizes, stride, strict=True)]
        layer.require(len(targets) == 3 and min(targets) > 0, f"outputShape is {wanted}")
        windows = []
        for w, size, target in zip(plain, sizes, targets, strict=True):
            total = (size - 1) * w.stride + w.extent - target
            before = max(total, 0) // 2
            windows.append(Window(w.kernel, w.stride, w.dilation, before, total - before))
    for w, size in zip(windows, sizes, strict=True):
        layer.require((size - 1) * w.stride + w.extent > w.before + w.after, "the padding leaves nothing")
    return windows


# --- pools ----------------------------------------------------------------------------------------------------


@handles("pooling")
def pooling(layer: Layer) -> Blob:
    """Maximum, mean, or the root of the sum of squares."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    layer.require(p.type in (0, 1, 2), f"type {p.type} is not known")
    sizes, image = layer.shape()[-2:], channels_last(low, layer.image())
    if p.globalPooling:
        if p.type == 0:
            return _image_result(layer, low.reduce("MAX", image, (1, 2)))
        if p.type == 1:
            return _image_result(layer, low.mean(image, (1, 2)))
        return _image_result(layer, low.sqrt(low.reduce("SUM", low.mul(image, image), (1, 2))))
    kernel = sizes_of(layer, p.kernelSize, 2, 3, "kernelSize")
    stride = sizes_of(layer, p.stride, 2, 1, "stride")
    windows = [Window(k, s) for k, s in zip(kernel, stride, strict=True)]
    ceil = p.WhichOneof("PoolingPaddingType") == "includeLastPixel"
    windows = _last_pixel(layer, windows) if ceil else _padded(layer, windows, sizes, "PoolingPaddingType")
    _fitting(layer, sizes, windows, ceil)
    _affordable(layer, sizes, windows)
    if p.type == 0:
        return _image_result(layer, max_pool(low, image, windows, ceil))
    if p.type == 1:
        return _image_result(layer, average_pool(low, image, windows, ceil, not p.avgPoolExcludePadding))
    return _image_result(layer, low.sqrt(sum_pool(low, low.mul(image, image), windows, ceil)))


def _affordable(layer: Layer, sizes: Sequence[int], windows: Sequence[Window]) -> None:
    """Windows that TOSA's pools do not take are gathered, element by element."""
    for size, window in zip(sizes, windows, strict=True):
        layer.affordable(window.outputs(size, ceil=True) * window.kernel, "the list of its windows' elements")


def _last_pixel(layer: Layer, windows: list[Window]) -> list[Window]:
    """Symmetric padding, and a size that is rounded up."""
    amounts = [int(a) for a in layer.params.includeLastPixel.paddingAmounts] or [0, 0]
    layer.require(len(amounts) == 2, f"paddingAmounts has {len(amounts)} entries, not 2")
    layer.require(max(amounts) <= MAX_EXTENT, f"paddingAmounts is {amounts}")
    result = []
    for window, size, pad in zip(windows, layer.shape()[-2:], amounts, strict=True):
        steps = -(-(size + 2 * pad - window.kernel) // window.stride)
        if not any(amounts) and steps > 0 and steps * window.stride >= size:
            # Without padding Core ML keeps a last window that begins behind the image.
            layer.unsupported(
                "its last window lies outside of the image", "make the stride at most the kernel"
            )
        result.append(Window(window.kernel, window.stride, 1, pad, pad))
    return result


@handles("pooling3d")
def pooling3d(layer: Layer) -> Blob:
    """Maximum or mean over windows of the last three axes."""
    low, p = layer.low, layer.params
    layer.need_rank(5, 5)
    kernel, stride = (
        sizes_of(layer, [getattr(p, f"{what}{axis}") or 1 for axis in _AXES], 3, 1, what)
        for what in ("kernel", "stride")
    )
    sizes = layer.shape()[2:]
    windows = _windows3d(layer, [Window(*each) for each in zip(kernel, stride, strict=True)], sizes)
    _fitting(layer, sizes, windows)
    _affordable(layer, sizes, windows)
    image = channels_last(low, layer.x())
    if p.type == 0:
        result = max_pool(low, image, windows)
    else:
        result = average_pool(low, image, windows, count_padding=not p.countExcludePadding)
    return layer.out(channels_first(low, result))


@handles("globalPooling3d")
def global_pooling3d(layer: Layer) -> Blob:
    """Maximum or mean over the last three axes."""
    layer.need_rank(4, 5)
    low, x = layer.low, layer.loose(rank=4)
    axes = [low.rank(x) - i for i in (3, 2, 1)]
    result = low.reduce("MAX", x, axes) if layer.params.type == 0 else low.mean(x, axes)
    return layer.out(result, (*layer.shape()[:-3], 1, 1, 1))


@handles("padding")
def padding(layer: Layer) -> Blob:
    """Of the last two axes: a constant, reflection or repetition of the border."""
    low, p, x = layer.low, layer.params, layer.loose(rank=2)
    layer.need_rank(2)
    rank = low.rank(x)
    pads = [(0, 0)] * (rank - 2) + edges(layer, p.paddingAmounts)
    which = p.WhichOneof("PaddingType") or "constant"
    sizes = layer.shape()[-2:]
    grown = [size + sum(pair) for size, pair in zip(sizes, pads[-2:], strict=True)]
    layer.require(math.prod(grown) <= MAX_EXTENT * 64, f"the padded image {grown} is too large")
    if which == "constant":
        result = low.pad(x, pads, p.constant.value)
    else:
        if which == "reflection":
            fits = all(max(pair) < size for size, pair in zip(sizes, pads[-2:], strict=True))
            layer.require(fits, f"reflection of {pads[-2:]} elements of an image {list(sizes)}")
        result = extend(low, x, pads, "reflect" if which == "reflection" else "edge")
    return layer.out(result, (*layer.shape()[:-2], *grown))
