"""Images of which a convolution with strides and a 1×1 kernel reads some pixels: LOAD picks these."""

import dataclasses
from fractions import Fraction

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.tile.image_boxes import Box, ImageBoxes
from tosaic.hw.config import Config


def picking(cut: ImageBoxes, config: Config, speed: MemorySpeed) -> ImageBoxes:
    """Boxes whose pixels are picked, if that takes less of the bus than whole image rows; else as they are."""
    w = cut.window
    inside = (w.oh - 1) * w.sy < w.ih and (w.ow - 1) * w.sx < w.iw
    if (w.kh, w.kw, w.top, w.left) != (1, 1, 0, 0) or not inside or cut.multiplier is not None:
        return cut
    per_byte = 1 / speed.bytes_per_cycle(config)
    pixels = w.ow * max(w.ic * per_byte, Fraction(speed.burst_cycles))
    if pixels >= ((w.oh - 1) * w.sy + 1) * w.iw * w.ic * per_byte / w.oh:
        return cut
    return dataclasses.replace(cut, picked=True)


def picked_box(window: Window, box: Box) -> tuple[StoredBox, Window]:
    """The pixels of a box, and its window when they lie side by side."""
    w = window
    start = (
        w.view.offset + box.image * w.view.image_bytes + box.oy0 * w.sy * w.view.pitch + box.ox0 * w.sx * w.ic
    )
    stored = StoredBox(start, ((box.rows, w.sy * w.view.pitch), (box.columns, w.sx * w.ic)), w.ic)
    view = View(w.view.storage, 0, box.columns * w.ic, 0)
    sizes = dict(ih=box.rows, oh=box.rows, iw=box.columns, ow=box.columns)
    return stored, dataclasses.replace(w, n=1, sy=1, sx=1, view=view, **sizes)
