"""What a convolution costs in boxes of some size: each one is fetched, computed and sent away."""

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterator

from tosaic.compiler.cost.boxes import BoxDemand, BoxTime, BoxWork, Moved, boxes_cycles
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class BoxCost:
    """The cost of a convolution layer."""

    config: Config
    speed: MemorySpeed
    work: Callable[[int, int, int], BoxWork]
    """A function that returns the work of a box of some rows, columns and channels."""
    beats: int
    """Cycles of VECTOR for a vector."""
    work_content: Hashable = None
    """Equal where `work` returns the same for the same boxes; None: nothing is known of it."""

    def cycles(self, cut: ImageBoxes, extent: Extent, sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes of at most `extent`, whose buffers have these `sizes`."""
        time = self._time(extent)
        ends = self._moved(cut, extent, sizes, extent, time)
        firsts = self._first_boxes(cut, extent)
        boxes = self._boxes(cut, extent, sizes, time)
        return boxes_cycles(boxes, firsts, ends, time, self.speed, doubled=doubled)

    def _time(self, extent: Extent) -> BoxTime:
        return BoxTime.of(self.speed, self.config, extent.rows * extent.columns)

    def _boxes(self, cut: ImageBoxes, extent: Extent, sizes: Sizes, time: BoxTime) -> Iterator[BoxDemand]:
        """Yields all boxes, those that are alike at once."""
        heights, widths = split(cut.window.oh, extent.rows), split(cut.window.ow, extent.columns)
        for groups, channels in split(cut.channels, extent.channels):
            for (count, rows), (across, columns) in itertools.product(heights, widths):
                moved = self._moved(cut, Extent(rows, columns, extent.channels), sizes, extent, time)
                work = self.work(rows, columns, channels)
                times = groups * cut.window.n * count * across
                yield BoxDemand(times, work, rows * columns * self.beats, moved)

    def _first_boxes(self, cut: ImageBoxes, extent: Extent) -> Iterator[tuple[int, BoxWork]]:
        """Yields the first box of each group of channels, and how many groups there are of the kind."""
        for groups, channels in split(cut.channels, extent.channels):
            yield groups, self.work(extent.rows, extent.columns, channels)

    def _moved(self, cut: ImageBoxes, extent: Extent, sizes: Sizes, whole: Extent, time: BoxTime) -> Moved:
        """Returns what a box of `extent` moves; `sizes` are those of a box of `whole`, which the time is for."""
        read, written = 0, 0
        # Some of the channels are a short run of bytes for each pixel.
        runs = extent.rows * extent.columns if extent.channels < cut.channels else 0
        for key, size in sizes.items():
            least = 0 if key.role is Role.WINDOW else runs
            part = size * extent.rows * extent.columns
            moved = time.of_runs(part, whole.rows * whole.columns, least)
            if key.role is Role.RESULT:
                written += moved
            else:
                read += moved
        return Moved(read, written)


def split(size: int, step: int) -> list[tuple[int, int]]:
    """(number of pieces, their size) of `size` cut into pieces of `step`, of which the last may be smaller."""
    whole, rest = divmod(size, step)
    return [(count, each) for count, each in ((whole, step), (1, rest)) if count and each]
