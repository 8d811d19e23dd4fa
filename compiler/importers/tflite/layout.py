"""Operators that move elements and compute nothing; their results have their inputs' encodings."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.lowering.layout import PadMode, extend
from tosaic.compiler.importers.lowering.slicing import reversed_sequences, strided
from tosaic.compiler.importers.tflite.arithmetic import activated, filled
from tosaic.compiler.importers.tflite.multipliers import round_half_away
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.importers.tflite.tables import single, table
from tosaic.compiler.importers.tflite.values import OFFSET
from tosaic.compiler.ir import DType


@handles("RESHAPE")
def reshape(node: TfliteNode) -> str:
    """The same elements in a new shape, of which one size may be left open."""
    wanted = node.integers(1) if node.has(1) else node.integers_option("NewShape")
    count = math.prod(node.shape())
    if wanted.count(-1) == 1:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = count // max(rest, 1)
    if math.prod(wanted) != count:
        node.unsupported(
            f"the shape {wanted} for {count} elements",
            "bind the inputs' shapes with --shape as the model expects them",
        )
    return node.low.reshape(node.x(), wanted)


@handles("SQUEEZE")
def squeeze(node: TfliteNode) -> str:
    """Drops axes of one element: those named, or all."""
    shape = node.shape()
    rank = len(shape) - (node.value().kind == "COMPLEX64")
    named = [axis % rank for axis in node.integers_option("SqueezeDims")]
    gone = named or [axis for axis in range(rank) if shape[axis] == 1]
    return node.low.reshape(node.x(), [n for axis, n in enumerate(shape) if axis not in gone or n != 1])


@handles("EXPAND_DIMS")
def expand_dims(node: TfliteNode) -> str:
    """One more axis of one element."""
    shape = list(node.shape())
    (axis,) = node.integers(1)
    shape.insert(node.axis(axis, len(shape) + 1), 1)
    return node.low.reshape(node.x(), shape)


@handles("TRANSPOSE")
def transpose(node: TfliteNode) -> str:
    """The axes in another order."""
    return node.low.transpose(node.x(), [node.axis(axis) for axis in node.integers(1)])


@handles("CONCATENATION")
def concatenation(node: TfliteNode) -> str:
    """Parts one after the other; of uint8 each may have an encoding of its own."""
    low = node.low
    parts = [_on_result_grid(node, i) for i in range(len(node.inputs)) if 0 not in node.shape(i)]
    y = low.concat(parts or [node.x()], node.axis(node.option("Axis")))
    return y if node.is_quantized else activated(node, y)


def _on_result_grid(node: TfliteNode, index: int) -> str:
    """A part of a concatenation in the result's encoding, in float32 as TFLite's kernel of uint8 has it."""
    value, result = node.value(index), node.result()
    if not value.is_quantized or (value.scale, value.zero_point) == (result.scale, result.zero_point):
        return value.tensor
    if value.kind != "UINT8":
        node.unsupported(
            f"input {value.name!r} has another encoding than the result, and TFLite joins them as they are",
            "give all parts the result's encoding, or put QUANTIZE before the others",
        )
    scale = value.scale * (np.float32(1) / result.scale)
    bias = np.float32(-(value.zero_point + OFFSET["UINT8"])) * scale
    scaled = single(np.arange(256)) * scale + bias
    return table(node, round_half_away(scaled).astype(np.int64), value.tensor)


@handles("PACK")
def pack(node: TfliteNode) -> str:
    """Parts along a new axis."""
    low, shape = node.low, list(node.shape())
    axis = node.axis(node.option("Axis"), len(shape) + 1)
    shape.insert(axis, 1)
    return low.concat([low.reshape(node.x(i), shape) for i in range(len(node.inputs))], axis)


@handles("UNPACK")
def unpack(node: TfliteNode) -> list[str]:
    """Each place of an axis as a tensor of its own."""
    low, shape = node.low, list(node.shape())
    axis = node.axis(node.option("Axis"))
    rest = shape[:axis] + shape[axis + 1 :]
    return [low.reshape(low.slice_axis(node.x(), axis, i, 1), rest) for i in range(len(node.outputs))]


@handles("SPLIT", "SPLIT_V")
def split(node: TfliteNode) -> list[str]:
    """Parts of an axis: equal ones, or of given sizes, of which one may be left open."""
    low, at = node.low, 0 if node.kind == "SPLIT" else 2
    data = 1 - at // 2
    axis = node.axis(node.integers(at)[0], len(node.shape(data)))
    whole, count = node.shape(data)[axis], len(node.outputs)
    sizes = [whole // count] * count if node.kind == "SPLIT" else node.integers(1)
    if -1 in sizes:
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    if sum(sizes) != whole or len(sizes) != count or min(sizes) < 0:
        node.unsupported(f"parts of {sizes} of an axis of {whole}", "change the sizes")
    if low.data(node.x(data)) is None:
        _check_not_empty(node, sizes)
    starts = np.cumsum([0, *sizes])
    return [low.slice_axis(node.x(data), axis, int(s), n) for s, n in zip(starts, sizes, strict=False)]


@handles("SLICE")
def slice_(node: TfliteNode) -> str:
    """A box; -1 is up to the end."""
    starts, sizes = node.integers(1), node.integers(2)
    extents = [whole - s if n == -1 else n for whole, s, n in zip(node.shape(), starts, sizes, strict=True)]
    _check_not_empty(node, extents)
    return node.low.slice(node.x(), starts, extents)


def _check_not_empty(node: TfliteNode, shape: Sequence[int]) -> None:
    if min(shape, default=1) < 1:
        node.unsupported(f"its result is {list(shape)}: TOSA has no empty tensors", "change the bounds")


@handles("STRIDED_SLICE")
def strided_slice(node: TfliteNode) -> str:
    """NumPy's slicing, with a bit for each axis that says which bounds are left out."""
    low, x = node.low, node.x()
    begins, ends, steps = (node.integers(index) for index in (1, 2, 3))
    masks = {
        name: node.option(name)
        for name in ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
    }
    rank, shape = len(node.shape()), []
    named = sum(
        not (masks["EllipsisMask"] >> i & 1 or masks["NewAxisMask"] >> i & 1) for i in range(len(begins))
    )
    axis = 0
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if masks["EllipsisMask"] >> i & 1:
            for _ in range(rank - named):
                shape.append(low.shape(x)[axis])
                axis += 1
            continue
        if masks["NewAxisMask"] >> i & 1:
            shape.append(1)
            continue
        size = low.shape(x)[axis]
        if masks["ShrinkAxisMask"] >> i & 1:
            x = low.slice_axis(x, axis, node_index(node, begin, size), 1)
            axis += 1
            continue
        first = None if masks["BeginMask"] >> i & 1 else begin
        last = None if masks["EndMask"] >> i & 1 else (begin + end if node.option("Offset", False) else end)
        picked = range(size)[first:last:step]
        _check_not_empty(node, [len(picked)])
        x = strided(low, x, axis, picked)
        shape.append(len(picked))
        axis += 1
    shape += low.shape(x)[axis:]
    return low.reshape(x, shape)


