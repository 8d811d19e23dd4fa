"""Weights in external memory as the array reads them: packed by the compiler, or by the machine while it runs."""

from tosaic.compiler.emit.operands import Placement
from tosaic.compiler.fuse.moves import moved
from tosaic.compiler.ir import Graph
from tosaic.compiler.place.compression import WeightCoder
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.weights import PackedWeights, WeightLayout

_MOST_TENSORS = (1 << 16) - 1
"""Numbers that LOAD_TENSOR has for a tensor."""
_STEP_BYTES = 1024
"""Weights that are packed, stored and fetched at a time while the array computes with those before them."""


class Packer:
    """Packs weight tensors for the layer that is being emitted. Every layer has its own form of a tensor. With a
    `coder`, constants are stored coded where that is smaller."""

    def __init__(self, graph: Graph, placer: Placer, coder: WeightCoder | None = None):
        self.graph, self.placer, self.coder = graph, placer, coder

    def pack(self, name: str, layout: WeightLayout) -> PackedWeights:
        """Weights as `layout` wants them. What the machine packs may be emitted as the layer goes on."""
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            data = moved(layout.move, tensor.data.astype("i1"))
            emitter = self.placer.emitter
            if self.coder is not None and len(emitter.stored_weights) <= _MOST_TENSORS:
                blocks = self.coder.code(data, layout.blob_bytes)
                if blocks is not None:
                    address = emitter.add_coded_weights(name, blocks)
                    group = self.coder.group_bytes(layout.blob_bytes)
                    return PackedWeights(address, data.size, group_bytes=group)
            return PackedWeights(emitter.add_weights(name, data), data.size)
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
