"""The first box of an image that is worked on while it arrives: the array waits for it, so it may be small."""

import dataclasses
import math
from collections.abc import Callable, Iterator

from tosaic.compiler.cost.boxes import BoxWork, arriving_cycles, box_instruction_bytes
from tosaic.compiler.machine_numbers import OTHER_BOXES_SHARE
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.tile.image_boxes import ImageBoxes, row_starts
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Arriving:
    """A convolution whose image comes meanwhile."""

    config: Config
    speed: MemorySpeed
    work: Callable[[int], BoxWork]
    """A function that returns the work of a box of some rows."""

    def rows(self, cut: ImageBoxes, fewest: int) -> int:
        """Output rows of a box: `fewest`, or more where that clearly takes fewer cycles. Larger boxes leave fewer rows
        of the array empty, but each waits for a larger part of the image."""
        height = cut.window.oh
        best, least = fewest, OTHER_BOXES_SHARE * self.cycles(cut, fewest, 0)
        for boxes in range(1, -(-height // fewest)):
            rows = -(-height // boxes)
            if (cycles := self.cycles(cut, rows, 0)) < least:
                best, least = rows, cycles
        return best

    def first_rows(self, cut: ImageBoxes, most: int) -> int:
        """Output rows of the first box, `most` being those of the others; 0 where it had better be no smaller."""
        step = self.config.rows // math.gcd(self.config.rows, cut.window.ow)
        best, least = 0, OTHER_BOXES_SHARE * self.cycles(cut, most, 0)
        while step < most:
            if (cycles := self.cycles(cut, most, step)) < least:
                best, least = step, cycles
            step *= 2
        return best

    def cycles(self, cut: ImageBoxes, most: int, first: int) -> float:
        """Returns the cycles until the last box is computed: each box waits for its rows, and the weights
        come after the first box's rows.
        """
        bytes_per_cycle = float(self.speed.bytes_per_cycle(self.config))
        return arriving_cycles(self._boxes(cut, most, first), bytes_per_cycle)

    def _boxes(self, cut: ImageBoxes, most: int, first: int) -> Iterator[tuple[int, int]]:
        """Yields (bytes that come up to its last row, cycles of the array) of each box."""
        window, starts = cut.window, row_starts(0, cut.window.oh, most, first)
        loaded_bytes = self.work(most).weight_bytes
        for oy0, oy1 in zip(starts, [*starts[1:], window.oh], strict=True):
            loaded_bytes += box_instruction_bytes()
            _, high = window.input_rows(oy0, oy1)
            yield loaded_bytes + high * window.iw * window.ic, self.work(oy1 - oy0).array_cycles