def node_index(node: TfliteNode, index: int, size: int) -> int:
    """An index counted from the front."""
    if not -size <= index < size:
        node.unsupported(f"index {index} of an axis of {size}", "change the bounds")
    return index % size


@handles("PAD", "PADV2")
def pad(node: TfliteNode) -> str:
    """A value around the elements: the integer that stands for zero, or the given one."""
    low = node.low
    pairs = [(int(a), int(b)) for a, b in node.known(1).reshape(-1, 2)]
    if node.has(2):
        known = low.data(node.x(2))
        if known is None:
            node.unsupported("the value that it pads with is computed at run time", "make it a constant")
        filling = known.reshape(-1)[0].item()
    else:
        filling = node.zero_of_result()
    return low.pad(node.x(), pairs, filling)


@handles("DILATE")
def dilate(node: TfliteNode) -> str:
    """A known value between the elements."""
    low, x, (filling,) = node.low, node.x(), node.known(2).reshape(-1)
    for axis, distance in enumerate(node.integers(1)):
        shape = low.shape(x)
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        pads = [(0, 0), (0, 0), (0, distance - 1), (0, 0)]
        spread = low.pad(low.reshape(x, (before, shape[axis], 1, after)), pads, filling.item())
        line = low.reshape(spread, (*shape[:axis], shape[axis] * distance, *shape[axis + 1 :]))
        x = low.slice_axis(line, axis, 0, (shape[axis] - 1) * distance + 1)
    return x


