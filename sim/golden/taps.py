"""Which outputs each kernel tap of a convolution reaches: padding is never made, only left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class TapWindow:
    """Where the taps of a convolution are read. `pad` holds before and after of each spatial axis."""

    pad: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]


def strided_overlap(count: int, size: int, stride: int, offset: int) -> tuple[slice, slice]:
    """The indices j < `count` with 0 <= j*stride + offset < `size`, and those targets, as slices."""
    first = max(0, -(offset // stride))
    end = max(first, min(count, (size - 1 - offset) // stride + 1))
    start = first * stride + offset
    return slice(first, end), slice(start, start + (end - first) * stride, stride)


def convolution_taps(
    in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int], window: TapWindow
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
    """(tap, outputs, inputs) of every tap that reads the input somewhere, along the spatial axes.

    Output o reads input o*stride - pad_before + tap*dilation.
    """
    axes = []
    for axis, taps in enumerate(kernel):
        reached = []
        for tap in range(taps):
            offset = tap * window.dilation[axis] - window.pad[2 * axis]
            outputs, inputs = strided_overlap(out_shape[axis], in_shape[axis], window.stride[axis], offset)
            if outputs.stop > outputs.start:
                reached.append((tap, outputs, inputs))
        axes.append(reached)
    for combination in product(*axes):
        yield tuple(zip(*combination, strict=True))
