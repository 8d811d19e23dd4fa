"""Boxes of a layer with a window that is in activation memory: rows that come, or leave, while others are computed."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar

from tosaic.compiler.cost.boxes import PassingBox, passing_cycles
from tosaic.compiler.machine_numbers import (
    ARRIVING_BOX_BYTES,
    ARRIVING_BOXES_SHARE,
    ARRIVING_MOST_BOXES,
    ARRIVING_MOST_DEPTHWISE_BOXES,
    STAYING_WEIGHTS_WM_PART,
)
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.tile.box_cost import BoxCost
from tosaic.compiler.tile.box_search import even_parts
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling, row_starts


@dataclasses.dataclass(frozen=True)
class RowsInPassing:
    """The boxes that such a layer may run in. No buffers: all has its place."""

    clearly: ClassVar[float] = ARRIVING_BOXES_SHARE
    """The prediction leaves out much that units wait for each other here."""

    cut: ImageBoxes
    cost: BoxCost
    coming_bytes: int
    """Bytes of an image that comes."""
    leaving_bytes: int
    """Bytes of a result that leaves."""

    def rungs(self) -> Iterator[Iterator[Tiling]]:
        yield self._candidates()

    def _candidates(self) -> Iterator[Tiling]:
        most, config = self.cut.largest(), self.cost.config
        step = config.rows // math.gcd(config.rows, self.cut.window.ow)
        heights = [rows for rows in even_parts(most.rows) if -(-most.rows // rows) <= ARRIVING_MOST_BOXES]
        full = [min(most.rows, -(-rows // step) * step) for rows in heights]
        usual = self._usual(most, step)
        yield Tiling(self.cut, dataclasses.replace(most, rows=usual))
        if not self.cost.work(usual, most.columns, most.channels).tiles:
            return
        for rows in dict.fromkeys((usual, *heights, *full)):
            firsts = [step << n for n in range(8) if step << n < rows] if self.coming_bytes else []
            for first in (0, *firsts):
                cut = dataclasses.replace(self.cut, first_rows=first)
                yield Tiling(cut, dataclasses.replace(most, rows=rows))

    def _usual(self, most: Extent, step: int) -> int:
        """Rows of boxes of a few KiB; all where their weights would come twice."""
        box = self.cost.work(most.rows, most.columns, most.channels)
        if box.weight_bytes > self.cost.config.wm_bytes // STAYING_WEIGHTS_WM_PART:
            return most.rows
        size = (self.coming_bytes or self.leaving_bytes) // self.cut.window.n
        # Each box of the depthwise mode fills its delay line anew.
        boxes = (
            ARRIVING_MOST_DEPTHWISE_BOXES
            if self.cut.multiplier is not None and box.tiles
            else ARRIVING_MOST_BOXES
        )
        rows = -(-self.cut.window.oh // min(boxes, max(1, size // ARRIVING_BOX_BYTES)))
        if not self.coming_bytes:
            rows = most.rows if boxes < ARRIVING_MOST_BOXES else -(-rows // step) * step
        return min(most.rows, rows)

    def sizes(self, tiles: Tiling) -> Sizes:
        return {}

    def cycles(self, tiles: Tiling, sizes: Sizes, turns: int) -> float:
        return passing_cycles(self._boxes(tiles), self.cost.config, self.cost.speed)

    def _boxes(self, tiles: Tiling) -> Iterator[PassingBox]:
        cut, extent, window = tiles.cut, tiles.extent, tiles.cut.window
        across = -(-window.ow // extent.columns)
        starts = row_starts(0, window.oh, extent.rows, cut.first_rows)
        for oy0, oy1 in zip(starts, [*starts[1:], window.oh], strict=True):
            rows = oy1 - oy0
            box = self.cost.work(rows, extent.columns, extent.channels)
            computing = across * self.cost.computing(box, rows * extent.columns)
            coming = self.coming_bytes // window.n * window.input_rows(oy0, oy1)[1] // window.ih
            leaving = self.leaving_bytes / window.n * rows / window.oh
            yield PassingBox(coming, computing, box.tiles, box.weight_bytes, leaving)
