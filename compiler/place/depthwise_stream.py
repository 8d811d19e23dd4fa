"""The raster of pixels that streams past the taps in the depthwise mode of the array."""

import dataclasses

from tosaic.compiler.place.geometry import Window


@dataclasses.dataclass(frozen=True)
class DepthwiseStream:
    """One GO of the depthwise mode; counts are of advances, which take a pixel each.

    Rows above the image are left out where they can be: the delay line gives zeros before the first pixel. The zeros
    in front of an image row are also those behind the row above it, if there are as many.
    """

    line: int
    """Positions from image row to image row, or from pair of rows to pair of rows."""
    left_out: int
    """Rows above the image that are left out."""
    skip: int
    """Positions before the first sum begins."""
    advances: int


def depthwise_stream(window: Window, together: int, rows: int) -> DepthwiseStream:
    """The stream of all outputs of `window`, with `together` image rows (1 or 2) in an advance, past `rows` rows of the
    array."""
    line = _line(window)
    above = window.reach_rows - 1
    left_out = max(0, min(window.top, above)) // together * together
    skip = (above - left_out) // together * line
    last_output = (window.oh - 1) * window.sy // together * line + (window.ow - 1) * window.sx
    return DepthwiseStream(line, left_out, skip, skip + last_output + rows)


def _line(window: Window) -> int:
    """Pixels of an image row and its padding, without what the next row's padding stands for."""
    last = (window.ow - 1) * window.sx
    whole, left = last + window.reach_columns, max(window.left, 0)
    return min(whole, max(last + 1, whole - left, window.iw + left))
