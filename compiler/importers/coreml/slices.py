"""Layers that cut, join, pad and mask."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.images import MAX_EXTENT, edges
from tosaic.compiler.importers.coreml.layer import MAX_MADE, Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.slicing import strided
from tosaic.compiler.ir import DType


def _cut(layer: Layer, x: str, axis: int, picked: range) -> str:
    if not picked:
        layer.unsupported(f"axis {axis} becomes empty", "TOSA has no empty tensors")
    return strided(layer.low, x, axis, picked)


def _joined(layer: Layer, axis: int) -> Blob:
    """The inputs one after the other along an axis, which counts from the end."""
    shapes = [list(layer.shape(index)) for index in range(len(layer.inputs))]
    rest = [shape[: len(shape) + axis] + shape[len(shape) + axis + 1 :] for shape in shapes]
    layer.require(all(other == rest[0] for other in rest), f"shapes {shapes} do not join along axis {axis}")
    parts = layer.low.aligned(*(layer.loose(index, -axis) for index in range(len(layer.inputs))))
    joined = layer.low.concat(parts, layer.low.rank(parts[0]) + axis)
    total = sum(shape[axis] for shape in shapes)
    return layer.out(joined, [total if a == len(shapes[0]) + axis else n for a, n in enumerate(shapes[0])])


@handles("concat")
def concat(layer: Layer) -> Blob:
    """Along axis -3, or -5."""
    axis = -5 if layer.params.sequenceConcat else -3
    layer.need_rank(-axis)
    return _joined(layer, axis)


@handles("concatND")
def concat_nd(layer: Layer) -> Blob:
    """Along any axis; interleaved, equal inputs take turns."""
    axis = layer.axis(layer.params.axis) - layer.rank()
    if not layer.params.interleave:
        return _joined(layer, axis)
    shape = layer.shape()
    same = all(layer.shape(index) == shape for index in range(len(layer.inputs)))
    layer.require(same, "inputs that are interleaved must have one shape")
    front = len(shape) + axis
    # [before, axis, 1, after] side by side is [before, axis, inputs, after].
    flat = (math.prod(shape[:front]), shape[front], 1, math.prod(shape[front + 1 :]))
    parts = [layer.low.reshape(layer.x(index), flat) for index in range(len(layer.inputs))]
    result = layer.low.concat(parts, 2)
    return layer.out(result, (*shape[:front], shape[front] * len(parts), *shape[front + 1 :]))


@handles("stack")
def stack(layer: Layer) -> Blob:
    """Along a new axis."""
    shape, count = layer.shape(), len(layer.inputs)
    axis = layer.axis(layer.params.axis, len(shape) + 1)
    layer.require(all(layer.shape(i) == shape for i in range(count)), "its inputs must have one shape")
    flat = (math.prod(shape[:axis]), 1, math.prod(shape[axis:]))
    parts = [layer.low.reshape(layer.x(index), flat) for index in range(count)]
    return layer.out(layer.low.concat(parts, 1), (*shape[:axis], count, *shape[axis:]))


@handles("split")
def split(layer: Layer) -> list[Blob]:
    """Equal parts of axis -3."""
    layer.need_rank(3)
    channels, count = layer.shape()[-3], len(layer.output_names)
    layer.require(
        layer.params.nOutputs in (0, count), f"nOutputs is {layer.params.nOutputs}, outputs {count}"
    )
    layer.require(channels % count == 0, f"{channels} channels do not divide into {count} parts")
    x, size = layer.loose(rank=3), channels // count
    axis = layer.low.rank(x) - 3
    shape = [*layer.shape()[:-3], size, *layer.shape()[-2:]]
    return [layer.out(layer.low.slice_axis(x, axis, i * size, size), shape) for i in range(count)]


@handles("splitND")
def split_nd(layer: Layer) -> list[Blob]:
    """Parts of an axis that are as equal as can be, or have given sizes."""
    axis, count = layer.axis(layer.params.axis), len(layer.output_names)
    size, sizes = layer.shape()[axis], [int(size) for size in layer.params.splitSizes]
    if not sizes:
        # As numpy.array_split: what is left over goes to the first parts.
        sizes = [size // count + (part < size % count) for part in range(count)]
    fits = len(sizes) == count and sum(sizes) == size and min(sizes) > 0
    layer.require(fits, f"splitSizes {sizes} for {count} outputs of {size} elements")
    starts = np.cumsum([0, *sizes[:-1]])
    x = layer.x()
    return [
        layer.out(layer.low.slice_axis(x, axis, int(start), length))
        for start, length in zip(starts, sizes, strict=True)
    ]


@handles("slice")
def slice_legacy(layer: Layer) -> Blob:
    """startIndex to endIndex of C, H or W; negative ones count from the end."""
    p = layer.params
    layer.require(p.axis in (0, 1, 2), f"axis {p.axis} is not known")
    axis = p.axis - 3
    layer.need_rank(-axis)
    x = layer.loose(rank=-axis)
    picked = range(*slice(p.startIndex, p.endIndex, int(p.stride) or 1).indices(layer.shape()[axis]))
    result = _cut(layer, x, layer.low.rank(x) + axis, picked)
    return layer.out(
        result, [len(picked) if a - layer.rank() == axis else n for a, n in enumerate(layer.shape())]
    )


@handles("sliceStatic", "sliceDynamic")
def slice_nd(layer: Layer) -> Blob:
    """Python's slices; a squeezed axis takes the one element `begin`. Inputs 2 to 7 replace parameters."""
    rank, p, x = layer.rank(), layer.params, layer.x()
    names = ["beginIds", "endIds", "strides", "beginMasks", "endMasks", "squeezeMasks"]
    given: dict[str, list[int]] = {name: [int(v) for v in getattr(p, name, [])] for name in names}
    for index in range(1, len(layer.inputs)):
        given[names[index - 1]] = layer.whole_numbers(index)
    for name in names:
        given[name] = given[name] or [1 if name == "strides" else 0] * rank
        layer.require(len(given[name]) == rank, f"{name} has {len(given[name])} entries for rank {rank}")
    begins, ends, strides, begin_masks, end_masks, squeezes = (given[name] for name in names)
    shape = []
    for axis in range(rank):
        size = layer.shape()[axis]
        if squeezes[axis]:
            begin = begins[axis] + size if begins[axis] < 0 else begins[axis]
            layer.require(0 <= begin < size, f"index {begins[axis]} of {size}")
            x = layer.low.slice_axis(x, axis, begin, 1)
            continue
        layer.require(strides[axis] != 0, f"the stride of axis {axis} is 0")
        begin_, end_ = (
            None if mask else v
            for mask, v in ((begin_masks[axis], begins[axis]), (end_masks[axis], ends[axis]))
        )
        picked = range(*slice(begin_, end_, strides[axis]).indices(size))
        x = _cut(layer, x, axis, picked)
        shape.append(len(picked))
    return layer.out(x, shape or [1])


