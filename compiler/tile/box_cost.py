"""What a convolution or a pool costs in boxes of some size: each one is fetched, computed and sent away."""

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterator

from tosaic.compiler.cost.boxes import BoxDemand, BoxTime, BoxWork, Moved, boxes_cycles, computing_cycles
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import Role
from tosaic.compiler.tile.box_search import split
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class BoxCost:
    """The cost of a convolution, or of a pool."""

    config: Config
    speed: MemorySpeed
    work: Callable[[int, int, int], BoxWork]
    """A function that returns the work of a box of some rows, columns and channels."""
    beats: int
    """Cycles of VECTOR for a vector."""
    work_content: Hashable = None
    """Equal where `work` returns the same for the same boxes; None: nothing is known of it."""

    def cycles(self, tiling: Tiling, sizes: Sizes, *, doubled: bool) -> int:
        """Predicted cycles of all boxes, whose buffers have these `sizes`."""
        cut, extent = tiling.cut, tiling.extent
        time = self._time(extent)
        ends = self._moved(cut, extent, sizes, extent, time)
        firsts = self._first_boxes(cut, extent)
        boxes = self._boxes(cut, extent, sizes, time)
        return boxes_cycles(boxes, firsts, ends, time, self.speed, doubled=doubled)

    def computing(self, box: BoxWork, pixels: int) -> int:
        """Cycles of a box whose operands are there."""
        return computing_cycles(box.array_cycles, box.tiles, pixels * self.beats)

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
        pixels = extent.rows * extent.columns
        # Some of the channels are a short run of bytes for each pixel.
        runs = pixels if extent.channels < cut.channels else 0
        for key, size in sizes.items():
            bursts = runs
            if key.role is Role.WINDOW:
                bursts = _window_bursts(cut, extent, size) * pixels // (whole.rows * whole.columns)
            moved = time.of_runs(size * pixels, whole.rows * whole.columns, bursts)
            if key.role is Role.RESULT:
                written += moved
            else:
                read += moved
        return Moved(read, written)


def _window_bursts(cut: ImageBoxes, extent: Extent, size_bytes: int) -> int:
    """Runs of bytes that a box's input of `size_bytes` is fetched in; 0 where image rows come as a whole."""
    w = cut.window
    if cut.picked:
        return extent.rows * extent.columns
    if cut.im2col_zp is not None or cut.contiguous(extent):
        return 0
    first, last = cut.input_channels(0, extent.channels)
    run = min(last - first, w.ic)
    if run == w.ic:
        run *= min(w.iw, (extent.columns - 1) * w.sx + w.reach_columns)
    return size_bytes // run
