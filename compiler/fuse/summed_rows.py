"""Sums over the rows of an image, made of a convolution's pixels on their way out of the array.

A mean over a whole image adds up rows, then columns. VECTOR waits for the array's vectors anyway: it keeps a sum for
each column in its slots and adds row after row, so that the image is neither stored nor read again.
"""

import math

from tosaic.compiler.cost.layers import summed_rows_pay
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph, Operator
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


def sums_rows(graph: Graph, operator: Operator, config: Config) -> bool:
    """Whether an operator adds up the rows of an image of which VECTOR's slots hold one."""
    if operator.op != "REDUCE_SUM" or operator.attributes["axis"] != 1:
        return False
    shape = graph.tensors[operator.inputs[0]].shape
    if len(shape) != 4 or shape[0] != 1:
        return False
    _, height, width, _ = shape
    # An image of few pixels is one tile of the array, whose weights are the limit.
    return 1 < width <= config.vector_slots and height * width > max(config.rows, config.vector_slots)


def sums_pay(graph: Graph, layer: Layer, config: Config) -> bool:
    """Whether VECTOR saves more cycles than it keeps the array waiting, of a `layer` whose base is a CONV2D
    and whose root adds up rows."""
    assert layer.base is not None
    _, height, width, _ = graph.tensors[layer.base.outputs[0]].shape
    program = layer.program
    beats = program.uop_beats(Element.INT32)[program.body_start : program.body_end]
    depth = math.prod(graph.tensors[layer.base.inputs[1]].shape[1:])
    return summed_rows_pay(height, width, depth, beats, config)
