"""Boxes of a layer with a window that is in activation memory: rows that come, or leave, while others are computed."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar

from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.tile.box_cost import BoxCost
from tosaic.compiler.tile.box_search import even_parts
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling, row_starts
from tosaic.hw.isa import INSTRUCTION_BYTES

_BOX_INSTRUCTIONS = 24
"""Instructions of each box, which come from the same bus as the image."""
_MOST_BOXES = 8
_PIECE_BYTES = 4096
"""Bytes of a box that come or leave, about: the preferred boxes have that many."""


@dataclasses.dataclass(frozen=True)
class RowsInPassing:
    """The boxes that such a layer may run in. No buffers: all has its place."""

    clearly: ClassVar[float] = 0.95
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
        heights = [rows for rows in even_parts(most.rows) if -(-most.rows // rows) <= _MOST_BOXES]
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
        if 2 * box.weight_bytes > self.cost.config.wm_bytes:
            return most.rows
        size = (self.coming_bytes or self.leaving_bytes) // self.cut.window.n
        # Each box of the depthwise mode fills its delay line anew.
        boxes = _MOST_BOXES // 2 if self.cut.multiplier is not None and box.tiles else _MOST_BOXES
        rows = -(-self.cut.window.oh // min(boxes, max(1, size // _PIECE_BYTES)))
        if not self.coming_bytes:
            rows = most.rows if boxes < _MOST_BOXES else -(-rows // step) * step
        return min(most.rows, rows)

    def sizes(self, tiles: Tiling) -> Sizes:
        return {}

    def cycles(self, tiles: Tiling, sizes: Sizes, turns: int) -> float:
        """Cycles until the last box is computed, and has left: each box waits for its rows, and the weights come after
        the first box's rows."""
        cut, extent, config = tiles.cut, tiles.extent, self.cost.config
        window, done, left = cut.window, 0.0, 0.0
        across = -(-window.ow // extent.columns)
        bytes_per_cycle = float(self.cost.speed.bytes_per_cycle(config))
        starts = row_starts(0, window.oh, extent.rows, cut.first_rows)
        loaded_bytes = 0
        for number, (oy0, oy1) in enumerate(zip(starts, [*starts[1:], window.oh], strict=True)):
            rows = oy1 - oy0
            box = self.cost.work(rows, extent.columns, extent.channels)
            computing = across * self.cost.computing(box, rows * extent.columns)
            loaded_bytes += _BOX_INSTRUCTIONS * INSTRUCTION_BYTES
            coming = self.coming_bytes // window.n * window.input_rows(oy0, oy1)[1] // window.ih
            done = max(done, (loaded_bytes + coming) / bytes_per_cycle) + computing
            if not number or 2 * box.weight_bytes > config.wm_bytes:
                # The last tile of channels waits for its weights.
                loaded_bytes += box.weight_bytes
                last = computing / max(1, box.tiles)
                done = max(done, (loaded_bytes + coming) / bytes_per_cycle + last)
            left = max(done, left) + self.leaving_bytes / window.n * rows / window.oh / bytes_per_cycle
        return left
