"""Convolutions and pools box by box: ranges of output rows, output columns and output channels."""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.emit.operands import WINDOW, Operands
from tosaic.compiler.emit.transfers import StoredBox
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.schedule.tracker import Space, Span

NOWHERE = Span(Space.AM, 0, 0)
"""Of windows that lie outside the image altogether: nothing is read."""
MAX_COUNT = (1 << 16) - 1
"""Of rows or columns in most fields."""
_MAX_X_STEP = (1 << 19) - 1
_MAX_Y_STEP = (1 << 12) - 1


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
class Place:
    """Where a box of an image with the output's shape is in activation memory."""

    address: int
    row_bytes: int
    """From row to row."""
    pixel_bytes: int
    """From pixel to pixel."""
    bytes: int
    """From the first byte to behind the last."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the input of a box is: the window restricted to it, its first byte, and the first channel's byte."""

    window: Window
    address: int
    span: Span
    channel: int


@dataclasses.dataclass(frozen=True)
class ImageBoxes:
    """How the output of a windowed layer may be cut."""

    window: Window
    """`ic` in bytes."""
    channels: int
    step: int
    """Boxes end at multiples of so many channels."""
    channel_bytes: int = 1
    """Bytes of an input element."""
    multiplier: int | None = None
    """Output channels that share an input channel; None: each one needs all input channels."""
    column_limit: int = MAX_COUNT
    """Most columns the array takes at a time."""
    stripe_pitch: int = 0
    """Bytes from row to row of an input that is fetched as whole image rows; 0: as they are in the storage."""

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
        return Extent(rows, columns, self.channels)

    def boxes(self, extent: Extent) -> Iterator[Box]:
        w = self.window
        for c0 in range(0, self.channels, extent.channels):
            c1 = min(c0 + extent.channels, self.channels)
            for image in range(w.n):
                for oy0 in range(0, w.oh, extent.rows):
                    oy1 = min(oy0 + extent.rows, w.oh)
                    for ox0 in range(0, w.ow, extent.columns):
                        yield Box(image, oy0, oy1, ox0, min(ox0 + extent.columns, w.ow), c0, c1)

    def _input_channels(self, c0: int, c1: int) -> tuple[int, int]:
        """Bytes [first, last) of an input pixel that output channels [c0, c1) need."""
        if self.multiplier is None:
            return 0, self.window.ic
        return c0 // self.multiplier * self.channel_bytes, -(-c1 // self.multiplier) * self.channel_bytes

    def _contiguous(self, extent: Extent) -> bool:
        """Whether a box's input is fetched as whole image rows."""
        w = self.window
        whole = extent.columns == w.ow and (extent.channels == self.channels or self.multiplier is None)
        return whole and w.view.pitch <= 2 * w.iw * w.ic

    def _source_rows(self, rows: int) -> int:
        """Most input rows that a box of so many rows needs."""
        w = self.window
        if w.oh > 1000 * rows:
            return min(w.ih, (rows - 1) * w.sy + (w.kh - 1) * w.dy + 1)
        spans = (w.input_rows(oy, min(oy + rows, w.oh)) for oy in range(0, w.oh, rows))
        return max(1, max(high - low for low, high in spans))

    def source_bytes(self, extent: Extent) -> int:
        """Bytes of the largest input of a box."""
        w = self.window
        rows = self._source_rows(extent.rows)
        if self._contiguous(extent):
            if self.stripe_pitch:
                return rows * self.stripe_pitch
            return (rows - 1) * w.view.pitch + w.iw * w.ic
        columns = min(w.iw, (extent.columns - 1) * w.sx + (w.kw - 1) * w.dx + 1)
        c0, c1 = self._input_channels(0, extent.channels)
        if self.multiplier is not None and extent.channels % self.multiplier:
            c1 += self.channel_bytes  # a box may begin and end within the outputs of one input channel
        return rows * columns * min(c1 - c0, w.ic)

    def image_bytes(self, extent: Extent, element_bytes: int) -> int:
        """Bytes of a box of an image with the output's shape."""
        return extent.rows * extent.columns * extent.channels * element_bytes

    # --- transfers

    def source(self, box: Box, extent: Extent, operands: Operands) -> Source:
        """Fetches what a box's windows cover, unless it is resident."""
        w = self.window
        low, high = w.input_rows(box.oy0, box.oy1)
        columns, channels, pitch = (0, w.iw), (0, w.ic), w.view.pitch
        start = w.view.offset + box.image * w.view.image_bytes + low * pitch
        resident = operands.resident(w.view.storage)
        apart = self.stripe_pitch and not resident and self._contiguous(extent) and high > low
        if apart and w.view.pitch == w.iw * w.ic:
            pitch, size = self.stripe_pitch, (high - low) * self.stripe_pitch
            address = operands.fetch_rows(w.view.storage, start, high - low, w.iw * w.ic, pitch, WINDOW)
        elif resident or self._contiguous(extent):
            size = (high - low - 1) * pitch + w.iw * w.ic if high > low else 0
            address = operands.fetch(w.view.storage, start, start + size, WINDOW) if size else 0
        else:
            columns = w.input_columns(box.ox0, box.ox1)
            channels = self._input_channels(box.c0, box.c1)
            start += columns[0] * w.ic + channels[0]
            run = channels[1] - channels[0]
            dims = ((high - low, pitch), (columns[1] - columns[0], w.ic))
            stored = StoredBox(start, dims, run)
            address = operands.fetch_box(w.view.storage, stored, WINDOW)
            pitch, size = (columns[1] - columns[0]) * run, stored.bytes
        restricted = dataclasses.replace(
            w,
            n=1,
            ih=high - low,
            iw=columns[1] - columns[0],
            ic=channels[1] - channels[0],
            oh=box.rows,
            ow=box.columns,
            top=w.top - box.oy0 * w.sy + low,
            left=w.left - box.ox0 * w.sx + columns[0],
            view=View(w.view.storage, 0, pitch, 0),
        )
        return Source(
            restricted, address, Span(Space.AM, address, address + size) if size else NOWHERE, channels[0]
        )

    def _stored(self, box: Box, element_bytes: int) -> StoredBox:
        w, pixel = self.window, self.channels * element_bytes
        start = ((box.image * w.oh + box.oy0) * w.ow + box.ox0) * pixel + box.c0 * element_bytes
        dims = ((box.rows, w.ow * pixel), (box.columns, pixel))
        return StoredBox(start, dims, (box.c1 - box.c0) * element_bytes)

    def _place(self, name: str, box: Box, element_bytes: int, address: int, operands: Operands) -> Place:
        stored, resident = self._stored(box, element_bytes), operands.resident(name)
        pitch = operands.placements[name].pitch
        if resident and pitch:
            (_, row), (_, pixel) = stored.dims
            # `address` counts rows as if they followed each other.
            address += (stored.start // row) * (pitch - row)
            return Place(address, pitch, pixel, stored.end - stored.start + (box.rows - 1) * (pitch - row))
        if resident:
            (_, row), (_, pixel) = stored.dims
            return Place(address, row, pixel, stored.end - stored.start)
        return Place(address, box.columns * stored.run, stored.run, stored.bytes)

    def operand(self, name: str, element_bytes: int, box: Box, operands: Operands) -> Place:
        """Fetches a box of an operand with the output's shape."""
        stored = self._stored(box, element_bytes).merged()
        resident = operands.resident(name)
        if resident or not stored.dims:
            address = operands.fetch(name, stored.start, stored.end)
        else:
            address = operands.fetch_box(name, stored)
        return self._place(name, box, element_bytes, address, operands)

    def target(self, name: str, element_bytes: int, box: Box, operands: Operands) -> Place:
        """Where a box of the output is to be written."""
        stored, resident = self._stored(box, element_bytes), operands.resident(name)
        stop = stored.end if resident else stored.start + stored.bytes
        address = operands.target(name, stored.start, stop)
        return self._place(name, box, element_bytes, address, operands)

    def finish(self, name: str, element_bytes: int, box: Box, place: Place, operands: Operands) -> None:
        """Sends a finished box to external memory, if the output lives there."""
        stored = self._stored(box, element_bytes).merged()
        if operands.resident(name):
            return
        if stored.dims:
            operands.finish_box(name, place.address, stored)
        else:
            operands.finish(name, place.address, stored.start, stored.end)
