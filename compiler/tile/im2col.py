"""Convolutions whose kernel rows leave much of each word empty: im2col along x.

The array reads the bytes under a kernel row as whole words: those of a 3×3 kernel on 3 channels, 9 bytes, as a word of
16. From an image in external memory LOAD can bring, for each output column, the bytes under the kernel's columns of
every image row, one row behind the other. The bytes under all rows of the kernel then follow each other: 27 bytes, 2
words in place of 3. To the array an output column is one long image row, and the kernel slides along it. Where the
kernel's columns are outside the image, LOAD writes the zero point.

Boxes are some output columns each, so that LOAD brings the next ones while the array computes.
"""

import dataclasses

from tosaic.compiler.cost.array import full_rows_cycles
from tosaic.compiler.cost.boxes import strip_row_cycles, strips_cycles
from tosaic.compiler.machine_numbers import (
    IM2COL_BOXES_COMPARED,
    IM2COL_BUFFERS,
    IM2COL_COLUMN_AM_PART,
    IM2COL_MOST_COLUMNS,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.weights import MAX_COUNT, WeightLayout
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest


@dataclasses.dataclass(frozen=True)
class Im2col:
    """A convolution by im2col along x."""

    columns: int
    """Output columns per box."""
    first: int
    """Columns of the first box, for which the array waits: no more than `columns`."""
    layout: WeightLayout
    cycles: int
    """Predicted cycles."""
    loading: int
    """Cycles in which LOAD is busy from the start on, and cannot bring what later layers need."""


def im2col_window(window: Window, rows: int, columns: int) -> Window:
    """What the array slides over for a box of `columns` output columns and all their rows, of which `rows` image rows
    are there: each output column is an image row."""
    run = window.kw * window.ic
    return dataclasses.replace(
        window,
        n=1, ih=columns, iw=rows, ic=run, oh=columns, ow=window.oh, kh=1, kw=window.kh, sy=1, sx=window.sy, dy=1, dx=1,
        top=0, left=window.top, view=View(window.view.storage, 0, rows * run, 0),
    )  # fmt: skip


def tiles_on_array(window: Window, layout: WeightLayout, config: Config, pixels: int) -> int:
    """Cycles of all tiles for `pixels` pixels of output in a row or in several."""
    chunks = sum(blob.chunks or layout.chunks for blob in layout.blobs)
    return full_rows_cycles(window.kh * layout.run_count * chunks, pixels, config)


def fits_fields(window: Window, config: Config) -> bool:
    """Whether instructions can express the layer in this form."""
    run = window.kw * window.ic
    return (
        (window.dy == 1 or window.kh == 1)
        and (window.dx == 1 or window.kw == 1)
        and max(window.oh, window.ow, window.ih) <= MAX_COUNT
        and run * window.sy <= largest(Opcode.ARRAY_WINDOW, "x_step")
        and window.ih * run
        <= min(largest(Opcode.ARRAY_INPUT, "row_bytes"), config.am_bytes // IM2COL_COLUMN_AM_PART)
        and -(-window.kh * run // config.columns) <= largest(Opcode.ARRAY_KERNEL, "chunks")
    )


def best_columns(window: Window, layout: WeightLayout, config: Config, speed: MemorySpeed) -> Im2col:
    """The boxes with the fewest predicted cycles, `layout` being that of the layer's `im2col_window`."""
    widths = {-(-window.ow // boxes) for boxes in range(1, min(IM2COL_BOXES_COMPARED, window.ow) + 1)}
    widths = {width for width in widths if width <= IM2COL_MOST_COLUMNS} or {IM2COL_MOST_COLUMNS}
    weights = int(layout.bytes // speed.bytes_per_cycle(config))
    candidates = [(width, first) for width in sorted(widths, reverse=True) for first in range(width, 0, -1)]
    width, first = min(
        candidates, key=lambda each: _overlapped(window, layout, config, each[0], each[1], speed, weights)[0]
    )
    cycles, loading = _overlapped(window, layout, config, width, first, speed, 0)
    return Im2col(width, first, layout, window.n * cycles, window.n * loading)


def _overlapped(
    window: Window,
    layout: WeightLayout,
    config: Config,
    columns: int,
    first: int,
    speed: MemorySpeed,
    weights: int,
) -> tuple[int, int]:
    """(cycles, those of LOAD) of a first box of `first` columns and others of `columns`: LOAD brings boxes ahead of the
    array, as long as there are buffers, and `weights` cycles of weights behind the first box."""
    shape = im2col_window(window, window.ih, columns)
    row = strip_row_cycles(window.kw * window.ic, config, speed)
    starts = column_starts(window.ow, columns, first)
    counts = [min(columns if start else first, window.ow - start) for start in starts]
    boxes = (
        (count * window.ih * row, tiles_on_array(shape, layout, config, count * window.oh))
        for count in counts
    )
    return strips_cycles(boxes, weights, IM2COL_BUFFERS, speed)


def column_starts(width: int, columns: int, first: int) -> list[int]:
    """Where boxes of `columns` of `width` columns begin, the first one having `first`."""
    return [0, *range(first, width, columns)]
