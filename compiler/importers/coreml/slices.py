"""Layers that cut, join, pad and mask."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.images import MAX_EXTENT, edges
from tosaic.compiler.importers.coreml.node import MAX_MADE, CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.slicing import strided
from tosaic.compiler.ir import DType


def _cut(node: CoreMlNode, x: str, axis: int, picked: range) -> str:
    if not picked:
        node.unsupported(f"axis {axis} becomes empty", "TOSA has no empty tensors")
    return strided(node.low, x, axis, picked)


def _joined(node: CoreMlNode, axis: int) -> CoreMlValue:
    """The inputs one after the other along an axis, which counts from the end."""
    shapes = [list(node.shape(index)) for index in range(len(node.inputs))]
    rest = [shape[: len(shape) + axis] + shape[len(shape) + axis + 1 :] for shape in shapes]
    node.require(all(other == rest[0] for other in rest), f"shapes {shapes} do not join along axis {axis}")
    parts = node.low.aligned(*(node.loose(index, -axis) for index in range(len(node.inputs))))
    joined = node.low.concat(parts, node.low.rank(parts[0]) + axis)
    total = sum(shape[axis] for shape in shapes)
    return node.out(joined, [total if a == len(shapes[0]) + axis else n for a, n in enumerate(shapes[0])])


@handles("concat")
def concat(node: CoreMlNode) -> CoreMlValue:
    """Joins the inputs along axis -3, or -5."""
    axis = -5 if node.params.sequenceConcat else -3
    node.need_rank(-axis)
    return _joined(node, axis)


@handles("concatND")
def concat_nd(node: CoreMlNode) -> CoreMlValue:
    """Joins the inputs along any axis; interleaved, equal inputs take turns."""
    axis = node.axis(node.params.axis) - node.rank()
    if not node.params.interleave:
        return _joined(node, axis)
    shape = node.shape()
    same = all(node.shape(index) == shape for index in range(len(node.inputs)))
    node.require(same, "inputs that are interleaved must have one shape")
    front = len(shape) + axis
    # [before, axis, 1, after] side by side is [before, axis, inputs, after].
    flat = (math.prod(shape[:front]), shape[front], 1, math.prod(shape[front + 1 :]))
    parts = [node.low.reshape(node.x(index), flat) for index in range(len(node.inputs))]
    result = node.low.concat(parts, 2)
    return node.out(result, (*shape[:front], shape[front] * len(parts), *shape[front + 1 :]))


@handles("stack")
def stack(node: CoreMlNode) -> CoreMlValue:
    """Stacks the inputs along a new axis."""
    shape, count = node.shape(), len(node.inputs)
    axis = node.axis(node.params.axis, len(shape) + 1)
    node.require(all(node.shape(i) == shape for i in range(count)), "its inputs must have one shape")
    flat = (math.prod(shape[:axis]), 1, math.prod(shape[axis:]))
    parts = [node.low.reshape(node.x(index), flat) for index in range(count)]
    return node.out(node.low.concat(parts, 1), (*shape[:axis], count, *shape[axis:]))


@handles("split")
def split(node: CoreMlNode) -> list[CoreMlValue]:
    """Equal parts of axis -3."""
    node.need_rank(3)
    channels, count = node.shape()[-3], len(node.output_names)
    node.require(node.params.nOutputs in (0, count), f"nOutputs is {node.params.nOutputs}, outputs {count}")
    node.require(channels % count == 0, f"{channels} channels do not divide into {count} parts")
    x, size = node.loose(rank=3), channels // count
    axis = node.low.rank(x) - 3
    shape = [*node.shape()[:-3], size, *node.shape()[-2:]]
    return [node.out(node.low.slice_axis(x, axis, i * size, size), shape) for i in range(count)]


@handles("splitND")
def split_nd(node: CoreMlNode) -> list[CoreMlValue]:
    """Parts of an axis that are as equal as can be, or have given sizes."""
    axis, count = node.axis(node.params.axis), len(node.output_names)
    size, sizes = node.shape()[axis], [int(size) for size in node.params.splitSizes]
    if not sizes:
        # As numpy.array_split: what is left over goes to the first parts.
        sizes = [size // count + (part < size % count) for part in range(count)]
    fits = len(sizes) == count and sum(sizes) == size and min(sizes) > 0
    node.require(fits, f"splitSizes {sizes} for {count} outputs of {size} elements")
    starts = np.cumsum([0, *sizes[:-1]])
    x = node.x()
    return [
        node.out(node.low.slice_axis(x, axis, int(start), length))
        for start, length in zip(starts, sizes, strict=True)
    ]


@handles("slice")
def slice_legacy(node: CoreMlNode) -> CoreMlValue:
    """Takes startIndex to endIndex of C, H or W; negative ones count from the end."""
    p = node.params
    node.require(p.axis in (0, 1, 2), f"axis {p.axis} is not known")
    axis = p.axis - 3
    node.need_rank(-axis)
    x = node.loose(rank=-axis)
    picked = range(*slice(p.startIndex, p.endIndex, int(p.stride) or 1).indices(node.shape()[axis]))
    result = _cut(node, x, node.low.rank(x) + axis, picked)
    return node.out(
        result, [len(picked) if a - node.rank() == axis else n for a, n in enumerate(node.shape())]
    )


@handles("sliceStatic", "sliceDynamic")
def slice_nd(node: CoreMlNode) -> CoreMlValue:
    """Python's slices; a squeezed axis takes the one element `begin`. Inputs 2 to 7 replace parameters."""
    rank, p, x = node.rank(), node.params, node.x()
    names = ["beginIds", "endIds", "strides", "beginMasks", "endMasks", "squeezeMasks"]
    given: dict[str, list[int]] = {name: [int(v) for v in getattr(p, name, [])] for name in names}
    for index in range(1, len(node.inputs)):
        given[names[index - 1]] = node.whole_numbers(index)
    for name in names:
        given[name] = given[name] or [1 if name == "strides" else 0] * rank
        node.require(len(given[name]) == rank, f"{name} has {len(given[name])} entries for rank {rank}")
    begins, ends, strides, begin_masks, end_masks, squeezes = (given[name] for name in names)
    shape = []
    for axis in range(rank):
        size = node.shape()[axis]
        if squeezes[axis]:
            begin = begins[axis] + size if begins[axis] < 0 else begins[axis]
            node.require(0 <= begin < size, f"index {begins[axis]} of {size}")
            x = node.low.slice_axis(x, axis, begin, 1)
            continue
        node.require(strides[axis] != 0, f"the stride of axis {axis} is 0")
        begin_, end_ = (
            None if mask else v
            for mask, v in ((begin_masks[axis], begins[axis]), (end_masks[axis], ends[axis]))
        )
        picked = range(*slice(begin_, end_, strides[axis]).indices(size))
        x = _cut(node, x, axis, picked)
        shape.append(len(picked))
    return node.out(x, shape or [1])


