"""Checks and result shapes of sliding-window operations (4.3)."""

from collections.abc import Sequence

from tosaic.compiler.importers.nnef.call import Call, shown
from tosaic.compiler.importers.nnef.graph import Shape

VALUE_BORDERS = ("constant", "replicate", "reflect", "reflect-even")
BORDERS = ("ignore", *VALUE_BORDERS)
METHODS = ("asymmetric", "symmetric", "aligned")
Padding = tuple[int, int]


def check_border(call: Call, allowed: Sequence[str]) -> None:
    border = call["border"]
    call.require(border in BORDERS, "V062", f"the border mode is {border!r}", f"it is one of {BORDERS}")
    call.require(
        border in allowed, "V063", f"the border mode is {border!r}", f"it is one of {tuple(allowed)}"
    )


class Windows:
    """size, padding, stride and dilation of an invocation for each of `count` dimensions.

    `padding` is None where it is automatic. Raises NnefError for wrong lengths (`rule`) and items.
    """

    def __init__(self, call: Call, size: Sequence[int], rule: str) -> None:
        self.call = call
        self.size = size
        count = len(size)
        self.stride = self._items("stride", count, rule, "V064")
        self.dilation = self._items("dilation", count, rule, "V065")
        padding = call["padding"]
        call.require(
            len(padding) in (0, count), rule, f"padding has {len(padding)} items", f"it has {count} or none"
        )
        self.padding: list[Padding] | None = padding or None
        for extent in size:
            call.require(extent > 0, "V066", f"size is {list(size)}", "its items are positive")

    def _items(self, name: str, count: int, rule: str, positive: str) -> list[int]:
        items = self.call[name] or [1] * count
        self.call.require(
            len(items) == count, rule, f"{name} has {len(items)} items", f"it has {count} or none"
        )
        self.call.require(min(items, default=1) > 0, positive, f"{name} is {items}", "its items are positive")
        return items

    def dilated(self, i: int) -> int:
        return (self.size[i] - 1) * self.dilation[i] + 1

    def down(self, shape: Sequence[int]) -> list[int]:
        """The down-scaled extents."""
        found = []
        for i, extent in enumerate(shape):
            if self.padding is None:
                found.append(-(-extent // self.stride[i]))
                continue
            room = sum(self.padding[i]) + extent - self.dilated(i)
            self.call.require(
                room >= 0,
                "V067",
                f"dimension {i} of the windows has {extent} items, with padding {self.padding[i]}"
                f" fewer than the {self.dilated(i)} of a window",
                "pad more, or take a smaller window",
            )
            found.append(room // self.stride[i] + 1)
        return found

    def up(self, shape: Sequence[int]) -> list[int]:
        """The up-scaled extents, when there is no reference shape."""
        if self.padding is None:
            return [extent * self.stride[i] for i, extent in enumerate(shape)]
        found = [
            (extent - 1) * self.stride[i] + self.dilated(i) - sum(self.padding[i])
            for i, extent in enumerate(shape)
        ]
        self.call.require(
            min(found, default=1) > 0, "V067", f"the result has the extents {found}", "pad less"
        )
        return found

    def reverse(self, shape: Sequence[int], reference: Sequence[int]) -> list[int]:
        """The up-scaled extents: `reference` if it is given and scales down to `shape`."""
        if not reference:
            return self.up(shape)
        self.call.require(
            min(reference) > 0, "V076", f"output_shape is {list(reference)}", "extents are positive"
        )
        down = self.down(reference)
        self.call.require(
            down == list(shape),
            "V076",
            f"output_shape scales {list(reference)} down to {down}, but the input has {list(shape)}",
            "leave output_shape out, or give the shape before the down-scaling",
        )
        return list(reference)


def automatic_padding(extent: int, size: int, stride: int, dilation: int) -> Padding:
    """The padding that gives ceil(extent / stride) windows (4.3). A negative total counts as 0.

    The printed formula would move the sampling grid there, which the text's own ResNet does not expect.
    """
    windows = -(-extent // stride)
    total = max((windows - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
    return total // 2, total - total // 2


def _filter_checks(call: Call) -> tuple[Shape, Shape]:
    shape, kernel = call.shape("input"), call.shape("filter")
    call.require(
        len(shape) >= 2, "V069", f"the input has the shape {shown(shape)}", "it has batch and channels"
    )
    call.require(
        len(kernel) == len(shape), "V069", f"the filter has rank {len(kernel)}, the input rank {len(shape)}"
    )
    check_border(call, VALUE_BORDERS)
    call.require(call["groups"] >= 0, "V071", f"groups is {call['groups']}", "0 means depthwise")
    return shape, kernel


def _check_bias(call: Call, channels: int) -> None:
    bias = call.shape("bias")
    rest = bias[:1] + bias[2:]
    call.require(
        all(extent == 1 for extent in rest),
        "V075",
        f"the bias has the shape {shown(bias)}",
        "it has one extent that is not 1, that of channels: [1, C]",
    )
    count = bias[1] if len(bias) > 1 else 1
    call.require(count in (1, channels), "V074", f"the bias has {count} channels", f"it has {channels} or 1")


def conv(call: Call) -> Shape:
    shape, kernel = _filter_checks(call)
    groups = call["groups"] or shape[1]
    call.require(kernel[0] % groups == 0, "V072", f"{groups} groups do not divide {kernel[0]} filters")
    call.require(
        kernel[1] * groups == shape[1],
        "V073",
        f"a filter of {kernel[1]} channels in {groups} groups meets an input of {shape[1]} channels",
        f"it has {shape[1] // groups if shape[1] % groups == 0 else shape[1]} channels",
    )
    _check_bias(call, kernel[0])
    windows = Windows(call, kernel[2:], "V070")
    return (shape[0], kernel[0], *windows.down(shape[2:]))


def deconv(call: Call) -> Shape:
    """4.3.1's equations decide: filters (c, C/G, ...) take c channels to C."""
    shape, kernel = _filter_checks(call)
    reference = call["output_shape"]
    call.require(
        len(reference) in (0, len(shape)),
        "V076",
        f"output_shape has {len(reference)} items, not {len(shape)}",
    )
    call.require(kernel[0] == shape[1], "V073", f"{kernel[0]} filters meet an input of {shape[1]} channels")
    depthwise = reference[1] if reference else shape[1]
    groups = call["groups"] or max(depthwise, 1)
    call.require(kernel[0] % groups == 0, "V072", f"{groups} groups do not divide {kernel[0]} filters")
    channels = kernel[1] * groups
    _check_bias(call, channels)
    windows = Windows(call, kernel[2:], "V070")
    if reference:
        call.require(
            list(reference[:2]) == [shape[0], channels],
            "V076",
            f"output_shape starts with {list(reference[:2])}, the result with {[shape[0], channels]}",
        )
    return (shape[0], channels, *windows.reverse(shape[2:], reference[2:]))


def _size(call: Call) -> list[int]:
    """`size` for every dimension; items that are missing at its end are 1, as D.3.1 has it."""
    rank, size = len(call.shape("input")), call["size"]
    call.require(
        0 < len(size) <= rank or not rank, "V077", f"size has {len(size)} items for an input of rank {rank}"
    )
    return [*size, *[1] * (rank - len(size))]


def _reference(call: Call) -> list[int]:
    reference, rank = call["output_shape"], len(call.shape("input"))
    call.require(len(reference) in (0, rank), "V076", f"output_shape has {len(reference)} items, not {rank}")
    return reference


def box(call: Call) -> Shape:
    check_border(call, BORDERS)
    return tuple(Windows(call, _size(call), "V077").down(call.shape("input")))


def debox(call: Call) -> Shape:
    check_border(call, BORDERS)
    return tuple(Windows(call, _size(call), "V077").reverse(call.shape("input"), _reference(call)))


def sample(call: Call) -> Shape:
    # 4.3.3 leaves 'ignore' out, but max_pool of 4.9.3 hands its border on, and C.1 pools with 'ignore'.
    check_border(call, BORDERS)
    shape = tuple(Windows(call, _size(call), "V077").down(call.shape("input")))
    call.require(
        call.shape("index") == shape,
        "V078",
        f"index has the shape {shown(call.shape('index'))}, the result {shown(shape)}",
    )
    return shape


def desample(call: Call) -> Shape:
    check_border(call, ("constant",))
    shape = call.shape("input")
    call.require(
        call.shape("index") == shape,
        "V078",
        f"index has the shape {shown(call.shape('index'))}, the input {shown(shape)}",
    )
    return tuple(Windows(call, _size(call), "V077").reverse(shape, _reference(call)))


def check_factor(call: Call) -> list[int]:
    factor, spatial = call["factor"], len(call.shape("input")) - 2
    call.require(
        len(factor) == spatial,
        "V079",
        f"factor has {len(factor)} items for {max(spatial, 0)} spatial dimensions",
    )
    call.require(min(factor, default=1) > 0, "V079", f"factor is {factor}", "its items are positive")
    return factor


def check_downsample(call: Call) -> None:
    for i, (extent, factor) in enumerate(zip(call.shape("input")[2:], check_factor(call), strict=True)):
        call.require(
            extent % factor == 0, "V079", f"factor {factor} does not divide spatial dimension {i} of {extent}"
        )


def check_method(call: Call) -> None:
    call.require(
        call["method"] in METHODS, "V080", f"the method is {call['method']!r}", f"it is one of {METHODS}"
    )


def multilinear_upsample(call: Call) -> Shape:
    factor = check_factor(call)
    check_method(call)
    check_border(call, VALUE_BORDERS)
    shape = call.shape("input")
    return (*shape[:2], *[extent * f for extent, f in zip(shape[2:], factor, strict=True)])
