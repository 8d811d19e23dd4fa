"""Layers whose result is known at import: constants, fills, ranges, shapes."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.coreml.node import MAX_MADE, MAX_RANK, CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles


def target_shape(node: CoreMlNode, sizes: Sequence[int], what: str) -> tuple[int, ...]:
    """Sizes from the file as a shape that can be made."""
    shape = tuple(int(size) for size in sizes)
    node.require(0 < len(shape) <= MAX_RANK, f"{what} has {len(shape)} axes; 1 to {MAX_RANK} are allowed")
    if 0 in shape:
        node.unsupported(f"{what} is {list(shape)}", "TOSA has no empty tensors")
    node.require(min(shape) > 0, f"{what} is {list(shape)}")
    node.require(math.prod(shape) <= MAX_MADE, f"{what} is {list(shape)}, more than {MAX_MADE} elements")
    return shape


@handles("loadConstant")
def load_constant(node: CoreMlNode) -> CoreMlValue:
    """Returns [C, H, W] as [1, 1, C, H, W]."""
    shape = [int(size) for size in node.params.shape]
    node.require(len(shape) == 3 and 0 not in shape, f"its shape is {shape}, not C, H, W")
    data = node.weights("data", shape, channels=shape[0])
    return node.out(node.constant(data), (1, 1, *shape))


@handles("loadConstantND")
def load_constant_nd(node: CoreMlNode) -> CoreMlValue:
    """Any shape."""
    shape = [int(size) for size in node.params.shape]
    node.require(bool(shape) and 0 not in shape and len(shape) <= MAX_RANK, f"its shape is {shape}")
    return node.out_known(node.weights("data", shape, channels=shape[0]))


@handles("fillLike", "fillStatic", "fillDynamic")
def fill(node: CoreMlNode) -> CoreMlValue:
    """One value in the shape of an input, a parameter, or an input's numbers."""
    if node.kind == "fillLike":
        shape = node.shape()
    elif node.kind == "fillStatic":
        shape = target_shape(node, node.params.targetShape, "targetShape")
    else:
        shape = target_shape(node, node.whole_numbers(0), "the shape")
    return node.out_known(np.full(shape, node.params.value, np.float32))


@handles("rangeStatic", "rangeDynamic")
def range_(node: CoreMlNode) -> CoreMlValue:
    """numpy.arange; of rangeDynamic the inputs are end, start and step."""
    p = node.params
    numbers = [float(node.known(index).reshape(-1)[0]) for index in range(len(node.inputs))]
    if node.kind == "rangeStatic":
        numbers = [p.endValue]
    numbers += [p.startValue, p.stepSizeValue][len(numbers) - 1 :]
    end, start, step = numbers
    node.require(all(math.isfinite(number) for number in (end, start, step)), "a bound is not finite")
    node.require(step != 0, "its step is 0")
    count = math.ceil((end - start) / step)
    if count < 1:
        node.unsupported(f"the range {start}, {end}, {step} is empty", "TOSA has no empty tensors")
    node.require(count <= MAX_MADE, f"the range has {count} elements")
    return node.out_known(np.arange(start, end, step))


@handles("getShape")
def get_shape(node: CoreMlNode) -> CoreMlValue:
    """The shape of an input."""
    return node.out_known(node.shape())
