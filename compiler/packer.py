"""Weights in external memory as the array reads them: packed by the compiler, or by the machine while it runs."""

import math

from tosaic.compiler.ir import Graph

from .kernels.operands import Placement
from .lower.moves import Move, moved
from .placer import Placer


class Packer:
    """Packs weight tensors for the layer that is being emitted."""

    def __init__(self, graph: Graph, placer: Placer):
        self.graph, self.placer = graph, placer

    def pack(self, name: str, move: Move) -> int:
        """Address of the weights in the order that `move` makes. Every layer has its own form of a tensor."""
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            return self.placer.emitter.add_constant(moved(move, tensor.data.astype("i1")))
        size = math.prod(move.shape)
        target = Placement(False, self.placer.reserve(size, tensor), size)
        buffers = self.placer.move(move, target, 1)
        # They linger like a layer's own, so that what comes next need not wait for the packing.
        self.placer.pending_free.append(buffers)
        return target.address
