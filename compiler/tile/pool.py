"""How pools are cut into boxes (clauses 2.3.2 and 2.3.9)."""

import dataclasses

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.image_boxes import ImageBoxes


def pool_boxes(tensors: Tensors, layer: Layer, window: Window) -> ImageBoxes:
    """How a pool's output may be cut. `window` counts elements."""
    assert layer.base is not None
    size = tensors.element(layer.base.inputs[0]).bytes
    wide = dataclasses.replace(window, ic=window.ic * size)
    return ImageBoxes(wide, window.ic, tensors.config.columns, channel_bytes=size, multiplier=1)
