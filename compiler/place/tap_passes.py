"""Which taps of a depthwise kernel stay in the rows of the array during one GO.

A kernel of more taps than rows takes several GOs, which hand the sums on (`partial_sums` of the configuration). Where
outputs are several pixels apart, a GO may take only every such pixel: it then has every such tap of the kernel, and
makes an output in every advance.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from tosaic.compiler.cost.array import depthwise_cycles, full_rows_cycles
from tosaic.compiler.machine_numbers import DEPTHWISE_LEAST_COLUMNS
from tosaic.compiler.place.depthwise_stream import depthwise_stream
from tosaic.compiler.place.geometry import Window
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

_MAX_COUNT = largest(Opcode.ARRAY_WINDOW, "width")
_MAX_STRIDE = largest(Opcode.ARRAY_DEPTHWISE, "x_stride")


@dataclasses.dataclass(frozen=True)
class AxisTaps:
    """Taps `first`, `first` + `step`, ... of a kernel along one axis, and every `step`-th pixel of the image."""

    first: int
    count: int
    step: int = 1


@dataclasses.dataclass(frozen=True)
class TapPass:
    """The taps of one GO."""

    y: AxisTaps
    x: AxisTaps

    def origin(self, window: Window) -> tuple[int, int]:
        """Returns row and column of the first tap's pixel at the first output."""
        return self.y.first * window.dy - window.top, self.x.first * window.dx - window.left

    def window(self, window: Window) -> Window:
        """What the GO sees: these taps over the pixels that it takes."""
        (y, x), (sy, sx) = self.origin(window), (self.y.step, self.x.step)
        top, left = -(y // sy), -(x // sx)
        return dataclasses.replace(
            window,
            kh=self.y.count,
            kw=self.x.count,
            sy=window.sy // sy,
            sx=window.sx // sx,
            top=top,
            left=left,
            ih=-(-(window.ih - y) // sy) - top,
            iw=-(-(window.iw - x) // sx) - left,
        )


def tap_passes(window: Window, config: Config) -> list[TapPass]:
    """The GOs of a depthwise convolution that take the fewest advances; none where its products with zeros on the
    array in its other mode take fewer still, or where no GO can be made."""
    if max(window.sx, window.sy) > _MAX_STRIDE:
        return []
    whole = _whole(window, config)
    options = [whole] if whole else []
    if config.partial_sums:
        options += _options(window, config)
    if not options:
        return []
    best = min(options, key=lambda passes: _predicted(window, passes, config))
    zeros = full_rows_cycles(window.kh * window.kw, window.oh * window.ow, config)
    worth = whole is not None or _predicted(window, best, config) < zeros
    return best if worth else []


def output_limits(window: Window, passes: Sequence[TapPass], config: Config) -> tuple[int, int]:
    """Returns the largest numbers of output columns, and of outputs, that the GOs take at a time."""
    columns = min(_columns(part.window(window), config) for part in passes)
    if len(passes) == 1:
        return columns, _MAX_COUNT * _MAX_COUNT
    return min(columns, config.partial_sums), config.partial_sums


def fits_pairs(window: Window, config: Config) -> bool:
    """Whether a GO that sees `window` can take a channel's image rows two at a time: with an even stride no output
    begins between them, and an odd kernel ends with a first row. Pixels are whole words."""
    return (
        window.kh % 2 == 1
        and window.kh > 1
        and window.dy == 1
        and window.sy % 2 == 0
        and window.iw > 1
        and window.ic % config.word_bytes == 0
        and (window.ow - 1) * window.sx + 3 * window.reach_columns <= config.line_pixels
    )


def pairs_rows(window: Window, passes: Sequence[TapPass], config: Config) -> bool:
    """Whether a GO takes image rows two at a time, if the image lies for it."""
    return any(part.y.step == 1 and fits_pairs(part.window(window), config) for part in passes)


def tap_rows(seen: Window, passes: Sequence[TapPass], config: Config) -> int:
    """Rows of the array that have a tap of the GO that sees `seen`, or lie between such; sums that are handed on pass
    all rows."""
    return seen.kh * seen.reach_columns if len(passes) == 1 else config.rows


def streams_of(window: Window, passes: Sequence[TapPass], config: Config) -> Iterator[tuple[int, int, int]]:
    """Yields (advances, positions before the first sum, rows with taps) of the GOs for all outputs of `window`, one
    block of channels."""
    for part in passes:
        seen = part.window(window)
        together = 2 if part.y.step == 1 and fits_pairs(seen, config) else 1
        rows = tap_rows(seen, passes, config)
        stream = depthwise_stream(seen, together, rows)
        yield stream.advances, stream.skip, rows


def _predicted(window: Window, passes: Sequence[TapPass], config: Config) -> int:
    """The cycles of the whole layer, in boxes that the GOs can take."""
    width, most = output_limits(window, passes, config)
    width = min(width, window.ow)
    height = min(max(1, most // width), window.oh)
    boxes = -(-window.ow // width) * -(-window.oh // height)
    box = dataclasses.replace(window, oh=height, ow=width)
    return boxes * depthwise_cycles(streams_of(box, passes, config))


def _columns(seen: Window, config: Config) -> int:
    """Returns the largest number of output columns for which the image rows of a GO fit the delay line and
    its fields.
    """
    line = _MAX_COUNT if seen.kh == 1 else (config.line_pixels - seen.reach_columns) // seen.dy
    return max(0, (line - seen.reach_columns) // seen.sx + 1)


def _fits(seen: Window, config: Config) -> bool:
    return (
        seen.kh * seen.reach_columns <= config.rows
        and seen.kh <= config.line_groups
        and _columns(seen, config) >= min(seen.ow, DEPTHWISE_LEAST_COLUMNS)
    )


def _whole(window: Window, config: Config) -> list[TapPass] | None:
    """One GO for the whole kernel."""
    part = TapPass(AxisTaps(0, window.kh), AxisTaps(0, window.kw))
    return [part] if _fits(part.window(window), config) else None


def _options(window: Window, config: Config) -> Iterator[list[TapPass]]:
    """Kernels cut in all ways that fit: into rows and columns of taps, of all pixels or of every `stride`-th."""
    steps = [
        sorted({1, stride}) if dilation == 1 else [1]
        for stride, dilation in ((window.sy, window.dy), (window.sx, window.dx))
    ]
    for y_step, x_step in itertools.product(*steps):
        for rows in range(1, min(-(-window.kh // y_step), config.line_groups) + 1):
            for columns in range(1, min(-(-window.kw // x_step), config.rows // rows) + 1):
                passes = [
                    TapPass(y, x)
                    for y in _cut(window.kh, y_step, rows)
                    for x in _cut(window.kw, x_step, columns)
                ]
                if all(_fits(part.window(window), config) for part in passes):
                    yield passes


def _cut(taps: int, step: int, most: int) -> list[AxisTaps]:
    """Taps of a kernel in parts of at most `most`, of all of them or of every `step`-th in turn."""
    parts = []
    for first in range(min(step, taps)):
        count = -(-(taps - first) // step)
        parts += [AxisTaps(first + i * step, min(most, count - i), step) for i in range(0, count, most)]
    return parts
