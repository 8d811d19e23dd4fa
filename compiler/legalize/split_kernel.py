"""Convolutions whose kernel is too large for the memories, as sums of convolutions with a part of the kernel each.

An accumulator is a sum over kernel rows, kernel columns and input channels; int32 addition wraps, so partial sums may
be added in any order. Taps that never meet the image contribute zero (clause 2.3.3) and are left out.
"""

import bisect
import dataclasses
from collections.abc import Callable, Iterator

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import KERNEL_PATCH_AM_PART, WEIGHT_PIECE_WM_PART
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

_MAX_TAPS = largest(Opcode.ARRAY_KERNEL, "ky_count")
"""Kernel rows, or columns, that one ARRAY_KERNEL walks over; also its largest step between rows."""
_MAX_RUN_STEP = largest(Opcode.ARRAY_KERNEL, "run_step")


@dataclasses.dataclass(frozen=True)
class _Axis:
    """A convolution along one axis of the image."""

    extent: int
    outputs: int
    taps: int
    pad: int
    stride: int
    dilation: int

    def meets(self, tap: int) -> bool:
        """Whether the tap meets the image at any output position."""
        origin = self.pad - tap * self.dilation
        first = max(0, -(-origin // self.stride))
        return first < self.outputs and first * self.stride < origin + self.extent

    def groups(self, largest: int) -> list[tuple[int, int]]:
        """(first tap, taps) of groups of at most `largest` taps, which together hold every tap that meets the image."""
        useful = [tap for tap in range(self.taps) if self.meets(tap)] or [0]
        found = []
        while useful:
            inside = [tap for tap in useful if tap < useful[0] + largest]
            found.append((inside[0], inside[-1] - inside[0] + 1))
            useful = useful[len(inside) :]
        return found

    def reach(self, taps: int) -> int:
        """Positions from the first to the last tap."""
        return (taps - 1) * self.dilation + 1

    def padding(self, first: int, taps: int) -> list[int]:
        """Padding (perhaps negative) with which `taps` taps from `first` meet what they met in the whole kernel."""
        before = self.pad - first * self.dilation
        return [before, (self.outputs - 1) * self.stride + self.reach(taps) - self.extent - before]


def split_kernel(new: Rewriting, config: Config) -> bool:
    """Rewrites a CONV2D or DEPTHWISE_CONV2D that does not fit; its weights may be computed at run time."""
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    output = operator.outputs[0]
    _, ih, iw, ic = new.shape(data)
    _, oh, ow, _ = new.shape(output)
    depthwise = operator.op == "DEPTHWISE_CONV2D"
    if graph.tensors[output].dtype is not DType.INT32 or graph.tensors[data].dtype is not DType.INT8:
        return False
    kernel = new.shape(weight)
    kh, kw = kernel[:2] if depthwise else kernel[1:3]
    (top, _, left, _), (sy, sx), (dy, dx) = (
        operator.attributes[name] for name in ("pad", "stride", "dilation")
    )
    rows, columns = _Axis(ih, oh, kh, top, sy, dy), _Axis(iw, ow, kw, left, sx, dx)

    def fits(kernel_rows: int, kernel_columns: int, channels: int, part: int = 1) -> bool:
        width = config.columns
        if depthwise:
            words, patch_channels = kernel_columns, min(channels, width)
        else:
            dense = channels == ic and (dx == 1 or kernel_columns == 1)
            words = (
                -(-kernel_columns * channels // width) if dense else kernel_columns * -(-channels // width)
            )
            patch_channels = channels
        patch = min(ih, rows.reach(kernel_rows)) * min(iw, columns.reach(kernel_columns)) * patch_channels
        return (
            kernel_rows * words * width * width * part <= config.wm_bytes
            and patch * KERNEL_PATCH_AM_PART <= config.am_bytes
            and max(kernel_rows, kernel_columns) <= _MAX_TAPS
            and (dy <= _MAX_TAPS or kernel_rows == 1)
            and (dx * ic <= _MAX_RUN_STEP or kernel_columns == 1)
        )

    if fits(kh, kw, ic):
        return False
    size = _largest_part(kh, kw, ic, config.columns, lambda r, c, n: fits(r, c, n, WEIGHT_PIECE_WM_PART))
    if size is None or (size[2] < ic and depthwise):
        return False
    total = None
    parts = list(_parts(rows.groups(size[0]), columns.groups(size[1]), ic, size[2]))
    for number, (y, x, channel) in enumerate(parts):
        piece, source = _weights(new, weight, y, x, channel, depthwise), data
        if channel[1] < ic:
            shape = new.shape(data)
            source = new.slice(data, (0, 0, 0, channel[0]), (*shape[:3], channel[1]))
        last = number == len(parts) - 1
        product = new.add(
            operator.op,
            [source, piece, new.zeros(1, DType.INT32) if number else bias, *zero_points],
            new.shape(output),
            DType.INT32,
            output if last and total is None else None,
            **{**operator.attributes, "pad": [*rows.padding(*y), *columns.padding(*x)]},
        )
        if total is not None:
            product = new.add(
                "ADD", [total, product], new.shape(output), DType.INT32, output if last else None
            )
        total = product
    return True


def _largest_part(
    kh: int, kw: int, ic: int, step: int, fits: Callable[[int, int, int], bool]
) -> tuple[int, int, int] | None:
    """(kernel rows, kernel columns, input channels) of the parts: whole rows, else columns, else channels."""

    def largest(limit: int, holds: Callable[[int], bool]) -> int:
        return bisect.bisect_left(range(1, limit + 1), True, key=lambda n: not holds(n))

    if count := largest(kh, lambda n: fits(n, kw, ic)):
        return count, kw, ic
    if count := largest(kw, lambda n: fits(1, n, ic)):
        return 1, count, ic
    if count := largest(ic // step, lambda n: fits(1, 1, n * step)):
        return 1, 1, count * step
    return None


def _parts(
    rows: list[tuple[int, int]], columns: list[tuple[int, int]], ic: int, channels: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    for y in rows:
        for x in columns:
            for first in range(0, ic, channels):
                yield y, x, (first, min(channels, ic - first))


def _weights(
    new: Rewriting,
    weight: str,
    y: tuple[int, int],
    x: tuple[int, int],
    channel: tuple[int, int],
    depthwise: bool,
) -> str:
    """The part of the weights with the given (first, count) kernel rows, columns and input channels."""
    kernel = new.shape(weight)
    boxes = [y, x, channel, (0, kernel[3])] if depthwise else [(0, kernel[0]), y, x, channel]
    if all(count == extent for (_, count), extent in zip(boxes, kernel, strict=True)):
        return weight
    values = new.graph.const(weight)
    if values is None:
        return new.slice(weight, tuple(first for first, _ in boxes), tuple(count for _, count in boxes))
    box = tuple(slice(first, first + count) for first, count in boxes)
    return new.constant(values[box], new.graph.tensors[weight].dtype)
