"""Checks and result shapes of every primitive, and extra checks of compounds (chapter 4)."""

import math
import re
from collections.abc import Callable

from tosaic.compiler.importers.nnef.call import RANK_LIMIT, Call, shape_of, shown
from tosaic.compiler.importers.nnef.graph import Shape, TensorValue
from tosaic.compiler.importers.nnef.window_shapes import (
    box,
    check_downsample,
    check_factor,
    check_method,
    conv,
    debox,
    deconv,
    desample,
    multilinear_upsample,
    sample,
)

_LABEL = re.compile(r"[A-Za-z0-9_\-./\\]+")


def _declared(call: Call) -> Shape:
    shape = call["shape"]
    call.require(min(shape, default=1) > 0, "V054", f"the shape is {shape}", "extents are positive")
    call.require(len(shape) <= RANK_LIMIT, "limit", f"the rank is {len(shape)}", f"at most {RANK_LIMIT}")
    return tuple(shape)


def _constant(call: Call) -> Shape:
    shape, count = _declared(call), len(call["value"])
    call.require(
        count in (1, math.prod(shape)),
        "V055",
        f"{count} values for the shape {shown(shape)}",
        f"give {math.prod(shape)} values, or one",
    )
    return shape


def _variable(call: Call) -> Shape:
    label = call["label"]
    call.require(label != "", "V056", "the label is empty", "it names the tensor's file")
    call.require(
        _LABEL.fullmatch(label) is not None,
        "V057",
        f"the label is {label!r}",
        "use letters, digits, _ - . / \\",
    )
    return _declared(call)


def broadcast(call: Call, rule: str, *shapes: Shape) -> Shape:
    """The common shape of shapes that are aligned from dimension 0 (4.2.2)."""
    rank = max(map(len, shapes))
    padded = [(*shape, *(1,) * (rank - len(shape))) for shape in shapes]
    result = []
    for i, extents in enumerate(zip(*padded, strict=True)):
        others = {extent for extent in extents if extent != 1}
        call.require(
            len(others) <= 1,
            rule,
            f"dimension {i} of {' and '.join(map(shown, shapes))} differs",
            "extents are equal or 1, counted from the first dimension",
        )
        result.append(others.pop() if others else 1)
    return tuple(result)


def _same(call: Call) -> Shape:
    return call.shape("x")


def _binary(call: Call) -> Shape:
    return broadcast(call, "V059", call.shape("x"), call.shape("y"))


def _select(call: Call) -> Shape:
    return broadcast(
        call, "V061", call.shape("condition"), call.shape("true_value"), call.shape("false_value")
    )


def _reduce(call: Call) -> Shape:
    axes, shape = call["axes"], call.shape("input")
    call.require(len(set(axes)) == len(axes), "V081", f"axes is {axes}", "axes are unique")
    call.require(all(0 <= a < len(shape) for a in axes), "V082", f"axes is {axes} for the rank {len(shape)}")
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def _reshape(call: Call) -> Shape:
    given, wanted = call.shape("input"), call["shape"]
    call.require(len(wanted) <= RANK_LIMIT, "limit", f"the rank is {len(wanted)}", f"at most {RANK_LIMIT}")
    call.require(
        min(wanted, default=0) >= -1 and wanted.count(-1) <= 1,
        "V084",
        f"the shape is {wanted}",
        "one -1 at most",
    )
    shape = list(wanted)
    for i, extent in enumerate(wanted):
        if extent == 0:
            call.require(
                i < len(given),
                "V084",
                f"item {i} of {wanted} is 0, but the input has the shape {shown(given)}",
            )
            shape[i] = given[i]
    volume = math.prod(given)
    known = math.prod(extent for extent in shape if extent != -1)
    if -1 in shape:
        call.require(
            volume % known == 0, "V083", f"{wanted} does not divide the {volume} items of {shown(given)}"
        )
        shape[shape.index(-1)] = volume // known
    else:
        call.require(
            known == volume, "V083", f"{wanted} has {known} items, the input {shown(given)} has {volume}"
        )
    return tuple(shape)


