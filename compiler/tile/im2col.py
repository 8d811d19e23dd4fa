"""Convolutions whose kernel rows leave much of each word empty: im2col along x.

The array reads the bytes under a kernel row as whole words: those of a 3×3 kernel on 3 channels, 9 bytes, as a word of
16. From an image in external memory LOAD can bring, for each output column, the bytes under the kernel's columns of
every image row, one row behind the other: a strip. The bytes under all rows of the kernel then follow each other: 27
bytes, 2 words in place of 3. To the array a strip is one long image row, and the kernel slides along it. Where the
kernel's columns are outside the image, LOAD writes the zero point.

Boxes are some output columns each, so that LOAD brings the next ones while the array computes.
"""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.cost.boxes import strip_row_cycles, strips_cycles
from tosaic.compiler.cost.transfers import runs_cycles
from tosaic.compiler.machine_numbers import (
    IM2COL_BOXES_COMPARED,
    IM2COL_COLUMN_AM_PART,
    IM2COL_MOST_COLUMNS,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.weights import MAX_COUNT, WeightLayout
from tosaic.compiler.tile.box_search import split
from tosaic.compiler.tile.image_boxes import column_starts
from tosaic.compiler.tile.mapping import on_array
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest


def im2col_window(window: Window, rows: int, columns: int) -> Window:
    """What the array slides over for a box of `columns` output columns and all their rows, of which `rows` image rows
    are there: each output column is an image row."""
    run = window.kw * window.ic
    return dataclasses.replace(
        window,
        n=1, ih=columns, iw=rows, ic=run, oh=columns, ow=window.oh, kh=1, kw=window.kh, sy=1, sx=window.sy, dy=1, dx=1,
        top=0, left=window.top, view=View(window.view.storage, 0, rows * run, 0),
    )  # fmt: skip


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


@dataclasses.dataclass(frozen=True)
class Strips:
    """A convolution in strips, `layout` being that of its `im2col_window`."""

    window: Window
    layout: WeightLayout
    config: Config
    speed: MemorySpeed

    def widths(self) -> Iterator[tuple[int, int]]:
        """Yields the columns of boxes, and of the first box, for which the array waits: no more than the others."""
        widths = {
            -(-self.window.ow // boxes) for boxes in range(1, min(IM2COL_BOXES_COMPARED, self.window.ow) + 1)
        }
        widths = {width for width in widths if width <= IM2COL_MOST_COLUMNS} or {IM2COL_MOST_COLUMNS}
        for width in sorted(widths, reverse=True):
            yield from ((width, max(1, width >> halved)) for halved in range(width.bit_length()))

    def times(
        self, rows: int, columns: int, first: int, turns: int, weight_bytes: int, groups: int = 1
    ) -> tuple[int, int]:
        """(cycles, those in which LOAD is busy from the start on) of a first box of `first` columns and others of
        `columns`, all of `rows` rows, for each of some groups of channels. LOAD brings boxes ahead of the array, as
        long as there are buffers, and a group's weights behind the first box; again for the next rows if they do not
        stay."""
        weights = runs_cycles(weight_bytes // groups, 0, self.config, self.speed)
        stay = weight_bytes <= groups * self.config.wm_bytes
        total, loading = 0, 0
        for count, height in split(self.window.oh, rows):
            for number in range(count):
                late = 0 if stay and (number or loading) else weights
                done, loaded = self._overlapped((height, columns, first), turns, late, groups)
                total, loading = total + done, loading + loaded
        return self.window.n * groups * total, self.window.n * groups * loading

    def _overlapped(
        self, sizes: tuple[int, int, int], turns: int, weights: int, groups: int
    ) -> tuple[int, int]:
        (rows, columns, first), w, config = sizes, self.window, self.config
        shape = im2col_window(dataclasses.replace(w, oh=rows), w.ih, columns)
        image_rows = min(w.ih, (rows - 1) * w.sy + w.reach_rows)
        burst = strip_row_cycles(w.kw * w.ic, config, self.speed)
        slots = on_array(shape, self.layout, config, 1) / groups
        counts = [
            min(columns if start else first, w.ow - start) for start in column_starts(w.ow, columns, first)
        ]
        boxes = ((count * image_rows * burst, -(-count * rows // config.rows) * slots) for count in counts)
        return strips_cycles(boxes, weights, turns, self.speed)