@handles("sliceBySize")
def slice_by_size(node: CoreMlNode) -> CoreMlValue:
    """`size` elements of an axis from the index in the second input on; it may be computed at run time."""
    low, axis, size = node.low, node.axis(node.params.axis), int(node.params.size)
    have, begin = node.shape()[axis], low.data(node.x(1))
    node.require(0 < size <= have, f"size {size} of {have}")
    if begin is not None:
        start = node.whole_numbers(1)[0]
        start = start + have if start < 0 else start
        node.require(0 <= start <= have - size, f"{size} elements from {start} on of {have}")
        return node.out(low.slice_axis(node.x(), axis, start, size))
    start_tensor = low.reshape(node.indices(1, have), (1,))
    positions = low.add(start_tensor, low.constant(np.arange(size), DType.INT32))
    return node.out(low.gather(node.x(), axis, positions))


@handles("crop")
def crop(node: CoreMlNode) -> CoreMlValue:
    """Crops the borders of H and W, or to the size of a second input, from `offset` on."""
    low, p = node.low, node.params
    node.need_rank(3)
    x = node.loose(rank=3)
    height, width = node.shape()[-2:]
    if len(node.inputs) == 1:
        (top, bottom), (left, right) = edges(node, p.cropAmounts, "cropAmounts")
        sizes: tuple[int, ...] = (height - top - bottom, width - left - right)
    else:
        offset = [int(value) for value in p.offset] or [0, 0]
        node.require(len(offset) == 2 and node.rank(1) >= 2, f"offset is {offset}")
        (top, left), sizes = offset, node.shape(1)[-2:]
    fits = min(sizes) > 0 and top + sizes[0] <= height and left + sizes[1] <= width
    node.require(fits, f"the image {height} x {width} cannot be cropped to {list(sizes)} at {top}, {left}")
    rank = low.rank(x)
    x = low.slice_axis(low.slice_axis(x, rank - 2, top, sizes[0]), rank - 1, left, sizes[1])
    return node.out(x, (*node.shape()[:-2], *sizes))


