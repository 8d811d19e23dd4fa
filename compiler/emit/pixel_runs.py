"""The streams of a convolution's micro-program: pixel after pixel, or digit after digit of a batch of pixels."""

import dataclasses
from collections.abc import Iterator, Sequence

from tosaic.compiler.emit.box_transfers import BoxPlace
from tosaic.compiler.emit.vector_go import Access, Dim
from tosaic.compiler.fuse.digits import DIGITS
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.image_boxes import Box
from tosaic.hw.isa import Element


@dataclasses.dataclass(frozen=True)
class PixelRun:
    """Pixels of a box that one VECTOR_GO handles: `rows` rows of `columns`, from pixel `pixel` of row `row` on."""

    row: int
    pixel: int
    rows: int
    columns: int
    slots: int
    stores_digits: bool

    @property
    def count(self) -> int:
        return self.rows * self.columns

    @property
    def first(self) -> bool:
        return self.row == self.pixel == 0

    def read(self, load: Load, place: BoxPlace, channel: int) -> Access:
        """An operand, from a channel of the box on."""
        return (
            self._digits(place, channel, down=True)
            if load.digits
            else self._all(load.element, place, channel)
        )

    def write(self, element: Element, place: BoxPlace, channel: int) -> Access:
        """The result, from a channel of the box on."""
        if self.stores_digits:
            return self._digits(place, channel, down=False)
        return self._all(element, place, channel)

    def _start(self, place: BoxPlace) -> int:
        return place.address + self.row * place.row_bytes + self.pixel * place.pixel_bytes

    def _all(self, element: Element, place: BoxPlace, channel: int) -> Access:
        dims: tuple[Dim, ...] = (Dim(self.columns, place.pixel_bytes), Dim(self.rows, place.row_bytes))
        linear = self.rows == 1 or place.row_bytes == self.columns * place.pixel_bytes
        if linear and self.count <= MAX_COUNT:
            dims = (Dim(self.count, place.pixel_bytes),)
        return Access(self._start(place) + channel * element.bytes, element, dims)

    def _digits(self, place: BoxPlace, channel: int, down: bool) -> Access:
        """A micro-operation walks all slots of a batch; the stream's next one comes to the next digit. The top one is
        read first, the lowest one is written first."""
        step = place.pixel_bytes // DIGITS
        start = self._start(place) + channel + (DIGITS - 1) * step * down
        dims = (
            Dim(self.slots, place.pixel_bytes),
            Dim(DIGITS, -step if down else step),
            Dim(self.count // self.slots, self.slots * place.pixel_bytes),
        )
        return Access(start, Element.INT8, dims)


def pixel_runs(box: Box, program: MicroProgram, places: Sequence[BoxPlace], slots: int) -> Iterator[PixelRun]:
    """All pixels of a box, in order. With digits, which must have all channels in the box, batches end where rows of
    the `places` end that do not lie one behind the other, and whole batches and the rest are apart."""
    if not program.has_digits():
        yield PixelRun(0, 0, box.rows, box.columns, slots, False)
        return
    linear = box.rows == 1 or all(place.row_bytes == box.columns * place.pixel_bytes for place in places)
    rows, pixels = (1, box.rows * box.columns) if linear else (box.rows, box.columns)
    for row in range(rows):
        whole = min(pixels - pixels % slots, MAX_COUNT // slots * slots)
        for start in range(0, pixels - pixels % slots, whole or 1):
            count = min(whole, pixels - pixels % slots - start)
            yield PixelRun(row, start, 1, count, slots, program.stores_digits)
        if pixels % slots:
            rest = pixels % slots
            yield PixelRun(row, pixels - rest, 1, rest, rest, program.stores_digits)
