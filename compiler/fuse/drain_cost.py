"""Whether what follows a convolution is done on its sums' way out of the array, or in a layer of its own.

The vector unit takes the sums of a few pixels at a time, tile by tile of the output channels, and each of its
micro-operations waits for the one before. A long chain on vectors of one pixel can so take longer than the array; as a
layer of its own it works on all tiles at once.
"""

import math

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.ir import Graph
from tosaic.compiler.machine import ELEMENT
from tosaic.compiler.machine_numbers import LAYER_TURN_CYCLES, TILE_PARAMETER_CYCLES
from tosaic.hw.config import Config
from tosaic.hw.isa import Element


def drains_too_slowly(graph: Graph, layer: Layer, config: Config) -> bool:
    """Whether a convolution and all else of its layer would take less time as two layers."""
    base = layer.base
    if base is None or base.op != "CONV2D":
        return False
    *outer, channels = graph.tensors[base.outputs[0]].shape
    pixels, tiles = math.prod(outer), -(-channels // config.columns)
    if pixels >= config.vector_latency_cycles:
        return False
    # One word of weights per cycle, and each is used for few pixels.
    depth = math.prod(graph.tensors[base.inputs[1]].shape[1:])
    array = -(-depth // config.columns) * config.columns
    stored = ELEMENT[graph.tensors[layer.output].dtype]
    parameters = TILE_PARAMETER_CYCLES * (layer.program.bias or layer.program.per_channel)
    chain = _chain_cycles(layer.program, stored, pixels, config)
    fused = tiles * max(array, parameters + chain)
    alone = parameters + max(config.vector_latency_cycles, pixels * Element.INT32.bytes)
    slots = min(tiles * pixels, config.vector_slots)
    batches = -(-tiles * pixels // config.vector_slots)
    split = tiles * max(array, alone) + LAYER_TURN_CYCLES
    split += batches * _chain_cycles(layer.program, stored, slots, config)
    return split < fused


def _chain_cycles(program: MicroProgram, stored: Element, slots: int, config: Config) -> int:
    """A batch of `slots` vectors, where each micro-operation reads what the one before has computed."""
    return sum(max(config.vector_latency_cycles, slots * beats) for beats in program.uop_beats(stored))
