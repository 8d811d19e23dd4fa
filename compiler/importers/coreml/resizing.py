"""Upsampling, bilinear resizing, and crops that are resized."""

import math

import numpy as np

from tosaic.compiler.importers.coreml.images import MAX_EXTENT, sizes_of
from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.resize import Filter, filter_matrix, mix_axes, pick
from tosaic.compiler.ir import DType

_LINEAR = Filter("linear")
MAX_PIXELS = 1 << 24


@handles("upsample")
def upsample(node: CoreMlNode) -> CoreMlValue:
    """H and W by whole or fractional factors: nearest, or bilinear on one of three grids."""
    p = node.params
    node.need_rank(3)
    if p.fractionalScalingFactor:
        factors = [float(factor) for factor in p.fractionalScalingFactor]
        fine = len(factors) == 2 and all(0 < factor <= MAX_EXTENT for factor in factors)
        node.require(fine, f"fractionalScalingFactor is {factors}")
    else:
        factors = [float(factor) for factor in sizes_of(node, p.scalingFactor, 2, 1, "scalingFactor")]
    targets = [math.floor(size * factor) for size, factor in zip(node.shape()[-2:], factors, strict=True)]
    node.require(min(targets) > 0 and max(targets) <= MAX_EXTENT, f"the result is {targets}")
    node.require(math.prod(targets) <= MAX_PIXELS, f"the result is {targets}")
    node.require(p.mode in (0, 1) and p.linearUpsampleMode in (0, 1, 2), "its mode is not known")
    low, x, matrices = node.low, node.loose(rank=2), dict[int, np.ndarray]()
    for offset, count, factor in zip((2, 1), targets, factors, strict=True):
        axis = low.rank(x) - offset
        size = low.shape(x)[axis]
        if p.mode == 0:
            nearest = np.minimum(np.floor(np.arange(count) / factor), size - 1).astype(np.int64)
            x = pick(low, x, axis, nearest)
        elif size != count or p.linearUpsampleMode == 0:
            grid = _upsample_grid(p.linearUpsampleMode, size, count)
            node.affordable(size * count, "its matrix of weights")
            matrices[axis] = filter_matrix(low, grid, size, 1.0, _LINEAR)
    return node.out(mix_axes(low, x, matrices), (*node.shape()[:-2], *targets))


def _upsample_grid(mode: int, size: int, count: int) -> np.ndarray:
    """Where results lie between elements: DEFAULT, ALIGN_CORNERS_TRUE, ALIGN_CORNERS_FALSE."""
    i = np.arange(count, dtype=np.float64)
    if mode == 2:
        spacing = size / count
        grid = i * spacing + 0.5 * spacing - 0.5
    else:
        last = size - size / count if mode == 0 else size - 1
        grid = i * (last / (count - 1) if count > 1 else 0)
    return np.clip(grid, 0, size - 1)


def sampling_grid(mode: int, size: float, count: int) -> tuple[float, float]:
    """First and last of `count` points in the interval 0 .. size - 1, by SamplingMode."""
    if mode == 0:
        return 0.0, size - 1
    if mode == 1:
        return ((size - 1) / 2,) * 2 if count == 1 else (0.0, size - 1)
    if mode == 2:
        return 0.0, size - size / count
    spacing = max(1.0, size - 1) / count
    return 0.5 * spacing, 0.5 * spacing + (count - 1) * spacing


@handles("resizeBilinear")
def resize_bilinear(node: CoreMlNode) -> CoreMlValue:
    """Resizes H and W to targetSize, on one of four grids."""
    low, p = node.low, node.params
    node.need_rank(3)
    targets = sizes_of(node, p.targetSize, 2, 1, "targetSize")
    mode = p.mode.samplingMethod
    node.require(mode in range(4), f"samplingMethod {mode} is not known")
    x, matrices = node.loose(rank=2), dict[int, np.ndarray]()
    for offset, count in zip((2, 1), targets, strict=True):
        axis = low.rank(x) - offset
        size = low.shape(x)[axis]
        grid = np.clip(np.linspace(*sampling_grid(mode, size, count), count), 0, size - 1)
        if not np.array_equal(grid, np.arange(size)):
            node.affordable(size * count, "its matrix of weights")
            matrices[axis] = filter_matrix(low, grid, size, 1.0, _LINEAR)
    return node.out(mix_axes(low, x, matrices), (*node.shape()[:-2], *targets))


