"""Lowers Resize, Upsample and GridSample."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.resize import (
    Filter,
    fill_outside,
    filter_matrix,
    mix,
    mix_axes,
    nearest_positions,
    pick,
)
from tosaic.compiler.importers.lowering.sampling import Sampler, grid_sample
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue


@handles("Upsample", "Resize")
def resize(node: OnnxNode) -> OnnxValue:
    """Each axis that changes, on its own: ONNX's modes are separable."""
    low, rank = node.low, len(node.shape())
    old = node.op == "Upsample" or node.opset < 11
    axes = [axis % rank for axis in node.attr("axes") or range(rank)]
    scales, sizes = _extents(node, axes, old)
    transformation = "asymmetric" if old else node.attr("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else node.attr("nearest_mode", "round_prefer_floor")
    roi = node.const(1).reshape(-1) if transformation == "tf_crop_and_resize" else np.zeros(0)
    mode = node.attr("mode", "nearest")
    x = node.raw() if mode == "nearest" else node.wide()
    if mode != "nearest" and not low.dtype(x).is_float:
        node.unsupported(f"mode {mode} of integers", "cast to float32 first")
    kernel = Filter(
        mode,
        float(node.attr("cubic_coeff_a", -0.75)),
        bool(node.attr("antialias", 0)),
        bool(node.attr("exclude_outside", 0)),
    )
    matrices: dict[int, np.ndarray] = {}
    for i, axis in enumerate(axes):
        size, scale, count = node.shape()[axis], scales[i], sizes[i]
        if count < 1:
            node.unsupported(f"axis {axis} becomes empty", "TOSA has no empty tensors")
        region = (float(roi[i]), float(roi[len(axes) + i])) if len(roi) else (0.0, 1.0)
        if scale == 1 and count == size and region == (0.0, 1.0):
            continue
        low.make_room((4, count), np.float64)
        positions = _positions(transformation, size, count, scale, region)
        if mode == "nearest":
            x = pick(low, x, axis, nearest_positions(positions, size, rounding))
        elif transformation == "tf_crop_and_resize":
            x = mix(low, x, axis, filter_matrix(low, positions, size, scale, kernel))
        else:
            matrices[axis] = filter_matrix(low, positions, size, scale, kernel)
        if transformation == "tf_crop_and_resize":
            outside = (positions < 0) | (positions > size - 1)
            x = fill_outside(low, x, axis, outside, float(node.attr("extrapolation_value", 0.0)))
    return node.out_raw(x) if mode == "nearest" else node.out(mix_axes(low, x, matrices))


def _extents(node: OnnxNode, axes: list[int], old: bool) -> tuple[list[float], list[int]]:
    """Scale and size of the result on each of the axes."""
    shape = [node.shape()[axis] for axis in axes]
    if "scales" in node.attributes:
        scales = [float(scale) for scale in node.attr("scales")]
    elif node.has(3) and node.value(3).shape != (0,):
        sizes = [int(size) for size in node.const(3).reshape(-1)]
        scales = [wanted / have for wanted, have in zip(sizes, shape, strict=True)]
        policy = node.attr("keep_aspect_ratio_policy", "stretch")
        if policy == "stretch":
            return scales, sizes
        common = min(scales) if policy == "not_larger" else max(scales)
        return [common] * len(shape), [math.floor(common * have + 0.5) for have in shape]
    else:
        scales = [float(scale) for scale in node.const(1 if old else 2).reshape(-1)]
    return scales, [math.floor(scale * have) for scale, have in zip(scales, shape, strict=True)]


def _positions(
    transformation: str, size: int, count: int, scale: float, region: tuple[float, float]
) -> np.ndarray:
    """Where each result lies between the elements of the axis."""
    x = np.arange(count, dtype=np.float64)
    length = scale * size
    if transformation == "align_corners":
        return x * (size - 1) / (length - 1) if length != 1 else x * 0
    if transformation == "asymmetric":
        return x / scale
    if transformation == "tf_crop_and_resize":
        begin, end = region
        if length == 1:
            return x * 0 + (begin + end) * (size - 1) / 2
        return begin * (size - 1) + x * (end - begin) * (size - 1) / (length - 1)
    if transformation == "pytorch_half_pixel" and count == 1:
        return x * 0
    shift = size / 2 * (1 - count / length) if transformation == "half_pixel_symmetric" else 0.0
    return shift + (x + 0.5) / scale - 0.5


_DEGREES = {"nearest": 0, "linear": 1, "bilinear": 1, "cubic": 3, "bicubic": 3}


@handles("GridSample")
def sample_grid(node: OnnxNode) -> OnnxValue:
    """Positions that are computed at run time: GATHERs, and sums of what they read."""
    if not node.low.dtype(node.raw()).is_float:
        node.unsupported("a sample of integers", "cast to float32 first")
    degree = _DEGREES[node.attr("mode", "linear" if node.opset >= 20 else "bilinear")]
    how = Sampler(degree, node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0)))
    return node.out(grid_sample(node.low, node.raw(0), node.raw(1), how))
