"""Convolutions and pools box by box: ranges of output rows, output columns and output channels."""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.hw.isa import Opcode, largest

_MAX_X_STEP = largest(Opcode.ARRAY_WINDOW, "x_step")
_MAX_Y_STEP = largest(Opcode.ARRAY_WINDOW, "y_step")


@dataclasses.dataclass(frozen=True)
class Extent:
    """Size of a box in output rows, columns and channels."""

    rows: int
    columns: int
    channels: int


@dataclasses.dataclass(frozen=True)
class Box:
    """Part of the output: rows [oy0, oy1), columns [ox0, ox1), channels [c0, c1) of one image."""

    image: int
    oy0: int
    oy1: int
    ox0: int
    ox1: int
    c0: int
    c1: int

    @property
    def rows(self) -> int:
        return self.oy1 - self.oy0

    @property
    def columns(self) -> int:
        return self.ox1 - self.ox0


@dataclasses.dataclass(frozen=True)
class ImageBoxes:
    """How the output of a windowed layer may be cut."""

    window: Window
    """The window, with `ic` in bytes."""
    channels: int
    step: int
    """Boxes end at multiples of this many channels."""
    channel_bytes: int = 1
    """Bytes of an input element."""
    multiplier: int | None = None
    """Output channels that share an input channel; None: each one needs all input channels."""
    column_limit: int = MAX_COUNT
    """The largest number of columns that the array takes at a time."""
    first_columns: int = 0
    """Columns of the first box, if not as many as the others have; 0: they are as many."""
    first_rows: int = 0
    """Rows of the first box; the next ones have twice as many each until they are as high as any. 0: all are."""
    output_limit: int = MAX_COUNT * MAX_COUNT
    """The largest product of rows and columns."""
    stripe_pitch: int = 0
    """Bytes from row to row of an input that is fetched as whole image rows; 0: as they are in the storage."""
    im2col_zp: int | None = None
    """Zero point of an image of which the input of each output column is fetched by itself, see `im2col.py`."""
    picked: bool = False
    """Whether only the pixels that 1×1 windows read are fetched (`picked.py`)."""
    rows: tuple[int, int] | None = None
    """The output rows [first, last) that the boxes cover; None: all of them."""

    def largest(self) -> Extent:
        """The largest box that the instructions' fields can express."""
        w = self.window
        rows, columns = min(w.oh, MAX_COUNT), min(w.ow, MAX_COUNT, self.column_limit)
        if w.sx * w.ic > _MAX_X_STEP:
            columns = 1
        if w.sy > _MAX_Y_STEP:
            rows = 1
        # The image rows of a box are counted in 16 bits.
        if w.ih > MAX_COUNT:
            rows = max(1, min(rows, (MAX_COUNT - (w.kh - 1) * w.dy) // w.sy))
        rows = max(1, min(rows, self.output_limit // columns))
        return Extent(rows, columns, self.channels)

    def boxes(self, extent: Extent) -> Iterator[Box]:
        w, (first, last) = self.window, self.rows or (0, self.window.oh)
        width = extent.columns
        starts = column_starts(w.ow, width, min(self.first_columns or width, width))
        heights = row_starts(first, last, extent.rows, self.first_rows)
        for c0 in range(0, self.channels, extent.channels):
            c1 = min(c0 + extent.channels, self.channels)
            for image in range(w.n):
                for oy0, oy1 in zip(heights, [*heights[1:], last], strict=True):
                    for ox0, ox1 in zip(starts, [*starts[1:], w.ow], strict=True):
                        yield Box(image, oy0, oy1, ox0, ox1, c0, c1)

    def input_channels(self, c0: int, c1: int) -> tuple[int, int]:
        """Bytes [first, last) of an input pixel that output channels [c0, c1) need."""
        if self.multiplier is None:
            return 0, self.window.ic
        return c0 // self.multiplier * self.channel_bytes, -(-c1 // self.multiplier) * self.channel_bytes

    def contiguous(self, extent: Extent) -> bool:
        """Whether a box's input is fetched as whole image rows."""
        w = self.window
        whole = extent.columns == w.ow and (extent.channels == self.channels or self.multiplier is None)
        return whole and w.view.pitch <= 2 * w.iw * w.ic

    def source_bytes(self, extent: Extent, source_rows: int = 0) -> int:
        """Bytes of the largest input of a box, which has `source_rows` rows if that is told."""
        w = self.window
        rows = source_rows or w.row_axis.most_needed(extent.rows)
        if self.im2col_zp is not None:
            return rows * extent.columns * w.kw * w.ic
        if self.picked:
            return extent.rows * extent.columns * w.ic
        if self.contiguous(extent):
            if self.stripe_pitch:
                return rows * self.stripe_pitch
            return (rows - 1) * w.view.pitch + w.iw * w.ic
        columns = min(w.iw, (extent.columns - 1) * w.sx + (w.kw - 1) * w.dx + 1)
        c0, c1 = self.input_channels(0, extent.channels)
        if self.multiplier is not None and extent.channels % self.multiplier:
            c1 += self.channel_bytes  # a box may begin and end within the outputs of one input channel
        return rows * columns * min(c1 - c0, w.ic)

    def image_bytes(self, extent: Extent, element_bytes: int) -> int:
        """Bytes of a box of an image with the output's shape."""
        return extent.rows * extent.columns * extent.channels * element_bytes

    def stored(self, box: Box, element_bytes: int) -> StoredBox:
        """A box of a dense tensor with the output's shape."""
        w, pixel = self.window, self.channels * element_bytes
        start = ((box.image * w.oh + box.oy0) * w.ow + box.ox0) * pixel + box.c0 * element_bytes
        dims = ((box.rows, w.ow * pixel), (box.columns, pixel))
        return StoredBox(start, dims, (box.c1 - box.c0) * element_bytes)


@dataclasses.dataclass(frozen=True)
class Tiling:
    """The boxes of a layer: a way to cut its output, and their size."""

    cut: ImageBoxes
    extent: Extent


def column_starts(width: int, columns: int, first: int) -> list[int]:
    """Where boxes of `columns` of `width` columns begin, the first one having `first`."""
    return [0, *range(first, width, columns)]


def row_starts(first: int, last: int, most: int, first_rows: int) -> list[int]:
    """Where boxes of rows [first, last) begin: the first has `first_rows`, the next ones twice as many, up to `most`;
    with 0 all have `most`."""
    starts, rows = [], first_rows or most
    while first < last:
        starts.append(first)
        first, rows = first + min(rows, most), 2 * rows
    return starts
