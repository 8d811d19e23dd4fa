"""Boxes of a windowed layer on their way in and out."""

import dataclasses
from collections.abc import Hashable

from tosaic.compiler.emit.commands import Command
from tosaic.compiler.emit.layer_emission import ImageColumns, ImageStrips, LayerEmission
from tosaic.compiler.place.address import Columns, Span, activation_span
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.tile.im2col import im2col_window
from tosaic.compiler.tile.image_boxes import Box, Extent, ImageBoxes
from tosaic.compiler.tile.picked import picked_box

NOWHERE = activation_span(0, 0)
"""The span of windows that lie outside the image altogether: nothing is read."""


@dataclasses.dataclass(frozen=True)
class BoxPlace:
    """Where a box of an image with the output's shape is in activation memory."""

    address: int
    row_bytes: int
    """Bytes from row to row."""
    pixel_bytes: int
    """Bytes from pixel to pixel."""
    bytes: int
    """Bytes from the first byte to the end of the last."""

    @property
    def span(self) -> Span:
        return activation_span(self.address, self.address + self.bytes)

    def span_of(self, first_byte: int, size_bytes: int) -> Span:
        """Returns the span of the same bytes of all pixels: some channels."""
        return _of_columns(self.span, self.address + first_byte, size_bytes, self.pixel_bytes, self.row_bytes)


@dataclasses.dataclass(frozen=True)
class BoxSource:
    """Where the input of a box is: the window restricted to it, its first byte, and the first channel's byte."""

    window: Window
    address: int
    span: Span
    channel: int
    left_out: int = 0
    """Pixels at the end of the last row that are not of it."""
    setups: dict[Hashable, list[Command]] = dataclasses.field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """What sets the array up for it, by a tile's place among the input channels and its part of the kernel."""

    @property
    def pixels(self) -> int:
        return self.window.oh * self.window.ow - self.left_out

    def span_of(self, first_byte: int, size_bytes: int) -> Span:
        """Returns the span of the same bytes of all pixels, if they are bytes of these pixels only."""
        pixel, first = self.window.ic, self.address + first_byte
        if first_byte + size_bytes > pixel:
            return self.span
        return _of_columns(self.span, first, size_bytes, pixel, self.window.view.pitch)


def _of_columns(span: Span, first: int, width: int, pixel_bytes: int, row_bytes: int) -> Span:
    """Returns the span of `width` bytes of each pixel, counted from byte `first`."""
    if width >= pixel_bytes:
        return span
    count = row_bytes // pixel_bytes
    columns = Columns(pixel_bytes, first % pixel_bytes, width)
    if row_bytes % pixel_bytes:
        columns = Columns(row_bytes, first % row_bytes, width, pixel_bytes, count)
    return Span(span.region, span.start, span.end, columns)


