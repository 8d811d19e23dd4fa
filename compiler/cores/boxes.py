"""Which boxes of its operands an operator needs for a box of its result, and what it is as an operator of these boxes.

One rule per operator. An operator without a rule, or with a box that its rule cannot cut, computes its whole result.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tosaic.compiler.ir import Graph, Operator, data_inputs
from tosaic.compiler.machine import Kind, operators_of

Range = tuple[int, int]
"""Indices [first, last)."""
Box = tuple[Range, ...]
"""A range of each axis."""


class CannotCut(Exception):
    """An operator does not compute a box of its result from boxes of its operands."""


@dataclasses.dataclass(frozen=True)
class CutOperator:
    """An operator that computes a box of its result."""

    operands: Mapping[int, Box]
    """The boxes that it needs of operands, by their numbers; the others are needed whole."""
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Attributes that change."""
    constants: Mapping[int, list[int]] = dataclasses.field(default_factory=dict)
    """Operands that are other numbers then, by their numbers."""


def whole(shape: tuple[int, ...]) -> Box:
    """All of a tensor."""
    return tuple((0, extent) for extent in shape)


def shape_of(box: Box) -> tuple[int, ...]:
    return tuple(last - first for first, last in box)


def hull(box: Box | None, other: Box) -> Box:
    """The smallest box that holds both."""
    if box is None:
        return other
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))


def meet(box: Box, other: Box) -> bool:
    """Whether two boxes of a tensor have elements in common."""
    return all(max(a, c) < min(b, d) for (a, b), (c, d) in zip(box, other, strict=True))


def leading_axis(shape: tuple[int, ...]) -> int:
    """The first axis of more than one element: ranges of it are contiguous. 0 if there is none."""
    return next((axis for axis, extent in enumerate(shape) if extent > 1), 0)


