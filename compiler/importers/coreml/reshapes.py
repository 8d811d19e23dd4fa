"""Layers that give blobs other shapes or another order of axes."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.coreml.constants import target_shape
from tosaic.compiler.importers.coreml.layer import MAX_MADE, Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering import blocks


@handles("copy")
def copy(layer: Layer) -> Blob:
    """The input under another name."""
    return layer.inputs[0]


@handles("flatten")
def flatten(layer: Layer) -> Blob:
    """[..., C, H, W] to [..., C * H * W, 1, 1]; CHANNEL_LAST counts H, W, C."""
    layer.need_rank(3)
    x = layer.image()
    if layer.params.mode == 1:
        x = layer.low.transpose(x, (0, 2, 3, 1))
    return layer.out(x, (*layer.shape()[:-3], math.prod(layer.shape()[-3:]), 1, 1))


@handles("reshape")
def reshape(layer: Layer) -> Blob:
    """Rank 5: targetShape is [C, H, W] or [Seq, C, H, W]. CHANNEL_LAST counts H, W, C on both sides."""
    low, target = layer.low, [int(size) for size in layer.params.targetShape]
    layer.need_rank(3, 5)
    layer.require(len(target) in (3, 4) and min(target) > 0, f"targetShape is {target}")
    seq, batch = (1, 1, *layer.shape()[:-3])[-2:]
    if len(target) == 4:
        seq, target = target[0], target[1:]
    have = math.prod(layer.shape())
    layer.require(
        seq * batch * math.prod(target) == have, f"targetShape {target} does not hold {have} elements"
    )
    c, h, w = target
    if layer.params.mode == 0:
        return layer.out(layer.inputs[0].tensor, (seq, batch, c, h, w))
    rows = low.reshape(low.transpose(layer.image(), (0, 2, 3, 1)), (seq * batch, h, w, c))
    return layer.out(low.transpose(rows, (0, 3, 1, 2)), (seq, batch, c, h, w))


@handles("permute")
def permute(layer: Layer) -> Blob:
    """An order of [Seq, C, H, W]; the batch, axis 1 of rank 5, stays."""
    order = [int(axis) for axis in layer.params.axis] or [0, 1, 2, 3]
    layer.require(sorted(order) == [0, 1, 2, 3], f"axis is {order}, not an order of 0, 1, 2, 3")
    layer.require(layer.rank() in (4, 5), f"rank {layer.rank()}, not 5")
    if layer.rank() == 4:
        return layer.out(layer.low.transpose(layer.x(), order))
    whole = [axis + 1 if axis else 0 for axis in order]
    if order[0] == 0:
        # The leading axes stay: an image of rank 4 stays one.
        image = layer.low.transpose(layer.image(), [0, *(axis - 1 for axis in whole[1:])])
        return layer.out(image, (*layer.shape()[:2], *layer.low.shape(image)[1:]))
    return layer.out(layer.low.transpose(layer.x(), [whole[0], 1, *whole[1:]]))


@handles("transpose")
def transpose(layer: Layer) -> Blob:
    """Any order."""
    axes = [int(axis) for axis in layer.params.axes]
    layer.require(sorted(axes) == list(range(layer.rank())), f"axes are {axes}")
    return layer.out(layer.low.transpose(layer.x(), axes))


@handles("reorganizeData")
def reorganize(layer: Layer) -> Blob:
    """Blocks of pixels to channels and back."""
    low, mode, block = layer.low, layer.params.mode, int(layer.params.blockSize)
    layer.need_rank(3)
    channels, height, width = layer.shape()[-3:]
    layer.require(block > 0 and mode in (0, 1, 2), f"blockSize {block} or mode {mode} is not allowed")
    if mode == 0:
        layer.require(
            height % block == 0 and width % block == 0, f"blockSize {block} does not divide the image"
        )
        result = blocks.space_to_depth(low, layer.image(), block, block_first=True)
    else:
        layer.require(channels % block**2 == 0, f"blockSize {block}: {channels} channels do not divide")
        result = blocks.depth_to_space(low, layer.image(), block, block_first=mode == 1)
    return layer.out(result, (*layer.shape()[:-3], *low.shape(result)[1:]))


@handles("reshapeStatic", "reshapeLike", "reshapeDynamic", "rankPreservingReshape")
def reshape_nd(layer: Layer) -> Blob:
    """One size may be -1: what is left. rankPreservingReshape: 0 keeps a size."""
    old = layer.shape()
    if layer.kind == "reshapeLike":
        wanted = list(layer.shape(1))
    elif layer.kind == "reshapeDynamic":
        wanted = layer.whole_numbers(1)
    else:
        wanted = [int(size) for size in layer.params.targetShape]
    if layer.kind == "rankPreservingReshape":
        layer.require(len(wanted) == len(old), f"targetShape is {wanted}")
        wanted = [size or old[axis] for axis, size in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = -math.prod(wanted)
        layer.require(
            rest > 0 and math.prod(old) % rest == 0, f"{math.prod(old)} elements do not fit {wanted}"
        )
        wanted[wanted.index(-1)] = math.prod(old) // rest
    fits = bool(wanted) and min(wanted) > 0 and math.prod(wanted) == math.prod(old)
    layer.require(fits, f"{math.prod(old)} elements do not fit {wanted}")
    return layer.out(layer.inputs[0].tensor, wanted)


@handles("expandDims")
def expand_dims(layer: Layer) -> Blob:
    """Axes of one element; they count in the result."""
    rank = layer.rank() + len(layer.params.axes)
    axes = {layer.axis(axis, rank) for axis in layer.params.axes}
    layer.require(len(axes) == len(layer.params.axes), f"axes are {list(layer.params.axes)}")
    sizes = iter(layer.shape())
    return layer.out(layer.inputs[0].tensor, [1 if axis in axes else next(sizes) for axis in range(rank)])


@handles("squeeze")
def squeeze(layer: Layer) -> Blob:
    """Drops axes of one element; one axis stays at least."""
    shape = layer.shape()
    if layer.params.squeezeAll:
        axes = {axis for axis, size in enumerate(shape) if size == 1}
    else:
        axes = {layer.axis(axis) for axis in layer.params.axes}
    layer.require(all(shape[axis] == 1 for axis in axes), f"axes {sorted(axes)} are not all of one element")
    return layer.out(layer.inputs[0].tensor, [size for a, size in enumerate(shape) if a not in axes] or [1])


@handles("flattenTo2D")
def flatten_2d(layer: Layer) -> Blob:
    """Axes before `axis` to one, the rest to another."""
    shape, axis = layer.shape(), layer.params.axis
    layer.require(-len(shape) <= axis <= len(shape), f"axis {axis} of {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return layer.out(layer.inputs[0].tensor, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@handles("broadcastToLike", "broadcastToStatic", "broadcastToDynamic")
def broadcast(layer: Layer) -> Blob:
    """Repeated to a shape, axes aligned from the right."""
    if layer.kind == "broadcastToLike":
        wanted = layer.shape(1)
    elif layer.kind == "broadcastToStatic":
        wanted = target_shape(layer, layer.params.targetShape, "targetShape")
    else:
        wanted = target_shape(layer, layer.whole_numbers(1), "the shape")
    try:
        shape = np.broadcast_shapes(layer.shape(), wanted)
    except ValueError:
        layer.wrong(f"it does not broadcast to {list(wanted)}")
    return layer.out(layer.low.broadcast_to(layer.x(), shape))


@handles("tile")
def tile(layer: Layer) -> Blob:
    """Repeated along axes; missing counts in front are 1."""
    counts = layer.whole_numbers(1) if len(layer.inputs) == 2 else [int(count) for count in layer.params.reps]
    layer.require(0 < len(counts) <= layer.rank(), f"reps has {len(counts)} entries for rank {layer.rank()}")
    counts = [1] * (layer.rank() - len(counts)) + counts
    return _repeated(layer, counts)


@handles("sequenceRepeat")
def sequence_repeat(layer: Layer) -> Blob:
    """Repeated along axis -5."""
    layer.need_rank(5)
    counts = [1] * layer.rank()
    counts[-5] = int(layer.params.nRepetitions) or 1
    return _repeated(layer, counts)


def _repeated(layer: Layer, counts: Sequence[int]) -> Blob:
    layer.require(min(counts) > 0, f"it repeats {list(counts)} times, which leaves nothing")
    elements = math.prod(layer.shape()) * math.prod(counts)
    layer.require(
        elements <= max(MAX_MADE, 4096 * math.prod(layer.shape())), f"it repeats {list(counts)} times"
    )
    return layer.out(layer.low.tile(layer.x(), counts))


@handles("reverse")
def reverse(layer: Layer) -> Blob:
    """Backwards along the axes that are marked."""
    marks, x = list(layer.params.reverseDim), layer.x()
    layer.require(len(marks) == layer.rank(), f"reverseDim has {len(marks)} entries for rank {layer.rank()}")
    for axis, marked in enumerate(marks):
        x = layer.low.reverse(x, axis) if marked else x
    return layer.out(x)