@handles("slidingWindows")
def sliding_windows(node: CoreMlNode) -> CoreMlValue:
    """All windows of an axis, along a new axis in front of it."""
    low, axis, shape = node.low, node.axis(node.params.axis), node.shape()
    size, step = int(node.params.windowSize), int(node.params.step)
    node.require(0 < size <= shape[axis] and step > 0, f"windowSize {size} or step {step} of {shape[axis]}")
    count = (shape[axis] - size) // step + 1
    node.require(count * size <= MAX_MADE, f"{count} windows of {size}")
    positions = np.arange(count)[:, None] * step + np.arange(size)
    return node.out(low.take(node.x(), axis, positions), (*shape[:axis], count, size, *shape[axis + 1 :]))


@handles("constantPad")
def constant_pad(node: CoreMlNode) -> CoreMlValue:
    """padAmounts are (before, after) of each axis; or each axis grows to one given size, on the side it is given."""
    rank, p = node.rank(), node.params
    amounts = node.whole_numbers(1) if len(node.inputs) == 2 else [int(amount) for amount in p.padAmounts]
    node.require(len(amounts) == 2 * rank, f"padAmounts has {len(amounts)} entries for rank {rank}")
    pads = list(zip(amounts[::2], amounts[1::2], strict=True))
    if p.padToGivenOutputSizeMode:
        sizes = node.shape()
        node.require(
            all(
                (before in (0, n) or after in (0, n)) for n, (before, after) in zip(sizes, pads, strict=True)
            ),
            f"padAmounts {amounts}: a size stands on one side only",
        )
        pads = [(max(b - n, 0), max(a - n, 0)) for n, (b, a) in zip(sizes, pads, strict=True)]
    node.require(all(0 <= pad <= MAX_EXTENT for pair in pads for pad in pair), f"padAmounts are {amounts}")
    grown = math.prod(n + b + a for n, (b, a) in zip(node.shape(), pads, strict=True))
    node.require(grown <= max(MAX_MADE, 4096 * math.prod(node.shape())), f"padAmounts are {amounts}")
    return node.out(node.low.pad(node.x(), pads, p.value))


@handles("matrixBandPart", "upperTriangular", "lowerTriangular")
def band(node: CoreMlNode) -> CoreMlValue:
    """Zero outside a band of the last two axes."""
    low, p = node.low, node.params
    node.need_rank(2)
    rows, columns = node.shape()[-2:]
    node.affordable(rows * columns, "its mask")
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    if node.kind == "matrixBandPart":
        kept = (p.numLower < 0) | (-distance <= p.numLower)
        kept &= (p.numUpper < 0) | (distance <= p.numUpper)
    else:
        kept = distance >= p.k if node.kind == "upperTriangular" else distance <= p.k
    x = node.loose(rank=2)
    return node.same(low.select(low.constant(kept, DType.BOOL), x, low.scalar(0, x)))