def cut_operator(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    """The operator that computes `box` of the result. Raises CannotCut."""
    if box == whole(graph.tensors[operator.outputs[0]].shape):
        return CutOperator({})
    rule = _RULES.get(operator.op)
    if rule is None or len(operator.outputs) > 1 or any(first >= last for first, last in box):
        raise CannotCut(f"{operator} is not cut")
    return rule(graph, operator, box)


Rule = Callable[[Graph, Operator, Box], CutOperator]


def _shape(graph: Graph, operator: Operator, operand: int) -> tuple[int, ...]:
    return graph.tensors[operator.inputs[operand]].shape


def _elementwise(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    """Operands that are broadcast along an axis are needed whole there. A RESCALE has scales of its channels."""
    operands: dict[int, Box] = {}
    for number in range(len(data_inputs(operator))):
        shape = _shape(graph, operator, number)
        if len(shape) != len(box):
            raise CannotCut(f"{operator} broadcasts ranks")
        operands[number] = tuple(
            (0, 1) if extent == 1 else cut for extent, cut in zip(shape, box, strict=True)
        )
    if operator.op == "RESCALE" and operator.attributes["per_channel"]:
        operands |= {number: (box[-1],) for number in (1, 2)}
    return CutOperator(operands)


def _rows(size: int, cut: Range, taps: int, stride: int, dilation: int, pad: int) -> tuple[Range, list[int]]:
    """The input range that outputs `cut` of an axis need, and the padding before and behind it."""
    first = cut[0] * stride - pad
    last = (cut[1] - 1) * stride - pad + (taps - 1) * dilation + 1
    inside = (max(0, first), min(size, last))
    if inside[0] >= inside[1]:
        raise CannotCut("outputs see padding only")
    return inside, [inside[0] - first, last - inside[1]]


def _windows(
    graph: Graph, operator: Operator, box: Box, kernel: tuple[int, ...]
) -> tuple[Box, dict[str, list[int]]]:
    """The box of the image, with all channels, and the padding around it. An axis that is not cut stays as it is."""
    _, ih, iw, channels = _shape(graph, operator, 0)
    _, oh, ow, _ = graph.tensors[operator.outputs[0]].shape
    attributes = operator.attributes
    pad, dilation = attributes["pad"], attributes.get("dilation", [1, 1])
    ranges, padding = [], []
    for axis, (size, outputs) in enumerate(((ih, oh), (iw, ow))):
        cut, before = box[1 + axis], pad[2 * axis]
        if cut == (0, outputs):
            inside, around = (0, size), list(pad[2 * axis : 2 * axis + 2])
        else:
            stride = attributes["stride"][axis]
            inside, around = _rows(size, cut, kernel[axis], stride, dilation[axis], before)
        ranges.append(inside)
        padding += around
    return (box[0], *ranges, (0, channels)), {"pad": padding}


def _convolution(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    weight = _shape(graph, operator, 1)
    image, attributes = _windows(graph, operator, box, weight[1:3])
    operands = {0: image, 1: (box[3], *whole(weight[1:]))}
    return CutOperator(operands | _bias(graph, operator, box[3]), attributes)


def _bias(graph: Graph, operator: Operator, channels: Range) -> dict[int, Box]:
    """The bias of some channels; one for all channels stays as it is."""
    return {2: (channels,)} if _shape(graph, operator, 2) != (1,) else {}


def _depthwise(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    weight = _shape(graph, operator, 1)
    image, attributes = _windows(graph, operator, box, weight[:2])
    multiplier, (first, last) = weight[3], box[3]
    if first % multiplier or last % multiplier:
        raise CannotCut("a cut between the outputs of an input channel")
    channels = (first // multiplier, last // multiplier)
    operands = {0: (*image[:3], channels), 1: (*whole(weight[:2]), channels, (0, multiplier))}
    return CutOperator(operands | _bias(graph, operator, box[3]), attributes)


def _pool(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    image, attributes = _windows(graph, operator, box, tuple(operator.attributes["kernel"]))
    return CutOperator({0: (*image[:3], box[3])}, attributes)


def _product(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    inner = (0, _shape(graph, operator, 0)[2])
    return CutOperator({0: (box[0], box[1], inner), 1: (box[0], inner, box[2])})


def _reduction(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    axis, shape = operator.attributes["axis"], _shape(graph, operator, 0)
    return CutOperator({0: (*box[:axis], (0, shape[axis]), *box[axis + 1 :])})


def _argmax(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    axis, shape = operator.attributes["axis"], _shape(graph, operator, 0)
    return CutOperator({0: (*box[:axis], (0, shape[axis]), *box[axis:])})


def _concat(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    axis = operator.attributes["axis"]
    if box[axis] != (0, graph.tensors[operator.outputs[0]].shape[axis]):
        raise CannotCut("a cut along the axis that is joined")
    operands = {}
    for number in range(len(operator.inputs)):
        extent = _shape(graph, operator, number)[axis]
        operands[number] = (*box[:axis], (0, extent), *box[axis + 1 :])
    return CutOperator(operands)


def _pad(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    padding = [int(value) for value in graph.operand_value(operator, "padding")]
    ranges, around = [], []
    for axis, ((first, last), extent) in enumerate(zip(box, _shape(graph, operator, 0), strict=True)):
        before = padding[2 * axis]
        inside = (min(max(0, first - before), extent), max(0, min(extent, last - before)))
        if inside[0] >= inside[1]:
            raise CannotCut("a box of padding only")
        ranges.append(inside)
        around += [max(0, before - first), max(0, last - before - extent)]
    return CutOperator({0: tuple(ranges)}, constants={1: around})


def _slice(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    start = [int(value) for value in graph.operand_value(operator, "start")]
    inside = tuple((low + first, low + last) for low, (first, last) in zip(start, box, strict=True))
    return CutOperator({0: inside}, constants={1: [0] * len(box), 2: list(shape_of(box))})


def _transpose(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    ranges = dict(zip(operator.attributes["perms"], box, strict=True))
    return CutOperator({0: tuple(ranges[axis] for axis in range(len(box)))})


def _identity(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    return CutOperator({0: box})


def _reshape(graph: Graph, operator: Operator, box: Box) -> CutOperator:
    """Axes of one element come and go; else a range of the leading axis must be one of the leading axis before."""
    before, after = _shape(graph, operator, 0), graph.tensors[operator.outputs[0]].shape
    inside = _squeezed(before, after, box)
    if inside is None:
        inside = _contiguous(before, after, box)
    return CutOperator({0: inside}, constants={1: list(shape_of(box))})


def _squeezed(before: tuple[int, ...], after: tuple[int, ...], box: Box) -> Box | None:
    wide = [cut for cut, extent in zip(box, after, strict=True) if extent > 1]
    if [extent for extent in before if extent > 1] != [extent for extent in after if extent > 1]:
        return None
    cuts = iter(wide)
    return tuple(next(cuts) if extent > 1 else (0, 1) for extent in before)


def _contiguous(before: tuple[int, ...], after: tuple[int, ...], box: Box) -> Box:
    axis, source = leading_axis(after), leading_axis(before)
    if box[axis + 1 :] != whole(after[axis + 1 :]):
        raise CannotCut("a box that is not contiguous")
    size, row = math.prod(after[axis + 1 :]), math.prod(before[source + 1 :])
    first, last = (place * size for place in box[axis])
    if first % row or last % row:
        raise CannotCut("a cut within a row")
    return (*whole(before[:source]), (first // row, last // row), *whole(before[source + 1 :]))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(operators_of(Kind.ELEMENTWISE), _elementwise),
    **dict.fromkeys(operators_of(Kind.REDUCTION), _reduction),
    **dict.fromkeys(("AVG_POOL2D", "MAX_POOL2D"), _pool),
    "CONV2D": _convolution,
    "DEPTHWISE_CONV2D": _depthwise,
    "MATMUL": _product,
    "ARGMAX": _argmax,
    "CONCAT": _concat,
    "PAD": _pad,
    "SLICE": _slice,
    "TRANSPOSE": _transpose,
    "RESHAPE": _reshape,
    "IDENTITY": _identity,
}


def cut_constant(data: np.ndarray, box: Box) -> np.ndarray:
    """A box of a constant, a view of it."""
    return data[tuple(slice(first, last) for first, last in box)]
