"""Weights in external memory as the array reads them: packed by the compiler, or by the machine while it runs."""

from tosaic.compiler.ir import Graph

from .kernels.operands import Placement
from .kernels.weights import PackedWeights, WeightLayout
from .lower.moves import moved
from .placer import Placer

_STEP_BYTES = 1024
"""Weights that are packed, stored and fetched at a time while the array computes with those before them."""


class Packer:
    """Packs weight tensors for the layer that is being emitted. Every layer has its own form of a tensor."""

    def __init__(self, graph: Graph, placer: Placer):
        self.graph, self.placer = graph, placer

    def pack(self, name: str, layout: WeightLayout) -> PackedWeights:
        """Weights as `layout` wants them. What the machine packs may be emitted as the layer goes on."""
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            data = moved(layout.move, tensor.data.astype("i1"))
            return PackedWeights(self.placer.emitter.add_constant(data), data.size)
        placer, size = self.placer, layout.bytes
        target = Placement(False, placer.reserve(size, tensor), size)
        if layout.gradual:
            step = min(max(_STEP_BYTES, layout.blob_bytes), placer.config.am_bytes // 16)
            work = placer.mover(1).start(
                layout.move, target, block_elements=step, targets=2, whole_bytes=placer.limit_bytes // 2
            )
            packed = PackedWeights(target.address, step, work)
            packed.ready(0)
            return packed
        work = placer.mover(1).start(layout.move, target)
        work.emit()
        # The buffers linger like a layer's own, so that what comes next need not wait for the packing.
        placer.pending_free.append(work.addresses())
        return PackedWeights(target.address, size)
