"""Weights in external memory as the array reads them: packed by the compiler, or by the machine while it runs."""

import dataclasses
from collections.abc import Callable

import numpy as np

from tosaic.compiler.fuse.moves import moved
from tosaic.compiler.ir.mapped_file import let_go
from tosaic.compiler.machine_numbers import (
    PACKED_WHOLE_LIMIT_PART,
    PACKING_LARGE_STEP_BYTES,
    PACKING_LARGE_STEP_FACTOR,
    PACKING_LEAST_STEPS,
    PACKING_STEP_AM_PART,
    PACKING_STEP_BYTES,
)
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.compression import WeightCoder
from tosaic.compiler.place.packed_rows import PackedRows, RowPacker
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.weights import WeightLayout
from tosaic.compiler.tile.layout_copy import BlockLimits, LayoutCopy, plan_copy
from tosaic.hw.isa import Opcode, largest

_MOST_TENSORS = largest(Opcode.LOAD_TENSOR, "tensor")


@dataclasses.dataclass(frozen=True)
class PackedWeights:
    """A layer's blobs in external memory."""

    address: Address
    step_bytes: int
    """The largest number of bytes to fetch together."""
    packing: LayoutCopy | None = None
    """How the machine packs them; None: they are constants."""
    gradual: bool = False
    """They are packed step by step while the layer runs, and not all before it."""
    group_bytes: int | None = None
    """Bytes that are decoded or unpacked together, where the weights lie coded."""
    unpacked: bool = False
    """They lie as packed rows: their words come one by one, as those of other weights do."""

    def buffers(self) -> list[int]:
        """Activation memory that the packing needs until the layer is complete."""
        return self.packing.buffers.addresses() if self.packing is not None and self.gradual else []


class Packer:
    """Plans the packed form of a layer's weights. Layers of equal weights and equal layout share one. With a `coder`,
    constants are stored coded where that is smaller."""

    def __init__(self, placer: Placer, coder: WeightCoder | RowPacker | None = None):
        self.placer, self.coder = placer, coder

    def constant(self, name: str, layout: WeightLayout, data: Callable[[], np.ndarray]) -> PackedWeights:
        """Constant weights, called `name` in reports, as `layout` wants them; `data` makes the unpacked ones."""
        external = self.placer.memories.external
        known, values = external.packed_weights, np.ascontiguousarray(data().astype("i1", copy=False))
        parts = tuple(dataclasses.replace(part, source=None) for part in layout.move.parts)
        key = (external.digests.of(values), layout.move.shape, parts, layout.blob_bytes)
        if key not in known:
            known[key] = self._placed(name, layout, values)
        if known[key].region is not Region.CODED:
            return PackedWeights(known[key], layout.bytes)
        assert self.coder is not None
        group_bytes = self.coder.group_bytes(layout.blob_bytes)
        rows = isinstance(self.coder, RowPacker)
        return PackedWeights(known[key], layout.bytes, group_bytes=group_bytes, unpacked=rows)

    def _placed(self, name: str, layout: WeightLayout, values: np.ndarray) -> Address:
        """Where constant weights lie in external memory from now on."""
        external = self.placer.memories.external
        if self.coder is not None and len(external.stored_weights) <= _MOST_TENSORS:
            coded = self.coder.code(moved(layout.move, values), layout.blob_bytes)
            if isinstance(coded, PackedRows):
                return external.add_packed_rows(name, coded)
            if coded is not None:
                return external.add_coded_weights(name, coded)

        def packed() -> memoryview:
            found = moved(layout.move, values)
            let_go(values)
            return found.reshape(-1).view(np.uint8).data

        return external.add_weights(name, layout.bytes, packed)

    def computed(self, name: str, layout: WeightLayout, pixels: int) -> PackedWeights:
        """Weights that are computed at run time, as `layout` wants them, for images of `pixels` pixels: the machine
        packs them."""
        placer, size = self.placer, layout.bytes
        target = Placement(placer.memories.external.reserve(size, placer.tensors[name]), size)
        if layout.gradual:
            least, most = PACKING_STEP_BYTES, placer.config.am_bytes // PACKING_STEP_AM_PART
            if pixels >= PACKING_LARGE_STEP_FACTOR * placer.config.rows:
                least = max(least, min(PACKING_LARGE_STEP_BYTES, size // PACKING_LEAST_STEPS))
            step = min(max(least, layout.blob_bytes), most)
            limits = BlockLimits(step, whole_bytes=placer.limit_bytes // PACKED_WHOLE_LIMIT_PART)
            copy = plan_copy(placer, layout.move, target, 1, limits)
            return PackedWeights(target.address, step, copy, gradual=True)
        copy = plan_copy(placer, layout.move, target, 1, BlockLimits())
        # The buffers linger like a layer's own, so that what comes next need not wait for the packing.
        placer.pending_free.append(copy.buffers.addresses())
        return PackedWeights(target.address, size, copy)
