"""Images of which a convolution with strides and a 1×1 kernel reads some pixels: LOAD picks these."""

import dataclasses

from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.tile.image_boxes import Box, ImageBoxes


def can_pick(cut: ImageBoxes) -> bool:
    """Whether a box may fetch the pixels that its windows read, without those between them."""
    w = cut.window
    inside = (w.oh - 1) * w.sy < w.ih and (w.ow - 1) * w.sx < w.iw
    apart = max(w.sy, w.sx) > 1
    return (w.kh, w.kw, w.top, w.left) == (1, 1, 0, 0) and inside and apart and cut.multiplier is None


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