class BoxTransfers:
    """The transfers of one layer's boxes of at most `extent`."""

    def __init__(self, emission: LayerEmission, cut: ImageBoxes, extent: Extent):
        self.emission, self.cut, self.extent = emission, cut, extent

    def source(self, box: Box) -> BoxSource:
        """Fetches what a box's windows cover, unless it is resident."""
        w, cut = self.cut.window, self.cut
        key = BufferKey(Role.WINDOW, w.view.storage)
        low, high = w.input_rows(box.oy0, box.oy1)
        if cut.im2col_zp is not None:
            return self._by_columns(key, box, cut.im2col_zp)
        if cut.picked and not self.emission.resident(w.view.storage):
            stored, window = picked_box(w, box)
            address = self.emission.fetch_box(key, stored)
            return BoxSource(window, address, activation_span(address, address + stored.bytes), 0)
        columns, channels, pitch = (0, w.iw), (0, w.ic), w.view.pitch
        start = w.view.offset + box.image * w.view.image_bytes + low * pitch
        resident, contiguous = self.emission.resident(w.view.storage), cut.contiguous(self.extent)
        if cut.stripe_pitch and not resident and contiguous and high > low:
            pitch, size = cut.stripe_pitch, (high - low) * cut.stripe_pitch
            address = self.emission.fetch_rows(key, start, high - low, w.iw * w.ic, w.view.pitch, pitch)
        elif resident or contiguous:
            size = (high - low - 1) * pitch + w.iw * w.ic if high > low else 0
            address = self.emission.fetch(key, start, start + size) if size else 0
        else:
            columns = w.input_columns(box.ox0, box.ox1)
            channels = cut.input_channels(box.c0, box.c1)
            start += columns[0] * w.ic + channels[0]
            run = channels[1] - channels[0]
            dims = ((high - low, pitch), (columns[1] - columns[0], w.ic))
            stored = StoredBox(start, dims, run)
            address = self.emission.fetch_box(key, stored)
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
        span = activation_span(address, address + size) if size else NOWHERE
        return BoxSource(restricted, address, span, channels[0])

    def _by_columns(self, key: BufferKey, box: Box, zero_point: int) -> BoxSource:
        """Fetches the input of each output column of a box by itself, see `im2col.py`."""
        w = self.cut.window
        low, high = w.input_rows(box.oy0, box.oy1)
        origin = w.view.offset + box.image * w.view.image_bytes + low * w.view.pitch
        found = []
        for ox in range(box.ox0, box.ox1):
            start = ox * w.sx - w.left
            first, last = (max(0, min(column, w.iw)) for column in (start, start + w.kw))
            skipped, inside = (first - start) * w.ic, (last - first) * w.ic
            found.append(ImageColumns(origin + first * w.ic, skipped, inside))
        run, size = w.kw * w.ic, (high - low) * box.columns * w.kw * w.ic
        source = ImageStrips(found, high - low, w.view.pitch, run, zero_point)
        address = self.emission.fetch_strips(key, source) if size else 0
        # A strip without rows is outside the image everywhere.
        window = im2col_window(dataclasses.replace(w, oh=box.rows), max(high - low, 1), box.columns)
        window = dataclasses.replace(window, ih=box.columns if size else 0, left=w.top - box.oy0 * w.sy + low)
        return BoxSource(window, address, activation_span(address, address + size), 0)

    def _place(self, name: str, box: Box, element_bytes: int, address: int) -> BoxPlace:
        stored, placement = self.cut.stored(box, element_bytes), self.emission.placement(name)
        (_, row), (_, pixel) = stored.dims
        if placement.resident and placement.pitch:
            # `address` counts rows as if they followed each other.
            gap = placement.pitch - row
            address += (stored.start // row) * gap
            size = stored.end - stored.start + (box.rows - 1) * gap
            return BoxPlace(address, placement.pitch, pixel, size)
        if placement.resident:
            return BoxPlace(address, row, pixel, stored.end - stored.start)
        return BoxPlace(address, box.columns * stored.run, stored.run, stored.bytes)

    def operand(self, stream: int, box: Box) -> BoxPlace:
        """Fetches a box of an operand with the output's shape; a line along the channels is there for all pixels."""
        if (line := self.emission.work.lines.get(stream)) is not None:
            element_bytes = self.emission.layer.program.loads[stream].element.bytes
            address = line + box.c0 * element_bytes
            return BoxPlace(address, 0, 0, (box.c1 - box.c0) * element_bytes)
        tensors, load = self.emission.tensors, self.emission.layer.program.loads[stream]
        name, offset = tensors.storage[load.tensor], tensors.offset_bytes(load.tensor)
        key, stored = (
            tensors.operand_key(load.tensor, stream),
            self.cut.stored(box, load.element.bytes).merged(),
        )
        stored = dataclasses.replace(stored, start=stored.start + offset)
        if self.emission.resident(name) or not stored.dims:
            address = self.emission.fetch(key, stored.start, stored.end)
        else:
            address = self.emission.fetch_box(key, stored)
        return self._place(name, box, load.element.bytes, address)

    def target(self, element_bytes: int, box: Box) -> BoxPlace:
        """Where a box of the output is to be written."""
        stored, output = self.cut.stored(box, element_bytes), self.emission.work.output
        stop = stored.end if self.emission.resident(output) else stored.start + stored.bytes
        address = self.emission.target(stored.start, stop)
        return self._place(output, box, element_bytes, address)

    def finish_channels(self, element_bytes: int, box: Box, place: BoxPlace, channels: int) -> None:
        """Sends the first channels of a box of one pixel, if the result is resident and wanted outside, too."""
        if box.rows * box.columns == 1 and self.emission.resident(self.emission.work.output):
            start = self.cut.stored(box, element_bytes).start
            self.emission.finish(place.address, start, start + channels * element_bytes)

    def finish(self, element_bytes: int, box: Box, place: BoxPlace) -> None:
        """Sends a finished box to external memory, if the output lives there or is wanted there, too."""
        stored = self.cut.stored(box, element_bytes).merged()
        if not stored.dims:
            self.emission.finish(place.address, stored.start, stored.end)
        elif not self.emission.resident(self.emission.work.output):
            self.emission.finish_box(place.address, stored)