@handles("MIRROR_PAD")
def mirror_pad(node: TfliteNode) -> str:
    """The elements of the border in reverse, without or with the border itself."""
    mode: PadMode = "reflect" if node.choice("Mode", "MirrorPadMode") == "REFLECT" else "symmetric"
    return extend(node.low, node.x(), [(int(a), int(b)) for a, b in node.known(1).reshape(-1, 2)], mode)


@handles("TILE")
def tile(node: TfliteNode) -> str:
    """The tensor repeated along each axis."""
    return node.low.tile(node.x(), node.integers(1))


@handles("BROADCAST_TO")
def broadcast_to(node: TfliteNode) -> str:
    """Axes of one element repeated to a shape."""
    return node.low.broadcast_to(node.x(), node.integers(1))


@handles("FILL")
def fill(node: TfliteNode) -> str:
    """One value in a shape."""
    low, shape = node.low, tuple(node.integers(0))
    known = low.data(node.x(1))
    if known is not None:
        return filled(low, shape, known.reshape(-1)[0].item(), low.dtype(node.x(1)))
    return low.broadcast_to(node.x(1), shape)


@handles("REVERSE_V2")
def reverse(node: TfliteNode) -> str:
    """Backwards along axes."""
    x = node.x()
    for axis in node.integers(1):
        x = node.low.reverse(x, node.axis(axis))
    return x


@handles("REVERSE_SEQUENCE")
def reverse_sequence(node: TfliteNode) -> str:
    """The first elements of each sequence backwards, as many as its length says."""
    rank = len(node.shape())
    batch, time = node.axis(node.option("BatchDim"), rank), node.axis(node.option("SeqDim"), rank)
    return reversed_sequences(node.low, node.x(), node.x(1), batch, time)


@handles("DYNAMIC_UPDATE_SLICE")
def update_slice(node: TfliteNode) -> str:
    """A box of the tensor replaced, at a place that is known."""
    low, shape, box = node.low, node.shape(), node.shape(1)
    starts = [min(max(start, 0), n - m) for start, n, m in zip(node.integers(2), shape, box, strict=True)]
    pads = [(start, n - m - start) for start, n, m in zip(starts, shape, box, strict=True)]
    low.make_room(shape, np.bool_)
    inside = np.zeros(shape, np.bool_)
    inside[tuple(slice(start, start + m) for start, m in zip(starts, box, strict=True))] = True
    return low.select(low.constant(inside, DType.BOOL), low.pad(node.x(1), pads), node.x())


@handles("SHAPE")
def shape_of(node: TfliteNode) -> str:
    """The sizes, which are known."""
    return node.low.constant(np.array(node.shape()), DType.INT32)


@handles("RANK")
def rank_of(node: TfliteNode) -> str:
    """The number of axes."""
    return node.low.constant(np.array(len(node.shape())), DType.INT32)


