"""A kernel that slides along an axis of an image: which positions each output sees, and the padding around them."""

import dataclasses
from collections.abc import Iterable

from tosaic.compiler.cut.boxes import Range
from tosaic.compiler.cut.reads import Reads, clipped

_MANY_PARTS = 1000
"""More parts than these are not looked at one by one."""


@dataclasses.dataclass(frozen=True)
class WindowAxis:
    """A convolution or pool along one axis of the image. Tap t of output o is at o * stride + t * dilation - pad."""

    extent: int
    outputs: int
    taps: int
    pad: int
    stride: int = 1
    dilation: int = 1

    def reach(self, taps: int | None = None) -> int:
        """Positions from the first to the last of some neighbouring taps, of all if none are told."""
        return ((self.taps if taps is None else taps) - 1) * self.dilation + 1

    def reads(self, outputs: int, taps: int) -> Reads:
        """The same as an axis of an operand, by the numbers of the loops over outputs and taps."""
        return Reads(self.extent, ((outputs, self.stride), (taps, self.dilation)), -self.pad)

    def needs(self, outputs: Range) -> Range:
        """The positions inside the image that some outputs see; an empty range where they see padding only."""
        first, last = outputs
        low = first * self.stride - self.pad
        return clipped(low, low + (last - first - 1) * self.stride + self.reach(), self.extent)

    def most_needed(self, outputs: int) -> int:
        """The most positions inside the image that a part of `outputs` outputs sees; no fewer, where parts are many."""
        if self.outputs > _MANY_PARTS * outputs:
            return min(self.extent, (outputs - 1) * self.stride + self.reach())
        parts = ((first, min(first + outputs, self.outputs)) for first in range(0, self.outputs, outputs))
        return max(1, *(high - low for low, high in map(self.needs, parts)))

    def padding(self, outputs: Range, taps: Range, inside: Range) -> list[int]:
        """Padding before and after positions `inside` of the image, with which these outputs and taps meet what they
        meet in the whole; below zero where they do not meet its ends."""
        first = outputs[0] * self.stride + taps[0] * self.dilation - self.pad
        last = (outputs[1] - 1) * self.stride + (taps[1] - 1) * self.dilation - self.pad + 1
        return [inside[0] - first, last - inside[1]]

    def meets(self, tap: int) -> bool:
        """Whether a tap meets the image at any output."""
        origin = self.pad - tap * self.dilation
        first = max(0, -(-origin // self.stride))
        return first < self.outputs and first * self.stride < origin + self.extent

    def useful_taps(self) -> Iterable[int]:
        """The taps that meet the image at any output."""
        return (tap for tap in range(self.taps) if self.meets(tap))
