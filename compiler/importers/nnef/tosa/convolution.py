"""Convolution and its reverse (4.3.1), by the builders that all importers share."""

from dataclasses import replace

from tosaic.compiler.importers.lowering.convolution import convolve, transpose_convolve
from tosaic.compiler.importers.lowering.layout import channels_first, channels_last, extend
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles
from tosaic.compiler.importers.nnef.tosa.windows import COPIES, AxisWindow, bordered, check_copies, windows_of


def _line(node: NnefNode, name: str) -> str:
    """An operand with at least one spatial dimension."""
    low, x = node.low, node.tensor(name)
    if low.rank(x) > 5:
        node.unsupported(f"{low.rank(x) - 2} spatial dimensions", "TOSA convolves 0 to 3 of them")
    return x if low.rank(x) > 2 else low.reshape(x, (*low.shape(x), 1))


def _bias(node: NnefNode, channels: int) -> str | None:
    """The bias as a vector; one element stands for every channel."""
    if node.known_scalar("bias") == 0:
        return None
    low, bias = node.low, node.tensor("bias")
    return low.broadcast_to(low.reshape(bias, (_count(node),)), (channels,))


def _count(node: NnefNode) -> int:
    shape = node.shape("bias")
    return shape[1] if len(shape) > 1 else 1


@handles("conv")
def conv(node: NnefNode) -> str:
    """Filters [O, C/groups, kernel...]; groups 0 is one group per channel."""
    low, x, kernel = node.low, _line(node, "input"), _line(node, "filter")
    spatial = low.rank(x) - 2
    windows = [AxisWindow(1)]
    if len(node.shape("input")) > 2:
        windows = windows_of(node, low.shape(x)[2:], low.shape(kernel)[2:])
        x, windows = bordered(node, x, windows)
    weight = low.transpose(kernel, [0, *range(2, spatial + 2), 1])
    groups = node["groups"] or node.shape("input")[1]
    bias = _bias(node, node.result.shape[1])
    y = channels_first(low, convolve(low, channels_last(low, x), weight, bias, windows, groups))
    return low.reshape(y, node.result.shape)


@handles("deconv")
def deconv(node: NnefNode) -> str:
    """Filters [C, O/groups, kernel...]; `output_shape` decides between the sizes that scale down alike."""
    low, x, kernel = node.low, _line(node, "input"), _line(node, "filter")
    spatial, shape = low.rank(x) - 2, node.result.shape
    windows = [AxisWindow(1)]
    if len(shape) > 2:
        windows = windows_of(node, shape[2:], low.shape(kernel)[2:])
        if node["border"] in COPIES:
            x, windows = _extended(node, x, windows)
        windows = [
            replace(w, after=(size - 1) * w.stride + w.extent - w.before - wanted)
            for w, size, wanted in zip(windows, low.shape(x)[2:], shape[2:], strict=True)
        ]
    weight = low.transpose(kernel, [1, *range(2, spatial + 2), 0])
    groups = shape[1] // node.shape("filter")[1]
    bias = _bias(node, shape[1])
    y = channels_first(low, transpose_convolve(low, channels_last(low, x), weight, bias, windows, groups))
    return low.reshape(y, shape)


def _extended(node: NnefNode, x: str, windows: list[AxisWindow]) -> tuple[str, list[AxisWindow]]:
    """Puts as many copies around the (down-scaled) input as the windows of the result read."""
    low, wanted = node.low, node.result.shape[2:]
    pads, moved = [(0, 0), (0, 0)], []
    for w, size, outputs in zip(windows, low.shape(x)[2:], wanted, strict=True):
        first = -((w.extent - 1 - w.before) // w.stride)
        last = (outputs - 1 + w.before) // w.stride
        before, after = max(-first, 0), max(last - size + 1, 0)
        pads.append((before, after))
        moved.append(replace(w, before=w.before + before * w.stride))
    check_copies(node, low.shape(x), pads)
    return extend(low, x, pads, COPIES[node["border"]]), moved
