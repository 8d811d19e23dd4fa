"""Windows that slide over images: what frameworks round, TOSA's exact division (idiv_check) must meet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering


@dataclass(frozen=True)
class AxisWindow:
    """One spatial axis of a sliding window, in elements; `before` and `after` pad (negative: cut off)."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def extent(self) -> int:
        """Elements from a window's first to its last one."""
        return (self.kernel - 1) * self.dilation + 1

    def outputs(self, size: int, ceil: bool = False) -> int:
        """Number of positions on an axis of `size` elements, not positive when the window does not fit.

        Rounding up leaves out a last window that would begin in the padding at the end.
        """
        steps = size + self.before + self.after - self.extent
        if not ceil:
            return steps // self.stride + 1
        count = -(-steps // self.stride) + 1
        return count - 1 if (count - 1) * self.stride >= size + self.before else count

    def positions(self, size: int) -> np.ndarray:
        """Index in the padded axis of each tap of each position: [positions, taps]."""
        starts = np.arange(self.outputs(size)) * self.stride
        return starts[:, None] + np.arange(self.kernel) * self.dilation

    def exact(self, size: int, ceil: bool = False) -> "AxisWindow":
        """The same positions, with `after` such that the last one ends at the last element."""
        count = self.outputs(size, ceil)
        return replace(self, after=(count - 1) * self.stride + self.extent - size - self.before)

    def same(self, size: int, upper: bool) -> "AxisWindow":
        """Padding for ceil(size / stride) positions; the odd element goes to the end when `upper`."""
        total = max((-(-size // self.stride) - 1) * self.stride + self.extent - size, 0)
        small = total // 2
        return replace(
            self, before=small if upper else total - small, after=total - small if upper else small
        )


def cut_negative(
    low: Lowering, x: str, windows: Sequence[AxisWindow], padding: float = 0
) -> tuple[str, list[AxisWindow]]:
    """Slices off what negative padding drops, on the axes from 1 on.

    Where windows see nothing but padding of an axis, it becomes elements of the value `padding`, which are kept.
    """
    pads, rest = [(0, 0)] * low.rank(x), list(windows)
    for axis, window in enumerate(windows, 1):
        if low.shape(x)[axis] + min(window.before, 0) + min(window.after, 0) < 1:
            around = [(0, 0)] * low.rank(x)
            around[axis] = (max(window.before, 0), max(window.after, 0))
            x = low.pad(x, around, padding)
            window = replace(window, before=min(window.before, 0), after=min(window.after, 0))
        pads[axis] = (min(window.before, 0), min(window.after, 0))
        rest[axis - 1] = replace(window, before=max(window.before, 0), after=max(window.after, 0))
    return low.pad(x, pads), rest


def fit(
    low: Lowering, x: str, windows: Sequence[AxisWindow], ceil: bool = False, padding: float = 0
) -> tuple[str, list[AxisWindow]]:
    """x of shape [N, spatial..., C] and windows that TOSA takes: exact, and with no negative padding."""
    sizes = low.shape(x)[1:-1]
    exact = [w.exact(size, ceil) for w, size in zip(windows, sizes, strict=True)]
    return cut_negative(low, x, exact, padding)


def flat_pads(windows: Sequence[AxisWindow]) -> list[int]:
    """TOSA's pad attribute: before and after of each axis."""
    return [pad for window in windows for pad in (window.before, window.after)]