def _transpose(call: Call) -> Shape:
    axes, shape = call["axes"], call.shape("input")
    call.require(
        sorted(axes) == list(range(len(axes))) and len(axes) <= len(shape),
        "V087",
        f"axes is {axes} for the rank {len(shape)}",
        "it is a permutation of the first dimensions",
    )
    return (*(shape[axis] for axis in axes), *shape[len(axes) :])


def _axis(call: Call, rank: int) -> int:
    axis = call["axis"]
    call.require(0 <= axis < rank, "V091", f"axis is {axis}", f"it is 0 or more, and less than {rank}")
    return axis


def _split(call: Call) -> list[Shape]:
    shape, ratios = call.shape("value"), call["ratios"]
    axis = _axis(call, len(shape))
    call.require(bool(ratios) and min(ratios) > 0, "V088", f"ratios is {ratios}", "its items are positive")
    call.require(
        shape[axis] % sum(ratios) == 0,
        "V088",
        f"the sum of {ratios} does not divide the extent {shape[axis]}",
    )
    part = shape[axis] // sum(ratios)
    return [(*shape[:axis], part * ratio, *shape[axis + 1 :]) for ratio in ratios]


def _concat(call: Call) -> Shape:
    shapes = [shape_of(value) for value in call["values"]]
    call.require(bool(shapes), "V089", "there is no tensor to concatenate")
    call.require(
        len(set(map(len, shapes))) == 1, "V089", f"the ranks of {', '.join(map(shown, shapes))} differ"
    )
    axis = _axis(call, len(shapes[0]))
    rest = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    call.require(len(rest) == 1, "V090", f"{', '.join(map(shown, shapes))} differ outside dimension {axis}")
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _slice(call: Call) -> Shape:
    axes, begin, end = call["axes"], call["begin"], call["end"]
    shape = list(call.shape("input"))
    call.require(
        len(axes) == len(begin) == len(end), "V092", f"axes {axes}, begin {begin}, end {end} differ in length"
    )
    call.require(
        all(0 <= a < len(shape) for a in axes) and len(set(axes)) == len(axes),
        "V092",
        f"axes is {axes} for the rank {len(shape)}",
    )
    for axis, first, last in zip(axes, begin, end, strict=True):
        extent = shape[axis]
        call.require(
            -extent < first <= extent and -extent < last <= extent,
            "V093",
            f"the range {first}:{last} leaves dimension {axis} of {extent}",
        )
        start = first + extent if first < 0 else first
        stop = last + extent if last <= 0 else last
        call.require(stop > start, "V094", f"the range {first}:{last} of dimension {axis} is empty")
        shape[axis] = stop - start
    return tuple(shape)


def _roi(call: Call) -> Shape:
    shape, rois, size = call.shape("input"), call.shape("rois"), call["output_size"]
    spatial = len(shape) - 2
    call.require(spatial > 0, "roi", f"the input has the shape {shown(shape)}", "it has spatial dimensions")
    call.require(
        len(rois) == 2 and rois[1] == 2 * spatial,
        "roi",
        f"rois has the shape {shown(rois)}, not [N,{2 * spatial}]",
    )
    call.require(
        call.shape("batch_index") == (rois[0], 1),
        "V095",
        f"batch_index has the shape {shown(call.shape('batch_index'))}",
        f"it is [{rois[0]},1]",
    )
    call.require(
        len(size) == spatial and min(size) > 0,
        "roi",
        f"output_size is {size}",
        f"it has {spatial} positive items",
    )
    return (rois[0], shape[1], *size)


def _roi_resample(call: Call) -> Shape:
    check_method(call)
    return _roi(call)


