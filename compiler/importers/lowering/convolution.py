"""Convolutions of any rank up to 3, with groups; images are [N, spatial..., C]."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.windows import AxisWindow, cut_negative, fit, flat_pads
from tosaic.compiler.ir import DType

_LINE = AxisWindow(1)


def convolve(
    low: Lowering,
    x: str,
    weight: str,
    bias: str | None,
    windows: Sequence[AxisWindow],
    groups: int = 1,
    zero_points: tuple[int, int] = (0, 0),
) -> str:
    """x [N, spatial..., C], weight [O, kernel..., C/groups], bias [O] to [N, spatial..., O].

    int8 operands give int32 (int16 by int8 int48); `zero_points` are those of x and weight.
    """
    spatial = low.rank(x) - 2
    if spatial == 1:
        line, kernel = low.shape(x), low.shape(weight)
        flat = convolve(
            low,
            low.reshape(x, (line[0], 1, *line[1:])),
            low.reshape(weight, (kernel[0], 1, *kernel[1:])),
            bias,
            [_LINE, *windows],
            groups,
            zero_points,
        )
        return low.reshape(flat, _without(low.shape(flat), 1))
    x, windows = fit(low, x, windows)
    channels, outputs = low.shape(x)[-1], low.shape(weight)[0]
    result, accumulator = result_types(low.dtype(x))
    bias = bias or low.constant(np.zeros(outputs), result)
    zeros = [low.zero_point(x, zero_points[0]), low.zero_point(weight, zero_points[1])]
    attributes: dict[str, Any] = {
        "pad": flat_pads(windows),
        "stride": [w.stride for w in windows],
        "dilation": [w.dilation for w in windows],
        "acc_type": accumulator,
    }
    if groups == channels and groups > 1 and spatial == 2:
        multiplier = outputs // groups
        height, width = low.shape(weight)[1:3]
        taps = low.reshape(weight, (groups, multiplier, height, width))
        taps = low.transpose(taps, (2, 3, 0, 1))
        return low.op("DEPTHWISE_CONV2D", x, taps, bias, *zeros, dtype=result, **attributes)
    name = "CONV2D" if spatial == 2 else "CONV3D"
    if result is DType.INT48:
        # TOSA joins no sums of 48 bits.
        weight, groups = _block_diagonal(low, weight, groups, zero_points[1]), 1
    if groups == 1:
        return low.op(name, x, weight, bias, *zeros, dtype=result, **attributes)
    parts = []
    for group in range(groups):
        inner, outer = channels // groups, outputs // groups
        parts.append(
            low.op(
                name,
                low.slice_axis(x, low.rank(x) - 1, group * inner, inner),
                low.slice_axis(weight, 0, group * outer, outer),
                low.slice_axis(bias, 0, group * outer, outer),
                *zeros,
                dtype=result,
                **attributes,
            )
        )
    return low.concat(parts, low.rank(x) - 1)


def _block_diagonal(low: Lowering, weight: str, groups: int, zero_point: int) -> str:
    """Weights of groups as those of a convolution without: what reads other groups' channels is zero."""
    outputs, *_, inner = low.shape(weight)
    if groups == 1:
        return weight
    rows = []
    for group in range(groups):
        outer = outputs // groups
        around = (group * inner, (groups - 1 - group) * inner)
        pads = [(0, 0)] * (low.rank(weight) - 1) + [around]
        rows.append(low.pad(low.slice_axis(weight, 0, group * outer, outer), pads, zero_point))
    return low.concat(rows, 0)


def result_types(dtype: DType) -> tuple[DType, DType]:
    """Returns the result and accumulator type of a convolution of `dtype`."""
    if dtype is DType.INT8:
        return DType.INT32, DType.INT32
    if dtype is DType.INT16:
        return DType.INT48, DType.INT48
    return dtype, DType.FP32


def transpose_convolve(
    low: Lowering, x: str, weight: str, bias: str | None, windows: Sequence[AxisWindow], groups: int = 1
) -> str:
    """The gradient of a convolution: x [N, spatial..., C], weight [O/groups, kernel..., C], bias [O].

    `before` and `after` of the windows cut the full result (negative: add zeros, where only the bias is).
    The weight of group g reads the channels g * C/groups on and writes the outputs g * O/groups on.
    """
    spatial = low.rank(x) - 2
    if spatial == 1:
        line, kernel = low.shape(x), low.shape(weight)
        flat = transpose_convolve(
            low,
            low.reshape(x, (line[0], 1, *line[1:])),
            low.reshape(weight, (kernel[0], 1, *kernel[1:])),
            bias,
            [_LINE, *windows],
            groups,
        )
        return low.reshape(flat, _without(low.shape(flat), 1))
    weight = _dilated(low, weight, [w.dilation for w in windows])
    windows = [replace(w, kernel=w.extent, dilation=1) for w in windows]
    inner, outer = low.shape(x)[-1] // groups, low.shape(weight)[0]
    bias = bias or low.constant(np.zeros(outer * groups), low.dtype(x))
    parts = [
        _transposed(
            low,
            low.slice_axis(x, low.rank(x) - 1, group * inner, inner),
            low.slice_axis(weight, low.rank(weight) - 1, group * inner, inner),
            low.slice_axis(bias, 0, group * outer, outer),
            windows,
        )
        for group in range(groups)
    ]
    return low.concat(parts, low.rank(x) - 1)


def _transposed(low: Lowering, x: str, weight: str, bias: str, windows: Sequence[AxisWindow]) -> str:
    if len(windows) == 3:
        return _transposed_3d(low, x, weight, bias, windows)
    # out_pad must stay above minus the kernel; what is more is sliced off.
    inside = [
        replace(w, before=min(w.before, w.kernel - 1), after=min(w.after, w.kernel - 1)) for w in windows
    ]
    rest = [
        replace(w, before=i.before - w.before, after=i.after - w.after)
        for w, i in zip(windows, inside, strict=True)
    ]
    full = low.op(
        "TRANSPOSE_CONV2D",
        x,
        weight,
        bias,
        low.zero_point(x),
        low.zero_point(weight),
        dtype=low.dtype(x),
        out_pad=[-pad for pad in flat_pads(inside)],
        stride=[w.stride for w in windows],
        acc_type=DType.FP32,
    )
    return cut_negative(low, full, rest)[0]


def _transposed_3d(low: Lowering, x: str, weight: str, bias: str, windows: Sequence[AxisWindow]) -> str:
    """TOSA has no such operator: a convolution of the input with zeros between its elements, kernel reversed."""
    for axis, window in enumerate(windows, 1):
        x = stuff_zeros(low, x, axis, window.stride)
        weight = low.reverse(weight, axis)
    around = [AxisWindow(w.kernel, 1, 1, w.kernel - 1 - w.before, w.kernel - 1 - w.after) for w in windows]
    return convolve(low, x, weight, bias, around)


def stuff_zeros(low: Lowering, x: str, axis: int, step: int) -> str:
    """step - 1 zeros between neighbours of an axis."""
    if step == 1:
        return x
    shape = low.shape(x)
    split = low.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    pads = [(0, 0)] * low.rank(split)
    pads[axis + 1] = (0, step - 1)
    wide = low.reshape(low.pad(split, pads), (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
    return low.slice_axis(wide, axis, 0, (shape[axis] - 1) * step + 1)


def _dilated(low: Lowering, weight: str, dilations: Sequence[int]) -> str:
    for axis, dilation in enumerate(dilations, 1):
        weight = stuff_zeros(low, weight, axis, dilation)
    return weight


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