@handles("cropResize")
def crop_resize(node: CoreMlNode) -> CoreMlValue:
    """Boxes, computed at run time, resized: each axis is a product with a matrix of bilinear weights."""
    low, p = node.low, node.params
    node.require(node.rank() == 5 and node.shape()[0] == 1, "its image must have shape [1, batch, C, H, W]")
    batch, channels, height, width = node.shape()[1:]
    boxes_shape = node.shape(1)
    fits = (
        len(boxes_shape) == 5
        and boxes_shape[2] in (4, 5)
        and boxes_shape[1] == 1
        and boxes_shape[3:] == (1, 1)
    )
    node.require(fits, f"boxes of shape {list(boxes_shape)}, not [N, 1, 4 or 5, 1, 1]")
    rows, columns = sizes_of(node, p.targetSize, 2, 1, "targetSize")
    count, entries = boxes_shape[0], boxes_shape[2]
    boxes = low.reshape(node.x(1), (count, entries))
    picked = entries == 5
    corners = low.slice_axis(boxes, 1, entries - 4, 4)
    tops, lefts, bottoms, rights = _corners(node, corners, height, width)
    vertical = _weights(node, tops, bottoms, rows, height)
    horizontal = _weights(node, lefts, rights, columns, width)
    image = node.x()
    if picked:
        # Each box tells its image: [N, 1, C, H, W].
        which = low.cast(low.reshape(low.slice_axis(boxes, 1, 0, 1), (count,)), DType.INT32)
        image = low.gather(low.reshape(image, (batch, channels, height, width)), 0, which)
        image = low.reshape(image, (count, channels * height, width))
    else:
        image = low.broadcast_to(
            low.reshape(image, (1, batch * channels * height, width)),
            (count, batch * channels * height, width),
        )
    planes = channels if picked else batch * channels
    wide = matmul(low, image, low.transpose(horizontal, (0, 2, 1)))
    wide = low.transpose(low.reshape(wide, (count, planes, height, columns)), (0, 1, 3, 2))
    small = matmul(
        low, low.reshape(wide, (count, planes * columns, height)), low.transpose(vertical, (0, 2, 1))
    )
    small = low.transpose(low.reshape(small, (count, planes, columns, rows)), (0, 1, 3, 2))
    return node.out(small, (count, 1 if picked else batch, channels, rows, columns))


def _corners(node: CoreMlNode, boxes: str, height: int, width: int) -> tuple[str, str, str, str]:
    """Top, left, bottom and right [N, 1] of boxes [N, 4], in pixels."""
    low, p = node.low, node.params
    mode = p.boxIndicesMode.boxMode
    node.require(mode in range(4), f"boxMode {mode} is not known")
    a, b, c, d = (low.slice_axis(boxes, 1, i, 1) for i in range(4))
    if mode in (1, 3):
        a, b, c, d = b, a, d, c
    if mode in (2, 3):
        half_height, half_width = low.times(c, 0.5), low.times(d, 0.5)
        a, b, c, d = (
            low.sub(a, half_height),
            low.sub(b, half_width),
            low.add(a, half_height),
            low.add(b, half_width),
        )
    scale = p.spatialScale or 1.0
    tall = scale * (height - 1 if p.normalizedCoordinates else 1)
    broad = scale * (width - 1 if p.normalizedCoordinates else 1)
    return low.times(a, tall), low.times(b, broad), low.times(c, tall), low.times(d, broad)


def _weights(node: CoreMlNode, start: str, end: str, count: int, size: int) -> str:
    """[N, count, size]: bilinear weights of the elements for `count` points from `start` to `end`, [N, 1] each."""
    low, mode = node.low, node.params.mode.samplingMethod
    node.require(mode in range(4), f"samplingMethod {mode} is not known")
    boxes = low.shape(start)[0]
    length = low.sub(end, start)
    steps = np.arange(count, dtype=np.float32).reshape(1, count)
    if mode == 1 and count == 1:
        grid = low.add(start, low.times(length, 0.5))
    elif mode in (0, 1):
        grid = low.add(start, low.mul(length, node.constant(steps / max(count - 1, 1))))
    elif mode == 2:
        # The last point is size - size / count from the first one, where size = length + 1.
        reach = low.times(low.plus(length, 1.0), 1 - 1 / count)
        grid = low.add(start, low.mul(reach, node.constant(steps / max(count - 1, 1))))
    else:
        spacing = low.times(low.maximum(length, low.scalar(1, length)), 1 / count)
        grid = low.add(start, low.mul(spacing, node.constant(steps + 0.5)))
    grid = low.clamp(grid, 0.0, float(size - 1))
    elements = node.constant(np.arange(size, dtype=np.float32).reshape(1, 1, size))
    distance = low.op("ABS", low.sub(low.reshape(grid, (boxes, count, 1)), elements))
    return low.clamp(low.sub(low.scalar(1, distance), distance), 0.0, 1.0)