def _matmul(call: Call) -> Shape:
    a, b = call.shape("A"), call.shape("B")
    call.require(
        len(a) == len(b) >= 2,
        "V096",
        f"the shapes are {shown(a)} and {shown(b)}",
        "ranks are equal, 2 or more",
    )
    rows, inner = a[-2:][::-1] if call["transposeA"] else a[-2:]
    other, columns = b[-2:][::-1] if call["transposeB"] else b[-2:]
    call.require(inner == other, "V097", f"{shown(a)} and {shown(b)} meet with extents {inner} and {other}")
    return (*broadcast(call, "V059", a[:-2], b[:-2]), rows, columns) if len(a) > 2 else (rows, columns)


def _update(call: Call) -> Shape:
    variable = call["variable"]
    call.require(
        isinstance(variable, TensorValue)
        and variable.producer is not None
        and variable.producer.name == "variable",
        "V098",
        "the first argument is no variable",
        "update the result of a variable operation",
    )
    shape = call.shape("value")
    call.require(
        shape == variable.shape,
        "V099",
        f"the value has the shape {shown(shape)}, the variable {shown(variable.shape)}",
    )
    return variable.shape


_UNARY = "copy neg rcp exp log abs sign not floor ceil round"
_BINARY = "add sub mul div pow lt gt le ge eq ne and or"
_REDUCE = "sum_reduce max_reduce min_reduce argmax_reduce argmin_reduce"

SHAPE_RULES: dict[str, Callable[[Call], Shape | list[Shape]]] = {
    "external": _declared,
    "constant": _constant,
    "variable": _variable,
    **dict.fromkeys(_UNARY.split(), _same),
    **dict.fromkeys(_BINARY.split(), _binary),
    "select": _select,
    "conv": conv,
    "deconv": deconv,
    "box": box,
    "debox": debox,
    "argmax_pool": box,
    "sample": sample,
    "desample": desample,
    "multilinear_upsample": multilinear_upsample,
    **dict.fromkeys(_REDUCE.split(), _reduce),
    "reshape": _reshape,
    "transpose": _transpose,
    "split": _split,
    "concat": _concat,
    "slice": _slice,
    "avg_roi_pool": _roi,
    "max_roi_pool": _roi,
    "roi_resample": _roi_resample,
    "matmul": _matmul,
    "update": _update,
}


def _check_squeeze(call: Call) -> None:
    axes, shape = call["axes"], call.shape("input")
    call.require(
        len(set(axes)) == len(axes) and all(0 <= a < len(shape) and shape[a] == 1 for a in axes),
        "V085",
        f"axes is {axes} for the shape {shown(shape)}",
        "only dimensions of extent 1 can be removed",
    )


def _check_unsqueeze(call: Call) -> None:
    axes = call["axes"]
    rank = len(call.shape("input")) + len(axes)
    call.require(rank <= RANK_LIMIT, "limit", f"the rank is {rank}", f"at most {RANK_LIMIT}")
    call.require(
        len(set(axes)) == len(axes) and all(0 <= axis < rank for axis in axes),
        "V086",
        f"axes is {axes} for a result of rank {rank}",
        "they are the positions of the new dimensions in the result",
    )
    # The text's body inserts one after the other, which meets its prose in ascending order only.
    call.arguments["axes"] = sorted(axes)


def _check_stack(call: Call) -> None:
    for value in call["values"]:
        _axis(call, len(shape_of(value)) + 1)


def _check_unstack(call: Call) -> None:
    _axis(call, len(call.shape("value")))


def _check_upsample(call: Call) -> None:
    check_factor(call)


# What a compound demands beyond its primitives.
COMPOUND_CHECKS: dict[str, Callable[[Call], None]] = {
    "nearest_downsample": check_downsample,
    "area_downsample": check_downsample,
    "nearest_upsample": _check_upsample,
    "squeeze": _check_squeeze,
    "unsqueeze": _check_unsqueeze,
    "stack": _check_stack,
    "unstack": _check_unstack,
}
