"""Layers whose result is known at import: constants, fills, ranges, shapes."""

import math
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.coreml.layer import MAX_MADE, MAX_RANK, Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles


def target_shape(layer: Layer, sizes: Sequence[int], what: str) -> tuple[int, ...]:
    """Sizes from the file as a shape that can be made."""
    shape = tuple(int(size) for size in sizes)
    layer.require(0 < len(shape) <= MAX_RANK, f"{what} has {len(shape)} axes; 1 to {MAX_RANK} are allowed")
    if 0 in shape:
        layer.unsupported(f"{what} is {list(shape)}", "TOSA has no empty tensors")
    layer.require(min(shape) > 0, f"{what} is {list(shape)}")
    layer.require(math.prod(shape) <= MAX_MADE, f"{what} is {list(shape)}, more than {MAX_MADE} elements")
    return shape


@handles("loadConstant")
def load_constant(layer: Layer) -> Blob:
    """[C, H, W] as [1, 1, C, H, W]."""
    shape = [int(size) for size in layer.params.shape]
    layer.require(len(shape) == 3 and 0 not in shape, f"its shape is {shape}, not C, H, W")
    data = layer.weights("data", shape, channels=shape[0])
    return layer.out(layer.constant(data), (1, 1, *shape))


@handles("loadConstantND")
def load_constant_nd(layer: Layer) -> Blob:
    """Any shape."""
    shape = [int(size) for size in layer.params.shape]
    layer.require(bool(shape) and 0 not in shape and len(shape) <= MAX_RANK, f"its shape is {shape}")
    return layer.out_known(layer.weights("data", shape, channels=shape[0]))


@handles("fillLike", "fillStatic", "fillDynamic")
def fill(layer: Layer) -> Blob:
    """One value in the shape of an input, a parameter, or an input's numbers."""
    if layer.kind == "fillLike":
        shape = layer.shape()
    elif layer.kind == "fillStatic":
        shape = target_shape(layer, layer.params.targetShape, "targetShape")
    else:
        shape = target_shape(layer, layer.whole_numbers(0), "the shape")
    return layer.out_known(np.full(shape, layer.params.value, np.float32))


@handles("rangeStatic", "rangeDynamic")
def range_(layer: Layer) -> Blob:
    """numpy.arange; of rangeDynamic the inputs are end, start and step."""
    p = layer.params
    numbers = [float(layer.known(index).reshape(-1)[0]) for index in range(len(layer.inputs))]
    if layer.kind == "rangeStatic":
        numbers = [p.endValue]
    numbers += [p.startValue, p.stepSizeValue][len(numbers) - 1 :]
    end, start, step = numbers
    layer.require(all(math.isfinite(number) for number in (end, start, step)), "a bound is not finite")
    layer.require(step != 0, "its step is 0")
    count = math.ceil((end - start) / step)
    if count < 1:
        layer.unsupported(f"the range {start}, {end}, {step} is empty", "TOSA has no empty tensors")
    layer.require(count <= MAX_MADE, f"the range has {count} elements")
    return layer.out_known(np.arange(start, end, step))


@handles("getShape")
def get_shape(layer: Layer) -> Blob:
    """The shape of an input."""
    return layer.out_known(layer.shape())