@handles("sliceBySize")
def slice_by_size(layer: Layer) -> Blob:
    """`size` elements of an axis from the index in the second input on; it may be computed at run time."""
    low, axis, size = layer.low, layer.axis(layer.params.axis), int(layer.params.size)
    have, begin = layer.shape()[axis], low.data(layer.x(1))
    layer.require(0 < size <= have, f"size {size} of {have}")
    if begin is not None:
        start = layer.whole_numbers(1)[0]
        start = start + have if start < 0 else start
        layer.require(0 <= start <= have - size, f"{size} elements from {start} on of {have}")
        return layer.out(low.slice_axis(layer.x(), axis, start, size))
    start_tensor = low.reshape(layer.indices(1, have), (1,))
    positions = low.add(start_tensor, low.constant(np.arange(size), DType.INT32))
    return layer.out(low.gather(layer.x(), axis, positions))


@handles("crop")
def crop(layer: Layer) -> Blob:
    """Off the borders of H and W, or to the size of a second input, from `offset` on."""
    low, p = layer.low, layer.params
    layer.need_rank(3)
    x = layer.loose(rank=3)
    height, width = layer.shape()[-2:]
    if len(layer.inputs) == 1:
        (top, bottom), (left, right) = edges(layer, p.cropAmounts, "cropAmounts")
        sizes: tuple[int, ...] = (height - top - bottom, width - left - right)
    else:
        offset = [int(value) for value in p.offset] or [0, 0]
        layer.require(len(offset) == 2 and layer.rank(1) >= 2, f"offset is {offset}")
        (top, left), sizes = offset, layer.shape(1)[-2:]
    fits = min(sizes) > 0 and top + sizes[0] <= height and left + sizes[1] <= width
    layer.require(fits, f"the image {height} x {width} cannot be cropped to {list(sizes)} at {top}, {left}")
    rank = low.rank(x)
    x = low.slice_axis(low.slice_axis(x, rank - 2, top, sizes[0]), rank - 1, left, sizes[1])
    return layer.out(x, (*layer.shape()[:-2], *sizes))