@handles("RANGE")
def range_(node: TfliteNode) -> str:
    """Numbers at equal distances."""
    start, end, step = (node.known(index).reshape(-1)[0].item() for index in range(3))
    values = np.arange(start, end, step)
    node.low.make_room(values.shape, values.dtype)
    _check_not_empty(node, values.shape)
    return node.low.constant(values, node.result_type())


# --- blocks of pixels -------------------------------------------------------------------------------------------


@handles("SPACE_TO_DEPTH")
def space_to_depth(node: TfliteNode) -> str:
    """Blocks of pixels become channels, [block, block, depth]."""
    low, block = node.low, node.option("BlockSize")
    batch, height, width, depth = node.shape()
    rows, columns = height // block, width // block
    x = low.reshape(node.x(), (batch * rows, block, columns, block, depth))
    return low.reshape(low.transpose(x, (0, 2, 1, 3, 4)), (batch, rows, columns, block * block * depth))


@handles("DEPTH_TO_SPACE")
def depth_to_space(node: TfliteNode) -> str:
    """Channels, [block, block, depth], become blocks of pixels."""
    low, block = node.low, node.option("BlockSize")
    batch, rows, columns, channels = node.shape()
    depth = channels // block**2
    x = low.reshape(node.x(), (batch * rows, columns, block, block, depth))
    return low.reshape(low.transpose(x, (0, 2, 1, 3, 4)), (batch, rows * block, columns * block, depth))


@handles("SPACE_TO_BATCH_ND")
def space_to_batch(node: TfliteNode) -> str:
    """The padded image's blocks become images of the batch."""
    low, blocks = node.low, node.integers(1)
    pads = [(int(a), int(b)) for a, b in node.known(2).reshape(-1, 2)]
    rest = [(0, 0)] * (len(node.shape()) - 1 - len(pads))
    padded = low.pad(node.x(), [(0, 0), *pads, *rest], node.zero_of_result())
    for axis, block in enumerate(blocks, 1):
        shape = low.shape(padded)
        outer, inner = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
        split = low.reshape(padded, (shape[0], outer, shape[axis] // block, block, inner))
        moved = low.transpose(split, (3, 0, 1, 2, 4))
        padded = low.reshape(
            moved, (block * shape[0], *shape[1:axis], shape[axis] // block, *shape[axis + 1 :])
        )
    return _batch_order(node, padded, blocks, to_batch=True)


@handles("BATCH_TO_SPACE_ND")
def batch_to_space(node: TfliteNode) -> str:
    """Images of the batch become the blocks of larger ones, whose borders are cut."""
    low, blocks = node.low, node.integers(1)
    crops = [(int(a), int(b)) for a, b in node.known(2).reshape(-1, 2)]
    x = _batch_order(node, node.x(), blocks, to_batch=False)
    for axis in range(len(blocks), 0, -1):
        block, shape = blocks[axis - 1], low.shape(x)
        outer, inner = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
        split = low.reshape(x, (block, shape[0] // block, outer, shape[axis], inner))
        moved = low.transpose(split, (1, 2, 3, 0, 4))
        x = low.reshape(moved, (shape[0] // block, *shape[1:axis], shape[axis] * block, *shape[axis + 1 :]))
    cut = [(0, 0), *((-a, -b) for a, b in crops), *[(0, 0)] * (low.rank(x) - 1 - len(crops))]
    return low.pad(x, cut)


def _batch_order(node: TfliteNode, x: str, blocks: Sequence[int], to_batch: bool) -> str:
    """Blocks are taken axis by axis, which makes the last one the outermost; TFLite's first one is."""
    low = node.low
    if len(blocks) < 2:
        return x
    shape = low.shape(x)
    parts = tuple(reversed(blocks)) if to_batch else tuple(blocks)
    batch, rest = shape[0] // math.prod(parts), math.prod(shape[1:])
    order = [*reversed(range(len(parts)))]
    split = low.reshape(x, (*parts, batch * rest))
    return low.reshape(low.transpose(split, [*order, len(parts)]), shape)
