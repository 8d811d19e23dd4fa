"""The operator that computes a box of a result from boxes of its operands."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tosaic.compiler.cut.boxes import Box, NotCut, Range, is_empty, shape_of, whole
from tosaic.compiler.cut.nests import Nest
from tosaic.compiler.cut.rules import TAPS, nest_of, numbers, windows_of
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.ir.operators.by_operator import ByOperator


@dataclasses.dataclass(frozen=True)
class CutOperator:
    """An operator that computes a box of its result, or of each of its results."""

    operands: Mapping[int, Box]
    """The boxes that it needs of operands, by their numbers; the others are needed whole."""
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Attributes that change."""
    constants: Mapping[int, list[int]] = dataclasses.field(default_factory=dict)
    """Operands that are other numbers then, by their numbers."""
    unread: frozenset[int] = frozenset()
    """Operands that are left out, as nothing of them is in the box (of a CONCAT)."""


Boxes = dict[int, Box]
Change = Callable[[Graph, Operator, Box, Boxes], CutOperator]

_CHANGES = ByOperator[Change]()
"""What of an operator is another one for a box, beside its operands."""


def cut_operator(graph: Graph, operator: Operator, box: Box) -> CutOperator | NotCut:
    """The operator that computes `box` of the result."""
    if box == whole(graph.tensors[operator.outputs[0]].shape):
        return CutOperator({})
    nest = nest_of(graph, operator)
    if isinstance(nest, NotCut):
        return nest
    if is_empty(box):
        return NotCut("the box has no element")
    refused = nest.refusal(box)
    if refused is not None:
        return refused
    operands = nest.needs(box)
    unread = frozenset(number for number, each in operands.items() if is_empty(each))
    if unread and operator.op != "CONCAT":
        return NotCut("all of the box comes from padding")
    operands = {number: each for number, each in operands.items() if number not in unread}
    change = _CHANGES.get(operator.op)
    return CutOperator(operands, unread=unread) if change is None else change(graph, operator, box, operands)


def part_of_sum(graph: Graph, operator: Operator, parts: Mapping[str, Range]) -> CutOperator | NotCut:
    """The operator that computes the part of each element that ranges of inner loops give; the results of the parts are
    put together by the loop's `join`. The image of a convolution stays whole: its padding may be below zero. Its bias
    is one of each part, so all but one part get none."""
    nest = nest_of(graph, operator)
    if isinstance(nest, NotCut):
        return nest
    loops = nest.inner if isinstance(nest, Nest) else {}
    for name in parts:
        if name not in loops or loops[name].whole:
            return NotCut(loops[name].whole if name in loops else f"{operator.op} has no {name}")
    operands, attributes = nest.needs(whole(nest.shape), parts), {}
    if "pad" in operator.attributes:
        windows = windows_of(graph, operator)
        pairs = zip(windows, TAPS[-len(windows) :], strict=True)
        around = [
            axis.padding((0, axis.outputs), parts.get(name, (0, axis.taps)), (0, axis.extent))
            for axis, name in pairs
        ]
        attributes["pad"] = [amount for pair in around for amount in pair]
        n, *_, channels = operands[0]
        operands[0] = (n, *((0, axis.extent) for axis in windows), channels)
    return CutOperator(operands, attributes)


@_CHANGES.of("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "AVG_POOL2D", "MAX_POOL2D")
def _windows(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    """Padding stays where the box ends with the image. An axis that is not cut stays as it is."""
    padding, image = list(operator.attributes["pad"]), list(operands[0])
    for i, axis in enumerate(windows_of(graph, operator)):
        if box[1 + i] == (0, axis.outputs):
            image[1 + i] = (0, axis.extent)
        else:
            padding[2 * i : 2 * i + 2] = axis.padding(box[1 + i], (0, axis.taps), image[1 + i])
    return CutOperator(operands | {0: tuple(image)}, {"pad": padding})


@_CHANGES.of("TRANSPOSE_CONV2D")
def _transposed_convolution(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    taps, strides = graph.tensors[operator.inputs[1]].shape[1:3], operator.attributes["stride"]
    around: list[int] = []
    for axis in range(2):
        (first, last), (begin, end) = box[1 + axis], operands[0][1 + axis]
        before = operator.attributes["out_pad"][2 * axis] + begin * strides[axis] - first
        around += [before, last - first - (end - begin - 1) * strides[axis] - before - taps[axis]]
    return CutOperator(operands, {"out_pad": around})


@_CHANGES.of("CONCAT")
def _concat(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    return CutOperator(operands, unread=frozenset(range(len(operator.inputs))) - set(operands))


@_CHANGES.of("PAD")
def _pad(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    padding, shape = numbers(graph, operator, 1), graph.tensors[operator.inputs[0]].shape
    assert padding is not None
    around: list[int] = []
    for before, (first, last), extent in zip(padding[::2], box, shape, strict=True):
        around += [max(0, before - first), max(0, last - before - extent)]
    return CutOperator(operands, constants={1: around})


@_CHANGES.of("SLICE")
def _slice(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    """The elements of the box are all of the operand that is left."""
    return CutOperator(operands, constants={1: [0] * len(box), 2: list(shape_of(box))})


@_CHANGES.of("TILE")
def _tile(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    pairs = zip(shape_of(box), shape_of(operands[0]), strict=True)
    return CutOperator(operands, constants={1: [wanted // size for wanted, size in pairs]})


@_CHANGES.of("RESHAPE")
def _reshape(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    return CutOperator(operands, constants={1: list(shape_of(box))})


@_CHANGES.of("RESIZE")
def _resize(graph: Graph, operator: Operator, box: Box, operands: Boxes) -> CutOperator:
    """The offset and border that lead to the same places of a smaller image."""
    scale, offset = numbers(graph, operator, 1), numbers(graph, operator, 2)
    assert scale is not None and offset is not None
    offsets, borders = [], []
    for axis in range(2):
        (first, last), (begin, end) = box[1 + axis], operands[0][1 + axis]
        numerator, step = scale[2 * axis : 2 * axis + 2]
        offsets.append(offset[axis] + first * step - begin * numerator)
        borders.append(offsets[-1] + (last - first - 1) * step - (end - begin - 1) * numerator)
    return CutOperator(operands, constants={2: offsets, 3: borders})
