"""How pools are cut into boxes (clauses 2.3.2 and 2.3.9)."""

import dataclasses

from tosaic.compiler.cost.boxes import BoxWork
from tosaic.compiler.cost.vector import pool_box_cycles
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.tile.image_boxes import ImageBoxes
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


def pool_boxes(tensors: Tensors, layer: Layer, window: Window) -> ImageBoxes:
    """How a pool's output may be cut. `window` counts elements."""
    assert layer.base is not None
    size = tensors.element(layer.base.inputs[0]).bytes
    wide = dataclasses.replace(window, ic=window.ic * size)
    return ImageBoxes(wide, window.ic, tensors.config.columns, channel_bytes=size, multiplier=1)


def pool_work(
    cut: ImageBoxes,
    program: MicroProgram,
    stored: Element,
    config: Config,
    rows: int,
    columns: int,
    channels: int,
) -> BoxWork:
    """The work of a box of a pool, for which VECTOR alone works: a micro-operation waits for what the one before it has
    computed."""
    taps, body, beats = cut.window.kh * cut.window.kw, program.body_beats(), program.uop_beats(stored)
    after = beats[: program.body_start] + beats[program.body_end :]
    vectors = rows * columns * -(-channels // cut.step)
    return BoxWork(0, pool_box_cycles(taps, body, after, vectors, config), 0, stays=True)