@handles("slidingWindows")
def sliding_windows(layer: Layer) -> Blob:
    """All windows of an axis, along a new axis in front of it."""
    low, axis, shape = layer.low, layer.axis(layer.params.axis), layer.shape()
    size, step = int(layer.params.windowSize), int(layer.params.step)
    layer.require(0 < size <= shape[axis] and step > 0, f"windowSize {size} or step {step} of {shape[axis]}")
    count = (shape[axis] - size) // step + 1
    layer.require(count * size <= MAX_MADE, f"{count} windows of {size}")
    positions = np.arange(count)[:, None] * step + np.arange(size)
    return layer.out(low.take(layer.x(), axis, positions), (*shape[:axis], count, size, *shape[axis + 1 :]))


@handles("constantPad")
def constant_pad(layer: Layer) -> Blob:
    """padAmounts are (before, after) of each axis; or each axis grows to one given size, on the side it is given."""
    rank, p = layer.rank(), layer.params
    amounts = layer.whole_numbers(1) if len(layer.inputs) == 2 else [int(amount) for amount in p.padAmounts]
    layer.require(len(amounts) == 2 * rank, f"padAmounts has {len(amounts)} entries for rank {rank}")
    pads = list(zip(amounts[::2], amounts[1::2], strict=True))
    if p.padToGivenOutputSizeMode:
        sizes = layer.shape()
        layer.require(
            all(
                (before in (0, n) or after in (0, n)) for n, (before, after) in zip(sizes, pads, strict=True)
            ),
            f"padAmounts {amounts}: a size stands on one side only",
        )
        pads = [(max(b - n, 0), max(a - n, 0)) for n, (b, a) in zip(sizes, pads, strict=True)]
    layer.require(all(0 <= pad <= MAX_EXTENT for pair in pads for pad in pair), f"padAmounts are {amounts}")
    grown = math.prod(n + b + a for n, (b, a) in zip(layer.shape(), pads, strict=True))
    layer.require(grown <= max(MAX_MADE, 4096 * math.prod(layer.shape())), f"padAmounts are {amounts}")
    return layer.out(layer.low.pad(layer.x(), pads, p.value))


@handles("matrixBandPart", "upperTriangular", "lowerTriangular")
def band(layer: Layer) -> Blob:
    """Zero outside a band of the last two axes."""
    low, p = layer.low, layer.params
    layer.need_rank(2)
    rows, columns = layer.shape()[-2:]
    layer.affordable(rows * columns, "its mask")
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    if layer.kind == "matrixBandPart":
        kept = (p.numLower < 0) | (-distance <= p.numLower)
        kept &= (p.numUpper < 0) | (distance <= p.numUpper)
    else:
        kept = distance >= p.k if layer.kind == "upperTriangular" else distance <= p.k
    x = layer.loose(rank=2)
    return layer.same(low.select(low.constant(kept, DType.BOOL), x, low.scalar(0, x)))
