"""Whether what follows a convolution is done on its sums' way out of the array, or in a layer of its own.

The vector unit takes the sums of a few pixels at a time, tile by tile of the output channels, and each of its
micro-operations waits for the one before. A long chain on vectors of one pixel can so take longer than the array; as a
layer of its own it works on all tiles at once.
"""

import math

from tosaic.compiler.cost.layers import DrainDemand
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph
from tosaic.compiler.machine import ELEMENT
from tosaic.hw.config import Config


def drains_too_slowly(graph: Graph, layer: Layer, config: Config, *, stays: bool) -> bool:
    """Whether a convolution and all else of its layer would take less time as two layers. `stays`: its weights are
    those of other convolutions, too."""
    base = layer.base
    if base is None or base.op != "CONV2D":
        return False
    *outer, channels = graph.tensors[base.outputs[0]].shape
    pixels, tiles = math.prod(outer), -(-channels // config.columns)
    if pixels >= config.vector_latency_cycles:
        return False
    drain = DrainDemand(
        pixels,
        tiles,
        depth=math.prod(graph.tensors[base.inputs[1]].shape[1:]),
        beats=tuple(layer.program.uop_beats(ELEMENT[graph.tensors[layer.output].dtype])),
        parameters=layer.program.bias or layer.program.per_channel,
        weights_stay=stays,
    )
    return drain.apart_cycles(config) < drain.together_cycles(config)


def is_bound_by_vector(graph: Graph, layer: Layer, config: Config) -> bool:
    """Whether VECTOR takes longer for a vector of a convolution's sums than the array."""
    if layer.base is None or layer.base.op != "CONV2D":
        return False
    depth = math.prod(graph.tensors[layer.base.inputs[1]].shape[1:])
    return layer.program.beats(ELEMENT[graph.tensors[layer.output].dtype]) > -(-depth // config.rows)
