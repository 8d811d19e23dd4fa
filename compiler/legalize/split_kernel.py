"""Convolutions whose kernel is too large for the memories, as sums of convolutions with a part of the kernel each.

An accumulator is a sum over kernel rows, kernel columns and input channels; int32 addition wraps, so partial sums may
be added in any order. Taps that never meet the image contribute zero (clause 2.3.3) and are left out.
"""

import bisect
import itertools
from collections.abc import Callable

from tosaic.compiler.cut.boxes import Range
from tosaic.compiler.cut.rules import CHANNELS, TAPS, windows_of
from tosaic.compiler.cut.window_axis import WindowAxis
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import KERNEL_PATCH_AM_PART, WEIGHT_PIECE_WM_PART
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

_MAX_TAPS = largest(Opcode.ARRAY_KERNEL, "ky_count")
"""Kernel rows, or columns, that one ARRAY_KERNEL walks over; also its largest step between rows."""
_MAX_RUN_STEP = largest(Opcode.ARRAY_KERNEL, "run_step")


def split_kernel(new: Rewriting, config: Config) -> bool:
    """Rewrites a CONV2D or DEPTHWISE_CONV2D that does not fit; its weights may be computed at run time."""
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    output = operator.outputs[0]
    _, ih, iw, ic = new.shape(data)
    depthwise = operator.op == "DEPTHWISE_CONV2D"
    if graph.tensors[output].dtype is not DType.INT32 or graph.tensors[data].dtype is not DType.INT8:
        return False
    kernel = new.shape(weight)
    kh, kw = kernel[:2] if depthwise else kernel[1:3]
    rows, columns = windows_of(graph, operator)
    dy, dx = rows.dilation, columns.dilation

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
    parts = list(itertools.product(_groups(rows, size[0]), _groups(columns, size[1]), _steps(ic, size[2])))
    for number, (y, x, channels) in enumerate(parts):
        inner = {TAPS[1]: y, TAPS[2]: x} | ({} if depthwise else {CHANNELS: channels})
        cut = new.part_of_sum(inner)
        source, piece = (new.box(name, cut.operands[place]) for place, name in enumerate((data, weight)))
        last = number == len(parts) - 1
        product = new.add(
            operator.op,
            [source, piece, new.zeros(1, DType.INT32) if number else bias, *zero_points],
            new.shape(output),
            DType.INT32,
            output if last and total is None else None,
            **{**operator.attributes, **cut.attributes},
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


def _groups(axis: WindowAxis, largest: int) -> list[Range]:
    """Groups of at most `largest` taps, which together hold every tap that meets the image."""
    useful, found = list(axis.useful_taps()) or [0], list[Range]()
    while useful:
        inside = [tap for tap in useful if tap < useful[0] + largest]
        found.append((inside[0], inside[-1] + 1))
        useful = useful[len(inside) :]
    return found


def _steps(extent: int, step: int) -> list[Range]:
    return [(first, min(first + step, extent)) for first in range(0, extent, step)]
