"""Layers that give blobs other shapes or another order of axes."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.coreml.constants import target_shape
from tosaic.compiler.importers.coreml.node import MAX_MADE, CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering import blocks


@handles("copy")
def copy(node: CoreMlNode) -> CoreMlValue:
    """The input under another name."""
    return node.inputs[0]


@handles("flatten")
def flatten(node: CoreMlNode) -> CoreMlValue:
    """[..., C, H, W] to [..., C * H * W, 1, 1]; CHANNEL_LAST counts H, W, C."""
    node.need_rank(3)
    x = node.image()
    if node.params.mode == 1:
        x = node.low.transpose(x, (0, 2, 3, 1))
    return node.out(x, (*node.shape()[:-3], math.prod(node.shape()[-3:]), 1, 1))


@handles("reshape")
def reshape(node: CoreMlNode) -> CoreMlValue:
    """Rank 5: targetShape is [C, H, W] or [Seq, C, H, W]. CHANNEL_LAST counts H, W, C on both sides."""
    low, target = node.low, [int(size) for size in node.params.targetShape]
    node.need_rank(3, 5)
    node.require(len(target) in (3, 4) and min(target) > 0, f"targetShape is {target}")
    seq, batch = (1, 1, *node.shape()[:-3])[-2:]
    if len(target) == 4:
        seq, target = target[0], target[1:]
    have = math.prod(node.shape())
    node.require(
        seq * batch * math.prod(target) == have, f"targetShape {target} does not hold {have} elements"
    )
    c, h, w = target
    if node.params.mode == 0:
        return node.out(node.inputs[0].tensor, (seq, batch, c, h, w))
    rows = low.reshape(low.transpose(node.image(), (0, 2, 3, 1)), (seq * batch, h, w, c))
    return node.out(low.transpose(rows, (0, 3, 1, 2)), (seq, batch, c, h, w))


@handles("permute")
def permute(node: CoreMlNode) -> CoreMlValue:
    """An order of [Seq, C, H, W]; the batch, axis 1 of rank 5, stays."""
    order = [int(axis) for axis in node.params.axis] or [0, 1, 2, 3]
    node.require(sorted(order) == [0, 1, 2, 3], f"axis is {order}, not an order of 0, 1, 2, 3")
    node.require(node.rank() in (4, 5), f"rank {node.rank()}, not 5")
    if node.rank() == 4:
        return node.out(node.low.transpose(node.x(), order))
    whole = [axis + 1 if axis else 0 for axis in order]
    if order[0] == 0:
        # The leading axes stay: an image of rank 4 stays one.
        image = node.low.transpose(node.image(), [0, *(axis - 1 for axis in whole[1:])])
        return node.out(image, (*node.shape()[:2], *node.low.shape(image)[1:]))
    return node.out(node.low.transpose(node.x(), [whole[0], 1, *whole[1:]]))


@handles("transpose")
def transpose(node: CoreMlNode) -> CoreMlValue:
    """Any order."""
    axes = [int(axis) for axis in node.params.axes]
    node.require(sorted(axes) == list(range(node.rank())), f"axes are {axes}")
    return node.out(node.low.transpose(node.x(), axes))


@handles("reorganizeData")
def reorganize(node: CoreMlNode) -> CoreMlValue:
    """Blocks of pixels to channels and back."""
    low, mode, block = node.low, node.params.mode, int(node.params.blockSize)
    node.need_rank(3)
    channels, height, width = node.shape()[-3:]
    node.require(block > 0 and mode in (0, 1, 2), f"blockSize {block} or mode {mode} is not allowed")
    if mode == 0:
        node.require(
            height % block == 0 and width % block == 0, f"blockSize {block} does not divide the image"
        )
        result = blocks.space_to_depth(low, node.image(), block, block_first=True)
    else:
        node.require(channels % block**2 == 0, f"blockSize {block}: {channels} channels do not divide")
        result = blocks.depth_to_space(low, node.image(), block, block_first=mode == 1)
    return node.out(result, (*node.shape()[:-3], *low.shape(result)[1:]))


@handles("reshapeStatic", "reshapeLike", "reshapeDynamic", "rankPreservingReshape")
def reshape_nd(node: CoreMlNode) -> CoreMlValue:
    """One size may be -1: what is left. rankPreservingReshape: 0 keeps a size."""
    old = node.shape()
    if node.kind == "reshapeLike":
        wanted = list(node.shape(1))
    elif node.kind == "reshapeDynamic":
        wanted = node.whole_numbers(1)
    else:
        wanted = [int(size) for size in node.params.targetShape]
    if node.kind == "rankPreservingReshape":
        node.require(len(wanted) == len(old), f"targetShape is {wanted}")
        wanted = [size or old[axis] for axis, size in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = -math.prod(wanted)
        node.require(
            rest > 0 and math.prod(old) % rest == 0, f"{math.prod(old)} elements do not fit {wanted}"
        )
        wanted[wanted.index(-1)] = math.prod(old) // rest
    fits = bool(wanted) and min(wanted) > 0 and math.prod(wanted) == math.prod(old)
    node.require(fits, f"{math.prod(old)} elements do not fit {wanted}")
    return node.out(node.inputs[0].tensor, wanted)


@handles("expandDims")
def expand_dims(node: CoreMlNode) -> CoreMlValue:
    """Axes of one element; they count in the result."""
    rank = node.rank() + len(node.params.axes)
    axes = {node.axis(axis, rank) for axis in node.params.axes}
    node.require(len(axes) == len(node.params.axes), f"axes are {list(node.params.axes)}")
    sizes = iter(node.shape())
    return node.out(node.inputs[0].tensor, [1 if axis in axes else next(sizes) for axis in range(rank)])


@handles("squeeze")
def squeeze(node: CoreMlNode) -> CoreMlValue:
    """Drops axes of one element; one axis stays at least."""
    shape = node.shape()
    if node.params.squeezeAll:
        axes = {axis for axis, size in enumerate(shape) if size == 1}
    else:
        axes = {node.axis(axis) for axis in node.params.axes}
    node.require(all(shape[axis] == 1 for axis in axes), f"axes {sorted(axes)} are not all of one element")
    return node.out(node.inputs[0].tensor, [size for a, size in enumerate(shape) if a not in axes] or [1])


@handles("flattenTo2D")
def flatten_2d(node: CoreMlNode) -> CoreMlValue:
    """Axes before `axis` to one, the rest to another."""
    shape, axis = node.shape(), node.params.axis
    node.require(-len(shape) <= axis <= len(shape), f"axis {axis} of {len(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return node.out(node.inputs[0].tensor, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@handles("broadcastToLike", "broadcastToStatic", "broadcastToDynamic")
def broadcast(node: CoreMlNode) -> CoreMlValue:
    """Repeated to a shape, axes aligned from the right."""
    if node.kind == "broadcastToLike":
        wanted = node.shape(1)
    elif node.kind == "broadcastToStatic":
        wanted = target_shape(node, node.params.targetShape, "targetShape")
    else:
        wanted = target_shape(node, node.whole_numbers(1), "the shape")
    try:
        shape = np.broadcast_shapes(node.shape(), wanted)
    except ValueError:
        node.wrong(f"it does not broadcast to {list(wanted)}")
    return node.out(node.low.broadcast_to(node.x(), shape))


@handles("tile")
def tile(node: CoreMlNode) -> CoreMlValue:
    """Repeated along axes; missing counts in front are 1."""
    counts = node.whole_numbers(1) if len(node.inputs) == 2 else [int(count) for count in node.params.reps]
    node.require(0 < len(counts) <= node.rank(), f"reps has {len(counts)} entries for rank {node.rank()}")
    counts = [1] * (node.rank() - len(counts)) + counts
    return _repeated(node, counts)


@handles("sequenceRepeat")
def sequence_repeat(node: CoreMlNode) -> CoreMlValue:
    """Repeats along axis -5."""
    node.need_rank(5)
    counts = [1] * node.rank()
    counts[-5] = int(node.params.nRepetitions) or 1
    return _repeated(node, counts)


def _repeated(node: CoreMlNode, counts: Sequence[int]) -> CoreMlValue:
    node.require(min(counts) > 0, f"it repeats {list(counts)} times, which leaves nothing")
    elements = math.prod(node.shape()) * math.prod(counts)
    node.require(
        elements <= max(MAX_MADE, 4096 * math.prod(node.shape())), f"it repeats {list(counts)} times"
    )
    return node.out(node.low.tile(node.x(), counts))


@handles("reverse")
def reverse(node: CoreMlNode) -> CoreMlValue:
    """Backwards along the axes that are marked."""
    marks, x = list(node.params.reverseDim), node.x()
    node.require(len(marks) == node.rank(), f"reverseDim has {len(marks)} entries for rank {node.rank()}")
    for axis, marked in enumerate(marks):
        x = node.low.reverse(x, axis) if marked else x
    return node.out(x)
